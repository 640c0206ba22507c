"""What an earlier run teaches of a plan: the spread of its pairs by level, and what each costs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from statistics import fmean, median

from ullage.common.errors import UllageError
from ullage.plan.matrix import Matrix
from ullage.plan.schema import Plan, Until
from ullage.runs.events import BlockDone, Started, Trial
from ullage.runs.pairs import Cells, TrialsByBlock, comparison_key, pair
from ullage.runs.reader import RunFolder, find_runs
from ullage.runs.records import Metric, Resolved
from ullage.stats import LEAST_PAIRS
from ullage.stats.levels import Components, components, optimal_counts

ENDED = ("precision", "verdicts", "budget", "blocks")
LEVELS = ("generation", "block", "iteration")


@dataclass(frozen=True, slots=True)
class PlannedComparison:
    """One primary comparison that a plan will make."""

    environment: str
    workload: str
    metric: Metric

    @property
    def key(self) -> str:
        return comparison_key(self.environment, self.workload, self.metric.name)


def comparisons(matrix: Matrix) -> list[PlannedComparison]:
    """The primary comparisons of a plan: the family of its verdicts."""
    return [
        PlannedComparison(environment.key, case.key, metric)
        for environment in matrix.environments
        if environment.key != matrix.baseline and environment.again_of is None
        for case in matrix.cases
        for metric in case.metrics
        if metric.primary
    ]


@dataclass(frozen=True, slots=True)
class Spread:
    """What a pilot shows of the log-ratios of one comparison."""

    components: Components
    """Of generations, blocks and iterations; the latter of two work done one after the other."""
    pairs: int
    generations: int
    mean: float
    """Of the log-ratios: above 0 is worse."""

    @property
    def generation_known(self) -> bool:
        """Were instances made more than once?"""
        return self.components.raw[0] is not None

    def degrees(self, blocks_each: int | None) -> int:
        """Degrees of freedom of what `unit` mostly rests on."""
        between, within, _ = self.components.degrees
        return between if blocks_each is not None and between else within or between

    def unit(self, blocks_each: int | None, iterations: int) -> float:
        """Standard deviation of a unit: a block's pair, or the mean of a generation's pairs.

        What the pilot cannot tell apart is not hoped to average out: of one iteration, that more of
        them save anything; of one block in each generation, that blocks of one vary less.
        """
        generation, block, iteration = self.components.variances
        within = block + iteration / iterations
        if blocks_each is not None:
            return math.sqrt(generation + within / blocks_each)
        return math.sqrt(within if self.components.raw[1] is not None else generation + within)


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of one repetition at each level, without what is repeated inside of it; medians."""

    generation: float | None
    """To remove all instances and make them anew; None: the pilot made them once."""
    block: float
    """What a block takes beside the work of its trials."""
    iteration: float
    """The work of all trials of a block, once."""


@dataclass(frozen=True, slots=True)
class Pilot:
    """What is learned from one run."""

    run: str
    blocks: int
    iterations: int
    spreads: dict[str, Spread]
    """By the name of the comparison; those that have none are left out."""
    costs: Costs | None
    """None: no block was finished."""
    differs: tuple[str, ...]
    """Environments and workloads of the same name that were not quite these."""


def learn(folder: RunFolder, plan: Plan, matrix: Matrix) -> Pilot:
    """Read a run as the pilot of a plan.

    A duet tells nothing of a solo run, nor the other way round: then there are no spreads.
    """
    cells = Cells(folder.trials)
    baseline = folder.resolved.baseline
    alike = folder.resolved.design == plan.design and baseline == matrix.baseline
    spreads = {}
    for comparison in comparisons(matrix) if alike else ():
        mine = cells.series(comparison.environment, comparison.workload, baseline)
        theirs = cells.series(baseline, comparison.workload, comparison.environment)
        if (spread := _spread(mine, theirs, comparison.metric)) is not None:
            spreads[comparison.key] = spread
    repeat = folder.resolved.repeat
    return Pilot(
        run=folder.resolved.run,
        blocks=len({trial.block for trial in folder.trials}),
        iterations=int(repeat.get("iterations") or 1),
        spreads=spreads,
        costs=_costs(folder),
        differs=tuple(_differing(folder.resolved, matrix)),
    )


