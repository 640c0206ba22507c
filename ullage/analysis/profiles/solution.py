"""From slow-downs to weights: pure mathematics.

The model is additive: of the command's time T, the part w_q waits for resource q, and what takes f
times as long when q is f times slower. Under hindrance h, with f_qh the slow-down that the probe of
q has under it,

    T_h / T = 1 + Σ_q w_q · (f_qh − 1)

and one such equation for each hindrance. With a hindrance that slows one resource alone this is the
sensitivity w = (T_h/T − 1) / (f − 1). Shares are never negative: the estimate is the non-negative
least-squares solution (Lawson & Hanson 1974, "Solving Least Squares Problems", ch. 23), each
equation divided by its standard error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from ullage.analysis.comparison.words import RESOURCES
from ullage.runs.records import Resource
from ullage.stats import Floats
from ullage.stats.interval import TooFewError, check_confidence, t_quantile

LEAST_SLOWDOWN: Final = 1.05
"""A hindrance under which the probe of its own resource is not surely slower than that tells
nothing."""
WORST_CONDITION: Final = 20.0
"""Of the equations, columns scaled to length 1: above, an error in them comes twenty-fold into the
weights (Golub & Van Loan 2013, §2.6)."""
UNLIKE: Final = -0.9
"""Correlation of two weights' errors from which on what one gains the other loses …"""
UNSURE: Final = 0.15
"""… and half width of both intervals from which on that matters."""
LEAST_ERROR: Final = 1e-3
"""Standard error below which no slow-down is believed to be known."""


@dataclass(frozen=True)
class LogSlowdowns:
    """Log slow-downs, a row for each block."""

    resources: tuple[Resource, ...]
    """Hindered, and probed, in this order."""
    command: Floats
    """(blocks, hindrances): log of T_h / T."""
    probes: Floats
    """(blocks, hindrances, resources): log of f_qh."""

    @property
    def blocks(self) -> int:
        return int(self.command.shape[0])

    def only(self, resources: Sequence[Resource]) -> LogSlowdowns:
        of = [self.resources.index(resource) for resource in resources]
        return LogSlowdowns(
            tuple(resources), self.command[:, of], self.probes[np.ix_(range(self.blocks), of, of)]
        )


@dataclass(frozen=True)
class Estimates:
    """Weights of groups of resources."""

    groups: tuple[tuple[Resource, ...], ...]
    shares: Floats
    """The non-negative solution."""
    raw: Floats
    """The solution without that constraint."""
    covariance: Floats
    """Of `raw`, by linearisation around the means."""
    degrees: int
    condition: float
    merged: tuple[str, ...] = ()
    """Why groups have several members."""

    def half(self, coefficients: Floats, confidence: float) -> float:
        """Half width of the interval of a sum of weights."""
        error = float(np.sqrt(max(0.0, float(coefficients @ self.covariance @ coefficients))))
        return t_quantile(0.5 + confidence / 2, self.degrees) * error

    def halves(self, confidence: float) -> Floats:
        """Of each weight's interval."""
        return np.array([self.half(row, confidence) for row in np.eye(len(self.groups))])


def interval(logs: Floats, confidence: float) -> tuple[float, float, float]:
    """Ratio, low and high from log-ratios of blocks, by Student's t."""
    mean, half = float(np.mean(logs)), 0.0
    error = float(np.std(logs, ddof=1)) / np.sqrt(logs.size)
    half = t_quantile(0.5 + confidence / 2, logs.size - 1) * error
    return float(np.exp(mean)), float(np.exp(mean - half)), float(np.exp(mean + half))


def not_slowed(
    measured: LogSlowdowns, confidence: float
) -> dict[Resource, tuple[float, float, float]]:
    """Resources whose hindrance does not surely slow their own probe → ratio, low and high."""
    weak: dict[Resource, tuple[float, float, float]] = {}
    for i, resource in enumerate(measured.resources):
        slowdown = interval(measured.probes[:, i, i], confidence)
        if slowdown[1] < LEAST_SLOWDOWN:
            weak[resource] = slowdown
    return weak


def solve(measured: LogSlowdowns, confidence: float) -> Estimates:
    """Weights of all resources; those that cannot be told apart as one.

    TooFewError under two blocks; ValueError unless all is finite.
    """
    check_confidence(confidence)
    if measured.blocks < 2:
        raise TooFewError(f"{measured.blocks} blocks, at least 2 are needed")
    if not (np.isfinite(measured.command).all() and np.isfinite(measured.probes).all()):
        raise ValueError("a slow-down is not finite")
    groups: list[tuple[Resource, ...]] = [(resource,) for resource in measured.resources]
    why: list[str] = []
    while True:
        estimates, columns = _fit(measured, groups, confidence)
        twins = _inseparable(estimates, columns, confidence)
        if twins is None:
            return Estimates(**{**vars(estimates), "merged": tuple(why)})
        first, second, reason = twins
        both = (*groups[first], *groups[second])
        why.append(f"{' and '.join(RESOURCES[r] for r in both)} cannot be told apart: {reason}")
        groups = [group for i, group in enumerate(groups) if i not in (first, second)]
        groups.insert(first, both)


