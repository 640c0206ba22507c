"""Worse, better, equivalent or inconclusive, and what would settle it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from scipy import special

from ullage.stats.floor import Floor
from ullage.stats.interval import Moments, t_quantile, t_tail
from ullage.stats.multiple import holm

Verdict = Literal["worse", "better", "equivalent", "inconclusive"]
Why = Literal[
    "difference",
    "within-margin",
    "too-few-blocks",
    "below-floor",
    "floor-biased",
    "interval-too-wide",
]
LEAST_PAIRS = 6
POWER = 0.8
MOST_BLOCKS = 10_000
"""Beyond so many blocks we say that more will not settle it."""


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
    """The p-values after Holm."""
    blocks_to_settle: int | None
    """More blocks after which a verdict is likely; None: decided, or no number of them would."""


def difference_p(m: Moments) -> float:
    """Two-sided p-value of no effect, by t on the mean log-ratio."""
    if m.error == 0:
        return 1.0 if m.mean == 0 else 0.0
    return min(1.0, 2 * t_tail(abs(m.mean) / m.error, m.df))


def equivalence_p(m: Moments, margin: float) -> float:
    """TOST p-value (Schuirmann 1987) for 1/(1+margin) < ratio < 1+margin.

    The margin is symmetric on the log scale.
    """
    delta = math.log1p(margin)
    if m.error == 0:
        return 0.0 if abs(m.mean) < delta else 1.0
    return t_tail((delta - abs(m.mean)) / m.error, m.df)


def p_values(m: Moments, margin: float) -> PValues:
    """Both p-values of one comparison."""
    return PValues(difference_p(m), equivalence_p(m, margin))


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison of the family, ready to be judged."""

    moments: Moments | None
    """None: under two usable pairs; it still counts in the family, with p-values of 1."""
    p: PValues | None
    floor: Floor | None
    floor_moments: Moments | None = None
    """Of the A/A comparison that set the floor: tells how fast the floor will fall."""
    pairs: int = 0
    """Usable pairs, for a comparison that has too few for `moments`."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What all comparisons of a family are judged by."""

    margin: float
    confidence: float
    family: int
    """Comparisons in the family."""

    @property
    def alpha(self) -> float:
        """Chance of a false claim that the family may have."""
        return 1 - self.confidence

    @property
    def delta(self) -> float:
        """The margin on the log scale."""
        return math.log1p(self.margin)


def judge(cases: Sequence[Case], margin: float, confidence: float) -> list[Judgement]:
    """Verdicts for a whole family of comparisons, in order.

    * *equivalent*: the TOST rejects after Holm, and the interval itself lies inside the margin (the
      reader sees that interval; a verdict never says more). It comes before the next one: a
      difference that is proven to be smaller than the margin is not worth a warning.
    * *worse*, *better*: the t test rejects after Holm, and the estimate is above the floor.
    * *inconclusive*: everything else, and anything from fewer than six pairs.

    Claims of difference are one Holm family and claims of equivalence another: the chance of any
    false difference in a report is at most 1 − confidence, and so is that of any false equivalence.
    Where the A/A shows a bias larger than the margin, nothing is called equivalent.
    """
    rules = Rules(margin, confidence, max(1, len(cases)))
    difference = holm([c.p.difference if c.p else 1.0 for c in cases])
    equivalence = holm([c.p.equivalence if c.p else 1.0 for c in cases])
    return [
        _judge_one(case, PValues(p_difference, p_equivalence), rules)
        for case, p_difference, p_equivalence in zip(cases, difference, equivalence, strict=True)
    ]


def _judge_one(case: Case, adjusted: PValues, rules: Rules) -> Judgement:
    m = case.moments
    if m is None or m.n < LEAST_PAIRS:
        few = LEAST_PAIRS - (m.n if m else case.pairs)
        return Judgement("inconclusive", "too-few-blocks", adjusted, few)

    def found(verdict: Verdict, why: Why) -> Judgement:
        more = blocks_to_settle(case, rules) if verdict == "inconclusive" else None
        return Judgement(verdict, why, adjusted, more)

    floor = case.floor.log if case.floor else 0.0
    half = t_quantile(1 - rules.alpha / 2, m.df) * m.error
    if adjusted.equivalence <= rules.alpha and abs(m.mean) + half <= rules.delta:
        if _floor_forbids_equivalence(case.floor, rules):
            return found("inconclusive", "floor-biased")
        return found("equivalent", "within-margin")
    if adjusted.difference > rules.alpha:
        return found("inconclusive", "interval-too-wide")
    if abs(m.mean) <= floor:
        return found("inconclusive", "below-floor")
    return found("worse" if m.mean > 0 else "better", "difference")


