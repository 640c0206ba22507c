"""Quantiles, and their ratio, with order-statistic intervals: no distribution is assumed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ullage.stats import Floats
from ullage.stats.interval import IntervalEstimate, TooFewError, check_confidence, sample

_TIE = 1e-12
"""A tail that differs by less counts as equal: the difference is rounding."""


@dataclass(frozen=True, slots=True)
class Quantile:
    """A sample quantile; the bounds are None where n is too small for the confidence."""

    estimate: float
    low: float | None
    high: float | None


def quantile(values: ArrayLike, q: float, confidence: float) -> Quantile:
    """Quantile (linear interpolation) with the order-statistic interval.

    [x₍l₎, x₍u₎] covers the q-quantile of any distribution with at least the probability
    P(l ≤ B < u), B binomial(n, q) (David & Nagaraja 2003, §7.1); equal tails. The values must be
    independent: many samples of one trial are not.
    """
    x = sample(values)
    n = x.size
    lower, upper = _ranks(n, q, confidence)
    below = math.floor((n - 1) * q)
    places = (lower - 1, upper - 1, below, below + 1)
    return of_sorted(
        np.partition(x, sorted({place for place in places if 0 <= place < n})), q, confidence
    )


def of_sorted(x: Floats, q: float, confidence: float) -> Quantile:
    """The same of finite values that are in order, and looked at no more."""
    n = x.size
    lower, upper = _ranks(n, q, confidence)
    return Quantile(
        estimate=_interpolated(x, (n - 1) * q),
        low=float(x[lower - 1]) if 1 <= lower <= n else None,
        high=float(x[upper - 1]) if 1 <= upper <= n else None,
    )


def _interpolated(x: Floats, at: float) -> float:
    """As `np.quantile` does it, to the last bit; it would look for the two values once more."""
    below = math.floor(at)
    first, second, share = float(x[below]), float(x[min(below + 1, x.size - 1)]), at - below
    apart = second - first
    return second - apart * (1 - share) if share >= 0.5 else first + apart * share


@lru_cache(maxsize=1024)
def _ranks(n: int, q: float, confidence: float) -> tuple[int, int]:
    """Of the order statistics that bound it, from 1; 0 or n + 1 where there is none."""
    check_confidence(confidence)
    _check(q)
    tail = (1 - confidence) / 2
    lower = _least(n, lambda k: bool(special.bdtr(k, n, q) >= tail * (1 - _TIE)))
    upper = _least(n, lambda k: bool(special.bdtrc(k, n, q) <= tail * (1 + _TIE))) + 1
    return lower, upper


def _least(n: int, holds: Callable[[int], bool]) -> int:
    """Least k from 0 to n from which on it holds; n at most.

    With the distribution's tails from scipy.special, as `scipy.stats.binom` has it: to load that
    takes longer than all else that a table needs.
    """
    low, high = -1, n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def quantile_ratio(
    environment: ArrayLike,
    baseline: ArrayLike,
    q: float,
    better: Literal["higher", "lower"],
    confidence: float,
) -> IntervalEstimate:
    """Ratio of the q-quantiles of two independent samples; above 1 is worse.

    Each quantile gets its order-statistic interval at level √confidence (97.5 % for 95 %), so that
    both hold together with at least `confidence`; the ratio then lies between the ratios of
    opposite bounds. That is conservative: it covers more, and is wider, than an interval made for
    the ratio would. `q` counts from the least value up, for rates too: their slowest percent is
    q = 0.01. `n` is the size of the smaller sample.

    TooFewError where a sample is too small to bound this quantile; ValueError unless all bounds are
    above 0.
    """
    check_confidence(confidence)
    level = math.sqrt(confidence)
    mine, theirs = (_bounded(sample(x), q, level) for x in (environment, baseline))
    if min(mine[0], theirs[0]) <= 0:
        raise ValueError(f"no ratio: the {q}-quantile may be {min(mine[0], theirs[0])}")
    worse, than = (mine, theirs) if better == "lower" else (theirs, mine)
    return IntervalEstimate(
        estimate=worse[1] / than[1],
        low=worse[0] / than[2],
        high=worse[2] / than[0],
        confidence=confidence,
        n=min(np.size(environment), np.size(baseline)),
        method=f"order statistics of the {q:g} quantiles",
    )


def least_for(q: float, confidence: float) -> int:
    """Fewest values with which `quantile` has both bounds.

    The extremes must bound it: q^n and (1 − q)^n at most (1 − confidence)/2.
    """
    check_confidence(confidence)
    _check(q)
    return math.ceil(math.log((1 - confidence) / 2) / math.log(max(q, 1 - q)))


def _bounded(x: Floats, q: float, level: float) -> tuple[float, float, float]:
    interval = quantile(x, q, level)
    if interval.low is None or interval.high is None:
        raise TooFewError(
            f"{x.size} values cannot bound the {q:g} quantile, "
            f"at least {least_for(q, level)} are needed"
        )
    return interval.low, interval.estimate, interval.high


def _check(q: float) -> None:
    if not 0 < q < 1:
        raise ValueError(f"quantile {q} is not between 0 and 1")
