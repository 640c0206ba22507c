"""What a design will be able to say, from the spread that its units will have.

A unit is what intervals count: a block's pair, or the mean of a generation's pairs. Spreads are on
the log scale; what comes back is on the ratio scale, relative: 0.03 is 3 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ullage.stats import Floats
from ullage.stats.interval import t_quantile
from ullage.stats.power import (
    Claim,
    least,
    power_of_both,
    smallest_claim,
)
from ullage.stats.stop import FIRST_LOOK, StopRule
from ullage.stats.uncertainty import SHARED, between_copies, random_part
from ullage.stats.verdict import LEAST_PAIRS


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

    @property
    def alpha(self) -> float:
        """What may be false: 1 − confidence."""
        return 1 - self.rule.confidence

    @property
    def level(self) -> float:
        """Of the first claim: both corrections ask α / m of the smallest p-value."""
        return self.alpha / max(1, self.family)


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
    unit = _smallest(units, aim.level, aim.rule.widening, aim.correlation)
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
    quantile = t_quantile(0.5 + aim.rule.confidence / 2, units - 1)
    return quantile * aim.rule.widening * spread / math.sqrt(units)


def _equal(aim: Aim) -> float:
    """Level of the TOST; the interval itself must lie inside the margin too, which is α/2."""
    return min(aim.level, aim.alpha / 2)


def _equivalence(spread: float, units: int, aim: Aim) -> float:
    """Chance to be called equivalent to both copies of the baseline if the true ratio is 1."""
    critical = aim.rule.widening * t_quantile(1 - _equal(aim), units - 1)
    error, delta = spread / math.sqrt(units), math.log1p(aim.margin)
    first, second = (
        Claim.equivalence(0.0, delta, error * part, critical)
        for part in (1.0, random_part(aim.correlation))
    )
    return power_of_both(first, second, units - 1, between_copies(aim.correlation))


def _units_for_equivalence(spread: float, aim: Aim) -> int | None:
    if spread == 0:
        return None
    return least(lambda n: _equivalence(spread, n, aim), first=LEAST_PAIRS)
