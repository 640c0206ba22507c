"""Worse, better, equivalent or inconclusive, and what would settle it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ullage.stats import Floats, Verdict, Why
from ullage.stats.interval import Moments, t_quantile, t_tail
from ullage.stats.multiple import Correction, adjust, next_levels
from ullage.stats.power import Again, least, power_claim, power_difference, power_equivalence
from ullage.stats.uncertainty import SHARED, Floor, random_part

LEAST_PAIRS = 6
MOST_FAILURES = 0.1
"""Share of failed trials in a cell above which there is no verdict."""


@dataclass(frozen=True, slots=True)
class PValues:
    """The two p-values of one comparison."""

    difference: float
    """Two-sided t test of ratio = 1."""
    equivalence: float
    """Two one-sided tests (TOST) of the ratio outside the margin: the larger of both."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict with its grounds."""

    verdict: Verdict
    why: Why
    adjusted: PValues
    """The p-values after the correction; that of equivalence with what must be allowed for."""
    blocks_to_settle: int | None
    """More of what `Moments.n` counts (blocks, or generations) after which a verdict is likely;
    None: decided, or no number of them would."""


def difference_p(m: Moments) -> float:
    """Two-sided p-value of no effect, by t on the mean log-ratio."""
    if m.error == 0:
        return 1.0 if m.mean == 0 else 0.0
    return min(1.0, 2 * t_tail(abs(m.mean) / m.error, m.df))


def equivalence_p(m: Moments, margin: float, allowance: float = 0.0) -> float:
    """TOST p-value (Schuirmann 1987) for 1/(1+margin) < ratio < 1+margin.

    The margin is symmetric on the log scale; `allowance` (log scale) narrows it on both sides, by
    what may be wrong with the mean and no repetition shows.
    """
    delta = math.log1p(margin) - allowance
    if m.error == 0:
        return 0.0 if abs(m.mean) < delta else 1.0
    return t_tail((delta - abs(m.mean)) / m.error, m.df)


def p_values(m: Moments, margin: float) -> PValues:
    """Both p-values of one comparison, from the repetitions alone."""
    return PValues(difference_p(m), equivalence_p(m, margin))


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """One comparison of the family, ready to be judged."""

    moments: Moments | None
    """None: under two usable pairs; it still counts in the family, with p-values of 1."""
    p: PValues | None
    """From the repetitions alone."""
    floor: Floor | None
    floor_moments: Moments | None = None
    """Of the A/A comparison that set the floor: tells how fast the floor will fall."""
    pairs: int = 0
    """Usable pairs, for a comparison that has too few for `moments`."""
    systematic: float = 0.0
    """Expanded (k = 2) Type B uncertainty of the mean log-ratio, which no repetition reduces."""
    along: tuple[Moments, ...] = ()
    """Of a curve: those at each coordinate. Equivalence must hold at all of them."""
    correlation: float = SHARED
    """Of its mean with that of the A/A, as the floor was made with (`noise_floor`)."""
    stands: Verdict | None = None
    """It left a race with that verdict: the family counts the claim as made, the other as not."""


def settled(verdict: Verdict) -> FamilyMember:
    """What a family counts of a comparison that has left a race (`stats.racing`)."""
    return FamilyMember(None, None, None, stands=verdict)


