"""Do the intervals of totals and bills hold what is paid?"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.statistics.noise import Rng
from benchmarks.statistics.table import Share, share
from ullage.stats import Floats
from ullage.stats.totals import ratio_of_totals, total_interval

CONFIDENCE = 0.95
COUNTS = (6, 12, 30)
EVEN = 0.05
"""Spread of what has a constant one."""


@dataclass(frozen=True)
class Times:
    """How long trials take; the mean is known."""

    name: str
    draw: Callable[[Rng, tuple[int, int]], Floats]
    mean: float


def _even(rng: Rng, shape: tuple[int, int]) -> Floats:
    return np.exp(EVEN * rng.standard_normal(shape))


def _slow(rng: Rng, shape: tuple[int, int]) -> Floats:
    return np.where(rng.random(shape) < 0.2, 5, 1) * _even(rng, shape)


EVEN_MEAN = math.exp(EVEN**2 / 2)
CONSTANT = Times("constant spread of 5 %", _even, EVEN_MEAN)
TIMES = (
    CONSTANT,
    Times("lognormal, σ = 1", lambda rng, shape: rng.lognormal(0, 1, shape), math.exp(0.5)),
    Times("20 % of trials × 5", _slow, 1.8 * EVEN_MEAN),
)


@dataclass(frozen=True)
class Paid:
    """Coverage of one kind of trials with so many blocks."""

    times: str
    blocks: int
    bill: Share
    """Of the mean, so of the total and the bill."""
    ratio: Share
    """Of the totals, to a baseline of constant spread."""
    both: Share
    """The same where the baseline's trials are of this kind too."""


@dataclass(frozen=True)
class Bills:
    """A part of it, for one process."""

    times: int
    """Place in `TIMES`: functions of no name do not travel between processes."""
    campaigns: int
    seed: int

    def __call__(self) -> list[Paid]:
        times, rng = TIMES[self.times], np.random.default_rng([self.seed, self.times])
        return [_paid(times, rng, self.campaigns, blocks) for blocks in COUNTS]


def _paid(times: Times, rng: Rng, campaigns: int, blocks: int) -> Paid:
    shape = campaigns, blocks
    mine, theirs, even = times.draw(rng, shape), times.draw(rng, shape), _even(rng, shape)
    bills = [total_interval(x, CONFIDENCE) for x in mine]
    ratios = [ratio_of_totals(x, y, CONFIDENCE) for x, y in zip(mine, even, strict=True)]
    both = [ratio_of_totals(x, y, CONFIDENCE) for x, y in zip(mine, theirs, strict=True)]
    return Paid(
        times.name,
        blocks,
        share([i.low <= times.mean <= i.high for i in bills]),
        share([not i.excludes(times.mean / EVEN_MEAN) for i in ratios]),
        share([not i.excludes(1.0) for i in both]),
    )
