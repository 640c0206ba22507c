from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ullage.stats.interval import TooFewError
from ullage.stats.quantiles import least_for, of_sorted, quantile, quantile_ratio

VALUES = st.lists(st.floats(0.001, 1000), min_size=8, max_size=40)


def test_median_interval_of_a_textbook() -> None:
    """n = 10: [x₂, x₉] covers the median with 97.9 % (David & Nagaraja 2003)."""
    interval = quantile(range(1, 11), 0.5, 0.95)
    assert (interval.low, interval.estimate, interval.high) == (2, 5.5, 9)


@given(VALUES, st.floats(0.05, 0.95), st.sampled_from([0.8, 0.95]))
def test_bounds_are_those_of_scipys_quantile_test(
    x: list[float], q: float, confidence: float
) -> None:
    """SciPy inverts its binomial test with the same order statistics, nan where there is none."""
    # (The stubs take it for a number.)
    reference: Any = stats.quantile_test(x, p=q).confidence_interval(confidence)
    interval = quantile(x, q, confidence)
    for mine, scipys in ((interval.low, reference.low), (interval.high, reference.high)):
        assert mine == scipys if mine is not None else math.isnan(scipys)
    assert interval.estimate == pytest.approx(float(np.quantile(x, q)))


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=40), st.floats(0.001, 0.999))
def test_the_estimate_is_numpys_to_the_last_bit(x: list[float], q: float) -> None:
    """NumPy would look for the two values once more."""
    with np.errstate(over="ignore", invalid="ignore"):
        expected = float(np.quantile(x, q))
    interval = quantile(x, q, 0.95)
    assert interval.estimate == expected or math.isnan(expected)
    assert of_sorted(np.sort(x), q, 0.95) == interval or math.isnan(expected)


def test_a_quantile_that_is_none_is_refused_however_often() -> None:
    """Its ranks are remembered by number, quantile and confidence."""
    for _ in range(2):
        with pytest.raises(ValueError, match="quantile 1"):
            quantile([1.0, 2.0], 1.0, 0.95)
        with pytest.raises(ValueError, match="confidence"):
            quantile([1.0, 2.0], 0.5, 1.0)


@pytest.mark.parametrize(("n", "has"), [(5, False), (6, True)])
def test_too_few_values_have_no_bounds(n: int, has: bool) -> None:
    interval = quantile(range(n), 0.5, 0.95)
    assert (interval.low is not None, interval.high is not None) == (has, has)


@pytest.mark.parametrize("q", [0.5, 0.1, 0.99])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_least_number_that_has_bounds(q: float, confidence: float) -> None:
    n = least_for(q, confidence)
    enough, short = quantile(range(n), q, confidence), quantile(range(n - 1), q, confidence)
    assert None not in {enough.low, enough.high}
    assert None in {short.low, short.high}


@pytest.mark.parametrize("q", [0.25, 0.5, 0.9])
def test_quantile_interval_covers(q: float) -> None:
    rng = np.random.default_rng(6)
    truth = float(stats.expon.ppf(q))
    hits = 0
    for row in rng.exponential(size=(2000, 60)):
        interval = quantile(row, q, 0.95)
        assert interval.low is not None
        assert interval.high is not None
        hits += interval.low <= truth <= interval.high
    assert hits / 2000 >= 0.95 - 3 * (0.05 * 0.95 / 2000) ** 0.5


def test_a_quantile_lies_between_nothing_and_all() -> None:
    for q in (0.0, 1.0, 50.0):
        with pytest.raises(ValueError, match="quantile"):
            quantile([1, 2, 3], q, 0.95)
        with pytest.raises(ValueError, match="quantile"):
            least_for(q, 0.95)


def test_a_ratio_runs_between_opposite_bounds_at_the_root_of_the_confidence() -> None:
    x, y = np.arange(1.0, 41), np.arange(101.0, 131)
    mine, theirs = (quantile(v, 0.5, math.sqrt(0.9)) for v in (x, y))
    assert mine.low and mine.high and theirs.low and theirs.high
    interval = quantile_ratio(x, y, 0.5, "lower", 0.9)
    assert interval.estimate == mine.estimate / theirs.estimate
    assert (interval.low, interval.high) == (mine.low / theirs.high, mine.high / theirs.low)
    assert (interval.n, interval.confidence) == (30, 0.9)


@given(VALUES, VALUES)
def test_turning_the_comparison_round_inverts_it(x: list[float], y: list[float]) -> None:
    a = quantile_ratio(x, y, 0.5, "lower", 0.9)
    for b in (quantile_ratio(y, x, 0.5, "higher", 0.9), quantile_ratio(x, y, 0.5, "lower", 0.9)):
        assert (b.low, b.estimate, b.high) == (a.low, a.estimate, a.high)
    c = quantile_ratio(y, x, 0.5, "lower", 0.9)
    assert (1 / c.high, 1 / c.low) == pytest.approx((a.low, a.high))


@pytest.mark.parametrize(("q", "n"), [(0.5, 40), (0.99, 600)])
@pytest.mark.parametrize("better", ["lower", "higher"])
def test_the_ratio_is_covered(q: float, n: int, better: Literal["lower", "higher"]) -> None:
    """Exponential times, 1.2 times as long; as rates, 1.2 times as many."""
    rng = np.random.default_rng(9)
    campaigns, hits = 1000, 0
    for _ in range(campaigns):
        first, second = 1.2 * rng.exponential(size=n), rng.exponential(size=n + 20)
        mine, theirs = (first, second) if better == "lower" else (second, first)
        hits += not quantile_ratio(mine, theirs, q, better, 0.95).excludes(1.2)
    assert hits / campaigns >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / campaigns)


def test_a_sample_too_small_for_the_quantile_is_refused() -> None:
    enough = np.linspace(1, 2, least_for(0.99, math.sqrt(0.95)))
    assert quantile_ratio(enough, enough, 0.99, "lower", 0.95).low < 1
    with pytest.raises(TooFewError, match=f"at least {enough.size} are needed"):
        quantile_ratio(enough[1:], enough, 0.99, "lower", 0.95)
    with pytest.raises(TooFewError):
        quantile_ratio(enough, [1.0], 0.5, "lower", 0.95)


def test_there_is_no_ratio_to_a_quantile_of_zero() -> None:
    x = np.ones(20)
    with pytest.raises(ValueError, match="no ratio"):
        quantile_ratio(x, 0 * x, 0.5, "lower", 0.95)
    with pytest.raises(ValueError, match="no ratio"):
        quantile_ratio(-x, x, 0.5, "higher", 0.95)
    with pytest.raises(ValueError, match="not finite"):
        quantile_ratio(x * math.nan, x, 0.5, "lower", 0.95)


def test_a_million_values_have_a_p99() -> None:
    rng = np.random.default_rng(5)
    x, y = 1.1 * rng.exponential(size=1_000_000), rng.exponential(size=1_000_000)
    interval = quantile_ratio(x, y, 0.99, "lower", 0.95)
    assert not interval.excludes(1.1)
    assert interval.half_width < 0.01