@dataclass(frozen=True, slots=True)
class Rules:
    """What all comparisons of a family are judged by."""

    margin: float
    confidence: float

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
    cases: Sequence[FamilyMember], margin: float, confidence: float, correction: Correction = "holm"
) -> list[Judgement]:
    """Verdicts for a whole family of comparisons, in order. α is 1 − confidence.

    * *equivalent*: the TOST rejects after the correction, and the interval itself lies inside the
      margin (the reader sees that interval; a verdict never says more). Both must hold with the
      systematic part, and the floor of an A/A that differs from 1, taken off the margin. It comes
      before the next one: a difference that is proven to be smaller than the declared margin is
      not worth a warning, and its interval is printed beside the verdict.
    * *worse*, *better*: the t test rejects after the correction, the estimate is above the floor,
      and it is above √(half² + systematic²), half the interval's half width: with both kinds of
      uncertainty together the interval still excludes 1.
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

    The floor. It is |mean| + half width of the A/A, so |estimate| > floor is a test of the estimate
    against the A/A. Where both share the baseline's trials (solo) and all trials are equally noisy,
    the difference of the two means varies as one of them does: if the apparatus moves both alike,
    by much, at most α/2 of comparisons without an effect come out above. In a duet each has
    trials of the baseline of its own and that difference varies √2 times as much: a floor of one
    half width would let 6 to 8 % through, so `noise_floor` is to be told (APART) and takes √2 half
    widths (`tests/stats/test_verdict.py` simulates both). Where the environment is noisier than the
    second copy it is more than α/2 in either design. And it is per comparison: against a bias of
    the apparatus nothing is corrected for the family, and the report says that the A/A differs.
    Asking the interval's near end to clear the floor would count the noise of both twice.
    """
    rules = Rules(margin, confidence)
    differences = adjust([_difference(c) for c in cases], correction)
    equivalences = adjust([_equivalence(c, rules, _allowance(c)) for c in cases], correction)
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
    if case.stands is not None:
        return float(case.stands == "equivalent")
    return case.p.difference if case.p else 1.0


def _bias(case: FamilyMember) -> float:
    """What the apparatus may add, where the A/A shows that it adds something; log scale."""
    return case.floor.log if case.floor is not None and case.floor.biased else 0.0


def _allowance(case: FamilyMember) -> float:
    """What the mean may be wrong by, and equivalence must leave room for; log scale."""
    return _bias(case) + case.systematic


def _equivalence(case: FamilyMember, rules: Rules, allowance: float) -> float:
    """TOST p-value with an allowance; of a curve the largest along it."""
    if case.stands is not None:
        return float(case.stands != "equivalent")
    if case.p is None or case.moments is None:
        return 1.0
    if allowance == 0:
        return case.p.equivalence
    along = (case.moments, *case.along)
    return max(case.p.equivalence, *(equivalence_p(m, rules.margin, allowance) for m in along))


def _judge_one(case: FamilyMember, adjusted: PValues, rules: Rules, levels: Levels) -> Judgement:
    m = case.moments
    if m is None or m.n < LEAST_PAIRS:
        few = LEAST_PAIRS - (m.n if m else case.pairs)
        return Judgement("inconclusive", "too-few-blocks", adjusted, few)
    if m.deviation == 0:
        return Judgement("inconclusive", "no-spread", adjusted, None)
    half = t_quantile(1 - rules.alpha / 2, m.df) * m.error
    estimate = abs(m.mean)
    if adjusted.equivalence <= rules.alpha and estimate + half + _allowance(case) <= rules.delta:
        return Judgement("equivalent", "within-margin", adjusted, None)
    differs = adjusted.difference <= rules.alpha
    floor = case.floor.log if case.floor else 0.0
    clear = estimate > math.hypot(half, case.systematic)
    if differs and estimate > floor and clear:
        return Judgement("worse" if m.mean > 0 else "better", "difference", adjusted, None)

    def same(allowance: float) -> bool:
        """Would it be equivalent with that allowance?"""
        p = _equivalence(case, rules, allowance)
        return p <= levels.equivalence and estimate + half + allowance <= rules.delta

    why: Why = "interval-too-wide"
    if _allowance(case) > 0 and same(0.0):
        why = "systematic" if same(_bias(case)) else "floor-biased"
    elif differs:
        why = "below-floor" if estimate <= floor else "systematic"
    return Judgement("inconclusive", why, adjusted, blocks_to_settle(case, rules, levels))


