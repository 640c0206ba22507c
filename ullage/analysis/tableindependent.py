"""Tests of two independent samples, from whatever interval their ratio has."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ullage.stats.interval import Floats, Interval
from ullage.stats.verdict import PValues

LEAST_P = 1e-12
"""No smaller p-value is told apart: it would rest on the far tail of an approximation."""
_STEPS, _STEPS_MANY, _MANY = 24, 10, 100_000
"""Halvings on the log scale; fewer for many values, where each costs a pass over them."""


def by_inversion(at: Callable[[float], Interval], margin: float, number: int) -> PValues:
    """P-values of a difference and of equivalence from the intervals at all confidences.

    A test of level α rejects a ratio that the interval at 1 − α excludes (Lehmann & Romano 2005,
    §3.5), so the p-value is the least α at which 1 is excluded; for the two one-sided tests, the
    least at which the interval at 1 − 2α lies inside 1/(1+margin) to 1+margin (Schuirmann 1987).
    Rounded up, never down. number: of values, for what the search may cost.
    """
    steps = _STEPS if number < _MANY else _STEPS_MANY
    difference = _least(lambda alpha: _excludes_one(at, 1 - alpha), 1.0, steps)
    equivalence = _least(lambda alpha: _inside(at, 1 - 2 * alpha, margin), 0.5, steps)
    return PValues(difference, equivalence)


def _least(rejects: Callable[[float], bool], most: float, steps: int) -> float:
    """The least level that rejects, to the safe side; 1 when none under `most` does."""
    low, high = math.log(LEAST_P), math.log(most * (1 - 1e-9))
    if not rejects(math.exp(high)):
        return 1.0
    if rejects(LEAST_P):
        return LEAST_P
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (low, middle) if rejects(math.exp(middle)) else (middle, high)
    return math.exp(high)


def _excludes_one(at: Callable[[float], Interval], confidence: float) -> bool:
    try:
        return at(confidence).excludes(1.0)
    except ValueError:  # too few values, or a mean not clear of 0, for so much confidence
        return False


def _inside(at: Callable[[float], Interval], confidence: float, margin: float) -> bool:
    try:
        found = at(confidence)
    except ValueError:
        return False
    return 1 / (1 + margin) < found.low and found.high < 1 + margin


def halves_repeat(value: Floats) -> bool:
    """Is the second half the first one again, and not just the same value throughout?"""
    half = value.size // 2
    if value.size % 2 or half < 2 or value[0] != value[half]:
        return False
    return bool(np.ptp(value[:half]) > 0 and (value[:half] == value[half:]).all())
