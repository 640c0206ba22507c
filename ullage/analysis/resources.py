"""One figure for each environment and resource: what the barrels show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ullage.analysis.compare import Draft, Settings, stored
from ullage.analysis.model import Comparison, Interval, ResourceSummary
from ullage.stats import interval as intervals
from ullage.stats.verdict import Verdict


def summaries(
    drafts: Sequence[Draft], comparisons: Sequence[Comparison], settings: Settings
) -> tuple[ResourceSummary, ...]:
    """One summary for each environment × resource that has a primary metric, in the plan's order.

    The ratios are those of SPEC S2.1 (time: environment/baseline, rate: baseline/environment). With
    one primary comparison it is that one. With several it is the geometric mean of their ratios:
    in each block the mean of the log-ratios of all of them, and a t interval over these means, so
    that what the figures of a block have in common widens the interval as it must. The result has
    no test of its own: its verdict is that of its members when they agree, else `mixed`.
    """
    groups: dict[tuple[str, str], list[tuple[Draft, Comparison]]] = {}
    for draft, comparison in zip(drafts, comparisons, strict=True):
        if comparison.primary:
            key = (comparison.environment, comparison.resource)
            groups.setdefault(key, []).append((draft, comparison))
    return tuple(_summary(members, settings) for members in groups.values())


def _summary(members: Sequence[tuple[Draft, Comparison]], settings: Settings) -> ResourceSummary:
    first = members[0][1]
    if len(members) == 1:
        ratio, interval = first.ratio, first.interval
    else:
        ratio, interval = _mean([draft for draft, _ in members], settings)
    floors = [c.floor for _, c in members if c.floor is not None]
    return ResourceSummary(
        environment=first.environment,
        environment_label=first.environment_label,
        resource=first.resource,
        ratio=ratio,
        interval=interval,
        members=tuple((c.workload, c.metric) for _, c in members),
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


def _mean(drafts: Sequence[Draft], settings: Settings) -> tuple[float | None, Interval | None]:
    """Geometric mean over the members, over the blocks in which all of them have a pair."""
    by_block = [{p.block: p.log_ratio for p in d.paired.pairs} for d in drafts]
    shared = sorted(set.intersection(*(set(each) for each in by_block)))
    means = [sum(each[block] for each in by_block) / len(by_block) for block in shared]
    if len(means) < 2:
        return None, None
    found = intervals.t_interval(means, settings.confidence, settings.widening)
    return found.estimate, stored(found)
