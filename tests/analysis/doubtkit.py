"""Comparisons made of two lists of figures, for tests of what is doubted about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ullage.analysis import doubts
from ullage.analysis.comparison import pairing, totals
from ullage.analysis.comparison.model import Doubt
from ullage.analysis.comparison.pairing import ComparisonSettings, Draft, TrialSource
from ullage.runs.events import InstanceClock, RoleRecord, Trial, Usage
from ullage.runs.pairs import Cells
from ullage.runs.records import (
    Better,
    Coordinate,
    EnvironmentRecord,
    Metered,
    Metric,
    Resource,
    WorkloadRecord,
)
from ullage.stats import Floats

BASELINE = EnvironmentRecord(key="native", label="native", provider="native")
VM = EnvironmentRecord(key="vm", label="qemu-kvm", provider="qemu")
SHARED = InstanceClock(shared=True, looks=(2,), messages=2, took_ns=1, hard_ns=120, sure_ns=120)
SECOND = 1_000_000_000
Values = Sequence[float | list[tuple[float, float]]]


def clock(
    *, drifted_ns: int, unsure_ns: int = 0, between_ns: int = SECOND, hard_ns: int = 0
) -> InstanceClock:
    """Of a guest: so much further ahead after so long."""
    return InstanceClock(
        shared=False,
        looks=(2, 3),
        messages=40,
        took_ns=1,
        hard_ns=hard_ns,
        sure_ns=hard_ns,
        drifted_ns=drifted_ns,
        drift_unsure_ns=unsure_ns,
        between_ns=between_ns,
    )


def role(seconds: float, *, bound_ns: int = 0, used_s: float = 1.0) -> RoleRecord:
    """A program that took so long by the controller's clock."""
    return RoleRecord(
        role="main",
        instance="i-0",
        argv=("work",),
        status=0,
        signal=None,
        start_ns=SECOND,
        end_ns=SECOND + round(seconds * SECOND),
        clock_bound_ns=bound_ns,
        usage=Usage(user_s=used_s, system_s=0.0, max_rss_bytes=1),
    )


def trial(
    block: int,
    environment: str,
    value: float | list[tuple[float, float]],
    *,
    generation: int = 0,
    meters: Metered | None = None,
    roles: tuple[RoleRecord, ...] = (),
    instance: InstanceClock = SHARED,
    partner: str | None = None,
    steps: Mapping[str, float] | None = None,
) -> Trial:
    """One that went well; blocks are a minute apart."""
    order = int(environment != BASELINE.key)
    begin = (60 * block + 2 * order) * SECOND
    return Trial(
        trial=f"b{block:03d}-t{order:03d}",
        block=block,
        order=order,
        position=order,
        environment=environment,
        workload="work",
        generation=generation,
        partner=partner,
        side=None if partner is None else 0,
        status="ok",
        epoch_ns=begin,
        start_ns=begin,
        end_ns=begin + SECOND,
        metrics={"time": value},
        roles=roles,
        clocks={"i-0": instance},
        meters=meters or {},
        steps=dict(steps or {}),
    )


def draft(
    environment: Values | Floats,
    baseline: Values | Floats,
    *,
    generations: Sequence[int] | None = None,
    mine: Mapping[str, Any] | None = None,
    theirs: Mapping[str, Any] | None = None,
    fields: Sequence[Mapping[str, Any]] | None = None,
    unit: str = "s",
    better: Better = "lower",
    resource: Resource = "cpu",
    margin: float = 0.02,
    settings: Mapping[str, Any] | None = None,
    guest: EnvironmentRecord = VM,
    resolution: float | None = None,
) -> Draft:
    """The environment's figures against the baseline's, block by block.

    mine, theirs: what all trials of a side have besides; each: what the environment's have, by
    block; settings: what the plan and the host have besides.
    """
    values, bases = _plain(environment), _plain(baseline)
    makings = generations or [0] * len(values)
    trials = []
    for block, (value, base) in enumerate(zip(values, bases, strict=True)):
        more = {**(mine or {}), **(fields[block] if fields else {})}
        generation = makings[block]
        trials += [
            trial(block, guest.key, value, generation=generation, **more),
            trial(block, BASELINE.key, base, generation=generation, **(theirs or {})),
        ]
    curve = bool(values) and isinstance(values[0], list)
    metric = Metric(
        name="time",
        unit=unit,
        better=better,
        description="Time.",
        primary=True,
        coordinate=Coordinate(name="size", unit="B") if curve else None,
        resolution=resolution,
    )
    workload = WorkloadRecord(
        key="work",
        workload="work",
        resource=resource,
        title="work",
        parameters={},
        metrics=(metric,),
        duration_s=1.0,
    )
    source = TrialSource(
        Cells(trials), (), ComparisonSettings(0.95, margin, 1, 1.0, **(settings or {}))
    )
    return pairing.draft(source, guest, BASELINE, workload, metric)


def _plain(values: Values | Floats) -> Values:
    return values.tolist() if isinstance(values, np.ndarray) else values


def doubted(comparison: Draft, alpha: float = 0.05) -> dict[str, Doubt]:
    """Code → doubt; that the noise floor is unknown goes without saying."""
    figures = doubts.ComparisonFigures(
        interval=pairing.draft_interval(comparison),
        bootstrap=pairing.bootstrap(
            comparison.units, comparison.settings.confidence, comparison.settings.seed
        ),
        robust=pairing.robust(comparison.units, comparison.settings.confidence),
        without_outliers=pairing.without_outliers(comparison),
        curve=pairing.curve(comparison),
        floor=None,
        drift_alpha=alpha,
        totals=totals.totals(comparison),
    )
    return {d.code: d for d in doubts.of_comparison(comparison, figures) if d.code != "no-again"}
