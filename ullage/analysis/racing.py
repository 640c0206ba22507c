"""A run from which comparisons leave as they are decided: what was judged when, and who leaves.

The engine asks here while the run goes on, and whoever reads the run asks again: the answer is made
of the folder alone, so it is the same. Each comparison is judged by the trials and the level of the
look at which its cell left; what came later, such as more trials of the baseline, changes nothing.
`ullage.stats.racing` says why no look claims more than it may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ullage.analysis.comparison.pairing import Draft, Settings
from ullage.runs.events import CellLeft, Trial
from ullage.runs.leaving import Cell, nobody_needs
from ullage.runs.pairs import comparison_key
from ullage.runs.reader import RunFolder
from ullage.runs.records import Resolved
from ullage.stats import Verdict
from ullage.stats.interval import Moments
from ullage.stats.racing import look_confidence
from ullage.stats.uncertainty import Floor
from ullage.stats.verdict import Judgement

DECIDED = ("worse", "better", "equivalent")


@dataclass(frozen=True)
class Judged:
    """One comparison with all that its verdict rests on."""

    draft: Draft
    floor: Floor | None
    floor_moments: Moments | None
    judgement: Judgement | None
    """None: its metric is no primary one."""

    @property
    def key(self) -> str:
        """Its name."""
        draft = self.draft
        return comparison_key(draft.environment.key, draft.workload.key, draft.metric.name)

    @property
    def cell(self) -> Cell:
        """Where it is measured."""
        return self.draft.environment.key, self.draft.workload.key

    @property
    def verdict(self) -> Verdict | None:
        """None where none can be given."""
        withheld = self.judgement is None or self.draft.no_verdict is not None
        return None if withheld else self.judgement.verdict if self.judgement else None

    @property
    def settled(self) -> bool:
        """More blocks are not needed: it has a verdict, needs none, or no trial gave a pair yet."""
        return (
            not self.draft.metric.primary or self.verdict in DECIDED or not self.draft.paired.pairs
        )


@dataclass(frozen=True)
class Judgements:
    """All comparisons of a run, judged together."""

    again: list[Draft]
    """The A/A comparisons, which are not judged."""
    judged: list[Judged]


Decided = Mapping[str, Verdict]
"""Comparison → its verdict, of those that left at earlier looks."""
JudgeAll = Callable[[Sequence[Trial], Settings, Decided], Judgements]
"""Judges all comparisons by these trials; those that are decided stay as they are."""


def races(resolved: Resolved) -> bool:
    """Does the plan let comparisons leave?"""
    until = resolved.blocks.get("until")
    return isinstance(until, dict) and until.get("verdicts") is not None


def judge_run(folder: RunFolder, settings: Settings, judge_all: JudgeAll) -> Judgements:
    """Every comparison as it stands now, or stood when its cell left."""
    if not races(folder.resolved):
        return judge_all(folder.trials, settings, {})
    final: dict[str, Judged] = {}
    decided: dict[str, Verdict] = {}
    gone: set[Cell] = set()
    again: list[Draft] = []
    latest: list[Judged] = []
    for number, (trials, left) in enumerate(_looks(folder), start=1):
        at = replace(settings, confidence=look_confidence(settings.confidence, number))
        now = judge_all(trials, at, decided)
        again, latest = now.again, now.judged
        final |= {judged.key: judged for judged in now.judged if judged.cell not in gone}
        gone |= left
        decided |= {
            judged.key: judged.verdict
            for judged in final.values()
            if judged.cell in left and judged.verdict is not None
        }
    return Judgements(again, [final[judged.key] for judged in latest])


def _looks(folder: RunFolder) -> Iterator[tuple[Sequence[Trial], frozenset[Cell]]]:
    """The trials of each look and the cells that then left; the last is now, if there is more."""
    for look in folder.judged:
        trials = [trial for trial in folder.trials if trial.block < look.blocks]
        yield trials, frozenset((cell.environment, cell.workload) for cell in look.left)
    last = folder.judged[-1].blocks if folder.judged else 0
    if not last or any(trial.block >= last for trial in folder.trials):
        yield folder.trials, frozenset()


def leaving(folder: RunFolder, judged: Sequence[Judged]) -> tuple[CellLeft, ...]:
    """The cells that are decided now and leave, with those that nobody then needs."""
    resolved = folder.resolved
    gone = {(cell.environment, cell.workload) for look in folder.judged for cell in look.left}
    unsettled = {comparison.cell for comparison in judged if not comparison.settled}
    environments = {e.key: e.again_of for e in resolved.environments}
    workloads = [w.key for w in resolved.workloads]
    decided = {(e, w) for e in environments for w in workloads} - unsettled
    return tuple(
        CellLeft(environment=environment, workload=workload)
        for environment, workload in nobody_needs(
            decided, environments, resolved.baseline, workloads
        )
        if (environment, workload) not in gone
    )
