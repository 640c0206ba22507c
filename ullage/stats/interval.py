"""Intervals for the ratio of an environment to its baseline, from paired log-ratios."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ullage.stats import Floats
from ullage.stats.walsh import order_statistics

ROUNDING = 8 * float(np.finfo(np.float64).eps)
"""A spread so small beside the largest value is none: 0.1, 0.1, 0.1 must not look noisy."""
ANALYTIC = 200
"""Above so many values the bootstrap's interval is computed, not drawn: with 4000 resamples its
bounds scatter by 0.05 standard errors, and there the analytic ones are nearer than that."""
THINNED = 100_000
"""Above so many values the Hodges–Lehmann interval takes so many of their quantiles."""


class TooFewError(ValueError):
    """The sample is too small for what was asked of it."""


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """An estimate with its interval, on the ratio scale."""

    estimate: float
    low: float
    high: float
    confidence: float
    n: int
    """Independent values it rests on: blocks."""
    method: str

    @property
    def half_width(self) -> float:
        """Half of the width, relative to the estimate: what a precision target is compared with.

        Infinite where the estimate is beyond what a float can hold: no target is met.
        """
        if not 0 < self.estimate < math.inf:
            return math.inf
        return (self.high - self.low) / (2 * self.estimate)

    def excludes(self, ratio: float) -> bool:
        """True when `ratio` lies outside."""
        return not self.low <= ratio <= self.high


def sample(values: ArrayLike, least: int = 1) -> Floats:
    """Return the values as float64.

    Raises TooFewError under `least` values, ValueError unless all are finite.
    """
    x: Floats = np.asarray(values, dtype=np.float64).reshape(-1)
    if x.size < least:
        raise TooFewError(f"{x.size} values, at least {least} are needed")
    finite = np.isfinite(x)
    if not finite.all():
        place = int(np.argmin(finite))
        raise ValueError(f"value {place + 1} of {x.size} is {x[place]}, not finite")
    return x


def check_confidence(confidence: float) -> None:
    """Raise ValueError unless 0 < confidence < 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence} is not between 0 and 1")


def log_ratio(value: float, baseline: float, better: Literal["higher", "lower"]) -> float:
    """Log of the ratio oriented so that above 0 is worse than the baseline.

    Times (`lower` is better): value / baseline; rates (`higher`): baseline / value.
    ValueError unless both are positive and finite: a ratio to or of nothing has no meaning.
    """
    if not (0 < value < math.inf and 0 < baseline < math.inf):
        raise ValueError(f"no ratio of {value} to {baseline}")
    difference = math.log(value) - math.log(baseline)
    return difference if better == "lower" else -difference


def t_quantile(probability: float, df: float) -> float:
    """Quantile of Student's t with `df` degrees of freedom."""
    return float(special.stdtrit(df, probability))


