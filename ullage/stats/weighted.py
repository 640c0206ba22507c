"""Sums of ratios, each with a coefficient: one figure for a machine, a node or a system."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ullage.stats import Floats
from ullage.stats.interval import IntervalEstimate, check_confidence, moments, sample, t_quantile

METHOD = "paired t on the log of the sum, linearised"


def weighted_sum(columns: Sequence[ArrayLike], coefficients: Sequence[float]) -> float:
    """Σ cₖ·exp(mean of column k): coefficients times geometric mean ratios.

    columns: the log-ratios of each term. ValueError unless there is a coefficient for each, none
    negative, one above 0, and all are finite; TooFewError for a column without values.
    """
    c = _checked(columns, coefficients)
    means = np.array([float(np.mean(sample(column, 1))) for column in columns])
    return float(c @ np.exp(means))


def weighted_interval(
    columns: Sequence[ArrayLike],
    coefficients: Sequence[float],
    confidence: float,
    widen: float = 1.0,
) -> IntervalEstimate:
    """The same with its interval, from columns that are paired: row b of all is of one block.

    The logarithm of the sum is linearised around the means (the delta method; GUM 5.2): a block's
    log-ratios x add Σ gₖ·xₖ, with gₖ = cₖ·exp(meanₖ)/Σ, the part of the sum that term k is. The
    interval is Student's t on these. What the terms of a block have in common, such as the
    baseline's trial, thus widens it as it must, and no correlation has to be guessed. The estimate
    is Σ cₖ·ratioₖ of the very ratios that are shown (a mean of the blocks' own sums would not be:
    it grows with their noise). With one term it is `t_interval`, times the coefficient.

    `widen` multiplies the standard error (see `stop.StopRule`). TooFewError under two rows,
    ValueError for columns that differ in length, and as for `weighted_sum`.
    """
    check_confidence(confidence)
    total = weighted_sum(columns, coefficients)
    x: list[Floats] = [sample(column, 2) for column in columns]
    if len({column.size for column in x}) > 1:
        raise ValueError("the columns are not paired: they differ in length")
    means = np.array([float(np.mean(column)) for column in x])
    parts = np.asarray(coefficients, dtype=np.float64) * np.exp(means) / total
    m = moments(parts @ np.vstack(x), widen)
    half = t_quantile(0.5 + confidence / 2, m.df) * m.error
    with np.errstate(over="ignore"):
        low, high = (float(total * np.exp(side)) for side in (-half, half))
    return IntervalEstimate(total, low, high, confidence, m.n, METHOD)


def _checked(columns: Sequence[ArrayLike], coefficients: Sequence[float]) -> Floats:
    if len(columns) != len(coefficients):
        raise ValueError(f"{len(coefficients)} coefficients for {len(columns)} terms")
    if not all(0 <= value < math.inf for value in coefficients):
        raise ValueError("a coefficient is negative or not finite")
    if not any(value > 0 for value in coefficients):
        raise ValueError("every coefficient is 0: there is nothing to add")
    return np.asarray(coefficients, dtype=np.float64)
