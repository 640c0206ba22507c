"""Is a program slower than it was? A gate for pipelines, by a line that must not be passed.

What is compared are the figures themselves, in each environment: of the new run against those of
one baseline run, or of several. Overheads would not do: a program that has become slower is so in
the baseline environment too.

A figure is *worse* when its ratio to the baseline is shown to be above the line: one-sided, Holm
over all figures at 1 %. It is *within* when it is shown to be below it, at 5 % each. From three
baseline runs on, what one run differs from the next without a cause is in the test; a reference
workload, in the same block, takes out what the machine itself did. Where the old program runs
beside the new one, in the same blocks of one run, there is no other hour: these are pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Final, Literal

import numpy as np
from pydantic import Field

from ullage.analysis.comparison.estimates import Interval
from ullage.common.errors import (
    GATE_NO_METRIC,
    GATE_NO_PAIR,
    GATE_NO_REFERENCE,
    GATE_NOTHING,
    UllageError,
)
from ullage.common.quantities import many
from ullage.common.text import nearest
from ullage.runs.pairs import Cells, values
from ullage.runs.reader import RunFolder
from ullage.runs.records import EnvironmentRecord, Metric, Record, WorkloadRecord
from ullage.stats import LEAST_PAIRS
from ullage.stats.interval import Moments, collapse, log_ratio, moments, t_quantile, t_tail
from ullage.stats.memory import Courses, course
from ullage.stats.multiple import holm
from ullage.stats.unpaired import difference, more_often
from ullage.stats.verdict import MOST_FAILURES

GateOutcome = Literal["within", "worse", "failed", "inconclusive"]
WRONG_FAIL: Final = 0.01
"""Chance that any figure of an unchanged program is called worse."""
WRONG_PASS: Final = 0.05
"""Chance that a figure which is at the line is called within."""
GENERATOR: Final = "generator"
"""The code of a trial whose load was not as it was to be: no fault of the program's."""
ENOUGH_RUNS: Final = 3
"""Baseline runs from which on what differs between runs is in the test."""
_HOST: Final = ("hostname", "cpu_model", "cpus", "memory_bytes")

GatedKey = tuple[str, str, str]
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
    outcome: GateOutcome
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
    pairs: dict[str, str] = Field(default={})
    """New workload → the old one beside it in the same run; then there is no baseline run."""
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
    kind: tuple[str, str]
    """Its unit, and which side is better."""
    moments: Moments | None
    blocks: int
    trials: int
    lost: int
    """Trials without the figure."""
    unmeasured: int
    """Trials without it because the machine was too busy for the generator of the load."""
    unrelated: int
    """Trials that have it where the reference has none."""
    without_ratio: int
    """Trials in which it is 0 or below."""
    best: bool
    """It is 0 in all trials, and none can be better."""
    beside: str
    """What it is related to, in words."""

    @property
    def failing(self) -> bool:
        return self.lost > MOST_FAILURES * self.trials

    def why_few(self) -> str | None:
        """What keeps too many of its values out of the comparison, and is no fault of it."""
        most = MOST_FAILURES * self.trials
        if self.unmeasured > most:
            late = f"{self.unmeasured} of {many(self.trials, 'trial')}"
            return f"in {late} the generator of the load was late: the machine was too busy"
        if self.unrelated > most:
            lost = f"{self.unrelated} of {many(self.trials, 'trial')}"
            return f"in {lost} {self.beside} gave no figure"
        if self.without_ratio > most:
            return f"{self.without_ratio} of {many(self.trials, 'value')} are not above 0"
        return None


