"""A run from which comparisons leave as they are decided: what was judged when, and who leaves.

The engine asks here while the run goes on, and whoever reads the run asks again: the answer is made
of the folder alone, so it is the same. Each comparison is judged by the trials and the level of the
look at which its cell left; what came later, such as more trials of the baseline, changes nothing.
`ullage.stats.stop` says why no look claims more than it may. With `verdicts: likely` a comparison
that will hardly get a verdict by the most blocks leaves too, and claims nothing from then on; it
comes back where a run is taken up with more blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ullage.analysis.comparison.judging import Decided, JudgedComparison, copies_of
from ullage.analysis.comparison.pairing import ComparisonSettings, Draft
from ullage.runs.events import CellLeft, Trial
from ullage.runs.leaving import CellKey, nobody_needs
from ullage.runs.reader import RunFolder
from ullage.runs.records import Resolved
from ullage.stats import LEAST_PAIRS, Verdict
from ullage.stats.interval import Moments, moments
from ullage.stats.multiple import best_share
from ullage.stats.power import LookAhead, chance_ahead
from ullage.stats.stop import UNLIKELY, LevelShares, Race, look_confidence

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


@dataclass(frozen=True)
class _Look:
    """One of the run, or the moment at which the folder is read."""

    trials: Sequence[Trial]
    """Until then."""
    gone: Collection[CellKey]
    """The cells that were not in the last block before it."""
    left: Mapping[CellKey, CellLeft]
    """At it."""


def judge_run(folder: RunFolder, settings: ComparisonSettings, judge_all: JudgeAll) -> Judgements:
    """Every comparison as it stands now, or stood when its cell left."""
    if not races(folder.resolved):
        return judge_all(folder.trials, settings, {})
    final: dict[str, JudgedComparison] = {}
    decided: dict[str, Verdict] = {}
    again: list[Draft] = []
    latest: list[JudgedComparison] = []
    for number, look in enumerate(_looks(folder), start=1):
        # What was called back without a verdict is judged again.
        decided = {
            key: verdict
            for key, verdict in decided.items()
            if verdict in DECIDED or _cell(final[key]) in look.gone
        }
        at = replace(settings, confidence=look_confidence(settings.confidence, number))
        now = judge_all(look.trials, at, decided)
        again, latest = now.again, now.judged
        there = (c for c in now.judged if c.key not in decided and _cell(c) not in look.gone)
        final |= {judged.key: judged for judged in there}
        decided |= dict(_claims(final.values(), look.left))
    return Judgements(again, [final.get(judged.key, judged) for judged in latest])


def _claims(
    judged: Iterable[JudgedComparison], left: Mapping[CellKey, CellLeft]
) -> Iterator[tuple[str, Verdict]]:
    """What each that left at a look stands for in the family from then on."""
    for comparison in judged:
        cell = left.get(_cell(comparison))
        if cell is not None and comparison.verdict in DECIDED:
            yield comparison.key, comparison.verdict
        elif cell is not None and cell.undecided and comparison.draft.metric.primary:
            yield comparison.key, "inconclusive"


def _looks(folder: RunFolder) -> Iterator[_Look]:
    """Those of the run; the last is now, if there is more."""
    for look in folder.judged:
        trials = [trial for trial in folder.trials if trial.block < look.blocks]
        left = {(cell.environment, cell.workload): cell for cell in look.left}
        yield _Look(trials, folder.left(look.blocks - 1), left)
    last = folder.judged[-1].blocks if folder.judged else 0
    if not last or any(trial.block >= last for trial in folder.trials):
        yield _Look(folder.trials, folder.left(_begun(folder) - 1), {})


def _begun(folder: RunFolder) -> int:
    """Blocks that have a trial."""
    return 1 + max((trial.block for trial in folder.trials), default=-1)


def leaving(
    folder: RunFolder, run: Judgements, settings: ComparisonSettings
) -> tuple[CellLeft, ...]:
    """The cells that are decided now, or unlikely to be, with those that nobody then needs."""
    resolved = folder.resolved
    gone = folder.left(_begun(folder))
    open_ = [c for c in run.judged if not _settled(c) and _cell(c) not in gone]
    unlikely: set[str] = set()
    if resolved.blocks["until"]["verdicts"] == "likely":
        unlikely = _unlikely(folder, run, open_, settings)
    unsettled = {_cell(comparison) for comparison in open_ if comparison.key not in unlikely}
    undecided = {_cell(comparison) for comparison in open_} - unsettled
    environments = {e.key: e.again_of for e in resolved.environments}
    workloads = [w.key for w in resolved.workloads]
    done = {(e, w) for e in environments for w in workloads} - unsettled
    return tuple(
        CellLeft(
            environment=environment,
            workload=workload,
            undecided=(environment, workload) in undecided,
        )
        for environment, workload in nobody_needs(done, environments, resolved.baseline, workloads)
        if (environment, workload) not in gone
    )


def _unlikely(
    folder: RunFolder,
    run: Judgements,
    open_: Sequence[JudgedComparison],
    settings: ComparisonSettings,
) -> set[str]:
    """The open comparisons with hardly a chance of a verdict by the most blocks.

    The more of them claim nothing, the less of the level is left to the others: so it is asked
    again until no more join.
    """
    family = [c for c in run.judged if c.draft.metric.primary]
    seen = {c.key: _moments(c, run.again) for c in open_}
    unlikely: set[str] = set()
    while True:
        staying = {_cell(c) for c in open_ if c.key not in unlikely}
        left = [c for c in family if _cell(c) not in staying and c.draft.paired.pairs]
        different, equivalent = (
            best_share(
                len(family),
                sum(c.verdict not in claims for c in left),
                folder.resolved.correction,
            )
            for claims in (("worse", "better"), ("equivalent",))
        )
        ahead = _ahead(folder, LevelShares(different, equivalent))
        chances = {key: _at_most(of, ahead, settings.margin) for key, of in seen.items()}
        more = {key for key, chance in chances.items() if chance < UNLIKELY}
        if more <= unlikely:
            return unlikely
        unlikely |= more


def _moments(judged: JudgedComparison, again: Sequence[Draft]) -> list[Moments]:
    """Against each copy of the baseline of which something can be said yet."""
    draft = judged.draft
    first = [draft.moments] if draft.moments is not None else []
    others = [moments(units, draft.widening) for units in copies_of(draft, again)]
    return [m for m in (*first, *others) if m.n >= LEAST_PAIRS and m.deviation > 0]


def _at_most(copies: Sequence[Moments], ahead: Sequence[LookAhead], margin: float) -> float:
    """A verdict must hold against every copy; of who shows nothing yet it may be anything."""
    delta = math.log1p(margin)
    chances = (
        chance_ahead(np.array(m.mean), np.array(m.error), m.n, ahead, delta).item() for m in copies
    )
    return min(chances, default=1.0)


def _ahead(folder: RunFolder, shares: LevelShares) -> tuple[LookAhead, ...]:
    """The looks that are to come, the one of now being taken."""
    resolved = folder.resolved
    step = int(resolved.repeat.get("instances") or 1)
    least, most = (int(resolved.blocks[name]) // step for name in ("min", "max"))
    units, taken = len(folder.complete_blocks) // step, len(folder.judged) + 1
    return Race.between(least, most).ahead(units, taken, resolved.confidence, shares)
