"""Intervals for the ratio of an environment to its baseline, from paired log-ratios."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]


class TooFewError(ValueError):
    """The sample is too small for what was asked of it."""


@dataclass(frozen=True, slots=True)
class Interval:
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
        """Half of the width, relative to the estimate: what a precision target is compared with."""
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
    if not np.isfinite(x).all():
        raise ValueError("a value is not finite")
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


def t_quantile(probability: float, df: int) -> float:
    """Quantile of Student's t with `df` degrees of freedom."""
    return float(special.stdtrit(df, probability))


def t_tail(t: float, df: int) -> float:
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
        """Degrees of freedom."""
        return self.n - 1


def moments(log_ratios: ArrayLike, widen: float = 1.0) -> Moments:
    """Two-pass mean and standard error. TooFewError under 2 values."""
    x = sample(log_ratios, 2)
    mean = float(np.mean(x))
    residual = x - mean
    # A spread at the level of rounding is no spread: 0.1, 0.1, 0.1 must not look noisy.
    largest = float(np.max(np.abs(x)))
    variance = float(residual @ residual) / (x.size - 1)
    deviation = math.sqrt(variance)
    if deviation <= 8 * np.finfo(np.float64).eps * largest:
        deviation = 0.0
    return Moments(x.size, mean, widen * deviation / math.sqrt(x.size), deviation)


def t_interval(log_ratios: ArrayLike, confidence: float, widen: float = 1.0) -> Interval:
    """Paired t interval on log-ratios: exp(mean ± t(n−1) · s/√n).

    The estimate is the geometric mean of the ratios. Exact when the log-ratios are independent and
    normal (Student 1908); the pairing takes out what both trials of a block have in common.
    `widen` multiplies the standard error (see `stop.widening`). TooFewError under 2 values.
    """
    check_confidence(confidence)
    m = moments(log_ratios, widen)
    half = t_quantile(0.5 + confidence / 2, m.df) * m.error
    return _exp((m.mean, m.mean - half, m.mean + half), confidence, m.n, "paired t on log-ratios")


def bootstrap_interval(
    log_ratios: ArrayLike, confidence: float, seed: int, resamples: int = 4000
) -> Interval:
    """BCa bootstrap over blocks of the mean log-ratio (Efron 1987, JASA 82:171).

    A check of the t interval that assumes no distribution; under about ten blocks it is too short,
    so it never gives the verdict. The acceleration is the jackknife's, closed for a mean:
    Σd³ / (6 (Σd²)^1.5) with d the deviations from the mean. Blocks are the highest level that is
    random here, so they are what is resampled.
    """
    check_confidence(confidence)
    m = moments(log_ratios)
    name = "BCa bootstrap over blocks"
    if m.deviation == 0:
        return _exp((m.mean, m.mean, m.mean), confidence, m.n, name)
    # Sorted, so that the order in which blocks were run cannot change the answer.
    d = np.sort(sample(log_ratios)) - m.mean
    means = _resampled_means(d, np.random.default_rng(seed), resamples)
    ties = np.abs(means) <= 1e-9 * m.deviation
    below = float(np.mean((means < 0) & ~ties) + np.mean(ties) / 2)
    bias = float(special.ndtri(min(max(below, 1 / resamples), 1 - 1 / resamples)))
    acceleration = float(np.sum(d**3)) / (6 * float(np.sum(d**2)) ** 1.5)
    z = float(special.ndtri(0.5 + confidence / 2))
    levels = [
        float(special.ndtr(bias + point / (1 - acceleration * point)))
        for point in (bias - z, bias + z)
    ]
    low, high = (float(v) for v in np.quantile(means, sorted(levels)))
    logs = (m.mean, m.mean + min(low, 0.0), m.mean + max(high, 0.0))
    return _exp(logs, confidence, m.n, name)


def _resampled_means(x: Floats, rng: np.random.Generator, resamples: int) -> Floats:
    """Means of samples with replacement; fewer of them where n is so large that they are normal.

    Never holds more than 64 MB.
    """
    resamples = min(resamples, max(200, 4_000_000 // x.size))
    rows = max(1, min(resamples, 4_000_000 // x.size))
    parts = [
        x[rng.integers(0, x.size, (min(rows, resamples - done), x.size))].mean(axis=1)
        for done in range(0, resamples, rows)
    ]
    return np.concatenate(parts)


def hodges_lehmann(log_ratios: ArrayLike, confidence: float) -> Interval:
    """Hodges–Lehmann estimate with the interval that inverts Wilcoxon's signed-rank test.

    The estimate is the median of the Walsh averages (xᵢ + xⱼ)/2, i ≤ j; the interval runs between
    the k-th smallest and k-th largest of them (Hollander, Wolfe & Chicken 2014, §3.2–3.3). Needs a
    symmetric distribution, but no moments: one wild block hardly moves it. TooFewError when n is so
    small that no interval has this confidence (n < 6 for 95 %).
    """
    check_confidence(confidence)
    x = np.sort(sample(log_ratios, 2))
    n = x.size
    k = _signed_rank_depth(n, (1 - confidence) / 2)
    total = n * (n + 1) // 2
    middle = ((total + 1) // 2, total // 2 + 1)
    low, high, left, right = _walsh(x, (k, total + 1 - k, *middle))
    return _exp(((left + right) / 2, low, high), confidence, n, "Hodges–Lehmann, signed rank")


def _signed_rank_depth(n: int, tail: float) -> int:
    """Largest k with P(W⁺ ≤ k − 1) ≤ tail, W⁺ the signed-rank statistic of n values."""
    if n > 60:
        mean = n * (n + 1) / 4
        deviation = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        return max(1, math.floor(mean + float(special.ndtri(tail)) * deviation + 0.5))
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


def _walsh(x: Floats, ranks: Sequence[int]) -> list[float]:
    """Order statistics (from 1) of the Walsh averages of sorted x."""
    n = x.size
    if n <= 1500:
        averages = (x[:, None] + x[None, :])[np.triu_indices(n)] / 2
        averages.sort()
        return [float(averages[rank - 1]) for rank in ranks]
    return [_walsh_by_bisection(x, rank) for rank in ranks]


def _walsh_by_bisection(x: Floats, rank: int) -> float:
    """One order statistic without the n²/2 averages, to a billionth of the range."""
    low, high = float(x[0]), float(x[-1])
    places = np.arange(x.size)
    for _ in range(30):
        middle = (low + high) / 2
        reach = np.searchsorted(x, 2 * middle - x, side="right")
        if int(np.sum(np.maximum(reach - places, 0))) >= rank:
            high = middle
        else:
            low = middle
    return high


def _exp(logs: tuple[float, float, float], confidence: float, n: int, method: str) -> Interval:
    """Mean, low and high back to the ratio scale; a bound too large for a float is infinite."""
    with np.errstate(over="ignore"):
        ratio, low, high = (float(v) for v in np.exp(logs))
    return Interval(ratio, low, high, confidence, n, method)