def judge(
    new: RunFolder,
    baselines: Sequence[RunFolder],
    worse_than: float,
    *,
    metrics: Sequence[str] = (),
    reference: str | None = None,
    look: int = 0,
) -> Gate:
    """Judge the new run's primary figures, or those of these names.

    worse_than: the line as a fraction above 0. reference: a workload's name in both plans, to
    whose figure of the same block all others are related. look: this is the k-th look at a run
    that may go on; of the error rates it may spend 1/(k(k+1)), which all together is 1. 0: the only
    look. GATE_NO_REFERENCE, GATE_NO_METRIC, GATE_NOTHING.
    """
    _check_metrics(new, metrics)
    now = _series(new, metrics, reference)
    before = [_series(folder, metrics, reference) for folder in baselines]
    shared = [key for key in now if all(_alike(now, series, key) for series in before)]
    if not shared:
        raise UllageError(GATE_NOTHING, new=new.path, base=baselines[0].path)
    drafts = [
        _draft(key, now[key], [series[key] for series in before], worse_than) for key in shared
    ]
    figures = _judged(drafts, _spent(look))
    return Gate(
        worse_than=worse_than,
        new=new.resolved.run,
        baselines=tuple(folder.resolved.run for folder in baselines),
        reference=reference,
        outcome=_worst(figures),
        labels=new.resolved.labels,
        figures=tuple(figures),
        notes=(*_notes(new, baselines, now, before), *_limits(figures)),
    )


def judge_pairs(
    run: RunFolder,
    pairs: Mapping[str, str],
    worse_than: float,
    *,
    metrics: Sequence[str] = (),
    look: int = 0,
) -> Gate:
    """Judge new programs by the old ones that ran beside them, block by block of one run.

    pairs: new workload → old one, by their names. A value is the mean over an environment and its
    second copy. The rest is as of `judge`. GATE_NO_PAIR, GATE_NO_METRIC, GATE_NOTHING.
    """
    _check_metrics(run, metrics)
    workloads = {workload.key: workload for workload in run.resolved.workloads}
    names = [(workload.key, workload.name) for workload in workloads.values()]
    keys = pair_keys(names, pairs, run.path)
    drafts: list[_GateDraft] = []
    for environment in run.resolved.environments:
        if environment.again_of is None:
            both = [(workloads[new], workloads[old]) for new, old in keys.items()]
            drafts += _paired_drafts(run, environment, both, metrics, worse_than)
    if not drafts:
        raise UllageError(GATE_NOTHING, new=", ".join(keys), base=", ".join(keys.values()))
    figures = _judged(drafts, _spent(look))
    return Gate(
        worse_than=worse_than,
        new=run.resolved.run,
        baselines=(),
        reference=None,
        pairs=keys,
        outcome=_worst(figures),
        labels=run.resolved.labels,
        figures=tuple(figures),
        notes=tuple(_limits(figures)),
    )


def pair_keys(
    workloads: Sequence[tuple[str, str]], pairs: Mapping[str, str], where: Path
) -> dict[str, str]:
    """Key of each new workload → key of the old one, of the same factors.

    workloads: (key, name) of all. GATE_NO_PAIR for a name that none of them has.
    """
    keys = [key for key, _ in workloads]
    paired: dict[str, str] = {}
    for new, old in pairs.items():
        factors = [key.removeprefix(name) for key, name in workloads if name == new]
        wanted = [(new + factor, old + factor) for factor in factors] or [(new, old)]
        for pair in wanted:
            for key in pair:
                if key not in keys or new == old:
                    raise UllageError(
                        GATE_NO_PAIR,
                        run=where,
                        found=f"{new}={old}",
                        allowed=", ".join(keys),
                        suggestion=nearest(key, keys),
                    )
        paired |= dict(wanted)
    return paired


def _worst(figures: Iterable[GateFigure]) -> Literal["within", "worse", "inconclusive"]:
    outcomes = {figure.outcome for figure in figures}
    if outcomes & {"worse", "failed"}:
        return "worse"
    return "within" if outcomes == {"within"} else "inconclusive"


def _check_metrics(new: RunFolder, metrics: Sequence[str]) -> None:
    """GATE_NO_METRIC for a name that none of the run's figures has."""
    figures = (m for w in new.resolved.workloads for m in w.metrics if m.coordinate is None)
    names = list(dict.fromkeys(metric.name for metric in figures))
    for name in metrics:
        if name not in names:
            raise UllageError(
                GATE_NO_METRIC,
                run=new.path,
                found=repr(name),
                allowed=", ".join(names) or "none",
                suggestion=nearest(name, names),
            )


