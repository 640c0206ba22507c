"""Does a value depend on the one before it, and what does that take from an interval?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, permutations
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ullage.stats import Floats
from ullage.stats.interval import ROUNDING, sample, t_tail

DIP_LEAST = 6
"""Under so many values nothing is said."""
_DIP_MOST = 2000
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
    outlier and no group. Rounded values must be `dithered` first. The groups are the
    best split in two (least sum of squares). TooFewError under 6 values.
    """
    x = sample(values, DIP_LEAST)
    x = np.sort(x[:: math.ceil(x.size / _DIP_MOST)])
    if x[0] == x[-1]:
        return Groups(1.0, float(x[0]), float(x[0]), 1.0)
    cut = _best_split(x)
    low, high = float(x[:cut].mean()), float(x[cut:].mean())
    return Groups(_p_of_dip(dip(x), x.size), low, high, cut / x.size)


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
    widest_gap = 1.0
    while x[low] < x[high]:
        places = np.arange(low, high + 1, dtype=np.float64)
        inside = x[low : high + 1]
        minorant, lower = _hull(inside, places, 1.0)
        majorant, upper = _hull(inside, places, -1.0)
        gaps = majorant - minorant + 1
        ends = np.union1d(lower, upper)
        widest = int(ends[np.argmax(gaps[ends])])
        if gaps[widest] <= widest_gap:
            break
        left = int(lower[np.searchsorted(lower, widest, side="right") - 1])
        right = int(upper[np.searchsorted(upper, widest)])
        outside = (places - minorant)[: left + 1] + 1, (majorant - places)[right:] + 1
        widest_gap = max(widest_gap, *(float(part.max()) for part in outside))
        if (left, right) == (0, high - low):
            break
        low, high = low + left, low + right
    return float(widest_gap / (2 * x.size))


def _hull(x: Floats, y: Floats, sign: float) -> tuple[Floats, NDArray[np.intp]]:
    """Greatest convex minorant (sign 1) or least concave majorant (-1) at each x; its vertices."""
    at, height = x.tolist(), (sign * y).tolist()
    hull: list[int] = []
    for c in range(x.size):
        while len(hull) > 1:
            a, b = hull[-2:]
            over = (height[b] - height[a]) * (at[c] - at[a])
            if (at[b] - at[a]) * (height[c] - height[a]) > over:
                break
            hull.pop()
        hull.append(c)
    vertices = np.array(hull, dtype=np.intp)
    return np.interp(x, x[vertices], y[vertices]), vertices


def _best_split(x: Floats) -> int:
    """Size of the lower group in the split of sorted values with the least sum of squares."""
    sizes = np.arange(1, x.size)
    sums = np.cumsum(x - x.mean())[:-1]
    return 1 + int(np.argmax(sums**2 * (1 / sizes + 1 / (x.size - sizes))))


def _p_of_dip(statistic: float, n: int) -> float:
    """By interpolation of √n·dip, over n linearly and over the logarithm of the tail.

    Never under 1e-5: so far the table reaches.
    """
    sizes = np.array(list(_QUANTILES), dtype=np.float64)
    table = np.array(list(_QUANTILES.values()))
    row = [float(np.interp(n, sizes, column)) for column in table.T]
    tails = np.log1p(-np.array(_LEVELS))
    scaled = math.sqrt(n) * statistic
    return 1.0 if scaled < row[0] else float(np.exp(np.interp(scaled, row, tails)))


EXACT = 8
"""Up to so many values the p-value counts all orders (8! = 40,320)."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Rank correlation of a series with time."""

    correlation: float
    """Spearman's ρ: 1 always rising, −1 always falling."""
    p_value: float


