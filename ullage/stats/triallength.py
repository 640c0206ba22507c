"""How long a trial should be, from how the noise of trials grows with the time between them.

A pair of trials that lie near each other shares the slow part of a machine's noise, which then
cancels. Noise without memory averages out in one long trial as well as in several short ones; noise
with memory does not, so many short pairs are worth more than few long ones in the same time, until
the time around each trial weighs more than the work.

The model, on the log scale: a trial's figure is the mean over its length of white noise (variance
`white` over seconds) and a random walk (`walk` a second), the least that has a memory. Of two
trials of L seconds that begin D apart, D ≥ L, half the squared difference is expected to be
white/L + walk·(D − L/3)/2, a straight line in D (a variogram: Matheron 1963, Econ. Geol. 58:1246).
Trials that follow each other in a block give that line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ullage.stats import Floats

LEAST_BLOCKS = 8
"""From fewer the line is not drawn."""
SURE = 1.645
"""Standard errors by which the line must rise before the noise is said to have a memory: 5 %."""
FURTHER = 8
"""The line is followed to trials so many times shorter or longer than those that it is made of."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Noise of one kind of trial."""

    white: float
    """Variance times seconds."""
    walk: float
    """Variance per second."""
    sure: bool
    """The walk is none that chance makes."""

    def pair(self, length: float, rest: float, apart: float) -> float:
        """Variance of the log-ratio of two trials of that length.

        rest: seconds around each trial; apart: how many trials later the second begins, on average.
        """
        between = apart * (length + rest) - length / 3
        return 2 * self.white / length + self.walk * max(0.0, between)

    def cost(self, length: float, rest: float, apart: float) -> float:
        """Variance times time: what a given precision takes is in proportion to it."""
        return self.pair(length, rest, apart) * (length + rest)


def memory(series: Iterable[Sequence[tuple[float, float]]], length: float) -> Memory | None:
    """From stretches of trials of that length: (begin in seconds, log figure less its usual one).

    None where there are too few. The error of the slope is that of a jackknife over the stretches.
    """
    stretches = [_differences(stretch) for stretch in series if len(stretch) > 2]
    if len(stretches) < LEAST_BLOCKS:
        return None
    sums = np.array([_sums(*stretch) for stretch in stretches])
    whole = sums.sum(axis=0)
    level, slope = _line(whole)
    without = np.array([_line(whole - own)[1] for own in sums])
    n = len(sums)
    error = math.sqrt((n - 1) / n * float(np.sum((without - without.mean()) ** 2)))
    walk = 2 * max(0.0, slope)
    white = length * max(0.0, level + walk * length / 6 if slope > 0 else whole[3] / whole[0])
    return Memory(white, walk, sure=slope > SURE * error)


def _differences(stretch: Sequence[tuple[float, float]]) -> tuple[Floats, Floats]:
    """Of every two trials: how far apart they began, and half their squared difference."""
    begin, figure = np.array(stretch, dtype=np.float64).T
    first, second = np.triu_indices(len(stretch), 1)
    return np.abs(begin[second] - begin[first]), (figure[second] - figure[first]) ** 2 / 2


def _sums(x: Floats, y: Floats) -> tuple[float, ...]:
    return float(x.size), float(x.sum()), float(x @ x), float(y.sum()), float(x @ y)


def _line(sums: Floats) -> tuple[float, float]:
    """Level and slope of least squares."""
    n, x, xx, y, xy = (float(value) for value in sums)
    spread = n * xx - x * x
    slope = (n * xy - x * y) / spread if spread > 0 else 0.0
    return (y - slope * x) / n, slope


def best_length(
    noise: Memory, lengths: Sequence[float], now: float, rest: float, apart: float
) -> tuple[float, float]:
    """The length at which a precision takes least time, and that time as a part of today's."""
    within = [length for length in lengths if now / FURTHER <= length <= now * FURTHER]
    best = min([now, *within], key=lambda length: noise.cost(length, rest, apart))
    return best, noise.cost(best, rest, apart) / noise.cost(now, rest, apart)
