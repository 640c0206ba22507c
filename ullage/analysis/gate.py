"""Is a program slower than it was? A gate for pipelines, by a line that must not be passed.

What is compared are the figures themselves, in each environment: of the new run against those of
one baseline run, or of several. Overheads would not do: a program that has become slower is so in
the baseline environment too.

A figure is *worse* when its ratio to the baseline is shown to be above the line: one-sided, Holm
over all figures at 1 %. It is *within* when it is shown to be below it, at 5 % each. From three
baseline runs on, what one run differs from the next without a cause is in the test; a reference
workload, in the same block, takes out what the machine itself did.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from ullage.analysis.comparison.estimates import Interval
from ullage.common.errors import GATE_NO_REFERENCE, GATE_NOTHING, UllageError
from ullage.common.quantities import many
from ullage.runs.pairs import Cells, values
from ullage.runs.reader import RunFolder
from ullage.runs.records import Metric, Record, WorkloadRecord
from ullage.stats import LEAST_PAIRS
from ullage.stats.interval import Moments, collapse, log_ratio, moments, t_quantile, t_tail
from ullage.stats.memory import Courses, course
from ullage.stats.multiple import holm
from ullage.stats.unpaired import difference
from ullage.stats.verdict import MOST_FAILURES

Outcome = Literal["within", "worse", "failed", "inconclusive"]
WRONG_FAIL: Final = 0.01
"""Chance that any figure of an unchanged program is called worse."""
WRONG_PASS: Final = 0.05
"""Chance that a figure which is at the line is called within."""
ENOUGH_RUNS: Final = 3
"""Baseline runs from which on what differs between runs is in the test."""
_HOST: Final = ("hostname", "cpu_model", "cpus", "memory_bytes")

Key = tuple[str, str, str]
"""Environment, workload, metric."""


class GateFigure(Record):
    """One metric of one workload in one environment."""

    environment: str
    environment_label: str
    workload: str
    workload_title: str
    metric: str
    ratio: Interval | None
    """Of the new run to the baseline, above 1 is worse; None: no two values on a side."""
    outcome: Outcome
    reason: str | None = None
    """Why nothing is shown, or what failed."""
    baseline_limits: bool = False
    """However many blocks the new run had, those of the baseline are too few for an answer here."""
    p_worse: float | None = None
    """One-sided, of a ratio up to the line; after Holm."""
    p_within: float | None = None
    """One-sided, of a ratio from the line on."""


class Gate(Record):
    """What became of a program, by a line."""

    format: Literal[1] = 1
    worse_than: float
    """The line: 0.03 is 3 % worse."""
    new: str
    baselines: tuple[str, ...]
    reference: str | None
    outcome: Literal["within", "worse", "inconclusive"]
    """`worse` also when a figure is `failed`."""
    labels: dict[str, str]
    """Of the new run."""
    figures: tuple[GateFigure, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Series:
    """The slowness of one figure, trial by trial."""

    environment_label: str
    workload_title: str
    moments: Moments | None
    blocks: int
    trials: int
    lost: int

    @property
    def failing(self) -> bool:
        return self.lost > MOST_FAILURES * self.trials


def judge(
    new: RunFolder,
    baselines: Sequence[RunFolder],
    worse_than: float,
    *,
    metrics: Sequence[str] = (),
    reference: str | None = None,
    look: int = 1,
) -> Gate:
    """Judge the new run's primary figures, or those of these names.

    worse_than: the line as a fraction above 0. reference: a workload's name in both plans, to
    whose figure of the same block all others are related. look: this is the k-th look at a run
    that goes on; its error rates are spent as 1/(k(k+1)). GATE_NO_REFERENCE, GATE_NOTHING.
    """
    spent = 1 / (look * (look + 1)) if look > 1 else 1.0
    now = _series(new, metrics, reference)
    before = [_series(folder, metrics, reference) for folder in baselines]
    shared = [key for key in now if all(key in series for series in before)]
    if not shared:
        raise UllageError(GATE_NOTHING, new=new.path, base=baselines[0].path)
    drafts = [
        _draft(key, now[key], [series[key] for series in before], worse_than) for key in shared
    ]
    figures = _judged(drafts, spent)
    outcomes = {figure.outcome for figure in figures}
    worst: Literal["within", "worse", "inconclusive"] = "inconclusive"
    if outcomes & {"worse", "failed"}:
        worst = "worse"
    elif outcomes == {"within"}:
        worst = "within"
    return Gate(
        worse_than=worse_than,
        new=new.resolved.run,
        baselines=tuple(folder.resolved.run for folder in baselines),
        reference=reference,
        outcome=worst,
        labels=new.resolved.labels,
        figures=tuple(figures),
        notes=(*_notes(new, baselines, now, shared), *_limits(figures)),
    )


def _limits(figures: Iterable[GateFigure]) -> Iterable[str]:
    """What more blocks of the new run would not settle."""
    limited = [f for f in figures if f.baseline_limits and f.outcome == "inconclusive"]
    if limited:
        yield (
            f"{many(len(limited), 'figure')}: more blocks of the new run cannot settle it; a "
            "baseline with more blocks, or a less busy machine, might"
        )


def unlike(new: RunFolder, baselines: Iterable[RunFolder]) -> dict[str, str]:
    """What of the baselines forbids a comparison: `machine`, `image` or `plan` → in words."""
    reasons: dict[str, str] = {}
    mine = new.resolved
    for folder in baselines:
        theirs = folder.resolved
        for fact in _HOST:
            if mine.host.get(fact) != theirs.host.get(fact):
                reasons.setdefault("machine", f"its {fact.replace('_', ' ')} is another")
        if _digest(folder) != _digest(new):
            reasons.setdefault("image", "it ran from another image")
        if _work(folder) != _work(new):
            reasons.setdefault("plan", "its workloads, environments or shares are others")
    return reasons


def _digest(folder: RunFolder) -> str | None:
    return folder.resolved.image.digest if folder.resolved.image else None


def _work(folder: RunFolder) -> object:
    resolved = folder.resolved
    return (
        sorted((w.key, w.workload, str(sorted(w.parameters.items()))) for w in resolved.workloads),
        sorted((e.key, e.provider, str(sorted(e.options.items()))) for e in resolved.environments),
        resolved.resources,
        resolved.design,
    )


def _series(folder: RunFolder, metrics: Sequence[str], reference: str | None) -> dict[Key, _Series]:
    """All figures of a run that are judged."""
    resolved = folder.resolved
    cells = Cells(folder.trials)
    unit = None if reference is None else _reference(resolved.workloads, reference, folder)
    series: dict[Key, _Series] = {}
    for environment in resolved.environments:
        if environment.again_of is not None:
            continue
        logs: list[tuple[WorkloadRecord, str, list[int], list[float]]] = []
        courses = Courses()
        for workload in resolved.workloads:
            if unit is not None and workload.key == unit[0].key:
                continue
            for metric in _chosen(workload, metrics):
                blocks, slowness = _slowness(cells, environment.key, workload, metric, unit)
                logs.append((workload, metric.name, blocks, slowness))
                courses.add(environment.key, workload.key, course(slowness))
        factor = courses.factors().get(environment.key, 1.0)
        for workload, name, blocks, slowness in logs:
            trials = cells.series(environment.key, workload.key)
            generations = [trials[block].generation for block in blocks]
            units = collapse(slowness, generations) if slowness else np.empty(0)
            series[environment.key, workload.key, name] = _Series(
                environment_label=environment.label,
                workload_title=workload.title,
                moments=moments(units, factor) if len(units) > 1 else None,
                blocks=len(units),
                trials=len(trials),
                lost=len(trials) - len(slowness),
            )
    return series


def _reference(
    workloads: Iterable[WorkloadRecord], name: str, folder: RunFolder
) -> tuple[WorkloadRecord, Metric]:
    for workload in workloads:
        if name in (workload.key, workload.name):
            for metric in _chosen(workload, ()):
                return workload, metric
    raise UllageError(GATE_NO_REFERENCE, run=folder.path, found=repr(name))


def _chosen(workload: WorkloadRecord, metrics: Sequence[str]) -> list[Metric]:
    """Curves move both ways: they have no single ratio."""
    return [
        metric
        for metric in workload.metrics
        if metric.coordinate is None and (metric.name in metrics if metrics else metric.primary)
    ]


def _slowness(
    cells: Cells,
    environment: str,
    workload: WorkloadRecord,
    metric: Metric,
    unit: tuple[WorkloadRecord, Metric] | None,
) -> tuple[list[int], list[float]]:
    """Blocks, and the log of how slow each was; of a figure that is not positive there is none."""
    blocks, slowness = [], []
    beside = cells.series(environment, unit[0].key) if unit else {}
    for block, trial in sorted(cells.series(environment, workload.key).items()):
        value = _log(values(trial, metric.name), metric)
        if unit is not None and value is not None:
            related = beside.get(block)
            own = None if related is None else _log(values(related, unit[1].name), unit[1])
            value = None if own is None else value - own
        if value is not None:
            blocks.append(block)
            slowness.append(value)
    return blocks, slowness


def _log(value: object, metric: Metric) -> float | None:
    if isinstance(value, int | float) and value > 0:
        return log_ratio(float(value), 1.0, metric.better)
    return None


@dataclass(frozen=True)
class _Draft:
    """A figure, ready to be judged with the others."""

    figure: GateFigure
    p_worse: float = 1.0
    p_within: float = 1.0


def _draft(key: Key, now: _Series, before: Sequence[_Series], worse_than: float) -> _Draft:
    figure = GateFigure(
        environment=key[0],
        environment_label=now.environment_label,
        workload=key[1],
        workload_title=now.workload_title,
        metric=key[2],
        ratio=None,
        outcome="inconclusive",
    )
    if now.failing:
        lost = f"{now.lost} of {many(now.trials, 'trial')} gave no figure"
        if any(series.failing for series in before):
            return _Draft(figure.model_copy(update={"reason": f"{lost}, as before"}))
        return _Draft(figure.model_copy(update={"outcome": "failed", "reason": lost}))
    then = _baseline([series.moments for series in before])
    if now.moments is None or then is None:
        return _Draft(figure.model_copy(update={"reason": "under two values on a side"}))
    of = difference(now.moments, then)
    line = math.log1p(worse_than)
    figure = figure.model_copy(update={"ratio": _interval(of)})
    fewest = min(now.blocks, *(series.blocks for series in before))
    if fewest < LEAST_PAIRS:
        few = f"{many(fewest, 'block')}, and at least {LEAST_PAIRS} are needed"
        return _Draft(figure.model_copy(update={"reason": few}))
    best = difference(replace(now.moments, error=0.0), then)
    hopeless = _above(best, line) > WRONG_FAIL and _above(best, line, -1) > WRONG_PASS
    figure = figure.model_copy(update={"baseline_limits": hopeless})
    return _Draft(figure, _above(of, line), _above(of, line, -1))


def _baseline(runs: Sequence[Moments | None]) -> Moments | None:
    """Of one or two runs what their blocks say; of more, what one run more may be.

    That is the mean of the runs with s²(1 + 1/k), s the deviation of their means: the new run's own
    error, which is in s already, comes on top, so this is cautious.
    """
    known = [run for run in runs if run is not None]
    if not known or len(known) < len(runs):
        return None
    means = np.array([run.mean for run in known])
    mean, k = float(means.mean()), len(known)
    if k < ENOUGH_RUNS:
        error = math.sqrt(sum(run.error**2 for run in known)) / k
        return Moments(min(run.n for run in known), mean, error, known[0].deviation)
    spread = float(means.std(ddof=1))
    return Moments(k, mean, spread * math.sqrt(1 + 1 / k), spread)


def _above(of: Moments, line: float, sign: int = 1) -> float:
    """One-sided p value of a mean that is not above the line; sign −1: not below it."""
    beyond = sign * (of.mean - line)
    if of.error == 0:
        return 0.0 if beyond > 0 else 1.0
    return t_tail(beyond / of.error, of.df)


def _interval(of: Moments) -> Interval | None:
    confidence = 1 - 2 * WRONG_PASS
    half = t_quantile(1 - WRONG_PASS, of.df) * of.error
    if of.mean + half > math.log(1e300):
        return None
    estimate, low, high = (math.exp(of.mean + side) for side in (0, -half, half))
    return Interval(
        estimate=estimate, low=low, high=high, confidence=confidence, n=of.n, method="Welch"
    )


def _judged(drafts: Sequence[_Draft], spent: float) -> list[GateFigure]:
    adjusted = holm([draft.p_worse for draft in drafts])
    return [
        draft.figure
        if draft.figure.reason is not None
        else draft.figure.model_copy(
            update={
                "p_worse": p_worse,
                "p_within": draft.p_within,
                "outcome": _outcome(p_worse, draft.p_within, spent),
            }
        )
        for draft, p_worse in zip(drafts, adjusted, strict=True)
    ]


def _outcome(p_worse: float, p_within: float, spent: float) -> Outcome:
    if p_worse <= WRONG_FAIL * spent:
        return "worse"
    return "within" if p_within <= WRONG_PASS * spent else "inconclusive"


def _notes(
    new: RunFolder,
    baselines: Sequence[RunFolder],
    now: Mapping[Key, _Series],
    shared: Sequence[Key],
) -> Iterable[str]:
    for word, reason in unlike(new, baselines).items():
        yield f"the {word} of a baseline: {reason}"
    if len(baselines) < ENOUGH_RUNS:
        yield (
            f"{many(len(baselines), 'baseline run')}: what one run differs from the next without a "
            f"cause is not in the test; {ENOUGH_RUNS} or more would show it"
        )
    for key in now:
        if key not in shared:
            yield f"{key[0]} in {key[1]}, {key[2]}: only in the new run"
