"""What a run found: each metric of each environment with its interval, and how they compare.

A repetition is the unit: its viewers share one course of arrivals and allocations, so a thousand of
them are not a thousand values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from pydantic import Field

from ullage.experiments.elastic.analysis.contrasts import (
    MARGIN,
    Contrast,
    EnvironmentSide,
    contrasts,
    floor,
)
from ullage.experiments.elastic.analysis.definitions import DEFINITIONS, Definition
from ullage.experiments.elastic.analysis.machines import MachineShare, shares
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.runs.records import Record
from ullage.stats.interval import Moments, moments, t_quantile


class MetricEstimate(Record):
    """One metric of one environment over its repetitions."""

    metric: str
    values: tuple[tuple[int, float], ...]
    """(repetition, figure) of each that has one."""
    mean: float
    deviation: float | None
    """Standard deviation between repetitions."""
    least: float
    most: float
    estimate: float
    """Geometric mean of a metric that is compared by ratios, else the arithmetic one."""
    low: float | None
    high: float | None
    why: str = ""
    """Why there is no interval."""


class EnvironmentSummary(Record):
    key: str
    label: str
    ended: int
    """Repetitions that came to an end, one way or the other."""
    ok: int
    """Those with figures."""
    estimates: tuple[MetricEstimate, ...]
    stages: dict[str, tuple[float, float | None, int]]
    """Stage of an allocation → mean of the repetitions' means and its deviation between them, in
    seconds, and how many repetitions have it."""
    clock_share: float
    """The most that the bound of the clocks can move a share of time, or a mean of nodes."""
    standing_nodes: tuple[int, ...]
    """Of each repetition: the constant supply that the elastic speed-up compares with."""
    machines: tuple[MachineShare, ...] = Field((), exclude_if=lambda given: not given)
    """On which machine its nodes stood; empty: the plan names none."""

    def estimate(self, metric: str) -> MetricEstimate | None:
        """That of a metric, if there is one."""
        return next((e for e in self.estimates if e.metric == metric), None)


class Summary(Record):
    run: str
    name: str
    confidence: float
    margin: float
    repetitions: int
    """Asked for, in each environment."""
    time_scale: float
    patience_s: float
    """Real seconds that a viewer waits; 0: who finds no room is blocked at once."""
    environments: tuple[EnvironmentSummary, ...]
    contrasts: tuple[Contrast, ...]
    currency: str = Field("", exclude_if=lambda given: not given)
    """Of all prices; empty: there are none."""

    def environment(self, key: str) -> EnvironmentSummary:
        return next(e for e in self.environments if e.key == key)


class RunContrasts(Record):
    """The environments of a run beside those of another run."""

    other: str
    """Name of its folder."""
    contrasts: tuple[Contrast, ...]
    notes: tuple[str, ...]
    """What a reader must know of the two: what differs, what has no partner."""


def summarise(run: ElasticRun, sides: Sequence[EnvironmentSide]) -> Summary:
    """Everything but what stands against another run."""
    r = run.resolved
    return Summary(
        run=r.run,
        name=r.name,
        confidence=r.confidence,
        margin=MARGIN,
        repetitions=r.repetitions,
        time_scale=r.time_scale,
        patience_s=r.patience_s,
        environments=tuple(_environment(side, r.confidence, r.machines) for side in sides),
        contrasts=_within(run, sides),
        currency=next((s.price.currency for s in r.settings.values() if s.price), ""),
    )


def _within(run: ElasticRun, sides: Sequence[EnvironmentSide]) -> tuple[Contrast, ...]:
    """Each environment against the baseline of its own run; then the baseline against itself."""
    baseline = next((s for s in sides if s.key == run.resolved.baseline), None)
    if baseline is None:
        return ()
    confidence = run.resolved.confidence
    others = [side for side in sides if side.key != baseline.key]
    judged = [(side, baseline) for side in others if side.again_of is None]
    copies = [(side, baseline) for side in others if side.again_of is not None]
    return (*contrasts(judged, confidence), *floor(copies, confidence))


def _environment(
    side: EnvironmentSide, confidence: float, machines: Iterable[str]
) -> EnvironmentSummary:
    figures = list(side.figures.values())
    stages: dict[str, list[float]] = {}
    for measured in figures:
        for stage, seconds in measured.stages.items():
            stages.setdefault(stage, []).append(float(np.mean(seconds)))
    return EnvironmentSummary(
        key=side.key,
        label=side.label,
        ended=side.ended,
        ok=len(figures),
        estimates=tuple(
            _estimate(d, values, confidence) for d in DEFINITIONS if (values := side.of(d.name))
        ),
        stages={
            stage: (float(np.mean(of)), float(np.std(of, ddof=1)) if len(of) > 1 else None, len(of))
            for stage, of in stages.items()
        },
        clock_share=max((m.clock_share for m in figures), default=0.0),
        standing_nodes=tuple(m.standing_nodes for m in figures if m.standing_nodes is not None),
        machines=shares(machines, [m.repetition.acts for m in figures]),
    )


def _estimate(d: Definition, values: Mapping[int, float], confidence: float) -> MetricEstimate:
    x = [values[n] for n in sorted(values)]
    logs = d.scale == "ratio" and min(x) > 0
    m, why = spread([math.log(v) for v in x] if logs else x)
    middle = math.fsum(map(math.log, x) if logs else x) / len(x)
    low = high = None
    if m is not None:
        half = t_quantile(0.5 + confidence / 2, m.df) * m.error
        low, high = _clipped(d, middle - half, middle + half, logs=logs)
    return MetricEstimate(
        metric=d.name,
        values=tuple(sorted(values.items())),
        mean=math.fsum(x) / len(x),
        deviation=float(np.std(x, ddof=1)) if len(x) > 1 else None,
        least=min(x),
        most=max(x),
        estimate=math.exp(middle) if logs else middle,
        low=low,
        high=high,
        why=why,
    )


def _clipped(d: Definition, low: float, high: float, *, logs: bool) -> tuple[float, float]:
    if logs:
        return math.exp(low), math.exp(high)
    floor = -math.inf if d.better is None else 0.0
    return max(floor, low), min(1.0 if d.bounded else math.inf, high)


def spread(x: Sequence[float]) -> tuple[Moments | None, str]:
    """Of repetitions; why there is no interval, where there is none."""
    if len(x) < 2:
        return None, "one repetition has no spread"
    statistics = moments(x)
    if statistics.deviation == 0:
        return None, f"all {len(x)} are equal"
    return statistics, ""