def drift(times: ArrayLike | None, values: ArrayLike) -> Drift:
    """Spearman's rank correlation with time, and how likely one so far from 0 is without drift.

    times: None: each value came after the one before.
    Ties get mean ranks. The p-value is exact to `EXACT` values: the share of all orders of these
    ranks; above it is by t with n − 2 degrees of freedom (Kendall & Gibbons 1990, §4.14), for fewer
    than 20 values up to 1.6 times too small where it is below 0.01. A series without spread has no
    drift: ρ 0, p 1. TooFewError under 4 values, ValueError for unequal lengths.
    """
    x = sample(values, 4)
    t = None if times is None else sample(times, 4)
    if t is not None and t.size != x.size:
        raise ValueError(f"{t.size} times for {x.size} values")
    if t is not None and (t[1:] < t[:-1]).any():
        order = np.argsort(t)
        t, x = t[order], x[order]
    # In order of time, then of value: ranks need no more than one look at who has equal neighbours.
    order = np.argsort(x)
    a = order - (x.size - 1) / 2 if t is None else _centred_ranks(t)[order]
    b = _centred_ranks(x[order])
    scale = math.sqrt(float(a @ a) * float(b @ b))
    if scale == 0:
        return Drift(0.0, 1.0)
    together = float(a @ b)
    rho = min(1.0, max(-1.0, together / scale))
    if x.size <= EXACT:
        null = _rank_orders(tuple(np.sort(a).tolist()), tuple(b.tolist()))
        return Drift(rho, 1 - int(np.searchsorted(null, abs(together))) / null.size)
    return Drift(rho, _p_by_t(rho, x.size - 2))


def _p_by_t(rho: float, df: int) -> float:
    unexplained = 1 - rho * rho
    return (
        min(1.0, 2 * t_tail(abs(rho) * math.sqrt(df / unexplained), df)) if unexplained > 0 else 0.0
    )


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
def _rank_orders(a: tuple[float, ...], b: tuple[float, ...]) -> Floats:
    """Sorted |Σ aᵢ b_π(i)| of centred ranks over all orders π."""
    orders: NDArray[np.int64] = np.array(list(permutations(range(len(b)))))
    null: Floats = np.abs(np.array(b)[orders] @ np.array(a))
    null.sort()
    return null


OUTLIER_LIMIT = 10.0


def robust_z(values: ArrayLike) -> Floats:
    """Distance from the median in units of 1.4826·MAD, the normal's standard deviation.

    Where more than half of the values are equal (MAD 0) the mean absolute deviation stands in, as
    1.2533·MeanAD (Iglewicz & Hoaglin 1993); where all are equal, all distances are 0. A distance at
    the level of rounding is none.
    """
    x = sample(values)
    return robust_z_about(median(x), x)


def robust_z_about(middle: float, x: Floats) -> Floats:
    """The same of finite values whose median is known."""
    distance: Floats = np.abs(x - middle)
    distance[distance <= ROUNDING * abs(middle)] = 0
    scale = 1.4826 * median(distance)
    if scale == 0:
        scale = math.sqrt(math.pi / 2) * float(np.mean(distance))
    return distance / scale if scale > 0 else distance


def median(x: Floats) -> float:
    """Of finite values, as `np.median` has it to the last bit, which also looks for others."""
    middle = x.size // 2
    if x.size % 2:
        return float(np.partition(x, middle)[middle])
    ordered = np.partition(x, (middle - 1, middle))
    return float((ordered[middle - 1] + ordered[middle]) / 2)


def outliers(values: ArrayLike, limit: float = OUTLIER_LIMIT) -> NDArray[np.bool_]:
    """True where the robust z is above `limit` (10, that is 14.8 MAD, as hyperfine does)."""
    return robust_z(values) > limit


AUTOCORRELATION_LEAST = 6
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
    x = sample(values, AUTOCORRELATION_LEAST)
    n = x.size
    d = x - x.mean()
    squares = float(d @ d)
    if np.ptp(x) == 0 or squares == 0:
        return Autocorrelation(n, 0.0, 1.0, float(n))
    r = float(d[:-1] @ d[1:]) / squares
    rho = min(max((n * r + 1) / (n - 3), -1.0), 1.0)
    positive = max(rho, 0.0)
    effective = max(1.0, n * (1 - positive) / (1 + positive))
    return Autocorrelation(n, rho, _p_by_orders(_ranks(x)), effective)


