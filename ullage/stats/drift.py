"""Does a series change with time?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ullage.stats.interval import Floats, sample, t_tail

EXACT = 8
"""Up to so many values the p-value counts all orders (8! = 40,320)."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Rank correlation of a series with time."""

    correlation: float
    """Spearman's ρ: 1 always rising, −1 always falling."""
    p_value: float


def drift(times: ArrayLike, values: ArrayLike) -> Drift:
    """Spearman's rank correlation with time, and how likely one so far from 0 is without drift.

    Ties get mean ranks. The p-value is exact to `EXACT` values: the share of all orders of these
    ranks; above it is by t with n − 2 degrees of freedom (Kendall & Gibbons 1990, §4.14), for fewer
    than 20 values up to 1.6 times too small where it is below 0.01. A series without spread has no
    drift: ρ 0, p 1. TooFewError under 4 values, ValueError for unequal lengths.
    """
    t, x = sample(times, 4), sample(values, 4)
    if t.size != x.size:
        raise ValueError(f"{t.size} times for {x.size} values")
    if (t[1:] < t[:-1]).any():
        order = np.argsort(t)
        t, x = t[order], x[order]
    # In order of time, then of value: ranks need no more than one look at who has equal neighbours.
    order = np.argsort(x)
    a, b = _centred_ranks(t)[order], _centred_ranks(x[order])
    scale = math.sqrt(float(a @ a) * float(b @ b))
    if scale == 0:
        return Drift(0.0, 1.0)
    together = float(a @ b)
    rho = min(1.0, max(-1.0, together / scale))
    if t.size <= EXACT:
        null = _all_orders(tuple(np.sort(a).tolist()), tuple(b.tolist()))
        return Drift(rho, 1 - int(np.searchsorted(null, abs(together))) / null.size)
    return Drift(rho, _p_by_t(rho, t.size - 2))


def _p_by_t(rho: float, df: int) -> float:
    rest = 1 - rho * rho
    return min(1.0, 2 * t_tail(abs(rho) * math.sqrt(df / rest), df)) if rest > 0 else 0.0


def _centred_ranks(ordered: Floats) -> Floats:
    """Mean ranks of ordered values, less their mean (n + 1)/2: exact, as multiples of a half."""
    n = ordered.size
    ranks: Floats = np.arange(n, dtype=np.float64) - (n - 1) / 2
    new = ordered[1:] != ordered[:-1]
    if new.all():
        return ranks
    starts = np.concatenate(([0], np.flatnonzero(new) + 1))
    lengths = np.diff(starts, append=n)
    return np.repeat(ranks[starts] + (lengths - 1) / 2, lengths)


@lru_cache(maxsize=64)
def _all_orders(a: tuple[float, ...], b: tuple[float, ...]) -> Floats:
    """Sorted |Σ aᵢ b_π(i)| of centred ranks over all orders π."""
    orders: NDArray[np.int64] = np.array(list(permutations(range(len(b)))))
    null: Floats = np.abs(np.array(b)[orders] @ np.array(a))
    null.sort()
    return null
