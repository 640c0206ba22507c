"""What a meter that looks now and then cannot have seen: weights of its readings, and the error.

What the power did between two readings is judged by its neighbours, for a step and a slope that
rise as far are wrong by very different amounts. All terms are standard uncertainties in J; their
derivation stands in `docs/guide/energy.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from ullage.stats import Floats

_BENT: Final = math.sqrt(1 / 120 - 1 / 144) / math.sqrt(2 / 3)
"""Of a bend at any instant between two readings: what its place leaves open of the error, in parts
of the root of the sum of squares of the two second differences that show it."""
_SEEN: Final = 1.2
"""Second differences of six readings a period show the curvature a tenth too small."""
_SPIKE: Final = 0.85
"""With the steps beside each spike, readings that are white noise have its standard deviation, and
8 % more (numerically, 4·10⁵ normal values)."""
_BURST: Final = 0.75
"""The same of the mean powers that a counter shows, whose steps count beside it."""
_LOCAL: Final = 0.7
"""Of what stands out in the window itself, where that is more than is usual around it."""


@dataclass(frozen=True)
class Sampled:
    """Readings around a window that begins at 0 s."""

    at_s: Floats
    within_s: Floats
    values: Floats
    """W, or J that only grow."""
    window_s: float


@dataclass(frozen=True)
class Weighed:
    """The energy as a sum over the readings, and its standard uncertainty."""

    weights: Floats
    """Energy = weights · values."""
    standard: float
    """J."""


def integrated(s: Sampled) -> Weighed:
    """Trapezoids between readings of power."""
    h = np.diff(s.at_s)
    a, b = (np.clip((edge - s.at_s[:-1]) / h, 0, 1) for edge in (0.0, s.window_s))
    right = h * (b**2 - a**2) / 2
    weights = np.append(h * (b - a) - right, 0.0) + np.insert(right, 0, 0.0)
    slopes = np.diff(s.values) / h
    steps = (slopes - _median(slopes, 3)) * h
    terms = (
        steps * h * np.sqrt(_bridge(a, b)),
        _spikes(steps, weights[1:-1]),
        *_bends(s, (a, b), weights),
        *_early_or_late(s, slopes, weights),
    )
    return Weighed(weights, math.hypot(*(float(np.linalg.norm(term)) for term in terms)))


def _median(values: Floats, width: int) -> Floats:
    """Of each value and those beside it; beyond the ends they are 0."""
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(values, width // 2), width)
    return np.median(windows, axis=1)


def _bridge(a: Floats, b: Floats) -> Floats:
    """Variance of the error from `a` to `b` when a step of 1 is anywhere from 0 to 1.

    It is that of the integral of a Brownian bridge, which has the same covariances: 1/12 of it all.
    """
    width = b - a
    return np.maximum(0.0, a * width**2 + width**3 / 3 - ((b**2 - a**2) / 2) ** 2)


def _spikes(steps: Floats, weights: Floats) -> Floats:
    """Of readings that stand out from both their neighbours: what is shorter than an interval.

    Such things come and go, seen or not, so the readings beside the window count with those in it.
    """
    high = _outstanding(steps)
    usual = math.sqrt(float(np.mean(high**2))) if high.size else 0.0
    observed, expected = (float(np.linalg.norm(weights * height)) for height in (high, usual))
    return np.array([_SPIKE * max(_LOCAL * observed, expected)])


def _outstanding(changes: Floats) -> Floats:
    """Between each two changes: the smaller, if they go to and fro."""
    before, after = changes[:-1], changes[1:]
    return np.minimum(np.abs(before), np.abs(after)) * (before * after < 0)


def _bends(s: Sampled, ends: tuple[Floats, Floats], weights: Floats) -> tuple[Floats, Floats]:
    """Of curvature: the error of trapezoids that it makes as a whole; and of each sharp bend.

    ends: of the window in each interval, in parts of it.
    """
    (a, b), h = ends, np.diff(s.at_s)
    second = np.zeros_like(s.at_s)
    second[1:-1] = 2 * np.diff(np.diff(s.values) / h) / (h[:-1] + h[1:])
    areas = h**3 / 2 * ((b**2 - a**2) / 2 - (b**3 - a**3) / 3)
    whole = float(np.sum(areas * (second[:-1] + second[1:]) / 2))
    sharp = (second - _median(second, 5))[1:-1] * ((h[:-1] + h[1:]) / 2) ** 2
    return np.array([_SEEN * whole / math.sqrt(3)]), _BENT * sharp * weights[1:-1]


def _early_or_late(s: Sampled, slopes: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Of when the readings were really made: each for itself, and all in the same direction."""
    steep = np.abs(slopes)
    steepest = np.maximum(np.append(steep, 0.0), np.insert(steep, 0, 0.0))
    mean = (np.append(slopes, slopes[-1]) + np.insert(slopes, 0, slopes[0])) / 2
    alike = float(np.sum(weights * mean * s.within_s))
    return weights * steepest * s.within_s / math.sqrt(3), np.array([alike / math.sqrt(3)])


def counted(s: Sampled) -> Weighed:
    """The growth of a counter between two instants, each interpolated between two readings."""
    h = np.diff(s.at_s)
    watts = np.diff(s.values) / h
    high = _outstanding(np.diff(watts))
    usual = math.sqrt(float(np.mean(high**2))) if high.size else 0.0
    high = np.concatenate(([0.0], high, [0.0]))[: h.size]
    weights = np.zeros_like(s.at_s)
    terms: list[float] = []
    for edge_s, sign in ((0.0, -1.0), (s.window_s, 1.0)):
        i = min(int(np.searchsorted(s.at_s, edge_s, side="right")) - 1, h.size - 1)
        f = (edge_s - s.at_s[i]) / h[i]
        weights[i] += sign * (1 - f)
        weights[i + 1] += sign * f
        parabola = h[i] * f * (1 - f)
        terms += [parabola * change / math.sqrt(3) for change in _changes(watts, i)]
        terms.append(_BURST * max(usual, _LOCAL * high[i]) * h[i] * math.sqrt(f * (1 - f)))
        late = math.hypot((1 - f) * s.within_s[i], f * s.within_s[i + 1])
        terms.append(watts[i] * late / math.sqrt(3))
    return Weighed(weights, math.hypot(*terms))


def _changes(watts: Floats, i: int) -> tuple[float, float]:
    """How far the power stepped within interval `i`, and how far it went on as around it."""
    means = np.concatenate((watts[:1], watts[:1], watts, watts[-1:], watts[-1:]))[i : i + 5]
    change = np.diff(means)
    slope = _between(2 * _between(change[0], change[3]), change[1] + change[2])
    return change[1] + change[2] - slope, slope / 4


def _between(first: float, second: float) -> float:
    """The smaller of two changes in the same direction; 0 of two in different ones."""
    return math.copysign(min(abs(first), abs(second)), first) if first * second > 0 else 0.0
