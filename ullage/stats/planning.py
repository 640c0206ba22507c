"""What a design will be able to say, from the spread that its units will have.

A unit is what intervals count: a block's pair, or the mean of a generation's pairs. Spreads are on
the log scale; what comes back is on the ratio scale, relative: 0.03 is 3 %.

And how long a trial should be. A pair of trials that lie near each other shares the slow part of a
machine's noise, which then cancels. Noise without memory averages out in one long trial as well as
in several short ones; noise with memory does not, so many short pairs are worth more than few long
ones in the same time, until the time around each trial weighs more than the work.

The model, on the log scale: a trial's figure is the mean over its length of white noise (variance
`white` over seconds) and a random walk (`walk` a second), the least that has a memory. Of two
trials of L seconds that begin D apart, D ≥ L, half the squared difference is expected to be
white/L + walk·(D − L/3)/2, a straight line in D (a variogram: Matheron 1963, Econ. Geol. 58:1246).
Trials that follow each other in a block give that line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ullage.stats import LEAST_PAIRS, Floats
from ullage.stats.interval import t_quantile
from ullage.stats.power import (
    MOST_BLOCKS,
    POWER,
    Claim,
    least,
    power_of_both,
    smallest_claim,
)
from ullage.stats.stop import FIRST_LOOK, Race, StopRule, look_confidence
from ullage.stats.uncertainty import SHARED, between_copies, random_part


@dataclass(frozen=True, slots=True)
class Aim:
    """What a plan asks of each of its primary comparisons."""

    rule: StopRule
    """Its blocks are units here."""
    margin: float
    family: int
    """Primary comparisons, corrected together."""
    correlation: float = SHARED
    """Of a comparison's mean with that of its A/A: `floor.SHARED`, in a duet `floor.APART`."""
    race: Race | None = None
    """Where comparisons leave as they are decided; None: all are judged once, at the end."""

    def confidence(self, units: int) -> float:
        """Of what is said after so many units."""
        if self.race is None:
            return self.rule.confidence
        return look_confidence(self.rule.confidence, self.race.number(units))

    def alpha(self, units: int) -> float:
        """What may be false there: 1 − confidence."""
        return 1 - self.confidence(units)

    def level(self, units: int) -> float:
        """Of the first claim there: both corrections ask α / m of the smallest p-value."""
        return self.alpha(units) / max(1, self.family)


@dataclass(frozen=True, slots=True)
class Reach:
    """What so many units will show."""

    units: int
    difference: float | None
    """Smallest difference that gets a verdict with power 0.8; None: too few units for any, or
    no spread, which decides nothing."""
    half_width: float | None
    """Of the interval, relative, as expected; None: under two units."""
    equivalence: float | None
    """Chance of "equivalent" if the true ratio is 1; None: as above."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a plan will be able to say of one comparison."""

    spread: float
    """Standard deviation of a unit's log-ratio."""
    reaches: tuple[Reach, ...]
    """At the numbers of units that were asked for."""
    units_for_target: int | None
    """To reach the plan's half width; None: it has none, or 10,000 would not do."""
    units_for_equivalence: int | None
    """To show equivalence with power 0.8 if the true ratio is 1; None: 10,000 would not do."""


def outlook(spread: float, aim: Aim, units: Sequence[int]) -> Outlook:
    """Look ahead, at so many units each."""
    return Outlook(
        spread=spread,
        reaches=tuple(reach(spread, n, aim) for n in units),
        units_for_target=units_for_target(spread, aim),
        units_for_equivalence=_units_for_equivalence(spread, aim),
    )


def units_for_target(spread: float, aim: Aim) -> int | None:
    """Units at which a run of this spread is expected to be as precise as it should be."""
    target = aim.rule.half_width
    if target is None:
        return None
    first = max(aim.rule.min_blocks, FIRST_LOOK)
    return least(lambda n: float(half_width(spread, n, aim) <= target), 1.0, first)


def expected_units(spreads: Iterable[float], aim: Aim) -> int:
    """Where the run is expected to end: when the widest interval is narrow enough, or at the most.

    A run in which a spread happens to look small ends sooner, and later where one looks large.
    """
    most = aim.rule.max_blocks
    if aim.rule.half_width is None:
        return most
    return min(most, max((units_for_target(s, aim) or most for s in spreads), default=most))


