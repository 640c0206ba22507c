"""What a plan will do and could say, before it begins: order, time, power."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ullage.engine.estimate import DurationHistory, TimeEstimate, estimate
from ullage.engine.pilot import (
    Pilot,
    PlannedComparison,
    Suggestion,
    comparisons,
    learn,
    newest,
    suggest,
)
from ullage.engine.triallength import Length, better_lengths
from ullage.plan.matrix import Matrix
from ullage.plan.schedule import Turn
from ullage.plan.schema import Plan
from ullage.runs.leaving import CellKey, nobody_needs
from ullage.runs.reader import RunFolder
from ullage.stats.planning import Aim, Outlook, decided_after, expected_units, outlook
from ullage.stats.stop import Race, StopRule
from ullage.stats.uncertainty import APART, SHARED

ASSUMED = (0.01, 0.03, 0.1)
"""Spreads of a pair to reckon with where nothing is known."""


@dataclass(frozen=True)
class Forecast:
    """All that is known of a run before it begins."""

    plan: Plan
    matrix: Matrix
    time: TimeEstimate
    order: tuple[Turn, ...]
    aim: Aim
    blocks_each: int | None
    """Blocks whose mean is one unit: those of a generation; None: each block is one."""
    pilot: Pilot | None
    counts: tuple[int, ...]
    """Units to look at: the fewest, those expected and the most."""
    expected: int | None
    """Units after which it is expected to end, by the pilot's spreads; None: they are not known."""
    planned: dict[PlannedComparison, Outlook]
    """By the pilot's spreads."""
    assumed: tuple[Outlook, ...]
    """With spreads to choose from, where no pilot tells any."""
    suggestion: Suggestion | None
    lengths: tuple[Length, ...]
    """Of trials, where the pilot says that shorter ones are worth more."""
    leaves: dict[PlannedComparison, int | None]
    """Of a plan that races: the units after which each is decided, if the pilot's figures are the
    truth; None: not in this run."""

    @property
    def unit(self) -> str:
        """What an interval counts."""
        return "block" if self.blocks_each is None else "generation"

    @property
    def raced_s(self) -> float | None:
        """How long the run then takes; None: it is not known which comparisons will leave."""
        if not self.leaves:
            return None
        units = max(units or self.aim.rule.max_blocks for units in self.leaves.values())
        blocks = units * (self.blocks_each or 1)
        whole = self.time.seconds(blocks)
        trials = [sum(map(len, self._turns(number))) for number in range(blocks)]
        return whole - self.time.block_s * (blocks - sum(trials) / trials[0])

    def _turns(self, number: int) -> tuple[Turn, ...]:
        """What is left of a block."""
        staying: set[CellKey] = {
            (comparison.environment, comparison.workload)
            for comparison, units in self.leaves.items()
            if units is None or units * (self.blocks_each or 1) > number
        }
        environments = {e.key: e.again_of for e in self.matrix.environments}
        workloads = [case.key for case in self.matrix.cases]
        decided = {(e, w) for e in environments for w in workloads} - staying
        left = nobody_needs(decided, environments, self.matrix.baseline, workloads)
        return self.matrix.turns(self.plan.seed or 0, number, left)


def foresee(plan: Plan, matrix: Matrix, pilot: RunFolder | None, runs: Path) -> Forecast:
    """Look ahead. pilot: the run to learn from; None: the newest in `runs` with the same cells."""
    blocks, every = plan.blocks, plan.repeat.instances
    time = estimate(plan, matrix, DurationHistory())
    # One generation is like none: the interval is about these instances, and counts blocks.
    blocks_each = every if every is not None and time.blocks_reached // every > 1 else None
    until = blocks.until.half_width if blocks.until else None
    least, most = (n // (blocks_each or 1) for n in (blocks.min, time.blocks_reached))
    rule = StopRule(least, most, until, plan.confidence)
    compared = comparisons(matrix)
    # In a duet each comparison, and the A/A too, has trials of the baseline of its own.
    correlation = APART if plan.design == "duet" else SHARED
    race = Race.between(least, most) if blocks.races else None
    aim = Aim(rule, plan.margin, len(compared), correlation, race)
    folder = pilot or newest(runs, plan, matrix)
    learned = learn(folder, plan, matrix) if folder is not None else None
    spreads = learned.spreads if learned is not None else {}
    units = {
        comparison: spreads[comparison.key].unit(blocks_each, plan.repeat.iterations)
        for comparison in compared
        if comparison.key in spreads
    }
    expected = expected_units(units.values(), aim)
    counts = sorted({least, expected, most} if race is None else {*race.looks()[:2], most})
    planned = {comparison: outlook(spread, aim, counts) for comparison, spread in units.items()}
    return Forecast(
        plan=plan,
        matrix=matrix,
        time=time,
        order=matrix.turns(plan.seed or 0, 0),
        aim=aim,
        blocks_each=blocks_each,
        pilot=learned,
        counts=tuple(counts),
        expected=expected if planned else None,
        planned=planned,
        assumed=() if planned else tuple(outlook(spread, aim, counts) for spread in ASSUMED),
        suggestion=suggest(learned, plan) if learned is not None else None,
        lengths=better_lengths(folder, plan, matrix) if folder is not None else (),
        leaves={
            comparison: decided_after(spreads[comparison.key].mean, spread, aim)
            for comparison, spread in units.items()
        }
        if race is not None
        else {},
    )
