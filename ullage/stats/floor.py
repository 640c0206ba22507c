"""The noise floor: what the apparatus makes of two equal environments."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ullage.stats.interval import Interval


@dataclass(frozen=True, slots=True)
class Floor:
    """The noise floor of one metric of one workload."""

    ratio: float
    """At least 1: an estimated ratio between 1/ratio and ratio is not called a difference."""
    biased: bool
    """An A/A interval excludes 1: the apparatus itself may prefer one side."""

    @property
    def log(self) -> float:
        """The floor on the log scale."""
        return math.log(self.ratio)


def noise_floor(again: Iterable[Interval]) -> Floor | None:
    """Floor from the intervals of the A/A comparisons; None without any.

    Definition: the larger of |log low| and |log high| of the A/A interval, which is the upper limit
    (at the interval's confidence) of the |log ratio| that two equal environments show in this run;
    of several A/A comparisons the largest. It holds the A/A's own bias (|mean|) as well as its
    uncertainty, and shrinks with the blocks. Alternatives not taken: the 95 % quantile of single
    A/A pairs (does not shrink, so it would hide real effects that averaging has resolved), and
    |mean| alone (calls a lucky A/A a perfect apparatus).
    """
    intervals = list(again)
    if not intervals:
        return None
    limit = max(map(reach, intervals))
    return Floor(
        ratio=math.inf if limit > 700 else math.exp(limit),
        biased=any(interval.excludes(1.0) for interval in intervals),
    )


def reach(interval: Interval) -> float:
    """How far from 1 the farther bound is, on the log scale; infinite when it is 0 or infinite."""
    return max(abs(_log(interval.low)), abs(_log(interval.high)))


def _log(ratio: float) -> float:
    return math.log(ratio) if ratio > 0 else -math.inf
