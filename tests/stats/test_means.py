from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ullage.stats.means import mean, quantile

VALUES = st.lists(st.floats(0.001, 1000), min_size=1, max_size=30)


def test_rates_have_a_harmonic_mean() -> None:
    """Half the work at 10/s and half at 30/s is 15/s, not 20/s."""
    assert mean([10, 30], "harmonic") == pytest.approx(15)
    assert mean([10, 30], "arithmetic") == 20


@given(VALUES)
def test_means_agree_with_scipy(x: list[float]) -> None:
    assert mean(x, "harmonic") == pytest.approx(float(stats.hmean(x)))
    assert mean(x, "harmonic") <= mean(x, "arithmetic") * (1 + 1e-12)


def test_a_rate_of_zero_makes_the_mean_zero_and_a_negative_one_none() -> None:
    assert mean([0, 5], "harmonic") == 0
    with pytest.raises(ValueError, match="negative"):
        mean([-1, 5], "harmonic")


def test_median_interval_of_a_textbook() -> None:
    """n = 10: [x₂, x₉] covers the median with 97.9 % (David & Nagaraja 2003)."""
    found = quantile(range(1, 11), 0.5, 0.95)
    assert (found.low, found.estimate, found.high) == (2, 5.5, 9)


@pytest.mark.parametrize(("n", "has"), [(5, False), (6, True)])
def test_too_few_values_have_no_bounds(n: int, has: bool) -> None:
    found = quantile(range(n), 0.5, 0.95)
    assert (found.low is not None, found.high is not None) == (has, has)


@pytest.mark.parametrize("q", [0.25, 0.5, 0.9])
def test_quantile_interval_covers(q: float) -> None:
    rng = np.random.default_rng(6)
    truth = float(stats.expon.ppf(q))
    hits = 0
    for row in rng.exponential(size=(2000, 60)):
        found = quantile(row, q, 0.95)
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= truth <= found.high
    assert hits / 2000 >= 0.95 - 3 * (0.05 * 0.95 / 2000) ** 0.5


def test_a_quantile_lies_between_nothing_and_all() -> None:
    with pytest.raises(ValueError, match="quantile"):
        quantile([1, 2, 3], 1.0, 0.95)
