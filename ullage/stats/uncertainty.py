"""Random and systematic uncertainty together, after the GUM (JCGM 100:2008)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ullage.stats import Floats
from ullage.stats.interval import IntervalEstimate, check_confidence, sample

SHARED, APART = 0.5, 0.0
"""Correlation of a comparison's mean with that of its A/A, where all trials are equally noisy: both
are against the same trials of the baseline (solo), or each has its own beside it (duet)."""


@dataclass(frozen=True, slots=True)
class Floor:
    """The noise floor of one metric of one workload."""

    ratio: float
    """At least 1: an estimated ratio between 1/ratio and ratio is not called a difference."""
    biased: bool
    """An A/A interval excludes 1: the apparatus itself may prefer one side."""

    @property
    def log(self) -> float:
        """The floor on the log scale."""
        return math.log(self.ratio)


def noise_floor(again: Iterable[IntervalEstimate], correlation: float = SHARED) -> Floor | None:
    """Floor from the intervals of the A/A comparisons; None without any.

    Definition: |mean| + random_part · half width of the A/A interval on the log scale; of several
    A/A comparisons the largest. It holds the A/A's own bias (|mean|) as well as the uncertainty of
    an estimate's distance from it, and shrinks with the blocks. Where the comparison and the A/A
    share the baseline's trials (SHARED) it is the larger of |log low| and |log high|: the upper
    limit, at the interval's confidence, of the |log ratio| that two equal environments show in this
    run. Alternatives not taken: the 95 % quantile of single A/A pairs (does not shrink, so it would
    hide real effects that averaging has resolved), and |mean| alone (calls a lucky A/A a perfect
    apparatus).
    """
    intervals = list(again)
    if not intervals:
        return None
    limit = max(reach(interval, correlation) for interval in intervals)
    return Floor(
        ratio=math.inf if limit > 700 else math.exp(limit),
        biased=any(interval.excludes(1.0) for interval in intervals),
    )


def reach(interval: IntervalEstimate, correlation: float = SHARED) -> float:
    """The floor that one A/A makes, on the log scale; infinite when a bound is 0 or infinite.

    Infinite too where it has no spread: two copies that always print the same show how coarsely
    was measured, and nothing of what two equal environments differ by.
    """
    low, high = _log(interval.low), _log(interval.high)
    if not math.isfinite(low) or not math.isfinite(high) or low == high:
        return math.inf
    return max(abs(low), abs(high)) + (random_part(correlation) - 1) * (high - low) / 2


def random_part(correlation: float) -> float:
    """Factor on the A/A's half width: error of (comparison − A/A) over that of one of them.

    √(2(1 − correlation)) for means of equal variance: 1 where they share trials, √2 where not.
    """
    return math.sqrt(2 * (1 - correlation))


def between_copies(correlation: float) -> float:
    """Correlation of a comparison's means against the first and the second copy of its baseline.

    Of x and x − a, where a, the mean of the A/A, varies as x does: √((1 − correlation)/2).
    """
    return math.sqrt((1 - correlation) / 2)


def _log(ratio: float) -> float:
    return math.log(ratio) if ratio > 0 else -math.inf


FINEST = 1e-5
"""A step smaller than this part of the largest value is none: it could not matter."""
_FAR = 0.05
"""No value is further from a multiple, in steps: unit conversion and float64 leave less."""
_ENOUGH = 1000
"""So many distinct values tell the step as well as all."""
_FEWEST = 4
"""Under so many different values, none of them twice, any numbers have a step."""
_LOOK = 32
"""So many values are looked at first."""

NOT_AVERAGED = math.sqrt(1 / 4 + 1 / 12)
"""Standard deviation, in steps, under which rounding does not average out.

