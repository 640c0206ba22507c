"""What all trials of a comparison took together, and its slowest ones, beside the usual trial."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ullage.analysis.comparison.estimates import Interval, Tail
from ullage.analysis.comparison.pairing import Draft, stored
from ullage.runs.records import Better
from ullage.stats import Floats
from ullage.stats.interval import collapse
from ullage.stats.quantiles import least_for, quantile_ratio
from ullage.stats.totals import ratio_of_independent_totals, ratio_of_totals

QUANTILES = (0.99, 0.95)
"""Of the tail; the first that the values can bound."""


@dataclass(frozen=True, slots=True)
class Sides:
    """The figures of both sides of a comparison, all above 0."""

    mine: Floats
    theirs: Floats
    """Of the baseline."""
    better: Better
    rate: bool
    """So much a second: what adds up is the time that a unit of work takes."""

    def costs(self) -> tuple[Floats, Floats]:
        """What adds up, mine over theirs above 1 is worse."""
        if self.better == "lower":
            return self.mine, self.theirs
        return (1 / self.mine, 1 / self.theirs) if self.rate else (self.theirs, self.mine)

    def slowness(self) -> tuple[Floats, Floats]:
        """More is worse."""
        if self.better == "lower":
            return self.mine, self.theirs
        return 1 / self.mine, 1 / self.theirs


def totals(d: Draft) -> Interval | None:
    """Ratio of the arithmetic means of both sides' pairs, above 1 is worse.

    Rates of which more is better count by the time that a unit of work takes, so their means are
    harmonic. Where the instances were made several times these are the makings' means. None of a
    curve, whose coordinates have no sum, and under two units.
    """
    if d.metric.coordinate is not None:
        return None
    return of_pairs(_sides(d), d.generations, d.settings.confidence, d.widening)


def tail(d: Draft) -> Tail | None:
    """Ratio of the 95 or 99 % quantiles of how slow the trials are, by order statistics.

    None where there are too few pairs: 86 and 435 at 95 %. With instances made several times the
    trials are not independent: None then too.
    """
    if d.metric.coordinate is not None or d.precision != "repeatability":
        return None
    return tail_of(_sides(d), d.settings.confidence)


def of_pairs(
    sides: Sides, groups: ArrayLike | None, confidence: float, widening: float = 1.0
) -> Interval | None:
    """The same of figures that are paired; groups: what is dependent, as `collapse` takes it."""
    costs = sides.costs()
    mine, theirs = costs if groups is None else (collapse(side, groups) for side in costs)
    if mine.size < 2:
        return None
    return stored(ratio_of_totals(mine, theirs, confidence, widening))


def of_independent(sides: Sides, confidence: float) -> Interval | None:
    """The same of two samples without blocks."""
    mine, theirs = sides.costs()
    if min(mine.size, theirs.size) < 2:
        return None
    return stored(ratio_of_independent_totals(mine, theirs, confidence))


def tail_of(sides: Sides, confidence: float) -> Tail | None:
    """The same of figures that are independent of each other."""
    number = min(sides.mine.size, sides.theirs.size)
    q = next((q for q in QUANTILES if number >= least_for(q, math.sqrt(confidence))), None)
    if q is None:
        return None
    ratio = stored(quantile_ratio(*sides.slowness(), q, "lower", confidence))
    return None if ratio is None else Tail(quantile=q, ratio=ratio)


def _sides(d: Draft) -> Sides:
    """In the order of the pairs."""
    mine, theirs = (
        np.array([trial.metrics[d.metric.name] for trial in trials], dtype=np.float64)
        for _, trials in d.sides
    )
    return Sides(mine, theirs, d.metric.better, rate=d.metric.unit.endswith("/s"))