def reach(spread: float, units: int, aim: Aim) -> Reach:
    """What so many units will show."""
    enough = units >= LEAST_PAIRS and spread > 0
    return Reach(
        units=units,
        difference=math.expm1(min(700.0, smallest(spread, units, aim))) if enough else None,
        half_width=half_width(spread, units, aim) if units >= 2 else None,
        equivalence=_equivalence(spread, units, aim) if enough else None,
    )


def half_width(spread: float, units: int, aim: Aim) -> float:
    """Half of the width of the interval to be expected, relative to its estimate."""
    return math.sinh(min(700.0, _half(spread, units, aim)))


def smallest(spread: float, units: int, aim: Aim) -> float:
    """Smallest |log-ratio| that the t tests against both copies of the baseline find, power 0.8.

    With copies that are alike, and all trials equally noisy.
    """
    unit = _smallest(units, aim.level(units), aim.rule.widening, aim.correlation)
    return unit * spread / math.sqrt(units)


@lru_cache(maxsize=1024)
def _smallest(units: int, level: float, widen: float, correlation: float) -> float:
    """The same in standard errors, of which it is the same number whatever the spread."""
    critical = widen * t_quantile(1 - level / 2, units - 1)

    def hurdle(u: Floats) -> Floats:
        return critical * u

    def chance(shift: float) -> float:
        second = Claim(shift / random_part(correlation), hurdle)
        between = between_copies(correlation)
        return power_of_both(Claim(shift, hurdle), second, units - 1, between)

    return smallest_claim(chance)


def _half(spread: float, units: int, aim: Aim) -> float:
    quantile = t_quantile(0.5 + aim.confidence(units) / 2, units - 1)
    return quantile * aim.rule.widening * spread / math.sqrt(units)


def _equal(aim: Aim, units: int) -> float:
    """Level of the TOST; the interval itself must lie inside the margin too, which is α/2."""
    return min(aim.level(units), aim.alpha(units) / 2)


def _equivalence(spread: float, units: int, aim: Aim, mean: float = 0.0) -> float:
    """Chance to be called equivalent to both copies of the baseline with that mean log-ratio."""
    critical = aim.rule.widening * t_quantile(1 - _equal(aim, units), units - 1)
    error, delta = spread / math.sqrt(units), math.log1p(aim.margin)
    first, second = (
        Claim.equivalence(mean, delta, error * part, critical)
        for part in (1.0, random_part(aim.correlation))
    )
    return power_of_both(first, second, units - 1, between_copies(aim.correlation))


def _units_for_equivalence(spread: float, aim: Aim) -> int | None:
    if spread == 0:
        return None
    if aim.race is not None:
        further = replace(aim, race=Race(aim.race.first, MOST_BLOCKS))
        return decided_after(0.0, spread, further)
    return least(lambda n: _equivalence(spread, n, aim), first=LEAST_PAIRS)


def decided_after(mean: float, spread: float, aim: Aim) -> int | None:
    """The look of a race that brings a verdict with power 0.8, if the mean log-ratio is that.

    None where none does up to the most.
    """
    assert aim.race is not None
    for units in aim.race.looks():
        if units < LEAST_PAIRS or spread == 0:
            continue
        equal = _equivalence(spread, units, aim, mean)
        if equal >= POWER or abs(mean) >= smallest(spread, units, aim):
            return units
    return None


LEAST_BLOCKS = 8
"""From fewer the line is not drawn."""
SURE = 1.645
"""Standard errors by which the line must rise before the noise is said to have a memory: 5 %."""
FURTHER = 8
"""The line is followed to trials so many times shorter or longer than those that it is made of."""


@dataclass(frozen=True, slots=True)
class TrialNoise:
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


def memory(series: Iterable[Sequence[tuple[float, float]]], length: float) -> TrialNoise | None:
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
    return TrialNoise(white, walk, sure=slope > SURE * error)


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
    noise: TrialNoise, lengths: Sequence[float], now: float, rest: float, apart: float
) -> tuple[float, float]:
    """The length at which a precision takes least time, and that time as a part of today's."""
    within = [length for length in lengths if now / FURTHER <= length <= now * FURTHER]
    best = min([now, *within], key=lambda length: noise.cost(length, rest, apart))
    return best, noise.cost(best, rest, apart) / noise.cost(now, rest, apart)
