"""Does an environment cost more than it did? The overheads of one run against those of another.

What is compared is the *overhead*: each run measured it against its own baseline, in its own hour,
so that what the machine itself did in between is taken out. Ratio of the two geometric means, by
Welch on the log-ratios of the pairs (the means of the makings, where instances were made anew).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ullage.analysis import overhead
from ullage.analysis.comparison.estimates import Interval
from ullage.analysis.comparison.model import Analysis, Comparison
from ullage.common.errors import RUNS_NOT_ALIKE, UllageError
from ullage.runs.reader import RunFolder
from ullage.runs.records import Record, Resolved, WorkloadRecord
from ullage.stats import Verdict, Why
from ullage.stats.interval import Moments, collapse, moments, t_quantile
from ullage.stats.uncertainty import Floor
from ullage.stats.unpaired import difference
from ullage.stats.verdict import FamilyMember, Judgement, judge, p_values

_HOST: Final = ("hostname", "cpu_model", "microcode", "kernel", "memory_bytes")
CURVE: Final = "a curve may move both ways: look at both reports"


@dataclass(frozen=True)
class ComparedRun:
    """A run, read and analysed."""

    folder: RunFolder
    analysis: Analysis

    @classmethod
    def of(cls, folder: RunFolder) -> ComparedRun:
        return cls(folder, overhead.analyse(folder))


class Change(Record):
    """One overhead, now and before."""

    run: str
    before: str
    """The run that it is compared with."""
    environment: str
    environment_label: str
    workload: str
    workload_title: str
    metric: str
    overhead_now: Interval | None
    overhead_before: Interval | None
    change: Interval | None
    """Overhead now ÷ overhead before: above 1 it costs more than it did."""
    floor: float | None
    """The noise floors of both runs together; nothing under it is called a change."""
    verdict: Verdict | None
    why: Why | None
    no_verdict: str | None
    p_difference_adjusted: float | None
    p_equivalence_adjusted: float | None
    unequal: tuple[str, ...]
    """Nuisances that differed within one of the runs, as its plan allows."""


class Changes(Record):
    """All overheads that some runs share with the first one."""

    before: str
    runs: tuple[str, ...]
    baseline_label: str
    confidence: float
    margin: float
    changes: tuple[Change, ...]
    differs: tuple[str, ...]
    """What else is not what it was: image, machine, options."""
    left_out: tuple[str, ...]
    """What only some of the runs have, or not in the same way."""
    baselines: tuple[str, ...]
    """How the baseline itself fared, by its medians: the hour of the machine, and no verdict."""


@dataclass(frozen=True)
class _Both:
    """One comparison as it stands in both runs."""

    run: ComparedRun
    now: Comparison
    before: Comparison


def compare(before: ComparedRun, later: Sequence[ComparedRun]) -> Changes:
    """Every primary overhead of the later runs against that of the first; one family of verdicts.

    Margin and confidence are those of the first run's plan. RUNS_NOT_ALIKE when the baselines or
    the designs differ, or nothing is left to compare.
    """
    for run in later:
        _refuse_other(before, run)
    first = before.analysis
    pairs: list[_Both] = []
    left_out: list[str] = []
    for run in later:
        shared, lacking = _shared(before, run)
        if not shared:
            raise _not_alike(before, run, "they share no environment and workload")
        pairs += shared
        left_out += lacking
    cases = [_case(before, both, first.margin) for both in pairs]
    judged = judge(cases, first.margin, first.confidence, first.correction)
    return Changes(
        before=first.run,
        runs=tuple(run.analysis.run for run in later),
        baseline_label=first.baseline_label,
        confidence=first.confidence,
        margin=first.margin,
        changes=tuple(
            _change(before, both, case, judgement)
            for both, case, judgement in zip(pairs, cases, judged, strict=True)
        ),
        differs=tuple(text for run in later for text in _differs(before, run)),
        left_out=tuple(dict.fromkeys(left_out)),
        baselines=tuple(text for run in later for text in _baselines(before, run)),
    )


def _refuse_other(before: ComparedRun, run: ComparedRun) -> None:
    old, new = before.folder.resolved, run.folder.resolved
    if old.design != new.design:
        raise _not_alike(before, run, f"one is {old.design}, the other {new.design}")
    first, second = (
        next(e for e in resolved.environments if e.key == resolved.baseline)
        for resolved in (old, new)
    )
    if (first.provider, first.options) != (second.provider, second.options):
        raise _not_alike(before, run, f"the baselines are not alike: {first.label}, {second.label}")


def _not_alike(before: ComparedRun, run: ComparedRun, reason: str) -> UllageError:
    return UllageError(RUNS_NOT_ALIKE, run=run.folder.path, base=before.folder.path, reason=reason)


def _shared(before: ComparedRun, run: ComparedRun) -> tuple[list[_Both], list[str]]:
    """What both have in the same way, and what is left out with its reason."""
    old = {(c.environment, c.workload, c.metric): c for c in before.analysis.primary()}
    works = {w.key: w for w in before.folder.resolved.workloads}
    changed = {
        w.key: reason
        for w in run.folder.resolved.workloads
        if w.key in works and (reason := _other_work(works[w.key], w))
    }
    shared, lacking = [], []
    for c in run.analysis.primary():
        match = old.pop((c.environment, c.workload, c.metric), None)
        if c.workload in changed:
            lacking.append(f"{c.workload}: {changed[c.workload]}")
        elif match is None:
            lacking.append(f"{c.environment} in {c.workload}: only in {run.analysis.run}")
        else:
            shared.append(_Both(run, c, match))
    lacking += [f"{e} in {w}: only in {before.analysis.run}" for e, w, _ in old if w not in changed]
    return shared, lacking


def _other_work(old: WorkloadRecord, new: WorkloadRecord) -> str | None:
    """Why figures of the two are not of the same thing."""
    if old.workload != new.workload:
        return "another workload of that name"
    names = sorted({*old.parameters, *new.parameters})
    differing = [n for n in names if old.parameters.get(n) != new.parameters.get(n)]
    if differing:
        return f"other parameters ({', '.join(differing)})"
    units = [{m.name: (m.unit, m.better) for m in w.metrics if m.primary} for w in (old, new)]
    return None if units[0] == units[1] else "other metrics"


def _units(c: Comparison, widening: float) -> Moments | None:
    """Moments of what the comparison's interval counts: pairs, or means of makings."""
    logs = [math.log(point.ratio) for point in c.points]
    if c.generations > 1:
        logs = list(collapse(logs, [point.generation for point in c.points]))
    return moments(logs, widening * c.memory) if len(logs) > 1 else None


