"""The primary comparisons of a run as one family: what each is judged by, and the verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ullage.analysis.comparison import losses
from ullage.analysis.comparison.estimates import Interval
from ullage.analysis.comparison.model import Rejudged
from ullage.analysis.comparison.pairing import Draft, mean_interval
from ullage.analysis.comparison.systematic import systematic
from ullage.runs.records import Correction
from ullage.stats import RULES, memory, unseen
from ullage.stats.interval import collapse, moments, t_interval
from ullage.stats.multiple import adjust
from ullage.stats.uncertainty import Floor, noise_floor
from ullage.stats.unseen import SlowTrials
from ullage.stats.verdict import Against, FamilyMember, Judgement, judge


@dataclass(frozen=True)
class Judged:
    """What a comparison is judged by, and how it was."""

    judgement: Judgement | None
    """None: it is not a primary one."""
    floor: Floor | None
    other_copy: Interval | None
    """The ratio to the second copy that shows least."""
    slow: SlowTrials | None
    """Of its environment."""


def judged(drafts: Sequence[Draft], again: Sequence[Draft], correction: Correction) -> list[Judged]:
    """Every comparison; the primary ones are one family. Both kinds `with_memory`."""
    slow, copies = _slow_trials(drafts), [copies_of(draft, again) for draft in drafts]
    primary = [draft for draft in drafts if draft.metric.primary]
    filled = [losses.fillings(draft) for draft in primary]

    def family(members: Iterable[Draft]) -> list[Judgement]:
        """The verdicts, with these in the place of the primary comparisons."""
        cases = [
            member(of, copies_of(of, again), systematic(draft), slow[draft.environment.key])
            for of, draft in zip(members, primary, strict=True)
        ]
        return _judge(drafts, cases, correction)

    results = family(primary)
    if any(filled):
        both = zip(primary, filled, strict=True)
        ends = [(best, worst) for draft, of in both for best, worst in [of or (draft, draft)]]
        lossy = [of is not None for of in filled]
        results = losses.upheld(results, lossy, (family(end) for end in zip(*ends, strict=True)))
    judgements, apart = iter(results), _apart(again, correction)
    return [
        Judged(
            judgement=next(judgements) if draft.metric.primary else None,
            floor=_with_bias(floor_of(draft, again), draft, apart),
            other_copy=_least(draft, of),
            slow=slow.get(draft.environment.key),
        )
        for draft, of in zip(drafts, copies, strict=True)
    ]


def _apart(again: Sequence[Draft], correction: Correction) -> list[Draft]:
    """A/A comparisons that differ by more than chance lets one of so many differ."""
    primary = [d for d in again if d.metric.primary and d.p_values is not None]
    adjusted = adjust([d.p_values.difference for d in primary if d.p_values], correction)
    return [d for d, p in zip(primary, adjusted, strict=True) if p <= 1 - d.settings.confidence]


def _with_bias(floor: Floor | None, draft: Draft, apart: Sequence[Draft]) -> Floor | None:
    """Biased only where an A/A of its sides is one of those."""
    return replace(floor, biased=bool(_nulls(draft, apart))) if floor is not None else None


def _judge(
    drafts: Sequence[Draft], cases: Sequence[FamilyMember], correction: Correction
) -> list[Judgement]:
    if not drafts:
        return []
    settings = drafts[0].settings
    return judge(cases, settings.margin, settings.confidence, correction)


def _least(draft: Draft, copies: Sequence[Sequence[float]]) -> Interval | None:
    """Of the ratios to second copies that which speaks most against what the first shows."""
    if draft.moments is None or not copies:
        return None
    sign = math.copysign(1.0, draft.moments.mean)
    least = min(copies, key=lambda units: sign * math.fsum(units) / len(units))
    return mean_interval(least, draft.settings.confidence, draft.widening)


def rejudged(
    drafts: Sequence[Draft],
    again: Sequence[Draft],
    now: Sequence[Judged],
    rules: int,
    correction: Correction,
) -> Iterator[Rejudged]:
    """Verdicts of a run that was made under older rules, where those gave another.

    Rules 1 asked the noise floor in the place of the second copy, and knew neither memory (neither
    kind of draft may have any) nor slow trials.
    """
    if rules >= RULES:
        return
    primary = [(d, j.judgement) for d, j in zip(drafts, now, strict=True) if j.judgement]
    cases = [replace(member(d, (), systematic(d)), floor=floor_of(d, again)) for d, _ in primary]
    for (draft, judgement), before in zip(primary, _judge(drafts, cases, correction), strict=True):
        if before.verdict != judgement.verdict and draft.no_verdict is None:
            yield Rejudged(
                environment_label=draft.environment.label,
                workload_title=draft.workload.title,
                metric=draft.metric.name,
                before=before.verdict,
                now=judgement.verdict,
                why=judgement.why,
            )


def with_memory(drafts: Sequence[Draft]) -> list[Draft]:
    """The same, with the memory of each environment, from its primary comparisons together."""
    courses: dict[str, list[memory.Course | None]] = {}
    for d in drafts:
        if d.metric.primary:
            courses.setdefault(d.environment.key, []).append(memory.course(d.units))
    factors = {environment: memory.widening(of) for environment, of in courses.items()}
    return [replace(d, memory=factors.get(d.environment.key, 1.0)) for d in drafts]


def _slow_trials(drafts: Sequence[Draft]) -> Mapping[str, SlowTrials]:
    """Environment → what its trials show of rare slow ones, over all of its workloads."""
    cells: dict[str, dict[str, list[SlowTrials]]] = {}
    for d in drafts:
        if d.metric.primary:
            of_environment = cells.setdefault(d.environment.key, {})
            of_environment.setdefault(d.workload.key, []).append(unseen.slow_trials(d.log_ratios))
    return {environment: unseen.together(of.values()) for environment, of in cells.items()}


def _nulls(draft: Draft, again: Sequence[Draft]) -> list[Draft]:
    """The A/A comparisons of its two sides in the same metric of the same workload."""
    sides = (draft.baseline.key, draft.environment.key)
    return [
        null
        for null in again
        if null.baseline.key in sides
        and null.workload.key == draft.workload.key
        and null.metric.name == draft.metric.name
        and null.moments is not None
        and null.moments.deviation > 0
    ]


def floor_of(draft: Draft, again: Sequence[Draft]) -> Floor | None:
    """Noise floor of a comparison.

    Of the same workload and metric: the baseline against its second copy, and the environment
    against its own where the plan has one. None where the plan has none; infinite when an A/A could
    be anything: so few pairs at such a confidence that a bound is no number, or none that gave any.
    """
    floor = noise_floor(
        (
            t_interval(null.units, null.settings.confidence, null.widening)
            for null in _nulls(draft, again)
        ),
        draft.settings.correlation,
    )
    if floor is None and draft.settings.again:
        return Floor(math.inf, biased=False)
    return floor


def copies_of(draft: Draft, again: Sequence[Draft]) -> list[list[float]]:
    """The same comparison with the second copy of a side in the place of the first.

    By the difference of both log-ratios in each block: in a solo run that is the ratio to the
    second copy itself, in a duet, where each ran beside a baseline of its own, the ratio of both.
    """
    copies = []
    for null in _nulls(draft, again):
        sign = -1 if null.baseline.key == draft.baseline.key else 1
        of_null = {p.block: sign * p.log_ratio for p in null.paired.pairs}
        shared = [p for p in draft.paired.pairs if p.block in of_null]
        units = collapse(
            [p.log_ratio + of_null[p.block] for p in shared], [p.generation for p in shared]
        )
        if units.size >= 2:
            copies.append([float(x) for x in units])
    return copies


def member(
    draft: Draft,
    copies: Sequence[Sequence[float]],
    systematic: float,
    slow: SlowTrials | None = None,
) -> FamilyMember:
    """The comparison as it is judged. One that may not have a verdict stays in the family, for it
    was declared.
    """
    margin = draft.settings.margin
    lost = Floor(math.inf, biased=False) if draft.settings.again and not copies else None
    if draft.no_verdict:
        return FamilyMember(None, None, lost)
    return FamilyMember(
        draft.moments,
        draft.p_values,
        lost,
        copies=tuple(Against.of(moments(x, draft.widening), margin) for x in copies),
        pairs=len(draft.units),
        systematic=systematic,
        along=draft.along,
        slow=slow,
        correlation=draft.settings.correlation,
        no_equivalence=draft.no_equivalence,
    )
