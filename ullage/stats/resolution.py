"""The smallest step that the figures of a tool can make."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ullage.stats.interval import Floats, sample

FINEST = 1e-5
"""A step smaller than this part of the largest value is none: it could not matter."""
_FAR = 0.05
"""No value is further from a multiple, in steps: unit conversion and float64 leave less."""
_ENOUGH = 1000
"""So many distinct values tell the step as well as all."""

NOT_AVERAGED = math.sqrt(1 / 4 + 1 / 12)
"""Standard deviation, in steps, under which rounding does not average out.

With a true deviation of half a step the mean of rounded normal values is off by at most
exp(-2π²/4)/π = 0.2 % of a step (Widrow & Kollár 2008, Quantization Noise, §11.3); rounding adds a
twelfth of a step squared to the variance that is seen.
"""


def quantum(values: ArrayLike) -> float | None:
    """The largest step q of which all values are multiples, to rounding error; None: none is seen.

    Euclid's algorithm on the distinct values. None too when all values are equal, or are so few
    and different that any numbers would have such a step: fewer than four, none of them twice.
    Values that happen to have a larger common step than the tool's show that larger one: four
    random multiples do so with probability 1 - 1/ζ(4) = 8 %, six with 2 %. ValueError unless all
    are finite.
    """
    found = np.abs(sample(values, 0))
    x = np.unique(found[found > 0])
    if x.size < 2 or (x.size < 4 and x.size == found.size):
        return None
    largest = float(x[-1])
    least = FINEST * largest
    step = 0.0
    for value in x[:: max(1, x.size // _ENOUGH)]:
        step = _common(float(value), step, least / 2)
        if step < least:
            return None
        # The division has taken digits from the step; the value has them all.
        step = float(value) / round(float(value) / step)
    steps = x / step
    return step if float(np.max(np.abs(steps - np.round(steps)))) < _FAR else None


def _common(a: float, b: float, nothing: float) -> float:
    """Greatest common divisor of two numbers; a remainder up to `nothing` is none."""
    while b > nothing:
        a, b = b, abs(a - b * round(a / b))
    return a


def averaged(deviation: float, step: float) -> bool:
    """Does noise of this standard deviation (as seen) average the rounding to `step` out?

    Then the rounding is in the standard error of the mean already, and to count it again as a
    systematic part would be double.
    """
    return deviation >= NOT_AVERAGED * step


def dithered(values: ArrayLike, step: float | None, seed: int) -> Floats:
    """The values, each moved at random within the step it was rounded to; the same for a seed.

    Rounded values stand in heaps, which tests of distribution would take for groups.
    """
    x = sample(values)
    if step is None:
        return x
    return x + np.random.default_rng(seed).uniform(-step / 2, step / 2, x.size)