def newest(runs: Path, plan: Plan, matrix: Matrix) -> RunFolder | None:
    """The newest finished run of a plan of this name with the same cells; None without one."""
    for path in find_runs(runs):
        if f"-{plan.name}" not in path.name:  # a long journal takes seconds to read
            continue
        try:
            folder = RunFolder.open(path)
        except UllageError:
            continue
        resolved, finished = folder.resolved, folder.finished
        if (
            resolved.name == plan.name
            and resolved.design == plan.design
            and resolved.baseline == matrix.baseline
            and finished is not None
            and finished.reason in ENDED
            and {e.key for e in resolved.environments} == {e.key for e in matrix.environments}
            and {w.key for w in resolved.workloads} == {case.key for case in matrix.cases}
            and not any(_differing(resolved, matrix))
        ):
            return folder
    return None


def _differing(resolved: Resolved, matrix: Matrix) -> Iterable[str]:
    """Keys that are in both and do not mean the same."""
    environments = {e.key: (e.provider, e.options) for e in resolved.environments}
    for environment in matrix.environments:
        provider = environment.provider
        now = provider.name, provider.options.model_dump(mode="json")
        if environments.get(environment.key, now) != now:
            yield environment.key
    workloads = {w.key: (w.workload, w.parameters) for w in resolved.workloads}
    for case in matrix.cases:
        planned = case.workload.name, case.parameters.model_dump(mode="json")
        if workloads.get(case.key, planned) != planned:
            yield case.key


def _spread(mine: TrialsByBlock, theirs: TrialsByBlock, metric: Metric) -> Spread | None:
    """Variance components of the log-ratios; None under two usable pairs."""
    good = [trial for trial in (*mine.values(), *theirs.values()) if trial.status == "ok"]
    iterations = min((len(trial.iterations) for trial in good), default=0)
    rounds = [
        pair(_only(mine, number), _only(theirs, number), metric) for number in range(iterations)
    ] or [pair(mine, theirs, metric)]
    pairs = [p for paired in rounds for p in paired.pairs]
    blocks, generations = [p.block for p in pairs], [p.generation for p in pairs]
    if len(set(blocks)) < 2:
        return None
    variances = components([p.log_ratio for p in pairs], generations, blocks)
    logs = [p.log_ratio for p in pairs]
    return Spread(variances, len(set(blocks)), len(set(generations)), fmean(logs))


def _only(series: TrialsByBlock, number: int) -> dict[int, Trial]:
    """The trials with the figures of that iteration as theirs."""
    return {
        block: trial.model_copy(update={"metrics": trial.iterations[number]})
        for block, trial in series.items()
        if trial.status == "ok"
    }


def _costs(folder: RunFolder) -> Costs | None:
    """Medians over the blocks that were run in one go, with all cells in them."""
    renewals = dict(_renewals(folder))
    whole = [block for block in folder.blocks if not folder.left(block.block)]
    work = {block.block: 0.0 for block in whole}
    for (number, _), turn in groupby(folder.trials, lambda t: (t.block, _turn(t))):
        if number in work:
            work[number] += max(t.end_ns - t.start_ns for t in turn) / 1e9
    if not work:
        return None
    overheads = [
        max(0.0, block.seconds - work[block.block] - renewals.get(block.block, 0.0))
        for block in whole
    ]
    iterations = int(folder.resolved.repeat.get("iterations") or 1)
    return Costs(
        generation=median(renewals.values()) if renewals else None,
        block=median(overheads),
        iteration=median(work.values()) / iterations,
    )


