"""Step curves: whole numbers over time, known exactly, and integrated exactly.

Nothing is sampled: a curve is the list of instants at which it changes. Instants are whole
nanoseconds, values whole numbers, so an integral of a curve has no error at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Instants = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class StepCurve:
    """A curve that is 0 before its first change, and constant between changes.

    At the instant of a change it has the new value already (it is continuous from the right).
    """

    at: Instants
    """Strictly increasing, nanoseconds."""
    value: Instants
    """From each of these instants on."""

    @classmethod
    def summed(cls, changes: Iterable[tuple[int, int]]) -> StepCurve:
        """The running sum of (instant, change); changes at one instant happen at once."""
        pairs = np.array(sorted(changes), dtype=np.int64).reshape(-1, 2)
        if not len(pairs):
            return NOTHING
        at, first = np.unique(pairs[:, 0], return_index=True)
        step = np.add.reduceat(pairs[:, 1], first)
        changed = step != 0
        return cls(at[changed], np.cumsum(step[changed]))

    @classmethod
    def counted(cls, spans: Iterable[tuple[int, int]]) -> StepCurve:
        """How many of the spans [begin, end) hold each instant; one that is empty holds none."""
        return cls.summed(change for a, b in spans if a < b for change in ((a, 1), (b, -1)))

    def __call__(self, at: Instants | int) -> Instants:
        """The value at each instant."""
        place = np.searchsorted(self.at, at, side="right") - 1
        return np.where(place < 0, 0, self._or_zero(place))

    def _or_zero(self, place: Instants | np.intp) -> Instants:
        return self.value[np.maximum(place, 0)] if self.value.size else np.zeros_like(place)

    def over(self, units: int) -> StepCurve:
        """How many bins of `units` the value fills: the curve divided and rounded up."""
        return StepCurve.summed(_changes(self.at, -(-self.value // units)))

    def delayed(self, by: int) -> StepCurve:
        """The same, later."""
        return StepCurve(self.at + by, self.value)

    def most(self, begin: int, end: int) -> int:
        """The largest value in [begin, end)."""
        return max((value for _, (value,) in times(begin, end, self)), default=0)

    def integral(self, begin: int, end: int) -> int:
        """Its integral over [begin, end), in nanoseconds; exact."""
        return sum(length * value for length, (value,) in times(begin, end, self))

    def corners(self, begin: int, end: int) -> list[tuple[int, int]]:
        """(instant, value) where it begins and at each change before `end`, for drawing."""
        inside = self.at[(self.at > begin) & (self.at < end)]
        at = np.concatenate(([begin], inside)).astype(np.int64)
        return [(int(t), int(v)) for t, v in zip(at, self(at), strict=True)]


NOTHING = StepCurve(np.zeros(0, np.int64), np.zeros(0, np.int64))
"""0 for ever."""


def times(begin: int, end: int, *curves: StepCurve) -> list[tuple[int, tuple[int, ...]]]:
    """How long, within [begin, end), the curves have each combination of values that they have.

    In nanoseconds, and exact as long as the interval is under 2^53 of them: the lengths are added
    up as float64, which holds every whole number up to there.
    """
    if end <= begin:
        return []
    every = np.concatenate([curve.at for curve in curves])
    cuts = np.unique(every[(every > begin) & (every < end)])
    edges = np.concatenate(([begin], cuts, [end])).astype(np.int64)
    columns = np.stack([curve(edges[:-1]) for curve in curves])
    values, column = np.unique(columns, axis=1, return_inverse=True)
    lengths = np.bincount(column.reshape(-1), weights=np.diff(edges))
    return [(int(length), tuple(of)) for length, of in zip(lengths, values.T.tolist(), strict=True)]


def share(begin: int, end: int, parts: Iterable[tuple[int, float]]) -> float:
    """∑ length · value over the length of [begin, end): a mean over time, rounded once."""
    return math.fsum(length * value for length, value in parts) / (end - begin)


def _changes(at: Instants, value: Instants) -> Iterator[tuple[int, int]]:
    steps = np.diff(value, prepend=np.int64(0))
    return zip(at.tolist(), steps.tolist(), strict=True)
