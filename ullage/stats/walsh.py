"""Order statistics of the Walsh averages (xᵢ + xⱼ)/2, i ≤ j, exact, without making them all."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ullage.stats import Floats

Places = NDArray[np.int64]

ALL = 100
"""Up to so many values all averages are made and partitioned."""
_ROUNDING = 16 * float(np.finfo(np.float64).eps)
_MOST_THINNED = 500
_SEARCHES = 3
"""Steps by slope before we halve instead, until one value is left: only ties need more."""


def order_statistics(x: Floats, ranks: Sequence[int]) -> list[float]:
    """Averages of sorted `x` with these ranks (from 1), in the order asked.

    Up to `ALL` values by making all n(n+1)/2 averages. Above, after Johnson & Mizoguchi (1978, SIAM
    J. Comput. 7:147) and Monahan (1984, ACM TOMS 10:265): count the averages up to a point, close
    in on the rank, and make only those between two points that at most n averages separate.
    They choose the points at random; we take the first from a thinned sample and the others by
    slope. O(n log n) time, O(n) memory.
    """
    if x.size <= ALL:
        averages = (x[:, None] + x[None, :])[np.triu_indices(x.size)] / 2
        averages.partition(sorted({rank - 1 for rank in ranks}))
        return [float(averages[rank - 1]) for rank in ranks]
    search = _BoundSearch.over(x)
    by_rank: dict[int, float] = {}
    for rank in ranks:
        if rank not in by_rank:
            by_rank |= search.find(rank, ranks)
    return [by_rank[rank] for rank in ranks]


@dataclass(frozen=True, slots=True)
class _Cut:
    """A point among the averages."""

    at: float
    reach: Places
    """For each xᵢ up to `at`: how many xⱼ have (xᵢ + xⱼ)/2 up to `at`."""
    count: int
    """Averages up to `at`."""


def _cut(x: Floats, at: float) -> _Cut:
    """Of a pair whose average is at most `at`, the smaller value is so too: only it is looked at.

    All xⱼ up to `at` are within its reach; the search for the last one begins behind them.
    """
    half = int(np.searchsorted(x, at, side="right"))
    reach = half + np.searchsorted(x[half:], 2 * at - x[:half], side="right")
    return _Cut(at, reach, int(reach.sum()) - half * (half - 1) // 2)


@dataclass(frozen=True, slots=True)
class _Gap:
    """The averages above one cut, up to another: xᵢ with x[start[i]:stop[i]]."""

    x: Floats
    start: Places
    stop: Places

    @classmethod
    def between(cls, x: Floats, low: _Cut, high: _Cut) -> _Gap:
        """Of two cuts of the same values."""
        start = np.arange(high.reach.size)
        start[: low.reach.size] = low.reach
        return cls(x, start, high.reach)

    def averages(self) -> Floats:
        """All of them, in no order."""
        length = self.stop - self.start
        ends = np.cumsum(length)
        partner = np.repeat(self.start - (ends - length), length)
        partner += np.arange(partner.size)
        sums: Floats = np.repeat(self.x[: length.size], length)
        sums += self.x[partner]
        return sums / 2

    def range(self) -> tuple[float, float, bool]:
        """The least and the greatest of them, and whether they differ by rounding at most."""
        rows = np.flatnonzero(self.stop > self.start)
        mine, first, last = self.x[rows], self.x[self.start[rows]], self.x[self.stop[rows] - 1]
        least, most = float(np.min(mine + first)) / 2, float(np.max(mine + last)) / 2
        largest = max(float(np.max(np.abs(side))) for side in (mine, first, last))
        return least, most, most - least <= _ROUNDING * largest


@dataclass(frozen=True, slots=True)
class _BoundSearch:
    x: Floats
    total: int
    thinned: Floats
    """Sorted averages of a sample that has every k-th value only: the shape of all of them."""
    cuts: list[_Cut]
    """All made so far, in order."""

    @classmethod
    def over(cls, x: Floats) -> _BoundSearch:
        n, total = x.size, x.size * (x.size + 1) // 2
        # Thinning to √n values leaves an error of the order of n averages: the first guess is good.
        thinned_size = min(math.isqrt(n), _MOST_THINNED)
        few = x[((np.arange(thinned_size) + 0.5) * (n / thinned_size)).astype(np.int64)]
        nothing = _Cut(float(np.nextafter(x[0], -np.inf)), np.zeros(0, np.int64), 0)
        everything = _Cut(float(x[-1]), np.full(n, n), total)
        return cls(x, total, np.sort((few[:, None] + few) / 2, axis=None), [nothing, everything])

    def find(self, rank: int, also: Sequence[int]) -> dict[int, float]:
        """The average with this rank, and those with the ranks of `also` that are close to it."""
        guess, slope = self._guess(rank)
        n, search = self.x.size, 0
        while True:
            low, high = self._around(rank)
            if high.count - low.count <= n:
                return self._between(low, high, {rank, *also})
            if search >= _SEARCHES:
                least, most, tied = _Gap.between(self.x, low, high).range()
                if tied:
                    return {rank: most}
                at = (least + most) / 2
            elif search == 0:
                at = guess
            else:
                at = _aim(low, high, rank, n / 4, slope)
            if not low.at < at < high.at:
                at = low.at + (high.at - low.at) / 2
            if not low.at < at < high.at:
                return {rank: high.at}
            self._add(_cut(self.x, at))
            search += 1

    def _guess(self, rank: int) -> tuple[float, float]:
        """Where the rank will lie, and how many averages there are in a unit of x there."""
        share = (rank - 0.5) / self.total
        near = np.clip([share - 0.02, share, share + 0.02], 0, 1)
        places = (near * (self.thinned.size - 1)).astype(np.int64)
        before, at, after = (float(v) for v in self.thinned[places])
        apart = after - before
        return at, float(near[2] - near[0]) * self.total / apart if apart > 0 else math.inf

    def _around(self, rank: int) -> tuple[_Cut, _Cut]:
        place = bisect_left(self.cuts, rank, key=lambda cut: cut.count)
        return self.cuts[place - 1], self.cuts[place]

    def _add(self, cut: _Cut) -> None:
        self.cuts.insert(bisect_left(self.cuts, cut.at, key=lambda c: c.at), cut)

    def _between(self, low: _Cut, high: _Cut, ranks: set[int]) -> dict[int, float]:
        inside = sorted(rank for rank in ranks if low.count < rank <= high.count)
        averages = _Gap.between(self.x, low, high).averages()
        averages.partition([rank - low.count - 1 for rank in inside])
        return {rank: float(averages[rank - low.count - 1]) for rank in inside}


def _aim(low: _Cut, high: _Cut, rank: int, beyond: float, slope: float) -> float:
    """From the nearer cut over the rank to `beyond` averages on its other side."""
    if high.count - low.count < 0.05 * high.count:
        slope = (high.count - low.count) / (high.at - low.at)
    if rank - low.count < high.count - rank:
        return low.at + (rank - low.count + beyond) / slope
    return high.at - (high.count - rank + beyond) / slope
