"""Does a series change with time?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from ullage.stats.interval import sample, t_tail


@dataclass(frozen=True, slots=True)
class Drift:
    """Rank correlation of a series with time."""

    correlation: float
    """Spearman's ρ: 1 always rising, −1 always falling."""
    p_value: float


def drift(times: ArrayLike, values: ArrayLike) -> Drift:
    """Spearman's rank correlation with time, p-value by t with n − 2 degrees of freedom.

    Ties get mean ranks. A series without spread has no drift: ρ 0, p 1. TooFewError under 4 values,
    ValueError for unequal lengths.
    """
    t, x = sample(times, 4), sample(values, 4)
    if t.size != x.size:
        raise ValueError(f"{t.size} times for {x.size} values")
    if np.ptp(t) == 0 or np.ptp(x) == 0:
        return Drift(0.0, 1.0)
    a, b = stats.rankdata(t), stats.rankdata(x)
    a, b = a - a.mean(), b - b.mean()
    rho = float(a @ b / math.sqrt(float(a @ a) * float(b @ b)))
    rho = min(1.0, max(-1.0, rho))
    df = t.size - 2
    if abs(rho) == 1.0:
        return Drift(rho, 0.0)
    return Drift(rho, min(1.0, 2 * t_tail(abs(rho) * math.sqrt(df / (1 - rho * rho)), df)))
