"""Worse, better, equivalent or inconclusive, and what would settle it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

import numpy as np

from ullage.stats import LEAST_PAIRS, RULES, Floats, Verdict, Why
from ullage.stats.interval import Moments, t_quantile, t_tail
from ullage.stats.multiple import Correction, adjust, next_levels
from ullage.stats.power import MOST_BLOCKS, Claim, least, power_equivalence, power_of_both
from ullage.stats.uncertainty import SHARED, Floor, between_copies

if TYPE_CHECKING:
    from ullage.stats.unseen import SlowTrials

MOST_FAILURES = 0.1
"""Share of failed trials in a cell above which there is no verdict."""


@dataclass(frozen=True, slots=True)
class PValues:
    """The two p-values of one comparison."""

    difference: float
    """Two-sided t test of ratio = 1."""
    equivalence: float
    """Two one-sided tests (TOST) of the ratio outside the margin: the larger of both."""


def _no_number() -> int | None:
    return None


@dataclass(frozen=True)
class Judgement:
    """A verdict with its grounds."""

    verdict: Verdict
    why: Why
    adjusted: PValues
    """The p-values after the correction; that of equivalence with what must be allowed for."""
    settling: Callable[[], int | None] = field(default=_no_number, compare=False, repr=False)

    @cached_property
    def blocks_to_settle(self) -> int | None:
        """More of what `Moments.n` counts (blocks, or generations) after which a verdict is likely;
        None: decided, or no number of them would.

        Worked out when somebody asks: it takes ten times as long as the verdict.
        """
        return self.settling()


def difference_p(m: Moments) -> float:
    """Two-sided p-value of no effect, by t on the mean log-ratio."""
    if m.error == 0:
        return 1.0 if m.mean == 0 else 0.0
    return min(1.0, 2 * t_tail(abs(m.mean) / m.error, m.df))


def equivalence_p(m: Moments, margin: float, allowance: float = 0.0, more: float = 0.0) -> float:
    """TOST p-value (Schuirmann 1987) for 1/(1+margin) < ratio < 1+margin.

    The margin is symmetric on the log scale; `allowance` (log scale) narrows it on both sides, by
    what may be wrong with the mean and no repetition shows, `more` on the upper side only.
    """
    delta = math.log1p(margin) - allowance
    room = min(delta - more - m.mean, delta + m.mean)
    if m.error == 0:
        return 0.0 if room > 0 else 1.0
    return t_tail(room / m.error, m.df)


def p_values(m: Moments, margin: float) -> PValues:
    """Both p-values of one comparison, from the repetitions alone."""
    return PValues(difference_p(m), equivalence_p(m, margin))


@dataclass(frozen=True, slots=True)
class Against:
    """What the repetitions say of the ratio to one copy."""

    moments: Moments
    p: PValues
    sides: tuple[float, float] | None = None
    """Lengths of the interval below and above the mean, log scale, where it is no t interval."""

    @classmethod
    def of(cls, m: Moments, margin: float) -> Against:
        """By the t tests of its moments."""
        return cls(m, p_values(m, margin))

    def lengths(self, alpha: float) -> tuple[float, float]:
        """Of the interval below and above the mean, log scale."""
        if self.sides is not None:
            return self.sides
        half = t_quantile(1 - alpha / 2, self.moments.df) * self.moments.error
        return half, half

    def near(self, alpha: float) -> float:
        """Length of the interval on the side of 1."""
        below, above = self.lengths(alpha)
        return below if self.moments.mean > 0 else above


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """One comparison of the family, ready to be judged."""

    moments: Moments | None
    """None: under two usable pairs; it still counts in the family, with p-values of 1."""
    p: PValues | None
    """From the repetitions alone."""
    floor: Floor | None
    """Where no second copy can be put in: what the estimate must be above. Infinite: the plan has
    a second copy, and it gave no figures."""
    copies: tuple[Against, ...] = ()
    """The same ratio with the second copy of a side in the place of the first."""
    pairs: int = 0
    """Usable pairs, for a comparison that has too few for `moments`."""
    sides: tuple[float, float] | None = None
    """As of `Against`."""
    systematic: float = 0.0
    """Expanded (k = 2) Type B uncertainty of the mean log-ratio, which no repetition reduces."""
    along: tuple[Moments, ...] = ()
    """Of a curve: those at each coordinate. Equivalence must hold at all of them."""
    slow: SlowTrials | None = None
    """Of the environment; None: nothing is known of single trials."""
    correlation: float = SHARED
    """Of its mean with that of the A/A, see `noise_floor`."""
    no_equivalence: bool = False
    """A part of what is compared was hardly seen: it may be called different, not equivalent."""
    stands: Verdict | None = None
    """It left a race with that verdict: the family counts the claim as made, others as not."""

    @property
    def first(self) -> Against | None:
        """Against the first copies."""
        if self.moments is None or self.p is None:
            return None
        return Against(self.moments, self.p, self.sides)

    @property
    def every(self) -> tuple[Against, ...]:
        """The evidence by each choice of copies."""
        first = self.first
        return (first, *self.copies) if first is not None else ()


def settled(verdict: Verdict) -> FamilyMember:
    """What a family counts of a comparison that has left a race (`stats.stop`)."""
    return FamilyMember(None, None, None, stands=verdict)


@dataclass(frozen=True, slots=True)
class Rules:
    """What all comparisons of a family are judged by."""

    margin: float
    confidence: float
    number: int = RULES
    """Which (`stats.RULES`)."""

    @property
    def alpha(self) -> float:
        """Chance of a false claim that the family may have, or its false discovery rate."""
        return 1 - self.confidence

    @property
    def delta(self) -> float:
        """The margin on the log scale."""
        return math.log1p(self.margin)


@dataclass(frozen=True, slots=True)
class Levels:
    """The level that the correction asks of each of a comparison's tests."""

    difference: float
    equivalence: float