def _case(before: ComparedRun, both: _Both, margin: float) -> FamilyMember:
    """The change of one overhead, ready to be judged; none where either run gives no verdict."""
    now = _units(both.now, both.run.analysis.stop.widening)
    then = _units(both.before, before.analysis.stop.widening)
    floor = _floor(before, both)
    if now is None or then is None or _no_verdict(both):
        return FamilyMember(None, None, floor)
    of = difference(now, then)
    budgets = [c.budget for c in (both.now, both.before) if c.budget is not None]
    return FamilyMember(
        of,
        p_values(of, margin),
        floor,
        pairs=min(now.n, then.n),
        systematic=2 * math.hypot(*(budget.type_b for budget in budgets)),
    )


def _floor(before: ComparedRun, both: _Both) -> Floor | None:
    """Both apparatuses may err, each by its floor. None: no run has one; infinite: not known."""
    floors, planned = [], []
    for run, c in ((both.run, both.now), (before, both.before)):
        resolved = run.folder.resolved
        planned.append(any(e.again_of == resolved.baseline for e in resolved.environments))
        floors.append(c.floor if c.floor is not None else math.inf if planned[-1] else 1.0)
    biased = both.now.floor_biased or both.before.floor_biased
    return Floor(math.prod(floors), biased) if any(planned) else None


