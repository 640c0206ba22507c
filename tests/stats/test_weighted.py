"""Weighted sums of ratios and their intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.stats.interval import TooFewError, t_interval
from ullage.stats.weighted import weighted_interval, weighted_sum

LOGS = st.floats(-3, 3)
ROWS = st.integers(2, 12)


@st.composite
def sums(draw: st.DrawFn) -> tuple[list[list[float]], list[float]]:
    """Paired columns, and a coefficient for each."""
    terms, rows = draw(st.integers(1, 5)), draw(ROWS)
    column = st.lists(LOGS, min_size=rows, max_size=rows)
    columns = draw(st.lists(column, min_size=terms, max_size=terms))
    coefficients = draw(st.lists(st.floats(0.01, 5), min_size=terms, max_size=terms))
    return columns, coefficients


@given(sums())
def test_the_estimate_is_the_sum_of_the_ratios_that_are_shown(
    case: tuple[list[list[float]], list[float]],
) -> None:
    columns, coefficients = case
    ratios = [t_interval(column, 0.95).estimate for column in columns]
    expected = sum(c * ratio for c, ratio in zip(coefficients, ratios, strict=True))
    interval = weighted_interval(columns, coefficients, 0.95)
    assert interval.estimate == pytest.approx(expected)
    assert weighted_sum(columns, coefficients) == pytest.approx(expected)
    assert interval.low <= interval.estimate <= interval.high


@given(st.lists(LOGS, min_size=2, max_size=20), st.floats(0.01, 9))
def test_one_term_is_the_interval_of_its_ratio(logs: list[float], coefficient: float) -> None:
    interval, alone = weighted_interval([logs], [coefficient], 0.9), t_interval(logs, 0.9)
    assert interval.estimate == pytest.approx(coefficient * alone.estimate)
    assert interval.low == pytest.approx(coefficient * alone.low)
    assert interval.high == pytest.approx(coefficient * alone.high)


@given(sums(), st.floats(0.1, 10))
def test_a_common_factor_changes_nothing_else(
    case: tuple[list[list[float]], list[float]], factor: float
) -> None:
    columns, coefficients = case
    first = weighted_interval(columns, coefficients, 0.95)
    second = weighted_interval(columns, [factor * c for c in coefficients], 0.95)
    assert second.low / first.low == pytest.approx(factor)
    assert second.high / first.high == pytest.approx(factor)


def test_what_terms_have_in_common_is_not_taken_for_chance_that_cancels() -> None:
    """Equal columns are one figure counted twice, opposite ones cancel to first order."""
    x = [0.1, -0.2, 0.05, 0.15, -0.1, 0.0]
    alone = t_interval(x, 0.95)
    alike = weighted_interval([x, x], [0.5, 0.5], 0.95)
    against = weighted_interval([x, [-v for v in x]], [0.5, 0.5], 0.95)
    assert (alike.low, alike.high) == pytest.approx((alone.low, alone.high))
    assert against.high / against.low == pytest.approx(1)


@pytest.mark.parametrize("blocks", [4, 6, 12, 40])
def test_it_holds_the_truth_as_often_as_it_says(blocks: int) -> None:
    """Four resources on a noisy machine, of which a part is common to the trials of a block."""
    rng = np.random.default_rng(7)
    weights, truth = [0.1, 0.2, 0.6, 0.1], np.array([6.9, 2.4, 3.1, 1.0])
    expected = float(np.array(weights) @ truth)
    times, covered = 4000, 0
    for _ in range(times):
        noise = 0.2 * rng.standard_normal((4, blocks)) + 0.1 * rng.standard_normal(blocks)
        interval = weighted_interval(list(np.log(truth)[:, None] + noise), weights, 0.95)
        covered += interval.low <= expected <= interval.high
    assert 0.935 <= covered / times <= 0.965


def test_widening_widens() -> None:
    columns = [[0.1, 0.2, 0.4], [0.0, 0.3, 0.1]]
    plain, wide = (weighted_interval(columns, [0.3, 0.7], 0.95, widen=w) for w in (1.0, 1.5))
    assert math.log(wide.high / wide.low) == pytest.approx(1.5 * math.log(plain.high / plain.low))


def test_what_is_no_sum_is_refused() -> None:
    with pytest.raises(TooFewError):
        weighted_interval([[0.1]], [1.0], 0.95)
    with pytest.raises(TooFewError):
        weighted_sum([[]], [1.0])
    for columns, coefficients in (
        ([[0.1, 0.2]], [1.0, 2.0]),
        ([[0.1, 0.2]], [0.0]),
        ([[0.1, 0.2]], [-1.0]),
        ([[0.1, 0.2]], [math.inf]),
        ([], []),
        ([[0.1, 0.2], [0.1, 0.2, 0.3]], [0.5, 0.5]),
    ):
        with pytest.raises(ValueError):
            weighted_interval(columns, coefficients, 0.95)
    with pytest.raises(ValueError, match="confidence"):
        weighted_interval([[0.1, 0.2]], [1.0], 1.5)