def _floor_forbids_equivalence(floor: Floor | None, rules: Rules) -> bool:
    return floor is not None and floor.biased and floor.log > rules.delta


def blocks_to_settle(case: Case, rules: Rules) -> int | None:
    """About how many more blocks give a verdict with power 0.8, if the effect is as estimated.

    The smaller of what a difference and what equivalence would need, at the level that Holm asks of
    its first step. None when neither can be reached in 10,000 blocks: an effect at the edge of the
    margin, or under a floor whose bias is as large as the effect. A number for planning; it is as
    uncertain as the spread and the effect that it is made of.
    """
    m = case.moments
    if m is None:
        return LEAST_PAIRS
    effect, spread = abs(m.mean), m.error * math.sqrt(m.n)
    level = rules.alpha / rules.family
    needed = []
    if effect > 0:
        under = _blocks_to_lower_floor(case, effect, rules)
        test = _least(lambda n: _power_difference(effect, spread, n, level))
        if under is not None and test is not None:
            needed.append(max(under, test))
    if effect < rules.delta and not _floor_forbids_equivalence(case.floor, rules):
        # The interval itself must lie inside the margin too, which is the level alpha/2.
        strict = min(level, rules.alpha / 2)
        same = _least(lambda n: _power_equivalence(effect, spread, rules.delta, n, strict))
        if same is not None:
            needed.append(same)
    return max(1, min(needed) - m.n) if needed else None


def _blocks_to_lower_floor(case: Case, effect: float, rules: Rules) -> int | None:
    """Blocks after which the floor lies under the effect; None when its bias alone does not.

    The floor is |mean| + t·error of the A/A. An unbiased one has a mean of about 0.8 of its error
    (the mean of a half-normal); a biased one keeps the mean that it has.
    """
    floor, m = case.floor, case.floor_moments
    if floor is None or floor.log < effect:
        return LEAST_PAIRS
    if m is None:
        return None
    bias = abs(m.mean) if floor.biased else 0.0
    if bias >= effect:
        return None
    errors = float(special.ndtri(1 - rules.alpha / 2)) + (0.0 if floor.biased else 0.8)
    blocks = math.ceil((errors * m.error * math.sqrt(m.n) / (effect - bias)) ** 2)
    return blocks if blocks <= MOST_BLOCKS else None


def _power_difference(effect: float, spread: float, n: int, level: float) -> float:
    """Power of the two-sided t test by the noncentral t (the far tail is nothing)."""
    if spread == 0:
        return 1.0
    critical = t_quantile(1 - level / 2, n - 1)
    shift = effect * math.sqrt(n) / spread
    if shift > 30:
        return 1.0
    return 1 - float(special.nctdtr(n - 1, shift, critical))


def _power_equivalence(effect: float, spread: float, delta: float, n: int, level: float) -> float:
    """Power of the TOST, normal approximation (Phillips 1990), t quantile with n − 1 degrees."""
    if spread == 0:
        return 1.0
    error, critical = spread / math.sqrt(n), t_quantile(1 - level, n - 1)
    upper = float(special.ndtr((delta - effect) / error - critical))
    lower = float(special.ndtr((delta + effect) / error - critical))
    return max(0.0, upper + lower - 1)


def _least(power: Callable[[int], float]) -> int | None:
    """Smallest number of blocks with the wanted power, by doubling and bisection."""
    low, high = LEAST_PAIRS - 1, LEAST_PAIRS
    while power(high) < POWER:
        if high >= MOST_BLOCKS:
            return None
        low, high = high, min(2 * high, MOST_BLOCKS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high
