"""One figure for each environment and resource: what the barrels show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ullage.analysis.compare import Draft, Settings, stored
from ullage.analysis.estimates import Interval
from ullage.analysis.model import Comparison, ResourceSummary
from ullage.stats import interval as intervals
from ullage.stats.nested import collapse
from ullage.stats.verdict import Verdict


def summaries(
    drafts: Sequence[Draft], comparisons: Sequence[Comparison], settings: Settings
) -> tuple[ResourceSummary, ...]:
    """One summary for each environment × resource that has a primary metric, in the plan's order.

    The ratios are those of SPEC S2.1 (time: environment/baseline, rate: baseline/environment). With
    one primary comparison it is that one. With several it is the geometric mean of their ratios:
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
    return tuple(_summary(members, settings) for members in groups.values())


@dataclass(frozen=True)
class _Mean:
    """What one or several comparisons of a resource say together."""

    ratio: float | None
    interval: Interval | None
    pairs: int
    generations: int


def _summary(members: Sequence[tuple[Draft, Comparison]], settings: Settings) -> ResourceSummary:
    first = members[0][1]
    if len(members) == 1:
        mean = _Mean(first.ratio, first.interval, first.pairs, first.generations)
    else:
        mean = _mean([draft for draft, _ in members], settings)
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


def _mean(drafts: Sequence[Draft], settings: Settings) -> _Mean:
    """Geometric mean over the members, over the blocks in which all of them have a pair."""
    by_block = [{p.block: p.log_ratio for p in d.paired.pairs} for d in drafts]
    makings = {p.block: p.generation for d in drafts for p in d.paired.pairs}
    shared = sorted(set.intersection(*(set(each) for each in by_block)))
    if not shared:
        return _Mean(None, None, 0, 0)
    means = [sum(each[block] for each in by_block) / len(by_block) for block in shared]
    generations = [makings[block] for block in shared]
    units = collapse(means, generations)
    pairs, made = len(shared), len(set(generations))
    if len(units) < 2:
        return _Mean(None, None, pairs, made)
    found = intervals.t_interval(units, settings.confidence, settings.widening)
    return _Mean(found.estimate, stored(found), pairs, made)