def _alike(
    now: Mapping[GatedKey, _Series], before: Mapping[GatedKey, _Series], key: GatedKey
) -> bool:
    """Whether both have the figure, in the same unit and better to the same side."""
    return key in before and before[key].kind == now[key].kind


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
        if _digests(folder) != _digests(new):
            reasons.setdefault("image", "it ran from another image")
        if _work(folder) != _work(new):
            reasons.setdefault("plan", "its workloads, environments or shares are others")
    return reasons


def _digests(folder: RunFolder) -> object:
    resolved = folder.resolved
    own = [(e.key, e.image.digest) for e in resolved.environments if e.image]
    return resolved.image and resolved.image.digest, own


def _work(folder: RunFolder) -> object:
    resolved = folder.resolved
    return (
        sorted((w.key, w.workload, str(sorted(w.parameters.items()))) for w in resolved.workloads),
        sorted((e.key, e.provider, str(sorted(e.options.items()))) for e in resolved.environments),
        resolved.resources,
        resolved.network,
        resolved.design,
    )


def _series(
    folder: RunFolder, metrics: Sequence[str], reference: str | None
) -> dict[GatedKey, _Series]:
    """All figures of a run that are judged."""
    resolved = folder.resolved
    cells = Cells(folder.trials)
    unit = None if reference is None else _reference(resolved.workloads, reference, folder)
    series: dict[GatedKey, _Series] = {}
    for environment in resolved.environments:
        if environment.again_of is not None:
            continue
        logs = [
            (workload, metric, _slowness(cells, environment.key, workload, metric, unit))
            for workload in resolved.workloads
            if unit is None or workload.key != unit[0].key
            for metric in _chosen(workload, metrics)
        ]
        series |= _of_environment(environment, logs, "the reference")
    return series


