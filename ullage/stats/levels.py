"""Levels of repetition: how much each adds to the spread, and how often to repeat each.

After T. Kalibera and R. Jones, "Rigorous benchmarking in reasonable time" (ISMM 2013; the revised
version, which mends the estimator). Levels go from the top down: generation (the instances made
anew), block, iteration; the lowest is that of the single values. The paper counts from the bottom.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ullage.stats.interval import sample

MOST = 1000
"""Where the optimum is "as many as can be", so many: the most iterations that a plan may have."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Components:
    """What each level adds to the variance of one value, from the top level to single values."""

    raw: tuple[float | None, ...]
    """Unbiased estimates; below 0 where chance made groups more alike than their values let expect.
    None: no group of the level has a sibling, so what it adds is in the level above; at the top
    level it is then not known."""
    degrees: tuple[int, ...]
    """Degrees of freedom of each estimate."""

    @property
    def variances(self) -> tuple[float, ...]:
        """To reckon with: what is negative or not known is 0."""
        return tuple(max(0.0, v) if v is not None else 0.0 for v in self.raw)


def components(values: ArrayLike, *groups: ArrayLike) -> Components:
    """Variance components of nested data, by the analysis of variance.

    groups: for each level above the values, from the top, the label of the group that each value is
    in; labels need be unique within the group above only. With groups of equal size the results are
    Kalibera & Jones' T²: the variance S² of the means of a level's groups, less what the level
    below explains of it, T²ᵢ = S²ᵢ − S²ᵢ₋₁/nᵢ₋₁. With unequal ones each sum of squares is set equal
    to what it is expected to be, SS(l) = Σ c(l, k)·σ²(k) over the levels k from l down (Henderson's
    method 1; Searle, Casella & McCulloch 1992, "Variance Components", ch. 5). Unbiased for
    independent groups and values, whatever their distributions.
    TooFewError under two values; ValueError unless all are finite and have a label each.
    """
    x = sample(values, 2)
    inside = _numbered(x.size, groups)
    sizes = [np.bincount(number)[number].astype(np.float64) for number in inside]
    both = zip(inside, sizes, strict=True)
    means = [np.bincount(number, x - x.mean())[number] / n for number, n in both]
    depth = len(groups) + 1
    raw: list[float | None] = [None] * depth
    degrees = [int(inside[level + 1].max() - inside[level].max()) for level in range(depth)]
    for level in reversed(range(depth)):
        if degrees[level] == 0:
            continue
        weight = 1 / sizes[level + 1] - 1 / sizes[level]
        squares = float(np.sum((means[level + 1] - means[level]) ** 2))
        for below in range(level + 1, depth):
            squares -= (raw[below] or 0.0) * float(np.sum(sizes[below + 1] * weight))
        raw[level] = squares / float(np.sum(sizes[level + 1] * weight))
    return Components(tuple(raw), tuple(degrees))


def _numbered(size: int, groups: Sequence[ArrayLike]) -> list[NDArray[np.int64]]:
    """For each value the number of its group: of all, of each level, and of its own."""
    inside = [np.zeros(size, dtype=np.int64)]
    for labels in groups:
        _, codes = np.unique(np.asarray(labels).reshape(-1), return_inverse=True)
        if codes.size != size:
            raise ValueError(f"{codes.size} labels for {size} values")
        _, number = np.unique(inside[-1] * size + codes, return_inverse=True)
        inside.append(number.astype(np.int64))
    return [*inside, np.arange(size, dtype=np.int64)]


def mean_variance(variances: Sequence[float], counts: Sequence[int]) -> float:
    """Variance of the grand mean of `counts` repetitions at each level, both from the top down.

    Σ σ²(l) / (n₁·n₂·…·n_l): every level is averaged over all repetitions at and above it.
    """
    return math.fsum(
        variance / math.prod(counts[: level + 1]) for level, variance in enumerate(variances)
    )


def optimal_counts(
    costs: Sequence[float], variances: Sequence[float], most: int = MOST
) -> tuple[int, ...]:
    """How often to repeat each level but the top one for each repetition of the level above it.

    costs: of one repetition at each level, without what is repeated inside of it, from the top
    down; variances: what each adds. Kalibera & Jones: n = ⌈√((C/c)·(v/V))⌉, with C, V of
    the level above and c, v of the level itself, makes the mean's variance smallest for any given
    total cost; the top level takes the rest of the time.

    Where the formula gives 1 or less the level is not worth repeating: it is done once, and counts
    as one with the level above it, costs and variances added. (The formula takes the levels one by
    one, and would set the next one's count against a level that is not repeated.) A level below one
    that adds no variance, or that costs nothing, is worth repeating without end: `most`.
    ValueError unless all are finite and not negative, one of each for each level.
    """
    if len(costs) != len(variances) or not costs:
        raise ValueError(f"{len(costs)} costs for {len(variances)} variances")
    if not all(0 <= value < math.inf for value in (*costs, *variances)):
        raise ValueError("a cost or a variance is negative or not finite")
    merged: list[_Merged] = []
    for cost, variance in zip(costs, variances, strict=True):
        merged.append(_Merged(cost, variance, 1))
        while len(merged) > 1 and merged[-1].squared_in(merged[-2]) <= 1:
            lower, upper = merged.pop(), merged.pop()
            merged.append(upper.with_level(lower))
    counts = [1] * (merged[0].levels - 1)
    for upper, lower in pairwise(merged):
        optimum = math.sqrt(lower.squared_in(upper))
        counts.append(most if optimum > most else math.ceil(optimum * (1 - _ROUNDING)))
        counts += [1] * (lower.levels - 1)
    return tuple(counts)


@dataclass(frozen=True, slots=True)
class _Merged:
    """Levels that count as one: all but the first are done once in each of it."""

    cost: float
    variance: float
    levels: int

    def squared_in(self, upper: _Merged) -> float:
        """Square of the best number of these in each upper one."""
        gain, price = upper.cost * self.variance, self.cost * upper.variance
        if gain == 0:
            return 0.0
        return gain / price if price > 0 else math.inf

    def with_level(self, lower: _Merged) -> _Merged:
        """This and one of the lower in each."""
        return _Merged(
            self.cost + lower.cost, self.variance + lower.variance, self.levels + lower.levels
        )
