"""Do values stand in two groups?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ullage.stats.interval import Floats, sample

LEAST = 6
"""Under so many values nothing is said."""
_MOST = 2000
"""Of more values every so many-th is looked at."""

_LEVELS: Final = (0.5, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999)
_QUANTILES: Final = {
    6: (0.3015, 0.3898, 0.4035, 0.4704, 0.4956, 0.5371, 0.5503, 0.5702, 0.5889),
    7: (0.3118, 0.3821, 0.4233, 0.4869, 0.5055, 0.5340, 0.5429, 0.5552, 0.5625),
    8: (0.3141, 0.4013, 0.4358, 0.4897, 0.5064, 0.5505, 0.5698, 0.6045, 0.6402),
    9: (0.3125, 0.4092, 0.4396, 0.4925, 0.5181, 0.5654, 0.5811, 0.6101, 0.6310),
    10: (0.3092, 0.4127, 0.4416, 0.5041, 0.5275, 0.5702, 0.5864, 0.6181, 0.6640),
    12: (0.3155, 0.4160, 0.4506, 0.5146, 0.5366, 0.5868, 0.6045, 0.6443, 0.6843),
    15: (0.3238, 0.4259, 0.4595, 0.5261, 0.5512, 0.6017, 0.6200, 0.6641, 0.7028),
    20: (0.3280, 0.4350, 0.4702, 0.5394, 0.5655, 0.6204, 0.6411, 0.6871, 0.7465),
    30: (0.3368, 0.4464, 0.4830, 0.5561, 0.5843, 0.6410, 0.6624, 0.7134, 0.7652),
    50: (0.3455, 0.4589, 0.4969, 0.5729, 0.6018, 0.6641, 0.6890, 0.7382, 0.8071),
    100: (0.3548, 0.4713, 0.5105, 0.5906, 0.6213, 0.6872, 0.7124, 0.7628, 0.8401),
    200: (0.3618, 0.4805, 0.5210, 0.6027, 0.6345, 0.6996, 0.7248, 0.7805, 0.8551),
    500: (0.3680, 0.4892, 0.5300, 0.6136, 0.6465, 0.7176, 0.7465, 0.8047, 0.8859),
    1000: (0.3716, 0.4934, 0.5349, 0.6207, 0.6530, 0.7253, 0.7531, 0.8148, 0.8980),
    2000: (0.3735, 0.4965, 0.5380, 0.6233, 0.6550, 0.7243, 0.7510, 0.8141, 0.8845),
}
"""n → quantiles of √n·dip of n uniform values at `_LEVELS`: a million samples (from n = 500 on
400,000) each, with the dip of the package diptest 0.12, which is not ours."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Two groups of values, should there be two."""

    p_value: float
    """Of one mode only."""
    low: float
    """Mean of the lower group …"""
    high: float
    """… and of the higher one."""
    below: float
    """Share of the values that are in the lower group."""


def two_groups(values: ArrayLike) -> Groups:
    """Hartigan's dip test of one mode against more (Hartigan & Hartigan 1985, Ann. Stat. 13:70).

    The dip is the distance of the sample from the nearest distribution with one mode. Tails do not
    make a mode, so heavy ones raise no alarm; its null distribution is the uniform's, the worst of
    all with one mode, so that p is too large for others. One value apart from the others is an
    outlier and no group. Rounded values must be `resolution.dithered` first. The groups are the
    best split in two (least sum of squares). TooFewError under 6 values.
    """
    x = sample(values, LEAST)
    x = np.sort(x[:: math.ceil(x.size / _MOST)])
    if x[0] == x[-1]:
        return Groups(1.0, float(x[0]), float(x[0]), 1.0)
    cut = _best_split(x)
    low, high = float(x[:cut].mean()), float(x[cut:].mean())
    return Groups(_p_value(dip(x), x.size), low, high, cut / x.size)


def dip(values: ArrayLike) -> float:
    """The dip statistic, 1/(2n) to 1/4 (algorithm AS 217, Hartigan 1985, Appl. Stat. 34:320).

    The modal interval shrinks from both sides: each time to where the greatest convex minorant and
    the least concave majorant of the distribution function are furthest apart within it.
    """
    x = np.sort(sample(values, 2))
    if x[0] == x[-1]:
        return 1 / (2 * x.size)
    # Equal values are set apart by next to nothing, so that every value has one place.
    x = (x - x[0]) / (x[-1] - x[0]) + 1e-7 * np.arange(x.size) / x.size
    low, high = 0, x.size - 1
    found = 1.0
    while x[low] < x[high]:
        places = np.arange(low, high + 1, dtype=np.float64)
        inside = x[low : high + 1]
        minorant, lower = _hull(inside, places, 1.0)
        majorant, upper = _hull(inside, places, -1.0)
        gaps = majorant - minorant + 1
        ends = np.union1d(lower, upper)
        widest = int(ends[np.argmax(gaps[ends])])
        if gaps[widest] <= found:
            break
        left = int(lower[np.searchsorted(lower, widest, side="right") - 1])
        right = int(upper[np.searchsorted(upper, widest)])
        outside = (places - minorant)[: left + 1] + 1, (majorant - places)[right:] + 1
        found = max(found, *(float(part.max()) for part in outside))
        if (left, right) == (0, high - low):
            break
        low, high = low + left, low + right
    return float(found / (2 * x.size))


def _hull(x: Floats, y: Floats, sign: float) -> tuple[Floats, NDArray[np.intp]]:
    """Greatest convex minorant (sign 1) or least concave majorant (-1) at each x; its vertices."""
    at, height = x.tolist(), (sign * y).tolist()
    kept: list[int] = []
    for c in range(x.size):
        while len(kept) > 1:
            a, b = kept[-2:]
            over = (height[b] - height[a]) * (at[c] - at[a])
            if (at[b] - at[a]) * (height[c] - height[a]) > over:
                break
            kept.pop()
        kept.append(c)
    vertices = np.array(kept, dtype=np.intp)
    return np.interp(x, x[vertices], y[vertices]), vertices


def _best_split(x: Floats) -> int:
    """Size of the lower group in the split of sorted values with the least sum of squares."""
    sizes = np.arange(1, x.size)
    sums = np.cumsum(x - x.mean())[:-1]
    return 1 + int(np.argmax(sums**2 * (1 / sizes + 1 / (x.size - sizes))))


def _p_value(found: float, n: int) -> float:
    """By interpolation of √n·dip, over n linearly and over the logarithm of the tail.

    Never under 1e-5: so far the table reaches.
    """
    sizes = np.array(list(_QUANTILES), dtype=np.float64)
    table = np.array(list(_QUANTILES.values()))
    row = [float(np.interp(n, sizes, column)) for column in table.T]
    tails = np.log1p(-np.array(_LEVELS))
    scaled = math.sqrt(n) * found
    return 1.0 if scaled < row[0] else float(np.exp(np.interp(scaled, row, tails)))