def _fit(
    measured: LogSlowdowns, groups: Sequence[tuple[Resource, ...]], confidence: float
) -> tuple[Estimates, Floats]:
    """The weights of these groups; and the scaled equations, a column for each."""
    logs = measured.probes.mean(axis=0)
    slower = np.exp(logs)
    counted = _distinct(measured, confidence)
    # δA of each block: what its probes were off the mean, on the ratio scale.
    off = (measured.probes - logs) * slower * counted
    matrix = (slower - 1) * counted
    member, rows = _membership(measured.resources, groups), _rows(matrix, measured, groups)
    a, da = (matrix @ member)[rows], (off @ member)[:, rows]
    command = measured.command[:, rows]
    means = command.mean(axis=0)
    y, dy = np.exp(means) - 1, (command - means) * np.exp(means)
    n = measured.blocks
    errors = np.maximum(dy.std(axis=0, ddof=1) / np.sqrt(n), LEAST_ERROR)
    scaled = a / errors[:, None]
    raw = np.linalg.lstsq(scaled, y / errors, rcond=None)[0]
    shares, _ = optimize.nnls(scaled, y / errors)
    # Linearised (GUM 5.2): A·w = y, so A·δw = δy − δA·w; each block gives one value of δw.
    inverse = np.linalg.pinv(scaled) / errors
    changes = (dy - da @ raw) @ inverse.T
    covariance = changes.T @ changes / (n * (n - 1))
    lengths = np.linalg.norm(scaled, axis=0)
    columns = scaled / np.where(lengths > 0, lengths, 1.0)
    condition = float(np.linalg.cond(columns))
    estimates = Estimates(tuple(groups), shares, raw, covariance, n - 1, condition)
    return estimates, columns


def _distinct(measured: LogSlowdowns, confidence: float) -> NDArray[np.bool_]:
    """Which probes each hindrance really slows: its own, and those whose interval excludes 1.

    All of these intervals hold together (Bonferroni): what chance makes of an untouched resource
    would come into the weights.
    """
    size = len(measured.resources)
    counted = np.eye(size, dtype=bool)
    confidence = 1 - (1 - confidence) / max(1, size * (size - 1))
    for h in range(size):
        for q in range(size):
            _, low, high = interval(measured.probes[:, h, q], confidence)
            counted[h, q] |= not low <= 1 <= high
    return counted


def _membership(resources: Sequence[Resource], groups: Sequence[tuple[Resource, ...]]) -> Floats:
    """A group is slowed as much as its members are on average: (resources, groups)."""
    return np.array(
        [[(resource in group) / len(group) for group in groups] for resource in resources],
        dtype=np.float64,
    )


def _rows(
    matrix: Floats, measured: LogSlowdowns, groups: Sequence[tuple[Resource, ...]]
) -> list[int]:
    """For each group the hindrance that slows all of its members most."""
    rows = []
    for group in groups:
        of = [measured.resources.index(resource) for resource in group]
        rows.append(max(of, key=lambda h: float(matrix[h, of].min())))
    return rows


def _inseparable(
    estimates: Estimates, columns: Floats, confidence: float
) -> tuple[int, int, str] | None:
    """Two groups that the measurements cannot tell apart, and why."""
    pairs = list(combinations(range(len(estimates.groups)), 2))
    if not pairs:
        return None
    if estimates.condition > WORST_CONDITION:
        first, second = max(
            pairs, key=lambda pair: abs(float(columns[:, pair[0]] @ columns[:, pair[1]]))
        )
        return first, second, f"the equations have a condition of {estimates.condition:.0f}"
    halves = estimates.halves(confidence)
    errors = np.sqrt(np.diag(estimates.covariance))
    for first, second in sorted(pairs, key=lambda pair: -min(halves[pair[0]], halves[pair[1]])):
        if errors[first] == 0 or errors[second] == 0:
            continue
        correlation = float(estimates.covariance[first, second] / (errors[first] * errors[second]))
        if correlation <= UNLIKE and min(halves[first], halves[second]) > UNSURE:
            return first, second, f"what one weight gains the other loses (± {halves[first]:.2f})"
    return None