With a true deviation of half a step the mean of rounded normal values is off by at most
exp(-2π²/4)/π = 0.2 % of a step (Widrow & Kollár 2008, Quantization Noise, §11.3); rounding adds a
twelfth of a step squared to the variance that is seen.
"""


def quantum(values: ArrayLike) -> float | None:
    """The largest step q of which all values are multiples, to rounding error; None: none is seen.

    Euclid's algorithm on the distinct values. None too when all values are equal, or are so few
    and different that any numbers would have such a step: fewer than four, none of them twice.
    Values that happen to have a larger common step than the tool's show that larger one: four
    random multiples do so with probability 1 - 1/ζ(4) = 8 %, six with 2 %. ValueError unless all
    are finite.
    """
    magnitudes = np.abs(sample(values, 0))
    x = np.unique(magnitudes[magnitudes > 0])
    if x.size < 2 or (x.size < _FEWEST and x.size == magnitudes.size):
        return None
    largest = float(x[-1])
    least = FINEST * largest
    step = 0.0
    for value in x[:: max(1, x.size // _ENOUGH)]:
        step = _common(float(value), step, least / 2)
        if step < least:
            return None
        # The division has taken digits from the step; the value has them all.
        step = float(value) / round(float(value) / step)
    steps = x / step
    return step if float(np.max(np.abs(steps - np.round(steps)))) < _FAR else None


def _common(a: float, b: float, nothing: float) -> float:
    """Greatest common divisor of two numbers; a remainder up to `nothing` is none."""
    while b > nothing:
        a, b = b, abs(a - b * round(a / b))
    return a


def averaged(deviation: float, step: float) -> bool:
    """Does noise of this standard deviation (as seen) average the rounding to `step` out?

    Then the rounding is in the standard error of the mean already, and to count it again as a
    systematic part would be double.
    """
    return deviation >= NOT_AVERAGED * step


@dataclass(frozen=True, slots=True)
class FigureSteps:
    """How coarse the figures of both sides are, relative to their means.

    0 where no step is seen, or where the side's own noise averages the rounding out.
    """

    environment: float
    baseline: float

    @property
    def expanded(self) -> float:
        """Expanded (k = 2) uncertainty of the log-ratio from both; infinite where one is ≥ 2."""
        return 2 * math.hypot(
            *(rectangular(half_step(s)) for s in (self.environment, self.baseline))
        )


def steps(
    environment: ArrayLike, baseline: ArrayLike, known: float = 0.0, *, averages: bool = True
) -> FigureSteps:
    """The steps of two sides that one tool measured, each relative to the mean of its side.

    A side's step is the largest of what its own figures show (`quantum`), of what those of both
    sides show together, and of what the tool is known to print. So a side that always gives the
    same figure takes the step of the other one: a constant is coarse and not perfect. Times are
    often printed as rates, so that their inverses are looked at too. Where the side's own noise
    averages the rounding out there is no step; averages: say False of a quantile, which no noise
    makes finer than its step. NaN is a figure that is missing.
    """
    sides = [np.asarray(x, dtype=np.float64).reshape(-1) for x in (environment, baseline)]
    relative = [(0.0, 0.0)]
    if known or any(map(_may_have_step, sides)):
        relative.append(_relative(_present(sides[0]), _present(sides[1]), known, averages))
    if any(_may_have_step(1 / few) for few in map(_few, sides) if (few > 0).all()):
        mine, theirs = map(_present, sides)
        if min(mine.min(initial=1), theirs.min(initial=1)) > 0:
            relative.append(_relative(1 / mine, 1 / theirs, 0.0, averages))
    return FigureSteps(*(max(side) for side in zip(*relative, strict=True)))


def _present(values: Floats) -> Floats:
    return values[~np.isnan(values)]


def _few(values: Floats) -> Floats:
    """Some of them, from all over: where these have no step, nor have all."""
    return _present(values[:: max(1, values.size // _LOOK)])


def _may_have_step(values: Floats) -> bool:
    """Not unless a few of them have one; they are looked at first, for all may be many."""
    few = _few(values)
    return np.unique(few).size < _FEWEST or quantum(few) is not None


def _relative(mine: Floats, theirs: Floats, known: float, averages: bool) -> tuple[float, float]:
    both = max(quantum(np.concatenate((mine, theirs))) or 0.0, known)

    def of_side(x: Floats) -> float:
        if not x.size:
            return 0.0
        step = max(quantum(x) or 0.0, both)
        if step == 0 or (averages and x.size > 1 and averaged(float(x.std(ddof=1)), step)):
            return 0.0
        mean = abs(float(x.mean()))
        return step / mean if mean > 0 else math.inf

    return of_side(mine), of_side(theirs)


def half_step(step: float) -> float:
    """Half a step, relative to the mean, on the log scale: by its longer, lower side."""
    return -math.log1p(-step / 2) if step < 2 else math.inf


def dithered(values: ArrayLike, step: float | None, seed: int) -> Floats:
    """The values, each moved at random within the step it was rounded to; the same for a seed.

    Rounded values stand in heaps, which tests of distribution would take for groups.
    """
    x = sample(values)
    if step is None:
        return x
    return x + np.random.default_rng(seed).uniform(-step / 2, step / 2, x.size)


@dataclass(frozen=True, slots=True)
class Combined:
    """A mean with its whole uncertainty; all on the log scale but low and high."""

    type_a: float
    """Standard uncertainty from the repetitions."""
    type_b: float
    """Root of the sum of squares of the systematic ones."""
    df: float
    """Effective degrees of freedom; infinite where nothing is random."""
    factor: float
    """Coverage factor k: expanded / standard."""
    expanded: float
    low: float
    high: float
    """exp(mean ± expanded)."""

    @property
    def standard(self) -> float:
        """Combined standard uncertainty (GUM 5.1.2)."""
        return math.hypot(self.type_a, self.type_b)


def combine(
    type_a: float, df: float, components: Sequence[float], mean: float, confidence: float
) -> Combined:
    """Combine a standard error of `df` degrees of freedom with systematic standard uncertainties.

    Root of the sum of squares (GUM 5.1.2), the components being independent of each other;
    expanded by Student's t with the effective degrees of freedom (GUM G.4.1). A Type B component is
    taken to be known exactly, so its degrees of freedom are infinite (GUM G.4.3). With few
    repetitions that alone would give less than the repetitions by themselves, for the degrees of
    freedom grow faster than the uncertainty (Ballico, Metrologia 37 (2000) 61): it is never less.
    ValueError for a negative or infinite uncertainty.
    """
    check_confidence(confidence)
    if not all(0 <= u < math.inf for u in (type_a, *components)):
        raise ValueError("an uncertainty is negative or no number")
    type_b = math.hypot(*components)
    effective = effective_df([(type_a, df), (type_b, math.inf)])
    level = 0.5 + confidence / 2
    standard = math.hypot(type_a, type_b)
    expanded = max(_t(effective, level) * standard, _t(df, level) * type_a)
    factor = expanded / standard if standard > 0 else _t(effective, level)
    with np.errstate(over="ignore"):
        low, high = (float(v) for v in np.exp((mean - expanded, mean + expanded)))
    return Combined(type_a, type_b, effective, factor, expanded, low, high)


def _t(df: float, level: float) -> float:
    return float(special.ndtri(level) if math.isinf(df) else special.stdtrit(df, level))


def effective_df(parts: Sequence[tuple[float, float]]) -> float:
    """Welch–Satterthwaite (GUM G.2b): of (standard uncertainty, degrees of freedom) pairs.

    u⁴ / Σ uᵢ⁴/νᵢ, not rounded down; infinite where nothing with finite degrees is uncertain.
    """
    total = math.fsum(u * u for u, _ in parts)
    if total == 0:
        return math.inf
    lost = math.fsum((u * u / total) ** 2 / df for u, df in parts)
    return 1 / lost if lost > 0 else math.inf


def rectangular(half_width: float) -> float:
    """Standard uncertainty of what is known to lie within ± half_width, and no more (GUM 4.3.7)."""
    return half_width / math.sqrt(3)