def blocks_to_settle(case: FamilyMember, rules: Rules, levels: Levels) -> int | None:
    """About how many more units give a verdict with power 0.8, if the effect is as estimated.

    Units are what `moments.n` counts. The smaller of what a difference and what equivalence would
    need, at the level that the correction asks if the other verdicts stay. None when neither can be
    reached with 10,000: an effect at the edge of the margin (of a curve: anywhere along it), under
    a floor whose bias is as large, or within the systematic part, which no number of them reduces;
    and without spread. A number for planning; it is as
    uncertain as the spread and the effect that it is made of.
    """
    m = case.moments
    if m is None:
        return LEAST_PAIRS
    if m.deviation == 0:
        return None
    needed = [
        n
        for n in (_to_differ(case, m, rules, levels), _to_equal(case, m, rules, levels))
        if n is not None
    ]
    return max(1, min(needed) - m.n) if needed else None


def _to_differ(case: FamilyMember, m: Moments, rules: Rules, levels: Levels) -> int | None:
    """Units for a difference: the test, the floor and the systematic part together with 0.8."""
    effect, widen = abs(m.mean), _widening(m)
    if effect == 0:
        return None

    def alone(n: int) -> float:
        return power_difference(effect, m.deviation, n, levels.difference, widen=widen)

    def together(n: int) -> float:
        error = m.deviation / math.sqrt(n)
        critical, half = (
            widen * t_quantile(1 - level / 2, n - 1) for level in (levels.difference, rules.alpha)
        )

        def hurdle(u: Floats) -> Floats:
            above: Floats = np.hypot(half * u, case.systematic / error)
            return np.maximum(critical * u, above)

        return power_claim(
            effect / error, n - 1, hurdle, _again_at(case, m, n, rules), case.correlation
        )

    plain = case.floor is None and case.systematic == 0
    return least(alone if plain else together, first=LEAST_PAIRS)


def _again_at(case: FamilyMember, m: Moments, n: int, rules: Rules) -> Again:
    """The A/A of the floor after n units, in standard errors of the comparison's mean.

    A biased one keeps the mean that it has; an unbiased one has none.
    """
    error = m.deviation / math.sqrt(n)
    floor, again = case.floor, case.floor_moments
    if floor is None or again is None:
        return Again(floor.log / error if floor else 0.0, 0.0, 0.0)
    mean = math.copysign(again.mean, again.mean * m.mean) if floor.biased else 0.0
    share = again.deviation / m.deviation
    return Again(mean / error, share, _floor_half(case, again, n, rules) / error)


def _floor_half(case: FamilyMember, again: Moments, n: int, rules: Rules) -> float:
    """The random part that the floor is expected to have after n units; log scale."""
    half = t_quantile(1 - rules.alpha / 2, n - 1) * _widening(again)
    return random_part(case.correlation) * half * again.deviation / math.sqrt(n)


def _bias_at(case: FamilyMember, n: int, rules: Rules) -> float:
    """The floor to be expected after n units if its A/A is biased, else 0; log scale."""
    floor, again = case.floor, case.floor_moments
    if floor is None or not floor.biased:
        return 0.0
    return floor.log if again is None else abs(again.mean) + _floor_half(case, again, n, rules)


def _to_equal(case: FamilyMember, m: Moments, rules: Rules, levels: Levels) -> int | None:
    """Units for equivalence, with the systematic part and a biased floor taken off the margin.

    Of a curve the chance is the least of those along it: it is as weak as its weakest coordinate.
    """
    # The interval itself must lie inside the margin too, which is the level alpha/2.
    inside = min(levels.equivalence, rules.alpha / 2)
    required = [(m, inside), *((moments, levels.equivalence) for moments in case.along)]

    def chance(n: int) -> float:
        room = rules.delta - case.systematic - _bias_at(case, n, rules)
        return min(
            power_equivalence(
                moments.mean, moments.deviation, room, n, level, widen=_widening(moments)
            )
            for moments, level in required
        )

    return least(chance, first=LEAST_PAIRS)


def _widening(m: Moments) -> float:
    """The correction for repeated looks that is in the standard error."""
    return m.error * math.sqrt(m.n) / m.deviation if m.deviation else 1.0
