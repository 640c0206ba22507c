"""Does a value depend on the one before it, and what does that take from an interval?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from ullage.stats.drift import EXACT
from ullage.stats.interval import Floats, sample

LEAST = 6
"""Under so many values nothing is said."""


@dataclass(frozen=True, slots=True)
class Autocorrelation:
    """How much neighbours in a series are alike."""

    n: int
    rho: float
    """Lag-1 autocorrelation, corrected for the bias that a short series has; -1 to 1."""
    p_value: float
    """One-sided, of no positive autocorrelation: only that makes intervals too short."""
    effective: float
    """As many independent values would tell as much about the mean; 1 to n."""

    def widening(self, confidence: float) -> float:
        """Factor on the half width of a t interval that takes `effective` for n; at least 1."""
        level = 0.5 + confidence / 2
        df = max(self.effective, 2.0) - 1
        t = float(special.stdtrit(df, level) / special.stdtrit(self.n - 1, level))
        return t * math.sqrt(self.n / self.effective)


def autocorrelation(values: ArrayLike) -> Autocorrelation:
    """Lag-1 autocorrelation of a series in the order of time, at equal distances.

    The test is von Neumann's ratio of ranks, which asks nothing of the distribution (Bartels 1982,
    JASA 77:40): exact to `EXACT` values, from then on with his beta approximation. ρ is the usual
    r₁ = Σ(xᵢ-x̄)(xᵢ₊₁-x̄)/Σ(xᵢ-x̄)², corrected for its expectation ρ - (1+3ρ)/n (Marriott & Pope 1954,
    Biometrika 41:390). The effective number is n(1-ρ)/(1+ρ), which holds for a first-order
    autoregression (Bayley & Hammersley 1946, J. R. Stat. Soc. Suppl. 8:184); a longer memory takes
    more. Negative autocorrelation is not counted as a gain. A trend is autocorrelation too.
    TooFewError under 6 values; a series without spread has none: ρ 0, p 1.
    """
    x = sample(values, LEAST)
    n = x.size
    d = x - x.mean()
    squares = float(d @ d)
    if np.ptp(x) == 0 or squares == 0:
        return Autocorrelation(n, 0.0, 1.0, float(n))
    r = float(d[:-1] @ d[1:]) / squares
    rho = min(max((n * r + 1) / (n - 3), -1.0), 1.0)
    kept = max(rho, 0.0)
    effective = max(1.0, n * (1 - kept) / (1 + kept))
    return Autocorrelation(n, rho, _p_value(stats.rankdata(x)), effective)


def _p_value(ranks: Floats) -> float:
    """Chance of so small a rank ratio RVN among independent values.

    To `EXACT` values the share of all orders of these ranks, ties too. Above, RVN/4 is about
    Beta(a, a), where a makes the variance of the permutation distribution, 4(n-2)(5n²-2n-9) /
    (5n(n+1)(n-1)²), exact (Bartels 1982, eq. 3): for n = 9 it is up to 8 % too small and, below
    0.005, up to twice too large.
    """
    n = ranks.size
    steps = np.diff(ranks)
    apart = float(steps @ steps)
    if n <= EXACT:
        null = _all_orders(tuple(np.sort(ranks).tolist()))
        return int(np.searchsorted(null, apart, side="right")) / null.size
    centred = ranks - ranks.mean()
    ratio = apart / float(centred @ centred)
    a = 5 * n * (n + 1) * (n - 1) ** 2 / (2 * (n - 2) * (5 * n * n - 2 * n - 9)) - 0.5
    return float(special.betainc(a, a, min(ratio / 4, 1.0)))


@lru_cache(maxsize=64)
def _all_orders(ranks: tuple[float, ...]) -> Floats:
    """Sorted Σ (rᵢ₊₁ - rᵢ)² over all orders of the ranks: exact, as multiples of a quarter."""
    steps = np.diff(np.array(list(permutations(ranks))), axis=1)
    null: Floats = (steps * steps).sum(axis=1)
    null.sort()
    return null
