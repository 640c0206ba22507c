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
from ullage.runs.pairs import comparison_key
from ullage.runs.records import Correction
from ullage.stats import RULES, Verdict, memory, unseen
from ullage.stats.interval import collapse, moments, t_interval
from ullage.stats.multiple import adjust
from ullage.stats.uncertainty import Floor, noise_floor
from ullage.stats.unseen import SlowTrials
from ullage.stats.verdict import Against, FamilyMember, Judgement, judge, settled


@dataclass(frozen=True)
class JudgedComparison:
    """A comparison, what it is judged by, and how it was."""

    draft: Draft
    judgement: Judgement | None
    """None: it is not a primary one."""
    floor: Floor | None
    other_copy: Interval | None
    """The ratio to the second copy that shows least."""
    slow: SlowTrials | None
    """Of its environment."""

    @property
    def key(self) -> str:
        """Its name."""
        return _key(self.draft)

    @property
    def verdict(self) -> Verdict | None:
        """None where none can be given."""
        withheld = self.judgement is None or self.draft.no_verdict is not None
        return None if withheld else self.judgement.verdict if self.judgement else None


Decided = Mapping[str, Verdict]
"""Comparison → its verdict, of those that left a race at earlier looks."""


@dataclass(frozen=True)
class Family:
    """How the primary comparisons of a run are judged together."""

    correction: Correction
    decided: Decided
    rules: int = RULES
    """Those of the ullage that made a run, to tell what has changed since (`stats.RULES`)."""


def judged(
    drafts: Sequence[Draft], again: Sequence[Draft], family: Family
) -> list[JudgedComparison]:
    """Every comparison; the primary ones are one family. Both kinds `with_memory`."""
    correction = family.correction
    slow, copies = _slow_trials(drafts), [copies_of(draft, again) for draft in drafts]
    judgements = iter(_judgements(drafts, again, slow, family))
    apart = _apart(again, correction)
    return [
        JudgedComparison(
            draft=draft,
            judgement=next(judgements) if draft.metric.primary else None,
            floor=_with_bias(floor_of(draft, again), draft, apart),
            other_copy=_least(draft, of),
            slow=slow.get(draft.environment.key),
        )
        for draft, of in zip(drafts, copies, strict=True)
    ]


def _judgements(
    drafts: Sequence[Draft],
    again: Sequence[Draft],
    slow: Mapping[str, SlowTrials],
    rules: Family,
) -> list[Judgement]:
    """Of the primary comparisons; no verdict that what was lost could overturn."""
    primary = [draft for draft in drafts if draft.metric.primary]
    if rules.rules < 2:
        return _judge(primary, [_member_of_rules_1(d, again) for d in primary], rules)

    def family(members: Iterable[Draft]) -> list[Judgement]:
        """The verdicts with these in the place of the primary comparisons."""
        cases = [
            settled(rules.decided[_key(draft)])
            if _key(draft) in rules.decided
            else member(
                filled, copies_of(filled, again), systematic(draft), slow[draft.environment.key]
            )
            for filled, draft in zip(members, primary, strict=True)
        ]
        return _judge(primary, cases, rules)

    fillings = [losses.fillings(draft) for draft in primary]
    if not any(fillings):
        return family(primary)
    lossy = [filling is not None for filling in fillings]
    ends = (
        family(
            filling[end] if filling else draft
            for filling, draft in zip(fillings, primary, strict=True)
        )
        for end in (0, 1)
    )
    return losses.upheld(family(primary), lossy, ends)


def _key(draft: Draft) -> str:
    return comparison_key(draft.environment.key, draft.workload.key, draft.metric.name)


def _apart(again: Sequence[Draft], correction: Correction) -> list[Draft]:
    """A/A comparisons that differ by more than chance lets one of so many differ."""
    primary = [d for d in again if d.metric.primary and d.p_values is not None]
    adjusted = adjust([d.p_values.difference for d in primary if d.p_values], correction)
    return [d for d, p in zip(primary, adjusted, strict=True) if p <= 1 - d.settings.confidence]


def _with_bias(floor: Floor | None, draft: Draft, apart: Sequence[Draft]) -> Floor | None:
    """Biased only where an A/A of its sides is one of those."""
    return replace(floor, biased=bool(_nulls(draft, apart))) if floor is not None else None


def _judge(
    drafts: Sequence[Draft], cases: Sequence[FamilyMember], family: Family
) -> list[Judgement]:
    if not drafts:
        return []
    settings = drafts[0].settings
    return judge(
        cases, settings.margin, settings.confidence, family.correction, number=family.rules
    )


def _least(draft: Draft, copies: Sequence[Sequence[float]]) -> Interval | None:
    """Of the ratios to second copies that which speaks most against what the first shows."""
    if draft.moments is None or not copies:
        return None
    sign = math.copysign(1.0, draft.moments.mean)
    least = min(copies, key=lambda units: sign * math.fsum(units) / len(units))
    return mean_interval(least, draft.settings.confidence, draft.widening)


def rejudged(
    before: Sequence[JudgedComparison], now: Sequence[JudgedComparison]
) -> Iterator[Rejudged]:
    """Where other rules gave another verdict."""
    then = {judged.key: judged.verdict for judged in before}
    for judged in now:
        was, judgement = then.get(judged.key), judged.judgement
        if was is not None and judgement is not None and judged.verdict not in (None, was):
            yield Rejudged(
                environment_label=judged.draft.environment.label,
                workload_title=judged.draft.workload.title,
                metric=judged.draft.metric.name,
                before=was,
                now=judgement.verdict,
                why=judgement.why,
            )


def _member_of_rules_1(draft: Draft, again: Sequence[Draft]) -> FamilyMember:
    """The noise floor in the place of the second copy, and nothing known of slow trials."""
    case = member(draft, (), systematic(draft))
    return replace(case, floor=_floor_then(draft, again), no_equivalence=False)


def _floor_then(draft: Draft, again: Sequence[Draft]) -> Floor | None:
    """As rules 1 had it: two copies that always print the same were taken for equal."""
    floor = floor_of(draft, again)
    unknown = floor is not None and math.isinf(floor.ratio)
    return None if unknown and _nulls(draft, again) else floor


def with_memory(drafts: Sequence[Draft], rules: int = RULES) -> list[Draft]:
    """The same, with the memory of each environment, from its primary comparisons together."""
    if rules < 2:
        return list(drafts)
    corrected_for = memory.CORRECTED_FOR if rules >= 3 else memory.CORRECTED_FOR_THEN
    courses = memory.Courses()
    for d in drafts:
        if d.metric.primary:
            course = memory.course(d.units, corrected_for)
            courses.add(d.environment.key, d.workload.key, course)
    factors = courses.factors()
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
            # Two copies that always print the same tell nothing of what they differ by.
            if null.moments is not None and null.moments.deviation > 0
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
