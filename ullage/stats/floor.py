"""The noise floor: what the apparatus makes of two equal environments."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ullage.stats.interval import Interval

SHARED, APART = 0.5, 0.0
"""Correlation of a comparison's mean with that of its A/A, where all trials are equally noisy: both
are against the same trials of the baseline (solo), or each has its own beside it (duet)."""


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


def noise_floor(again: Iterable[Interval], correlation: float = SHARED) -> Floor | None:
    """Floor from the intervals of the A/A comparisons; None without any.

    Definition: |mean| + random_part · half width of the A/A interval on the log scale; of several
    A/A comparisons the largest. It holds the A/A's own bias (|mean|) as well as the uncertainty of
    an estimate's distance from it, and shrinks with the blocks. Where the comparison and the A/A
    share the baseline's trials (SHARED) it is the larger of |log low| and |log high|: the upper
    limit, at the interval's confidence, of the |log ratio| that two equal environments show in this
    run. Alternatives not taken: the 95 % quantile of single A/A pairs (does not shrink, so it would
    hide real effects that averaging has resolved), and |mean| alone (calls a lucky A/A a perfect
    apparatus).
    """
    intervals = list(again)
    if not intervals:
        return None
    limit = max(reach(interval, correlation) for interval in intervals)
    return Floor(
        ratio=math.inf if limit > 700 else math.exp(limit),
        biased=any(interval.excludes(1.0) for interval in intervals),
    )


def reach(interval: Interval, correlation: float = SHARED) -> float:
    """The floor that one A/A makes, on the log scale; infinite when a bound is 0 or infinite."""
    low, high = _log(interval.low), _log(interval.high)
    if not math.isfinite(low) or not math.isfinite(high):
        return math.inf
    return max(abs(low), abs(high)) + (random_part(correlation) - 1) * (high - low) / 2


def random_part(correlation: float) -> float:
    """Factor on the A/A's half width: error of (comparison − A/A) over that of one of them.

    √(2(1 − correlation)) for means of equal variance: 1 where they share trials, √2 where not.
    """
    return math.sqrt(2 * (1 - correlation))


def _log(ratio: float) -> float:
    return math.log(ratio) if ratio > 0 else -math.inf
