from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ullage.stats.interval import TooFewError
from ullage.stats.series_checks import EXACT, drift


@pytest.mark.parametrize("n", [30, 3000])
@pytest.mark.parametrize("decimals", [1, 12])
def test_drift_is_scipys_spearman(n: int, decimals: int) -> None:
    """With ties and without, in times that are out of order and that repeat."""
    rng = np.random.default_rng(2)
    t = rng.integers(0, 2 * n, n).astype(float)
    x = np.round(rng.normal(size=n) + t / n, decimals)
    reference = stats.spearmanr(t, x)
    trend = drift(t, x)
    assert trend.correlation == pytest.approx(reference.statistic)
    assert trend.p_value == pytest.approx(reference.pvalue)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=9, max_size=40),
)
def test_ties_and_order_do_not_matter(pairs: list[tuple[int, int]]) -> None:
    t, x = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    trend = drift(t, x)
    if np.ptp(t) == 0 or np.ptp(x) == 0:
        assert (trend.correlation, trend.p_value) == (0.0, 1.0)
    else:
        assert trend.correlation == pytest.approx(stats.spearmanr(t, x).statistic, abs=1e-12)


@pytest.mark.parametrize("x", [[1.0, 3, 2, 5, 4, 6], [1.0, 1, 2, 2, 2, 9], [6.0, 5, 4, 3, 2, 1]])
def test_few_values_are_judged_by_all_their_orders(x: list[float]) -> None:
    """By SciPy's ρ of each of 720 orders; ties keep their places among the values."""
    t = np.arange(6.0)
    observed = abs(stats.spearmanr(t, x).statistic)
    null = [abs(stats.pearsonr(t, order).statistic) for order in permutations(stats.rankdata(x))]
    trend = drift(t, x)
    assert trend.p_value == pytest.approx(np.mean(np.array(null) >= observed - 1e-9))


@pytest.mark.parametrize(("sign", "rho"), [(1, 1.0), (-1, -1.0)])
def test_a_straight_line_drifts_as_far_as_five_values_can_tell(sign: int, rho: float) -> None:
    """Two of 120 orders are as straight: no five values prove a drift at 1 %."""
    trend = drift([1, 2, 3, 4, 5], [sign * v for v in (2, 4, 6, 8, 10)])
    assert trend.correlation == pytest.approx(rho)
    assert trend.p_value == pytest.approx(2 / 120)
    assert drift(range(20), range(20)).p_value == 0


@pytest.mark.parametrize("n", [6, EXACT, EXACT + 1, 20])
def test_series_without_drift_seldom_look_as_if_they_had_one(n: int) -> None:
    rng = np.random.default_rng(8)
    t, campaigns, level = np.arange(n), 4000, 0.05
    false = np.mean([drift(t, row).p_value <= level for row in rng.normal(size=(campaigns, n))])
    slack = 0.01 if n > EXACT else 0.0  # the approximation's own, largest just above EXACT
    assert false <= level + slack + 3 * math.sqrt(level * (1 - level) / campaigns)


def test_nothing_moves_nothing_drifts() -> None:
    assert drift([1, 2, 3, 4], [7, 7, 7, 7]).p_value == 1.0
    assert drift([7, 7, 7, 7], [1, 2, 3, 4]).p_value == 1.0


def test_a_million_values() -> None:
    rng = np.random.default_rng(4)
    t = np.arange(1_000_000)
    still = drift(t, rng.normal(size=t.size))
    assert abs(still.correlation) < 5 / math.sqrt(t.size)
    assert drift(t, rng.normal(size=t.size) + t / t.size).p_value < 1e-6


def test_drift_wants_a_time_for_each_value() -> None:
    with pytest.raises(ValueError, match="times"):
        drift([1, 2, 3, 4, 5], [1, 2, 3, 4])
    with pytest.raises(TooFewError):
        drift([1, 2, 3], [1, 2, 3])
    with pytest.raises(ValueError, match="not finite"):
        drift([1, 2, 3, math.inf], [1, 2, 3, 4])


@pytest.mark.parametrize("n", [4, EXACT, 9, 500])
@pytest.mark.parametrize("decimals", [1, 12])
def test_values_one_after_another_need_no_times(n: int, decimals: int) -> None:
    x = np.round(np.random.default_rng(n).normal(size=n), decimals)
    assert drift(None, x) == drift(np.arange(n), x)
    with pytest.raises(TooFewError):
        drift(None, x[:3])