def t_tail(t: float, df: float) -> float:
    """P(T > t) for Student's t."""
    return float(special.stdtr(df, -t))


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and standard error of log-ratios; all the t procedures need no more."""

    n: int
    mean: float
    error: float
    """Standard error of the mean, already times the correction for repeated looks."""
    deviation: float

    @property
    def df(self) -> int:
        return self.n - 1


def moments(log_ratios: ArrayLike, widen: float = 1.0) -> Moments:
    """Two-pass mean and standard error. TooFewError under 2 values."""
    x = sample(log_ratios, 2)
    mean = float(np.mean(x))
    residual = x - mean
    variance = float(residual @ residual) / (x.size - 1)
    deviation = math.sqrt(variance)
    if deviation <= ROUNDING * max(float(np.max(x)), -float(np.min(x))):
        deviation = 0.0
    return Moments(x.size, mean, widen * deviation / math.sqrt(x.size), deviation)


def t_interval(log_ratios: ArrayLike, confidence: float, widen: float = 1.0) -> IntervalEstimate:
    """Paired t interval on log-ratios: exp(mean ± t(n−1) · s/√n).

    The estimate is the geometric mean of the ratios. Exact when the log-ratios are independent and
    normal (Student 1908); the pairing takes out what both trials of a block have in common.
    `widen` multiplies the standard error (see `stop.widening`). TooFewError under 2 values.
    """
    check_confidence(confidence)
    return of_moments(moments(log_ratios, widen), confidence)


def of_moments(m: Moments, confidence: float) -> IntervalEstimate:
    """The t interval that has these moments."""
    half = t_quantile(0.5 + confidence / 2, m.df) * m.error
    return _exp((m.mean, m.mean - half, m.mean + half), confidence, m.n, "paired t on log-ratios")


def bootstrap_interval(
    log_ratios: ArrayLike, confidence: float, seed: int, resamples: int = 4000
) -> IntervalEstimate:
    """BCa bootstrap of the mean log-ratio (Efron 1987, JASA 82:171).

    A check of the t interval that assumes no distribution; under about ten values it is too short,
    so it never gives the verdict. What is resampled must be the highest level that is random:
    blocks, or the means of generations (`collapse`). The acceleration is the jackknife's,
    closed for a mean: Σd³ / (6 (Σd²)^1.5) with d the deviations from the mean.

    Above `ANALYTIC` values, where `seed` and `resamples` have no part, the bounds are the analytic
    ones of DiCiccio & Efron (1992, Biometrika 79:231; Efron & Tibshirani 1993, §14.4). Either way
    the estimate is never left outside. TooFewError under 2 values.
    """
    check_confidence(confidence)
    m = moments(log_ratios)
    name = "BCa bootstrap" if m.n <= ANALYTIC else "BCa bootstrap, analytic (ABC)"
    if m.deviation == 0:
        return _exp((m.mean, m.mean, m.mean), confidence, m.n, name)
    z = float(special.ndtri(0.5 + confidence / 2))
    d = sample(log_ratios) - m.mean
    if m.n <= ANALYTIC:
        # Sorted, so that the order in which blocks were run cannot change the answer.
        d.sort()
        low, high = _drawn_bca(d, z, np.random.default_rng(seed), resamples)
    else:
        low, high = _analytic_bca(d, z)
    logs = (m.mean, m.mean + min(low, 0.0), m.mean + max(high, 0.0))
    return _exp(logs, confidence, m.n, name)


def _drawn_bca(
    d: Floats, z: float, rng: np.random.Generator, resamples: int
) -> tuple[float, float]:
    """Bounds by resampling of values `d` whose mean is 0."""
    means = d[rng.integers(0, d.size, (resamples, d.size))].mean(axis=1)
    # A resample that has the sample's own mean counts half on either side (as SciPy does).
    ties = np.abs(means) <= 1e-9 * math.sqrt(float(d @ d) / (d.size - 1))
    below = float(np.mean((means < 0) & ~ties) + np.mean(ties) / 2)
    bias = float(special.ndtri(min(max(below, 1 / resamples), 1 - 1 / resamples)))
    low, high = (
        float(special.ndtr(bias + _accelerated(bias + point, _acceleration(d), 1)))
        for point in (-z, z)
    )
    found_low, found_high = (float(v) for v in np.quantile(means, (low, high)))
    return found_low, found_high


def _analytic_bca(d: Floats, z: float) -> tuple[float, float]:
    """Bounds without resampling of values `d` whose mean is 0.

    The ABC interval of a mean: it has no curvature and no bias of its own, so the bias correction
    z₀ equals the acceleration a, and a bound is σ̂·w/(1 − a·w)² with w = z₀ ± z and σ̂² = Σd²/n².
    """
    error, a = math.sqrt(float(d @ d)) / d.size, _acceleration(d)
    return error * _accelerated(a - z, a, 2), error * _accelerated(a + z, a, 2)


def _acceleration(d: Floats) -> float:
    squares = d * d
    return float(d @ squares) / (6 * math.pow(float(np.sum(squares)), 1.5))


def _accelerated(w: float, acceleration: float, power: Literal[1, 2]) -> float:
    """w/(1 − a·w)^power, infinite from its pole on: wild data at a confidence very near 1."""
    denominator = 1 - acceleration * w
    return w / math.pow(denominator, power) if denominator > 0 else math.copysign(math.inf, w)


def hodges_lehmann(log_ratios: ArrayLike, confidence: float) -> IntervalEstimate:
    """Hodges–Lehmann estimate with the interval that inverts Wilcoxon's signed-rank test.

    The estimate is the median of the Walsh averages (xᵢ + xⱼ)/2, i ≤ j; the interval runs between
    the k-th smallest and k-th largest of them (Hollander, Wolfe & Chicken 2014, §3.2–3.3). Needs a
    symmetric distribution, but no moments: one wild block hardly moves it. TooFewError when n is so
    small that no interval has this confidence (n < 6 for 95 %).

    Above `THINNED` values (`method` then says so) the averages are those of as many evenly spaced
    quantiles, ranks in proportion. At worst this shifts the share of averages below a point by two
    in `THINNED`, a ninth of that share's standard error at ten million values; on data without
    gaps it is under a hundredth.
    """
    check_confidence(confidence)
    x = np.sort(sample(log_ratios, 2))
    n, name = x.size, "Hodges–Lehmann, signed rank"
    depth = _signed_rank_depth(n, (1 - confidence) / 2)
    if n > THINNED:
        x = x[((np.arange(THINNED) + 0.5) * (n / THINNED)).astype(np.int64)]
        depth = round(depth * (THINNED * (THINNED + 1)) / (n * (n + 1)))
        name += f" of {THINNED} quantiles"
    total = x.size * (x.size + 1) // 2
    ranks = (depth, total + 1 - depth, (total + 1) // 2, total // 2 + 1)
    low, high, left, right = order_statistics(x, ranks)
    return _exp(((left + right) / 2, low, high), confidence, n, name)


@lru_cache(maxsize=1024)
def _signed_rank_depth(n: int, tail: float) -> int:
    """Largest k with P(W⁺ ≤ k − 1) ≤ tail, W⁺ the signed-rank statistic of n values.

    Exact to 60 values, above by the Edgeworth series to the fourth cumulant −Σi⁴/8 (Fellingham &
    Stoker 1964, JASA 59:899): as the exact k at confidences to 99.9 %, beyond them a little less.
    """
    if n > 60:
        mean = n * (n + 1) / 4
        variance = n * (n + 1) * (2 * n + 1) / 24
        excess = -variance * (3 * n * n + 3 * n - 1) / 10 / variance**2
        z = float(special.ndtri(tail))
        z += excess * (z**3 - 3 * z) / 24
        return max(1, math.floor(mean + z * math.sqrt(variance) + 0.5))
    weights = np.ones(1)
    for rank in range(1, n + 1):
        grown = np.zeros(weights.size + rank)
        grown[: weights.size] += weights / 2
        grown[rank:] += weights / 2
        weights = grown
    k = int(np.searchsorted(np.cumsum(weights), tail * (1 + 1e-12), side="right"))
    if k < 1:
        raise TooFewError(f"{n} values cannot give this confidence")
    return k


def _exp(
    logs: tuple[float, float, float], confidence: float, n: int, method: str
) -> IntervalEstimate:
    """Mean, low and high back to the ratio scale; a bound too large for a float is infinite."""
    with np.errstate(over="ignore"):
        ratio, low, high = (float(v) for v in np.exp(logs))
    return IntervalEstimate(ratio, low, high, confidence, n, method)


MeanKind = Literal["arithmetic", "harmonic"]


def mean(values: ArrayLike, kind: MeanKind) -> float:
    """Arithmetic for costs (times, bytes), harmonic for rates (Hoefler & Belli 2015, rule 3).

    Ratios are summarised by the geometric mean, which `t_interval` gives. The harmonic
    mean with a zero among the values is 0; of negative values it has no meaning: ValueError.
    """
    x = sample(values)
    if kind == "arithmetic":
        return float(np.mean(x))
    least = float(np.min(x))
    if least < 0:
        raise ValueError("no harmonic mean of negative values")
    if least == 0:
        return 0.0
    # In units of the least: 1/x of a tiny value would overflow and make the mean 0.
    return float(x.size * least / np.sum(least / x))


def collapse(values: ArrayLike, groups: ArrayLike) -> Floats:
    """Means by group in order of first appearance; with one distinct group the values themselves.

    `groups` labels each value with an integer, such as the generation of its instances. Values of
    one group share what that instance was dealt and are not independent: intervals, tests and
    bootstraps take what this returns (Kalibera & Jones 2013, §6: repeat the highest random level).
    A group counts once, however many values it has. No values give none.

    ValueError for unequal lengths, for labels that are no integers, for values that are not finite.
    """
    x, labels = sample(values, 0), np.asarray(groups).reshape(-1)
    if labels.size != x.size:
        raise ValueError(f"{labels.size} groups for {x.size} values")
    if x.size == 0:
        return x
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"groups are labelled by integers, not by {labels.dtype}")
    if (labels == labels[0]).all():
        return x
    _, first, group, count = np.unique(
        labels, return_index=True, return_inverse=True, return_counts=True
    )
    means = np.bincount(group, weights=x) / count
    # Once more over what is left: equal values have exactly their value as mean.
    means += np.bincount(group, weights=x - means[group]) / count
    collapsed: Floats = means[np.argsort(first)]
    return collapsed