def _ranks(x: Floats) -> Floats:
    """From 1 up; equal values have the mean of their ranks."""
    _, group, counts = np.unique(x, return_inverse=True, return_counts=True)
    ranks: Floats = np.cumsum(counts) - (counts - 1) / 2
    return ranks[group]


def _p_by_orders(ranks: Floats) -> float:
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
        null = _lag_orders(tuple(np.sort(ranks).tolist()))
        return int(np.searchsorted(null, apart, side="right")) / null.size
    centred = ranks - ranks.mean()
    ratio = apart / float(centred @ centred)
    a = 5 * n * (n + 1) * (n - 1) ** 2 / (2 * (n - 2) * (5 * n * n - 2 * n - 9)) - 0.5
    return float(special.betainc(a, a, min(ratio / 4, 1.0)))


@lru_cache(maxsize=64)
def _lag_orders(ranks: tuple[float, ...]) -> Floats:
    """Sorted Σ (rᵢ₊₁ - rᵢ)² over all orders of the ranks: exact, as multiples of a quarter."""
    steps = np.diff(np.array(list(permutations(ranks))), axis=1)
    null: Floats = (steps * steps).sum(axis=1)
    null.sort()
    return null


WARM_UP_LEAST = 8
"""Under so many values nothing is said."""
WARM_UP_MOST = 20
"""No more of the first values are looked at; what changes later, or slowly, is drift."""
ALIKE = 0.05
"""Level at which the rest is called autocorrelated."""
TAIL_DF = 2.0
"""Degrees of freedom of the Student's t whose tails the p-values are of."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The first values, against the rest."""

    first: int
    """So many of them stand apart together most clearly; 0: the very first is like the rest."""
    p_value: float
    distance: float
    """Median of the first minus median of the rest, in the unit of the values."""


