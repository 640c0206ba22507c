"""The right mean for the kind of figure, and quantiles with their intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from ullage.stats.interval import check_confidence, sample

MeanKind = Literal["arithmetic", "harmonic"]


def mean(values: ArrayLike, kind: MeanKind) -> float:
    """Arithmetic for costs (times, bytes), harmonic for rates (Hoefler & Belli 2015, rule 3).

    Ratios are summarised by the geometric mean, which `interval.t_interval` gives. The harmonic
    mean with a zero among the values is 0; of negative values it has no meaning: ValueError.
    """
    x = sample(values)
    if kind == "arithmetic":
        return float(np.mean(x))
    if (x < 0).any():
        raise ValueError("no harmonic mean of negative values")
    if (x == 0).any():
        return 0.0
    return float(x.size / np.sum(1 / x))


@dataclass(frozen=True, slots=True)
class Quantile:
    """A sample quantile; the bounds are None where n is too small for the confidence."""

    estimate: float
    low: float | None
    high: float | None


def quantile(values: ArrayLike, q: float, confidence: float) -> Quantile:
    """Quantile (linear interpolation) with the order-statistic interval.

    [x₍l₎, x₍u₎] covers the q-quantile of any continuous distribution with probability
    P(l ≤ B < u), B binomial(n, q) (David & Nagaraja 2003, §7.1); equal tails.
    """
    check_confidence(confidence)
    if not 0 < q < 1:
        raise ValueError(f"quantile {q} is not between 0 and 1")
    x = np.sort(sample(values))
    n, tail = x.size, (1 - confidence) / 2
    lower = int(stats.binom.ppf(tail, n, q))
    upper = int(stats.binom.isf(tail, n, q)) + 1
    return Quantile(
        estimate=float(np.quantile(x, q)),
        low=float(x[lower - 1]) if 1 <= lower <= n else None,
        high=float(x[upper - 1]) if 1 <= upper <= n else None,
    )