def judge(
    cases: Sequence[FamilyMember],
    margin: float,
    confidence: float,
    correction: Correction = "holm",
    *,
    number: int = RULES,
) -> list[Judgement]:
    """Verdicts for a whole family of comparisons, in order. α is 1 − confidence.

    number: of the rules; what follows is said of today's.

    * *equivalent*: the TOST rejects after the correction, and the interval itself lies inside the
      margin (the reader sees that interval; a verdict never says more). Both must hold against
      every copy, and with what may be wrong with the mean taken off the margin: the systematic
      part on both sides, on the upper side slow trials such as the environment had in any of its
      workloads (`SlowTrials.more`). It comes before the next one: a difference that is proven to be
      smaller than the declared margin is not worth a warning, and its interval is printed beside
      the verdict.
    * *worse*, *better*: the t test rejects after the correction, against every copy and the same
      way, and the estimate is above near + systematic, near being the length of the interval on the
      side of 1: an error of the instruments is the same in all trials, so that the two add up
      (GUM F.2.4.5) and the interval still excludes 1 wherever the truth lies within both.
      *better* must be so by more than the slow trials that so few trials could not have met
      (`SlowTrials.unmet`). *worse* need not: a rare slow trial that was not met makes an
      environment worse still.
    * *inconclusive*: everything else, anything from fewer than six pairs, and anything whose units
      are all equal: that shows how coarsely was measured and not how exactly. A timer of whole
      milliseconds gives 10 against 11 ms for a true ratio of 1.01, without any spread.

    What is kept. Claims of difference are one family and claims of equivalence another. Under Holm
    the chance of any false difference in a report is at most α, that of any false equivalence too,
    and that of either at most 2α, whatever the dependence. Conditions beside the tests only take
    claims away, so they cannot raise it. Under Benjamini–Hochberg it is the expected *share* of
    false ones among the claims of each kind that is at most α (see `benjamini_hochberg` for the
    dependence): in a report with 40 true differences two false ones are then expected. Printed
    intervals cover their own truth with the confidence; neither procedure adjusts them. Those that
    a reader picks *because* of their verdict cover less often (the false coverage-statement rate of
    Benjamini & Yekutieli 2005, JASA 100:71), so a difference may be inconclusive although its
    interval excludes 1. A curve is one comparison: its difference is that of its geometric mean,
    its equivalence p-value the largest along it (an intersection–union test, of level α without a
    correction: Berger 1982, Technometrics 24:295).

    The second copy. The apparatus may prefer one of two equal environments: its CPU, its place on
    the disk or in the block. A claim is tested against either copy of the baseline, and its p-value
    is the larger: an intersection–union test again. If one of the copies is as it should be the
    levels hold, whatever is wrong with the other, by however little, and in however large a family.
    What is wrong with the environment's own place no second copy of the baseline shows; one of the
    environment itself (`again: [vm]`) does, and is asked likewise. Nothing can be said where the
    plan has a second copy that gave no figures. Between runs, where copies cannot change places,
    the estimate must be above the noise floor instead (`uncertainty.noise_floor`); it is per
    comparison, and a biased one is taken off the margin.
    """
    rules = Rules(margin, confidence, number)
    differences = adjust([_difference(c) for c in cases], correction)
    equivalences = adjust([_equivalence(c, rules) for c in cases], correction)
    required = zip(
        next_levels(differences, rules.alpha, correction),
        next_levels(equivalences, rules.alpha, correction),
        strict=True,
    )
    return [
        _judge_one(case, PValues(*adjusted), rules, Levels(*levels))
        for case, adjusted, levels in zip(
            cases, zip(differences, equivalences, strict=True), required, strict=True
        )
    ]