def warm_up(values: ArrayLike) -> WarmUp:
    """Runs rule for the start of a series, in the order of time.

    For k = 1, 2, … up to a quarter of the series: how far beyond the median of the rest, in units
    of its scale (mean absolute deviation, as a normal's standard deviation), does even the nearest
    of the first k lie, all of them on one side? One value must lie far out; two, three or four in a
    row need less and less: the supplementary runs rules of control charts (Western Electric 1956,
    Statistical Quality Control Handbook; Champ & Woodall 1987, Technometrics 29:393), here with
    p = 2 P(T > z)ᵏ and Bonferroni over k. T is Student's with 2 degrees of freedom: its tails are
    heavy enough for noise like t(3) with a scale that was estimated from few values
    (`tests/stats/test_warmup.py` simulates it). The k with the least p is the number of values
    affected. Where that is the most that is looked at, and the value after it is nearer to the
    first ones than to the rest, the change is later than a start: it is left to `drift`.

    A test by permutation could not do this: the first of n values is the most extreme one with
    chance 1/n, however extreme it is. Several in a row prove less where neighbours are alike all
    along: where the rest is autocorrelated they count as the k(1-ρ)/(1+ρ) independent ones that
    they are worth, at least as one. TooFewError under 8 values; a rest without spread tells
    nothing: first 0, p 1.
    """
    x = sample(values, WARM_UP_LEAST)
    most = min(x.size // 4, WARM_UP_MOST)
    p_values = [_p_after(x, k, float(k), most) for k in range(1, most + 1)]
    first = 1 + int(np.argmin(p_values))
    p = _p_after(x, first, _worth(first, x[first:]), most)
    if p == 1.0 or (first == most and _goes_on(x, most)):
        return WarmUp(0, 1.0, 0.0)
    return WarmUp(first, p, float(np.median(x[:first]) - np.median(x[first:])))


def _p_after(x: Floats, first: int, worth: float, most: int) -> float:
    apart = _apart(x[:first], x[first:])
    if apart == 0:
        return 1.0
    tail = float(special.stdtr(TAIL_DF, -apart))
    return min(1.0, 2 * most * math.pow(tail, worth))


def _worth(first: int, later: Floats) -> float:
    """As many independent values the first ones are worth, if they depend as the rest does."""
    dependence = autocorrelation(later)
    if first == 1 or dependence.p_value > ALIKE:
        return float(first)
    return max(1.0, first * dependence.effective / later.size)


def _goes_on(x: Floats, most: int) -> bool:
    """Is the value after the first `most` more like them than like the rest?"""
    first, later = float(np.median(x[:most])), float(np.median(x[most:]))
    return abs(float(x[most]) - first) < abs(float(x[most]) - later)


def _apart(first: Floats, later: Floats) -> float:
    """Distance of the nearest of the first from the middle of the rest; 0 when not on one side."""
    middle = float(np.median(later))
    # Not the MAD: of seven values it is sometimes so small that anything stands apart.
    spread = float(np.mean(np.abs(later - middle)))
    scale = math.sqrt(math.pi / 2 * later.size / (later.size - 1)) * spread
    if scale == 0:
        return 0.0
    z = (first - middle) / scale
    return max(float(z.min()), float(-z.max()), 0.0)


CHANGE_LEAST: Final = 3
"""Values on either side of a change."""


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """Where a series begins to be another."""

    index: int
    """Of the first value after the change."""
    p_value: float
    """Of no change in the stretch that it parts; counted over shuffles, so never 0."""


def change_points(
    values: ArrayLike, level: float = 0.05, shuffles: int = 999, seed: int = 0
) -> tuple[ChangePoint, ...]:
    """E-divisive means: where the distribution of a series changes, in order.

    Hierarchical: the split with the largest energy distance is kept while a permutation test
    within the stretches so far gives p ≤ `level` (Matteson & James 2014, J. Am. Stat. Assoc.
    109:334, equations 5 to 7, α = 1).
    """
    x = sample(values, least=0)
    random = np.random.default_rng(seed)
    changes: dict[int, float] = {}
    while True:
        edges = [0, *sorted(changes), x.size]
        stretches = [x[low:high] for low, high in pairwise(edges)]
        strength, index = _best_change(stretches)
        if index is None:
            break
        shuffled = ([random.permutation(part) for part in stretches] for _ in range(shuffles))
        # A shuffle that is the series in another order ties, but for the order of its sums.
        least = strength * (1 - 1e-9)
        as_large = sum(_best_change(parts)[0] >= least for parts in shuffled)
        p_value = (1 + as_large) / (1 + shuffles)
        if p_value > level:
            break
        changes[index] = p_value
    return tuple(ChangePoint(index, changes[index]) for index in sorted(changes))


def _best_change(stretches: Sequence[Floats]) -> tuple[float, int | None]:
    """The largest energy distance of a split of a stretch, and where: an index of the series."""
    best: tuple[float, int | None] = (0.0, None)
    start = 0
    for x in stretches:
        if x.size >= 2 * CHANGE_LEAST:
            distances = _energy_distances(x)
            at = int(np.argmax(distances))
            if distances[at] > best[0]:
                best = float(distances[at]), start + CHANGE_LEAST + at
        start += x.size
    return best


def _energy_distances(x: Floats) -> Floats:
    """The largest of each split, over where the values after it may end; scaled by mk/(m + k)."""
    n = x.size
    sums = np.zeros((n + 1, n + 1))
    sums[1:, 1:] = np.abs(x[:, None] - x).cumsum(axis=0).cumsum(axis=1)
    split = np.arange(CHANGE_LEAST, n - CHANGE_LEAST + 1)[:, None]
    end = np.arange(2 * CHANGE_LEAST, n + 1)[None, :]
    m, k = split, np.maximum(end - split, 2)
    before = sums[split, split]
    between = sums[split, end] - before
    after = sums[end, end] - before - 2 * between
    distance = 2 * between / (m * k) - before / (m * (m - 1)) - after / (k * (k - 1))
    scaled = np.where(end - split >= CHANGE_LEAST, m * k / (m + k) * distance, 0.0)
    largest: Floats = scaled.max(axis=1)
    return largest
