"""Do the first values of a series differ from the rest?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ullage.stats.autocorrelation import autocorrelation
from ullage.stats.interval import Floats, sample

LEAST = 8
"""Under so many values nothing is said."""
MOST = 20
"""No more of the first values are looked at; what changes later, or slowly, is drift."""
ALIKE = 0.05
"""Level at which the rest is called autocorrelated."""
TAIL_DF = 2.0
"""Degrees of freedom of the Student's t whose tails the p-values are of."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The first values, against the rest."""

    first: int
    """So many of them stand apart together most clearly; 0: the very first is like the rest."""
    p_value: float
    distance: float
    """Median of the first minus median of the rest, in the unit of the values."""


def warm_up(values: ArrayLike) -> WarmUp:
    """Runs rule for the start of a series, in the order of time.

    For k = 1, 2, … up to a quarter of the series: how far beyond the median of the rest, in units
    of its scale (mean absolute deviation, as a normal's standard deviation), does even the nearest
    of the first k lie, all of them on one side? One value must lie far out; two, three or four in a
    row need less and less: the supplementary runs rules of control charts (Western Electric 1956,
    Statistical Quality Control Handbook; Champ & Woodall 1987, Technometrics 29:393), here with
    p = 2 P(T > z)ᵏ and Bonferroni over k. T is Student's with 2 degrees of freedom: its tails are
    heavy enough for noise like t(3) with a scale that was estimated from few values
    (`tests/stats/test_warmup.py` simulates it). The k with the least p is the number of values
    affected. Where that is the most that is looked at, and the value after it is nearer to the
    first ones than to the rest, the change is later than a start: it is left to `drift`.

    A test by permutation could not do this: the first of n values is the most extreme one with
    chance 1/n, however extreme it is. Several in a row prove less where neighbours are alike all
    along: where the rest is autocorrelated they count as the k(1-ρ)/(1+ρ) independent ones that
    they are worth, at least as one. TooFewError under 8 values; a rest without spread tells
    nothing: first 0, p 1.
    """
    x = sample(values, LEAST)
    most = min(x.size // 4, MOST)
    p_values = [_p_value(x, k, float(k), most) for k in range(1, most + 1)]
    first = 1 + int(np.argmin(p_values))
    p = _p_value(x, first, _worth(first, x[first:]), most)
    if p == 1.0 or (first == most and _goes_on(x, most)):
        return WarmUp(0, 1.0, 0.0)
    return WarmUp(first, p, float(np.median(x[:first]) - np.median(x[first:])))


def _p_value(x: Floats, first: int, worth: float, most: int) -> float:
    apart = _apart(x[:first], x[first:])
    if apart == 0:
        return 1.0
    tail = float(special.stdtr(TAIL_DF, -apart))
    return min(1.0, 2 * most * math.pow(tail, worth))


def _worth(first: int, rest: Floats) -> float:
    """As many independent values the first ones are worth, if they depend as the rest does."""
    found = autocorrelation(rest)
    if first == 1 or found.p_value > ALIKE:
        return float(first)
    return max(1.0, first * found.effective / rest.size)


def _goes_on(x: Floats, most: int) -> bool:
    """Is the value after the first `most` more like them than like the rest?"""
    first, rest = float(np.median(x[:most])), float(np.median(x[most:]))
    return abs(float(x[most]) - first) < abs(float(x[most]) - rest)


def _apart(first: Floats, rest: Floats) -> float:
    """Distance of the nearest of the first from the middle of the rest; 0 when not on one side."""
    middle = float(np.median(rest))
    # Not the MAD: of seven values it is sometimes so small that anything stands apart.
    spread = float(np.mean(np.abs(rest - middle)))
    scale = math.sqrt(math.pi / 2 * rest.size / (rest.size - 1)) * spread
    if scale == 0:
        return 0.0
    z = (first - middle) / scale
    return max(float(z.min()), float(-z.max()), 0.0)