def _of_environment(
    environment: EnvironmentRecord,
    logs: Sequence[tuple[WorkloadRecord, Metric, _Values]],
    beside: str,
) -> dict[GatedKey, _Series]:
    """Its figures; what it keeps from block to block widens them all."""
    courses = Courses()
    for workload, _, measured in logs:
        courses.add(environment.key, workload.key, course(measured.slowness))
    factor = courses.factors().get(environment.key, 1.0)
    series: dict[GatedKey, _Series] = {}
    for workload, metric, measured in logs:
        slowness = measured.slowness
        units = collapse(slowness, measured.generations) if slowness else np.empty(0)
        series[environment.key, workload.key, metric.name] = _Series(
            environment_label=environment.label,
            workload_title=workload.title,
            kind=(metric.unit, metric.better),
            moments=moments(units, factor) if len(units) > 1 else None,
            blocks=len(units),
            trials=measured.trials,
            lost=measured.lost,
            unmeasured=measured.unmeasured,
            unrelated=measured.unrelated,
            without_ratio=measured.without_ratio,
            best=measured.best == measured.trials > 0,
            beside=beside,
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


@dataclass
class _Values:
    """The log of how slow each trial was, and why others have none."""

    blocks: list[int] = field(default_factory=list)
    generations: list[int] = field(default_factory=list)
    slowness: list[float] = field(default_factory=list)
    trials: int = 0
    lost: int = 0
    unmeasured: int = 0
    unrelated: int = 0
    without_ratio: int = 0
    best: int = 0
    """Of `without_ratio` those that are 0 where lower is better."""


def _slowness(
    cells: Cells,
    environment: str,
    workload: WorkloadRecord,
    metric: Metric,
    unit: tuple[WorkloadRecord, Metric] | None,
) -> _Values:
    measured = _Values()
    beside = cells.series(environment, unit[0].key) if unit else {}
    for block, trial in sorted(cells.series(environment, workload.key).items()):
        value = values(trial, metric.name)
        own = _log(value, metric)
        related = 0.0
        if unit is not None:
            reference = beside.get(block)
            log = None if reference is None else _log(values(reference, unit[1].name), unit[1])
            related = math.nan if log is None else log
        if trial.reason is not None and trial.reason.code == GENERATOR:
            measured.unmeasured += 1
        elif not isinstance(value, int | float):
            measured.lost += 1
        elif own is None:
            measured.without_ratio += 1
            measured.best += value == 0 and metric.better == "lower"
        elif math.isnan(related):
            measured.unrelated += 1
        else:
            measured.blocks.append(block)
            measured.generations.append(trial.generation)
            measured.slowness.append(own - related)
        measured.trials += 1
    return measured


def _log(value: object, metric: Metric) -> float | None:
    if isinstance(value, int | float) and value > 0:
        return log_ratio(float(value), 1.0, metric.better)
    return None


@dataclass(frozen=True)
class _GateDraft:
    """A figure, ready to be judged with the others."""

    figure: GateFigure
    p_worse: float = 1.0
    p_within: float = 1.0


def _blank(key: GatedKey, now: _Series) -> GateFigure:
    return GateFigure(
        environment=key[0],
        environment_label=now.environment_label,
        workload=key[1],
        workload_title=now.workload_title,
        metric=key[2],
        ratio=None,
        outcome="inconclusive",
    )


def _draft(key: GatedKey, now: _Series, before: Sequence[_Series], worse_than: float) -> _GateDraft:
    figure = _blank(key, now)
    if settled := _settled(now, before):
        return _GateDraft(figure.model_copy(update=settled))
    then = _baseline([series.moments for series in before])
    few = min(series.blocks for series in before)
    figure = figure.model_copy(update={"baseline_limits": then is None or few < LEAST_PAIRS})
    if now.moments is None or then is None:
        why = next((why for series in (now, *before) if (why := series.why_few())), None)
        reason = why or "under two values on a side"
        return _GateDraft(figure.model_copy(update={"reason": reason}))
    of = difference(now.moments, then)
    line = math.log1p(worse_than)
    figure = figure.model_copy(update={"ratio": _interval(of)})
    if too_few := _too_few(now, few):
        return _GateDraft(figure.model_copy(update={"reason": too_few}))
    best = difference(replace(now.moments, error=0.0), then)
    hopeless = _above(best, line) > WRONG_FAIL and _above(best, line, -1) > WRONG_PASS
    figure = figure.model_copy(update={"baseline_limits": hopeless})
    return _GateDraft(figure, _above(of, line), _above(of, line, -1))


def _paired_drafts(
    run: RunFolder,
    environment: EnvironmentRecord,
    pairs: Sequence[tuple[WorkloadRecord, WorkloadRecord]],
    metrics: Sequence[str],
    worse_than: float,
) -> list[_GateDraft]:
    """Of one environment: the new workload of each pair, relative to the old one."""
    cells = Cells(run.trials)
    copies = [e.key for e in run.resolved.environments if environment.key in (e.key, e.again_of)]
    now: list[tuple[WorkloadRecord, Metric, _Values]] = []
    before: list[tuple[WorkloadRecord, Metric, _Values]] = []
    for new, old in pairs:
        theirs = {metric.name: metric for metric in old.metrics}
        for metric in _chosen(new, metrics):
            if theirs.get(metric.name) == metric:
                unit = old, metric
                together = [_slowness(cells, copy, new, metric, unit) for copy in copies]
                alone = [_slowness(cells, copy, old, metric, None) for copy in copies]
                now.append((new, metric, _means(together)))
                before.append((new, metric, _means(alone)))
    old_ones = _of_environment(environment, before, "")
    return [
        _paired_draft(key, series, old_ones[key], worse_than)
        for key, series in _of_environment(environment, now, "the old program").items()
    ]


def _means(copies: Sequence[_Values]) -> _Values:
    """Block by block, of an environment and its second copy: as many pairs, and one value."""
    if len(copies) == 1:
        return copies[0]
    by_block: dict[int, list[tuple[int, float]]] = {}
    for copy in copies:
        values_of = zip(copy.blocks, copy.generations, copy.slowness, strict=True)
        for block, generation, slowness in values_of:
            by_block.setdefault(block, []).append((generation, slowness))
    blocks = sorted(by_block)
    return _Values(
        blocks=blocks,
        generations=[by_block[block][0][0] for block in blocks],
        slowness=[fmean(slowness for _, slowness in by_block[block]) for block in blocks],
        **{
            name: sum(getattr(copy, name) for copy in copies)
            for name in ("trials", "lost", "unmeasured", "unrelated", "without_ratio", "best")
        },
    )


def _paired_draft(key: GatedKey, pair: _Series, old: _Series, worse_than: float) -> _GateDraft:
    figure = _blank(key, pair)
    if settled := _settled(pair, [old]):
        return _GateDraft(figure.model_copy(update=settled))
    if pair.moments is None:
        reason = pair.why_few() or old.why_few() or "under two pairs"
        return _GateDraft(figure.model_copy(update={"reason": reason}))
    line = math.log1p(worse_than)
    figure = figure.model_copy(update={"ratio": _interval(pair.moments, "paired t")})
    if too_few := _too_few(pair, pair.blocks):
        return _GateDraft(figure.model_copy(update={"reason": too_few}))
    return _GateDraft(figure, _above(pair.moments, line), _above(pair.moments, line, -1))


def _settled(now: _Series, before: Sequence[_Series]) -> dict[str, object]:
    """What needs no comparison: a figure that is lost, or that cannot be better.

    Where a baseline lost it too, this run must be shown to lose it more often than any of them did.
    """
    if now.failing:
        lost = f"{now.lost} of {many(now.trials, 'trial')} gave no figure"
        often = max(before, key=lambda series: series.lost / max(1, series.trials))
        if often.failing:
            p = more_often((now.lost, now.trials), (often.lost, often.trials))
            if p > WRONG_FAIL:
                return {"reason": f"{lost}, as before", "baseline_limits": True}
            lost += f", and {often.lost} of {often.trials} before"
        return {"outcome": "failed", "reason": lost}
    if now.best and now.trials >= LEAST_PAIRS:
        return {"outcome": "within", "reason": "it is 0 in every trial: none can be better"}
    return {}


def _too_few(now: _Series, few: int) -> str | None:
    fewest = min(now.blocks, few)
    if fewest < LEAST_PAIRS:
        return now.why_few() or f"{many(fewest, 'block')}, and at least {LEAST_PAIRS} are needed"
    return now.why_few()


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


def _interval(of: Moments, method: str = "Welch") -> Interval | None:
    confidence = 1 - 2 * WRONG_PASS
    half = t_quantile(1 - WRONG_PASS, of.df) * of.error
    if of.mean + half > math.log(1e300):
        return None
    estimate, low, high = (math.exp(of.mean + side) for side in (0, -half, half))
    return Interval(
        estimate=estimate, low=low, high=high, confidence=confidence, n=of.n, method=method
    )


def _spent(look: int) -> float:
    """The part of the error rates that this look may spend; 0: it is the only one."""
    return 1 / (look * (look + 1)) if look else 1.0


def _judged(drafts: Sequence[_GateDraft], spent: float) -> list[GateFigure]:
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


def _outcome(p_worse: float, p_within: float, spent: float) -> GateOutcome:
    if p_worse <= WRONG_FAIL * spent:
        return "worse"
    return "within" if p_within <= WRONG_PASS * spent else "inconclusive"


def _notes(
    new: RunFolder,
    baselines: Sequence[RunFolder],
    now: Mapping[GatedKey, _Series],
    before: Sequence[Mapping[GatedKey, _Series]],
) -> Iterable[str]:
    for word, reason in unlike(new, baselines).items():
        yield f"the {word} of a baseline: {reason}"
    if len(baselines) < ENOUGH_RUNS:
        yield (
            f"{many(len(baselines), 'baseline run')}: what one run differs from the next without a "
            f"cause is not in the test; {ENOUGH_RUNS} or more would show it"
        )
    everywhere = [now, *before]
    for key in dict.fromkeys(key for series in everywhere for key in series):
        if not all(key in series for series in everywhere):
            where = "not in every baseline" if key in now else "only in a baseline"
            yield f"{key[2]} of {key[1]} in {key[0]} is not judged: {where}"
        elif not all(_alike(now, series, key) for series in before):
            yield (
                f"{key[2]} of {key[1]} in {key[0]} is not judged: a baseline has it in another "
                "unit, or better to the other side"
            )