def _difference(case: FamilyMember) -> float:
    """P-value of no difference from any copy, on the same side; 1 where sides differ."""
    if case.stands is not None:
        return float(case.stands not in ("worse", "better"))
    means = [e.moments.mean for e in case.every]
    if not means or min(means) * max(means) <= 0:
        return 1.0
    return max(e.p.difference for e in case.every)


def _allowance(case: FamilyMember) -> float:
    """What the mean may be wrong by on either side, and equivalence must leave room for."""
    biased = case.floor is not None and case.floor.biased
    return (case.floor.log if biased and case.floor else 0.0) + case.systematic


def _more(case: FamilyMember) -> float:
    """What slow trials may add to the mean beyond what was seen."""
    return case.slow.more if case.slow is not None else 0.0


def _equivalence(case: FamilyMember, rules: Rules) -> float:
    """TOST p-value against every copy, with the allowances; of a curve the largest along it."""
    if case.stands is not None:
        return float(case.stands != "equivalent")
    if case.first is None or case.no_equivalence:
        return 1.0
    worst = max(e.p.equivalence for e in case.every)
    allowance, more = _allowance(case), _more(case)
    if allowance == 0 and more == 0:
        return worst
    every = (*(e.moments for e in case.every), *case.along)
    return max(worst, *(equivalence_p(m, rules.margin, allowance, more) for m in every))


def _inside(case: FamilyMember, rules: Rules) -> bool:
    """Do the intervals against every copy lie inside the margin, with the allowances?"""
    room, more = rules.delta - _allowance(case), _more(case)
    for e in case.every:
        below, above = e.lengths(rules.alpha)
        if e.moments.mean + above + more > room or below - e.moments.mean > room:
            return False
    return True


def _judge_one(case: FamilyMember, adjusted: PValues, rules: Rules, levels: Levels) -> Judgement:
    first = case.first
    if first is None or first.moments.n < LEAST_PAIRS:
        few = LEAST_PAIRS - (first.moments.n if first else case.pairs)
        return Judgement("inconclusive", "too-few-blocks", adjusted, lambda: few)
    if first.moments.deviation == 0:
        return Judgement("inconclusive", "no-spread", adjusted)
    if adjusted.equivalence <= rules.alpha and _inside(case, rules):
        return Judgement("equivalent", "within-margin", adjusted)
    against = _against_difference(case, first, rules)
    if adjusted.difference <= rules.alpha and against is None:
        worse = first.moments.mean > 0
        return Judgement("worse" if worse else "better", "difference", adjusted)
    why = _why(case, first, rules, levels)
    if why in UNSETTLED:
        return Judgement("inconclusive", why, adjusted)
    return Judgement("inconclusive", why, adjusted, partial(blocks_to_settle, case, rules, levels))


UNSETTLED: Final[frozenset[Why]] = frozenset({"no-copy", "holes"})
"""More blocks of the same kind do not help."""


def _against_difference(case: FamilyMember, first: Against, rules: Rules) -> Why | None:
    """What forbids to call it a difference, though the tests may reject: from any of the copies."""
    if case.floor is not None and math.isinf(case.floor.ratio):
        return "no-copy"
    if case.floor is not None and abs(first.moments.mean) <= case.floor.log:
        return "below-floor"
    unmet = case.slow.unmet if case.slow is not None and first.moments.mean < 0 else None
    for e in case.every:
        estimate, near = abs(e.moments.mean), e.near(rules.alpha)
        if estimate <= _beside_instruments(near, case.systematic, rules):
            return "systematic" if case.systematic > 0 else "interval-too-wide"
        if unmet is not None and estimate <= near + unmet:
            return "unseen"
    return None


def _beside_instruments(near: float, systematic: float, rules: Rules) -> float:
    """What an estimate must be above: chance and instruments together."""
    return near + systematic if rules.number >= 3 else math.hypot(near, systematic)


def _why(case: FamilyMember, first: Against, rules: Rules, levels: Levels) -> Why:
    """The first thing that has to change for a verdict."""
    alone = FamilyMember(first.moments, first.p, None, sides=first.sides, along=case.along)
    if _same(alone, rules, levels):
        return _against_equivalence(case, alone, rules, levels)
    if first.p.difference <= levels.difference:
        if _difference(case) > levels.difference:
            return "second-copy"
        return _against_difference(case, first, rules) or "interval-too-wide"
    return "correction" if first.p.difference <= rules.alpha else "interval-too-wide"


def _same(case: FamilyMember, rules: Rules, levels: Levels) -> bool:
    """Is it equivalent, if the other verdicts stay?"""
    return _equivalence(case, rules) <= levels.equivalence and _inside(case, rules)


