"""Would shorter trials be worth more? What a pilot's trials say of the plan's `time_s`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from ullage.plan.matrix import Case, Matrix
from ullage.plan.schema import Plan
from ullage.runs.events import Trial
from ullage.runs.pairs import values
from ullage.runs.reader import RunFolder
from ullage.stats.planning import best_length, memory

LEAST_GAIN = 0.1
"""Of the time: for less nobody changes a plan."""
LEAST_S = 1.0
"""No shorter trial is advised: a tool's first steps are a larger part of it."""
TimedFigures = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Length:
    """A better length for the trials of one workload."""

    workload: str
    now_s: float
    better_s: float
    time: float
    """For the same precision, as a part of what it takes now."""
    entry: dict[str, Any]
    """The workload as it then stands in the plan."""


def better_lengths(pilot: RunFolder, plan: Plan, matrix: Matrix) -> tuple[Length, ...]:
    """Of the workloads whose noise surely has a memory, and whose trials have a length to choose.

    None from a duet, whose two trials are at the same time anyway, and none with iterations, which
    make one trial of several pieces.
    """
    several = plan.repeat.iterations, pilot.resolved.repeat.get("iterations") or 1
    if "duet" in {plan.design, pilot.resolved.design} or several != (1, 1):
        return ()
    same = {w.key: w.parameters for w in pilot.resolved.workloads}
    lengths = (
        _better(case, pilot, plan)
        for case in matrix.cases
        if same.get(case.key) == case.parameters.model_dump(mode="json")
    )
    return tuple(length for length in lengths if length is not None)


def _better(case: Case, pilot: RunFolder, plan: Plan) -> Length | None:
    now = getattr(case.parameters, "time_s", None)
    if not isinstance(now, int | float) or now <= LEAST_S or "time_s" in case.factors:
        return None
    stretches = list(_stretches(case, pilot))
    noise = memory(stretches, now)
    if noise is None or not noise.sure:
        return None
    spacing = [after[0] - before[0] for s in stretches for before, after in pairwise(s)]
    rest = max(0.0, median(spacing) - now)
    # Of two places in a random order of n, the mean distance is (n + 1) / 3.
    apart = (max(map(len, stretches)) + 1) / 3
    shorter = [s for s in (1, 2, 3, 4, 5, 8, 10, 15, 20, 30) if LEAST_S <= s < now]
    best, time = best_length(noise, shorter, now, rest, apart)
    if time > 1 - LEAST_GAIN:
        return None
    (entry,) = (w for w in plan.workloads if (w.alias or w.name) == case.name)
    written = entry.model_dump(exclude_defaults=True, by_alias=True)
    return Length(case.key, now, best, time, {**written, "time_s": round(best)})


def _stretches(case: Case, pilot: RunFolder) -> Iterator[TimedFigures]:
    """Of each block: when the trials of the workload began, and how far each is off its usual."""
    metric = next((m for m in case.metrics if m.primary and m.coordinate is None), None)
    if metric is None:
        return
    logs = [
        (trial, math.log(figure))
        for trial in pilot.trials
        if trial.workload == case.key
        and isinstance(figure := values(trial, metric.name), float)
        and figure > 0
    ]
    by_environment: dict[str, list[float]] = {}
    by_block: dict[int, list[tuple[Trial, float]]] = {}
    for trial, log in logs:
        by_environment.setdefault(trial.environment, []).append(log)
        by_block.setdefault(trial.block, []).append((trial, log))
    usual = {environment: fmean(figures) for environment, figures in by_environment.items()}
    for block in by_block.values():
        yield [
            (trial.epoch_ns / 1e9, log - usual[trial.environment])
            for trial, log in sorted(block, key=lambda pair: pair[0].order)
        ]
