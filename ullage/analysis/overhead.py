"""What does each environment cost? Every metric against the baseline, with interval and verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ullage.analysis import doubts, racing
from ullage.analysis.causes import causes
from ullage.analysis.causes.symbols import SymbolTables
from ullage.analysis.comparison import (
    judging,
    losses,
    money,
    pairing,
    systematic,
    systems,
    totals,
)
from ullage.analysis.comparison.estimates import Interval
from ullage.analysis.comparison.judging import Decided, Family, JudgedComparison
from ullage.analysis.comparison.model import (
    Analysis,
    Cell,
    Comparison,
    Rejudged,
    ResourceSummary,
    Stop,
)
from ullage.analysis.comparison.pairing import ComparisonSettings, Draft, TrialSource, stored
from ullage.analysis.energy import results as energy
from ullage.analysis.racing import Judgements
from ullage.common.errors import RUN_BAD_FORMAT, UllageError
from ullage.runs.events import CellLeft, Finished, Started, Trial
from ullage.runs.pairs import Cells, repeated
from ullage.runs.reader import RunFolder
from ullage.runs.records import FORMAT, EnvironmentRecord, Resolved
from ullage.stats import RULES, Verdict
from ullage.stats import interval as intervals
from ullage.stats.interval import collapse
from ullage.stats.stop import StopRule
from ullage.stats.uncertainty import APART, SHARED
from ullage.stats.verdict import Judgement


def summaries(
    drafts: Sequence[Draft], comparisons: Sequence[Comparison]
) -> tuple[ResourceSummary, ...]:
    """One summary for each environment × resource that has a primary metric, in the plan's order.

    The ratios are above 1 where it is worse (time: environment/baseline, rate:
    baseline/environment). With one primary comparison it is that one. With several it is the
    geometric mean of their ratios:
    in each block the mean of the log-ratios of all of them, and a t interval over these means (over
    their means by making, where the instances were made several times), so that what the figures of
    a block have in common widens the interval as it must. The result has no test of its own: its
    verdict is that of its members when they agree, else `mixed`.
    """
    groups: dict[tuple[str, str], list[tuple[Draft, Comparison]]] = {}
    for draft, comparison in zip(drafts, comparisons, strict=True):
        if comparison.primary:
            key = (comparison.environment, comparison.resource)
            groups.setdefault(key, []).append((draft, comparison))
    return tuple(_summary(members) for members in groups.values())


@dataclass(frozen=True)
class _Mean:
    """What one or several comparisons of a resource say together."""

    ratio: float | None
    interval: Interval | None
    pairs: int
    generations: int


def _summary(members: Sequence[tuple[Draft, Comparison]]) -> ResourceSummary:
    first = members[0][1]
    if len(members) == 1:
        mean = _Mean(first.ratio, first.interval, first.pairs, first.generations)
    else:
        mean = _mean([draft for draft, _ in members])
    floors = [c.floor for _, c in members if c.floor is not None]
    return ResourceSummary(
        environment=first.environment,
        environment_label=first.environment_label,
        resource=first.resource,
        ratio=mean.ratio,
        interval=mean.interval,
        members=tuple((c.workload, c.metric) for _, c in members),
        pairs=mean.pairs,
        precision="intermediate" if mean.generations > 1 else "repeatability",
        generations=mean.generations,
        verdict=_verdict([c for _, c in members]),
        emulated=first.emulated,
        unequal=first.unequal,
        floor=max(floors, default=None),
    )


def _verdict(members: Sequence[Comparison]) -> Verdict | Literal["mixed"] | None:
    verdicts = {c.verdict for c in members}
    if None in verdicts:
        return None
    return verdicts.pop() if len(verdicts) == 1 else "mixed"


def _mean(drafts: Sequence[Draft]) -> _Mean:
    """Geometric mean over the members, over the blocks in which all of them have a pair."""
    by_block = [{p.block: p.log_ratio for p in d.paired.pairs} for d in drafts]
    makings = {p.block: p.generation for d in drafts for p in d.paired.pairs}
    shared = sorted(set.intersection(*(set(column) for column in by_block)))
    if not shared:
        return _Mean(None, None, 0, 0)
    means = [sum(column[block] for column in by_block) / len(by_block) for block in shared]
    generations = [makings[block] for block in shared]
    units = collapse(means, generations)
    pairs, number = len(shared), len(set(generations))
    if len(units) < 2:
        return _Mean(None, None, pairs, number)
    # Where comparisons left at several looks, the mean has the confidence of the last.
    confidence = max(draft.settings.confidence for draft in drafts)
    interval = intervals.t_interval(units, confidence, drafts[0].widening)
    return _Mean(interval.estimate, stored(interval), pairs, number)


SMALLEST, LARGEST = 1e-75, 1e75
"""No figure in SI units but 0 lies outside; ratios of what lies inside have intervals that are
numbers."""


def check(folder: RunFolder) -> None:
    """Raise RUN_BAD_FORMAT for figures that cannot be measured: no numbers, absurd ones, or curves
    that have two points at one place.
    """
    for trial in folder.trials:
        for name, figure in trial.metrics.items():
            reason = None
            if not all(map(_measurable, _figures(trial, name))):
                reason = "is not a number that can be measured"
            elif isinstance(figure, list) and (twice := repeated(figure)) is not None:
                reason = f"has two points at {twice:g}"
            if reason is not None:
                reason = f"trial {trial.trial}: {name!a} {reason}"
                raise UllageError(RUN_BAD_FORMAT, path=folder.path, format=FORMAT, reason=reason)


def _measurable(figure: float) -> bool:
    return figure == 0 or SMALLEST <= abs(figure) <= LARGEST


def _figures(trial: Trial, name: str) -> Iterable[float]:
    figure = trial.metrics[name]
    return [part for point in figure for part in point] if isinstance(figure, list) else [figure]


DRIFT_ALPHA = 0.05


def analyse(folder: RunFolder) -> Analysis:
    """Compare everything in a run with its baseline.

    Verdicts are given for the primary metrics, as one family; A/A comparisons are outside of it and
    make the noise floor. A metric that no trial yields is left out, unless it is primary.
    RUN_BAD_FORMAT for figures that nothing can be said of (see `check`).
    """
    check(folder)
    resolved = folder.resolved
    target = target_half_width(resolved)
    settings = _settings(resolved)
    run = _judge_run(folder, settings)
    drafts = [judged.draft for judged in run.judged]
    drift_alpha = DRIFT_ALPHA / max(1, len(drafts))
    tables = SymbolTables(folder)
    comparisons = tuple(_comparison(judged, drift_alpha, tables) for judged in run.judged)
    nulls = tuple(
        _comparison(JudgedComparison(draft, None, None, None, None), drift_alpha, tables)
        for draft in run.again
    )
    primary_nulls = [c for c in nulls if c.primary and c.interval]
    primary_floors = [c.floor for c in comparisons if c.primary and c.floor is not None]
    baseline = _environment(resolved, resolved.baseline)
    energies = energy.of(folder, _source(folder, folder.trials, settings))
    bills = money.bills(folder, comparisons)
    return Analysis(
        run=resolved.run,
        name=resolved.name,
        baseline=baseline.key,
        baseline_label=baseline.label,
        confidence=resolved.confidence,
        margin=resolved.margin,
        design=resolved.design,
        several_machines=len(resolved.nodes) > 1,
        correction=resolved.correction,
        rejudged=tuple(_rejudged(folder, settings, run.judged)),
        started_epoch_ns=folder.sessions[0].epoch_ns if folder.sessions else None,
        seconds=_seconds(folder),
        blocks=len(folder.complete_blocks),
        generations=max(1, len({trial.generation for trial in folder.trials})),
        blocks_each=settings.blocks_each,
        iterations=int(resolved.repeat.get("iterations") or 1),
        trials=len(folder.trials),
        failed=sum(trial.status != "ok" for trial in folder.trials),
        stop=_stop(folder, comparisons, target, settings.widening),
        floor=max(primary_floors, default=None),
        again_total=len(primary_nulls),
        again_differing=sum(
            pairing.excludes_one(c.interval) for c in primary_nulls if c.interval is not None
        ),
        family=sum(c.primary for c in comparisons),
        comparisons=comparisons,
        again=nulls,
        resources=summaries(drafts, comparisons),
        cells=_cells(folder),
        money=bills.costs,
        money_notes=bills.notes,
        energy=energies.energies,
        energy_notes=energies.notes,
        doubts=doubts.of_run(folder, nulls),
    )


def judged(folder: RunFolder, rules: int = RULES) -> list[JudgedComparison]:
    """Every comparison with its verdict, as `analyse` has it, and nothing of what stands beside.

    rules: those that an older ullage had, to see what it said.
    """
    return _judge_run(folder, _settings(folder.resolved), rules).judged


def leaving(folder: RunFolder) -> tuple[CellLeft, ...]:
    """The cells that are decided by what the folder has, and leave the run now."""
    settings = _settings(folder.resolved)
    return racing.leaving(folder, _judge_run(folder, settings), settings)


def _settings(resolved: Resolved) -> ComparisonSettings:
    governor, turbo_off = doubts.power(resolved.host)
    return ComparisonSettings(
        confidence=resolved.confidence,
        margin=resolved.margin,
        seed=resolved.seed,
        widening=stop_rule(resolved, target_half_width(resolved)).widening,
        blocks_each=resolved.repeat.get("instances"),
        governor=governor,
        turbo_off=turbo_off,
        again=any(
            environment.again_of == resolved.baseline for environment in resolved.environments
        ),
        correlation=APART if resolved.design == "duet" else SHARED,
    )


def _source(
    folder: RunFolder, trials: Sequence[Trial], settings: ComparisonSettings
) -> TrialSource:
    resolved = folder.resolved
    known = systems.by_environment(resolved.environments)
    return TrialSource(Cells(trials), resolved.parity, settings, known)


def _judge_run(folder: RunFolder, settings: ComparisonSettings, rules: int = RULES) -> Judgements:
    """All comparisons, judged: at once, or where the plan races look by look."""
    resolved = folder.resolved

    def judge_all(
        trials: Sequence[Trial], settings: ComparisonSettings, decided: Decided
    ) -> Judgements:
        source = _source(folder, trials, settings)
        again, drafts = _drafts(resolved, source)
        again, drafts = (judging.with_memory(of, rules) for of in (again, drafts))
        family = Family(resolved.correction, decided, rules)
        return Judgements(again, judging.judged(drafts, again, family))

    return racing.judge_run(folder, settings, judge_all)


def _rejudged(
    folder: RunFolder, settings: ComparisonSettings, judged: Sequence[JudgedComparison]
) -> list[Rejudged]:
    """Where a run that was made under older rules now has another verdict."""
    rules = folder.resolved.rules
    if rules >= RULES:
        return []
    return list(judging.rejudged(_judge_run(folder, settings, rules).judged, judged))


def target_half_width(resolved: Resolved) -> float | None:
    """The precision at which the plan let the run stop; None: it had none."""
    until = resolved.blocks.get("until")
    half_width = until.get("half_width") if isinstance(until, dict) else None
    return float(half_width) if half_width else None


def stop_rule(resolved: Resolved, target: float | None) -> StopRule:
    """The stop rule of the run, for the correction that its intervals carry.

    Where instances are made anew it counts makings, as the engine's does.
    """
    blocks_each = int(resolved.repeat.get("instances") or 1)
    least = max(1, int(resolved.blocks.get("min") or 1) // blocks_each)
    most = int(resolved.blocks.get("max") or least) // blocks_each
    return StopRule(least, max(least, most), target, resolved.confidence)


def _environment(resolved: Resolved, key: str) -> EnvironmentRecord:
    return next(e for e in resolved.environments if e.key == key)


def _drafts(resolved: Resolved, source: TrialSource) -> tuple[list[Draft], list[Draft]]:
    """A/A comparisons and all others, in the order of the plan."""
    again: list[Draft] = []
    drafts: list[Draft] = []
    for environment in resolved.environments:
        if environment.key == resolved.baseline:
            continue
        kind = drafts if environment.again_of is None else again
        baseline = _environment(resolved, environment.again_of or resolved.baseline)
        for workload in resolved.workloads:
            for metric in workload.metrics:
                draft = pairing.draft(source, environment, baseline, workload, metric)
                if metric.primary or _yielded(draft):
                    kind.append(draft)
    return again, drafts


def _yielded(draft: Draft) -> bool:
    """True unless the metric is absent on principle: no trial of the cells has it."""
    trials: Iterable[Trial] = (
        *draft.environment_series.values(),
        *draft.baseline_series.values(),
    )
    return any(draft.metric.name in trial.metrics for trial in trials)


def _comparison(judged: JudgedComparison, drift_alpha: float, tables: SymbolTables) -> Comparison:
    draft, floor, judgement = judged.draft, judged.floor, judged.judgement
    finite = floor if floor and math.isfinite(floor.ratio) else None
    figures = doubts.ComparisonFigures(
        interval=pairing.draft_interval(draft),
        bootstrap=pairing.bootstrap(draft.units, draft.settings.confidence, draft.settings.seed),
        robust=pairing.robust(draft.units, draft.settings.confidence),
        without_outliers=pairing.without_outliers(draft),
        curve=pairing.curve(draft),
        floor=finite,
        drift_alpha=drift_alpha,
        totals=totals.totals(draft),
    )
    points = pairing.points(draft)
    p = draft.p_values
    no_verdict = draft.no_verdict if judgement else None
    decided = judgement if no_verdict is None else None
    blocks_to_settle, makings_to_settle = _to_settle(draft, decided)
    absolute_of = draft.metric, draft.settings.confidence
    return Comparison(
        environment=draft.environment.key,
        environment_label=draft.environment.label,
        baseline=draft.baseline.key,
        baseline_label=draft.baseline.label,
        workload=draft.workload.key,
        workload_title=draft.workload.title,
        resource=draft.workload.resource,
        metric=draft.metric.name,
        description=draft.metric.description,
        unit=draft.metric.unit,
        better=draft.metric.better,
        part=draft.metric.part,
        primary=draft.metric.primary,
        again=draft.environment.again_of is not None,
        emulated=draft.environment.emulated,
        unequal=draft.unequal,
        ratio=pairing.geometric_mean(draft),
        interval=figures.interval,
        budget=systematic.budget(draft),
        precision=draft.precision,
        generations=len(set(draft.generations)),
        bootstrap=figures.bootstrap,
        robust=figures.robust,
        robust_disagrees=pairing.disagree(figures.interval, figures.robust),
        without_outliers=figures.without_outliers,
        totals=figures.totals,
        tail=totals.tail(draft),
        pairs=len(points),
        dropped=draft.paired.dropped,
        losses=losses.of_draft(draft),
        points=points,
        coordinate=draft.metric.coordinate,
        curve=figures.curve,
        baseline_values=pairing.absolute(draft.baseline_series, *absolute_of),
        environment_values=pairing.absolute(draft.environment_series, *absolute_of),
        baseline_cell=draft.baseline_cell,
        environment_cell=draft.environment_cell,
        pair_gap_s=pairing.median_gap_s(draft.paired.pairs),
        floor=finite.ratio if finite else None,
        floor_biased=finite.biased if finite else False,
        memory=draft.memory,
        other_copy=judged.other_copy,
        p_difference=p.difference if p else None,
        p_equivalence=p.equivalence if p else None,
        p_difference_adjusted=decided.adjusted.difference if decided else None,
        p_equivalence_adjusted=decided.adjusted.equivalence if decided else None,
        verdict=decided.verdict if decided else None,
        why=decided.why if decided else None,
        no_verdict=no_verdict,
        blocks_to_settle=blocks_to_settle,
        makings_to_settle=makings_to_settle,
        causes=causes.of(draft, tables) if decided and decided.verdict == "worse" else None,
        doubts=doubts.of_comparison(draft, figures),
    )


def _to_settle(draft: Draft, judgement: Judgement | None) -> tuple[int | None, int | None]:
    """More blocks, and more makings of the instances where these are what counts."""
    units = judgement.blocks_to_settle if judgement else None
    if units is None or draft.precision == "repeatability":
        return units, None
    usual = math.ceil(len(draft.generations) / len(set(draft.generations)))
    return units * (draft.settings.blocks_each or usual), units


def _cells(folder: RunFolder) -> tuple[Cell, ...]:
    trials = pairing.by_cell(folder.trials)
    return tuple(
        pairing.cell(e.key, w.key, trials.get((e.key, w.key), []))
        for e in folder.resolved.environments
        for w in folder.resolved.workloads
    )


def _seconds(folder: RunFolder) -> float:
    """Length of all sessions: the time between a kill and the resumption does not count."""
    total, begin, last = 0, None, 0
    for event in folder.events:
        if isinstance(event, Started):
            total += last - begin if begin is not None else 0
            begin = event.epoch_ns
        last = event.epoch_ns
        if isinstance(event, Trial):
            last += event.end_ns - event.start_ns
    return (total + (last - begin if begin is not None else 0)) / 1e9


def _stop(
    folder: RunFolder,
    comparisons: Sequence[Comparison],
    target: float | None,
    widening: float,
) -> Stop:
    finished: Finished | None = folder.finished
    return Stop.with_widest(
        comparisons,
        reason=finished.reason if finished else None,
        message=finished.message if finished else "",
        target_half_width=target,
        widening=widening,
    )
