"""Outliers: flagged, never removed."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ullage.stats.interval import ROUNDING, Floats, sample

LIMIT = 10.0


def robust_z(values: ArrayLike) -> Floats:
    """Distance from the median in units of 1.4826·MAD, the normal's standard deviation.

    Where more than half of the values are equal (MAD 0) the mean absolute deviation stands in, as
    1.2533·MeanAD (Iglewicz & Hoaglin 1993); where all are equal, all distances are 0. A distance at
    the level of rounding is none.
    """
    x = sample(values)
    middle = float(np.median(x))
    distance: Floats = np.abs(x - middle)
    distance[distance <= ROUNDING * abs(middle)] = 0
    scale = 1.4826 * float(np.median(distance))
    if scale == 0:
        scale = math.sqrt(math.pi / 2) * float(np.mean(distance))
    return distance / scale if scale > 0 else distance


def outliers(values: ArrayLike, limit: float = LIMIT) -> NDArray[np.bool_]:
    """True where the robust z is above `limit` (10, that is 14.8 MAD, as hyperfine does)."""
    return robust_z(values) > limit
