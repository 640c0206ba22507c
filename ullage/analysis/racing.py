"""A run from which comparisons leave as they are decided: what was judged when, and who leaves.

The engine asks here while the run goes on, and whoever reads the run asks again: the answer is made
of the folder alone, so it is the same. Each comparison is judged by the trials and the level of the
look at which its cell left; what came later, such as more trials of the baseline, changes nothing.
`ullage.stats.stop` says why no look claims more than it may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ullage.analysis.comparison.judging import Decided, JudgedComparison
from ullage.analysis.comparison.pairing import ComparisonSettings, Draft
from ullage.runs.events import CellLeft, Trial
from ullage.runs.leaving import CellKey, nobody_needs
from ullage.runs.reader import RunFolder
from ullage.runs.records import Resolved
from ullage.stats import Verdict
from ullage.stats.stop import look_confidence

DECIDED = ("worse", "better", "equivalent")


def _cell(judged: JudgedComparison) -> CellKey:
    """Where it is measured."""
    return judged.draft.environment.key, judged.draft.workload.key


def _settled(judged: JudgedComparison) -> bool:
    """More blocks are not needed: it has a verdict, needs none, or no trial gave a pair yet."""
    draft = judged.draft
    return not draft.metric.primary or judged.verdict in DECIDED or not draft.paired.pairs


@dataclass(frozen=True)
class Judgements:
    """All comparisons of a run, judged together."""

    again: list[Draft]
    """The A/A comparisons, which are not judged."""
    judged: list[JudgedComparison]


JudgeAll = Callable[[Sequence[Trial], ComparisonSettings, Decided], Judgements]
"""Judges all comparisons by these trials; those that are decided stay as they are."""


def races(resolved: Resolved) -> bool:
    """Does the plan let comparisons leave?"""
    until = resolved.blocks.get("until")
    return isinstance(until, dict) and until.get("verdicts") is not None


def judge_run(folder: RunFolder, settings: ComparisonSettings, judge_all: JudgeAll) -> Judgements:
    """Every comparison as it stands now, or stood when its cell left."""
    if not races(folder.resolved):
        return judge_all(folder.trials, settings, {})
    final: dict[str, JudgedComparison] = {}
    decided: dict[str, Verdict] = {}
    gone: set[CellKey] = set()
    again: list[Draft] = []
    latest: list[JudgedComparison] = []
    for number, (trials, left) in enumerate(_looks(folder), start=1):
        at = replace(settings, confidence=look_confidence(settings.confidence, number))
        now = judge_all(trials, at, decided)
        again, latest = now.again, now.judged
        final |= {judged.key: judged for judged in now.judged if _cell(judged) not in gone}
        gone |= left
        decided |= {
            judged.key: judged.verdict
            for judged in final.values()
            if _cell(judged) in left and judged.verdict in DECIDED
        }
    return Judgements(again, [final.get(judged.key, judged) for judged in latest])


def _looks(folder: RunFolder) -> Iterator[tuple[Sequence[Trial], frozenset[CellKey]]]:
    """The trials of each look and the cells that then left; the last is now, if there is more."""
    for look in folder.judged:
        trials = [trial for trial in folder.trials if trial.block < look.blocks]
        yield trials, frozenset((cell.environment, cell.workload) for cell in look.left)
    last = folder.judged[-1].blocks if folder.judged else 0
    if not last or any(trial.block >= last for trial in folder.trials):
        yield folder.trials, frozenset()


def leaving(folder: RunFolder, judged: Sequence[JudgedComparison]) -> tuple[CellLeft, ...]:
    """The cells that are decided now and leave, with those that nobody then needs."""
    resolved = folder.resolved
    gone = {(cell.environment, cell.workload) for look in folder.judged for cell in look.left}
    unsettled = {_cell(comparison) for comparison in judged if not _settled(comparison)}
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