def _no_verdict(both: _Both) -> str | None:
    if both.now.coordinate is not None:
        return CURVE
    return both.now.no_verdict or both.before.no_verdict


def _change(before: ComparedRun, both: _Both, case: FamilyMember, judged: Judgement) -> Change:
    c, none = both.now, _no_verdict(both)
    decided = judged if none is None and case.moments is not None else None
    return Change(
        run=both.run.analysis.run,
        before=before.analysis.run,
        environment=c.environment,
        environment_label=c.environment_label,
        workload=c.workload,
        workload_title=c.workload_title,
        metric=c.metric,
        overhead_now=c.interval,
        overhead_before=both.before.interval,
        change=_interval(case.moments, before.analysis.confidence),
        floor=case.floor.ratio if case.floor and math.isfinite(case.floor.ratio) else None,
        verdict=decided.verdict if decided else None,
        why=decided.why if decided else None,
        no_verdict=none or (None if decided else "too few blocks"),
        p_difference_adjusted=decided.adjusted.difference if decided else None,
        p_equivalence_adjusted=decided.adjusted.equivalence if decided else None,
        unequal=tuple(sorted({*c.unequal, *both.before.unequal})),
    )


def _interval(m: Moments | None, confidence: float) -> Interval | None:
    if m is None:
        return None
    half = t_quantile(0.5 + confidence / 2, m.df) * m.error
    with_bounds = [m.mean, m.mean - half, m.mean + half]
    if max(with_bounds) > math.log(1e300):
        return None
    estimate, low, high = map(math.exp, with_bounds)
    return Interval(
        estimate=estimate,
        low=low,
        high=high,
        confidence=confidence,
        n=m.n,
        method="Welch t on log-ratios of two runs",
    )


def _differs(before: ComparedRun, run: ComparedRun) -> Iterable[str]:
    """What else is not what it was between the runs: it may be the reason of a change."""
    old, new = before.folder.resolved, run.folder.resolved
    pairs = [
        ("image", old.image and old.image.digest, new.image and new.image.digest),
        ("version of ullage", old.ullage, new.ullage),
        ("share of the machine", old.resources, new.resources),
        ("network's links", old.network, new.network),
        *((f"host's {n}", old.host.get(n), new.host.get(n)) for n in _HOST),
    ]
    for subject, then, now in pairs:
        if now != then:
            yield f"{new.run}: the {subject} is not that of {old.run}"
    yield from _environments(old, new)


def _environments(old: Resolved, new: Resolved) -> Iterable[str]:
    before = {e.key: e for e in old.environments}
    for e in new.environments:
        then = before.get(e.key)
        if then is None:
            continue
        for aspect, mine, theirs in (
            ("options", e.options, then.options),
            ("treatments", e.treatments, then.treatments),
            ("nuisances", e.nuisances, then.nuisances),
        ):
            names = sorted(n for n in {*mine, *theirs} if mine.get(n) != theirs.get(n))
            if names:
                yield f"{new.run}: other {aspect} of {e.key} than in {old.run}: {', '.join(names)}"


def _baselines(before: ComparedRun, run: ComparedRun) -> Iterable[str]:
    done: set[tuple[str, str]] = set()
    then = {(c.workload, c.metric): c for c in before.analysis.primary()}
    for c in run.analysis.primary():
        match, key = then.get((c.workload, c.metric)), (c.workload, c.metric)
        values = (c.baseline_values, match.baseline_values if match else None)
        if key in done or values[0] is None or values[1] is None or c.coordinate is not None:
            continue
        done.add(key)
        now, was = values[0].median, values[1].median
        if now > 0 and was > 0:
            slower = now / was if c.better == "lower" else was / now
            yield (
                f"{c.baseline_label} itself in {c.workload_title}: {slower:.3g} times as slow in "
                f"{run.analysis.run} as in {before.analysis.run}"
            )