def _turn(trial: Trial) -> int:
    """Trials that run at the same time have the same."""
    return trial.order if trial.partner is None else trial.order // 2


def _renewals(folder: RunFolder) -> Iterable[tuple[int, float]]:
    """First block of each generation but the first, and the seconds before its first trial."""
    events = [e for e in folder.events if isinstance(e, BlockDone | Trial | Started)]
    generation = 0
    for before, now in pairwise(events):
        if isinstance(now, Trial) and now.generation > generation:
            generation = now.generation
            if isinstance(before, BlockDone):
                yield now.block, max(0.0, (now.epoch_ns - before.epoch_ns) / 1e9)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """How to divide the time over the levels."""

    comparison: str
    """The one with the widest interval to be expected, which decides."""
    blocks_each: int | None
    """Blocks of a generation; None: the pilot tells nothing of generations, or making the instances
    anew added nothing that it could see."""
    iterations: int | None
    """None: the pilot tells nothing of iterations, or blocks added nothing that it could see."""


FURTHER = 10
"""A suggestion goes so many times further than the pilot: beyond, its variances say too little."""


def suggest(pilot: Pilot, plan: Plan) -> Suggestion | None:
    """Kalibera & Jones' counts for the widest comparison; None where the pilot had one level only.

    A run is as precise as its widest interval: that one decides when it stops.
    """
    if not pilot.spreads or pilot.costs is None:
        return None
    repeat = plan.repeat
    key, widest = max(
        pilot.spreads.items(), key=lambda item: item[1].unit(repeat.instances, repeat.iterations)
    )
    generation, block, iteration = widest.components.variances
    costs, several = pilot.costs, widest.components.raw[2] is not None
    blocks: int | None = None
    iterations: int | None = None
    if costs.generation is not None and widest.generation_known and several:
        blocks, iterations = optimal_counts(
            (costs.generation, costs.block, costs.iteration), (generation, block, iteration)
        )
    elif costs.generation is not None and widest.generation_known:
        block_s = costs.block + costs.iteration * pilot.iterations
        (blocks,) = optimal_counts((costs.generation, block_s), (generation, block))
    elif several:
        (iterations,) = optimal_counts((costs.block, costs.iteration), (block, iteration))
    else:
        return None
    # A level that added nothing that the pilot could see does not say how often to repeat below it.
    return Suggestion(
        key,
        _within(blocks, widest.pairs // max(1, widest.generations)) if generation > 0 else None,
        _within(iterations, pilot.iterations) if block > 0 or generation > 0 else None,
    )


def _within(count: int | None, in_pilot: int) -> int | None:
    return None if count is None else min(count, FURTHER * max(1, in_pilot))


def as_plan(suggestion: Suggestion, plan: Plan) -> list[str]:
    """The suggestion as it stands in a plan, with the whole generations that it needs.

    They are at least six, under which there is no verdict.
    """
    every = suggestion.blocks_each or plan.repeat.instances
    repeat = {"instances": every, "iterations": suggestion.iterations or plan.repeat.iterations}
    counts = ", ".join(f"{name}: {count}" for name, count in repeat.items() if count is not None)
    lines = [f"repeat: {{{counts}}}"]
    if suggestion.blocks_each is not None:
        blocks, blocks_each = plan.blocks, suggestion.blocks_each
        least, most = (
            blocks_each * max(LEAST_PAIRS, math.ceil(n / blocks_each))
            for n in (blocks.min, blocks.max)
        )
        more = f", until: {{{_until(blocks.until)}}}" if blocks.until else ""
        more += f", budget: {blocks.budget:g}s" if blocks.budget else ""
        lines.append(f"blocks: {{min: {least}, max: {most}{more}}}")
    return lines


def _until(until: Until) -> str:
    """As it stands in a plan."""
    if until.half_width is None:
        return f"verdicts: {until.verdicts}"
    return f"half_width: {100 * until.half_width:g}%"