def _against_equivalence(
    case: FamilyMember, alone: FamilyMember, rules: Rules, levels: Levels
) -> Why:
    """What forbids an equivalence that holds against the first copy."""
    if case.no_equivalence:
        return "holes"
    if not _same(replace(alone, floor=case.floor), rules, levels):
        return "floor-biased"
    if not _same(replace(alone, copies=case.copies), rules, levels):
        return "second-copy"
    if not _same(replace(alone, systematic=case.systematic), rules, levels):
        return "systematic"
    return "unseen" if _more(case) > 0 else "interval-too-wide"


def blocks_to_settle(case: FamilyMember, rules: Rules, levels: Levels) -> int | None:
    """About how many more units give a verdict with power 0.8, if the effect is as estimated.

    Units are what `Moments.n` counts. The smaller of what a difference and what equivalence would
    need, at the level that the correction asks if the other verdicts stay. None when neither can be
    reached with 10,000: an effect at the edge of the margin (of a curve: anywhere along it), or of
    which one copy shows nothing, or within the systematic part, which no number of them reduces;
    and without spread. A number for planning; it is as uncertain as the spread and the effect that
    it is made of.
    """
    if case.first is None:
        return LEAST_PAIRS
    m = case.first.moments
    if m.deviation == 0:
        return None
    differing = _to_differ(case, m, rules, levels)
    equal = _to_equal(case, m, rules, levels, MOST_BLOCKS if differing is None else differing)
    needed = differing if equal is None else equal
    return max(1, needed - m.n) if needed is not None else None


def _to_differ(case: FamilyMember, m: Moments, rules: Rules, levels: Levels) -> int | None:
    """Units for a difference from every copy, beyond what may be wrong, with 0.8.

    Of several copies the one that shows least decides.
    """
    if min(e.moments.mean * m.mean for e in case.every) <= 0:
        return None
    other = (
        min((e.moments for e in case.copies), key=lambda c: abs(c.mean) / c.deviation, default=None)
        if all(e.moments.deviation > 0 for e in case.copies)
        else None
    )

    def chance(n: int) -> float:
        first = _claim(case, m, n, rules, levels)
        if other is None:
            return power_of_both(first, None, n - 1, 0.0)
        second = _claim(replace(case, systematic=0.0, slow=None), other, n, rules, levels)
        return power_of_both(first, second, n - 1, between_copies(case.correlation))

    return least(chance, first=LEAST_PAIRS)


def _claim(case: FamilyMember, m: Moments, n: int, rules: Rules, levels: Levels) -> Claim:
    """What a mean as estimated must be above after n units, in its own standard errors."""
    error, widen = m.deviation / math.sqrt(n), _widening(m)
    critical, half = (
        widen * t_quantile(1 - level / 2, n - 1) for level in (levels.difference, rules.alpha)
    )
    unseen = 0.0
    if m.mean < 0 and case.slow is not None:
        unseen = case.slow.scaled(n / m.n).unmet / error

    def hurdle(u: Floats) -> Floats:
        beyond = half * u + max(case.systematic / error, unseen)
        return np.maximum(critical * u, beyond)

    return Claim(abs(m.mean) / error, hurdle)


def _to_equal(
    case: FamilyMember, m: Moments, rules: Rules, levels: Levels, most: int
) -> int | None:
    """Units for equivalence, `most` or fewer, with what may be wrong taken off the margin.

    Against the first copy and that which shows most; of a curve the least chance along it.
    """
    # The interval itself must lie inside the margin too, which is the level alpha/2.
    inside = min(levels.equivalence, rules.alpha / 2)
    other = max((e.moments for e in case.copies), key=lambda c: abs(c.mean), default=None)
    if case.no_equivalence or (other is not None and other.deviation == 0):
        return None

    def chance(n: int) -> float:
        slow = case.slow.scaled(n / m.n).more if case.slow is not None else 0.0
        room = rules.delta - _allowance(case) - slow
        first = _equal_claim(m, room, n, inside)
        second = _equal_claim(other, room, n, inside) if other is not None else None
        along = (
            power_equivalence(
                moments.mean,
                moments.deviation,
                room,
                n,
                levels.equivalence,
                widen=_widening(moments),
            )
            for moments in case.along
        )
        both = power_of_both(first, second, n - 1, between_copies(case.correlation))
        return min((both, *along))

    return least(chance, first=LEAST_PAIRS, most=most)


def _equal_claim(m: Moments, room: float, n: int, level: float) -> Claim:
    critical = _widening(m) * t_quantile(1 - level, n - 1)
    return Claim.equivalence(m.mean, room, m.deviation / math.sqrt(n), critical)


def _widening(m: Moments) -> float:
    """The corrections for repeated looks and for memory that are in the standard error."""
    return m.error * math.sqrt(m.n) / m.deviation if m.deviation else 1.0
