from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ullage.stats.drift import drift
from ullage.stats.floor import noise_floor, reach
from ullage.stats.interval import Interval, TooFewError, t_interval
from ullage.stats.outliers import outliers, robust_z


def _interval(low: float, high: float) -> Interval:
    return Interval(math.sqrt(low * high), low, high, 0.95, 12, "t")


def test_floor_is_the_upper_limit_of_the_distance_from_one() -> None:
    floor = noise_floor([_interval(0.9, 1.05)])
    assert floor is not None
    assert floor.ratio == pytest.approx(1 / 0.9)
    assert not floor.biased


def test_the_largest_floor_counts_and_a_bias_is_told() -> None:
    floor = noise_floor([_interval(0.99, 1.01), _interval(1.02, 1.08)])
    assert floor is not None
    assert floor.ratio == pytest.approx(1.08)
    assert floor.biased


def test_no_again_no_floor() -> None:
    assert noise_floor([]) is None


def test_an_open_interval_makes_an_infinite_floor() -> None:
    floor = noise_floor([Interval(1.0, 0.0, math.inf, 0.95, 2, "t")])
    assert floor is not None
    assert floor.ratio == math.inf
    assert reach(Interval(1.0, 0.0, 2.0, 0.95, 2, "t")) == math.inf
    assert reach(_interval(0.25, 2.0)) == pytest.approx(math.log(4))


@given(st.lists(st.floats(-1, 1), min_size=6, max_size=12))
def test_floor_does_not_know_which_copy_is_first(x: list[float]) -> None:
    one = noise_floor([t_interval(x, 0.95)])
    other = noise_floor([t_interval([-v for v in x], 0.95)])
    assert one is not None
    assert other is not None
    assert one.ratio == pytest.approx(other.ratio, rel=1e-9)


def test_outlier_limit_is_that_of_hyperfine() -> None:
    """10 robust standard deviations, 14.8 MAD."""
    x = np.array([-1.0, -1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, -1.0])
    for far, flagged in ((14.7, False), (14.9, True)):
        assert bool(outliers([*x, far])[-1]) is flagged


def test_outliers_where_most_values_are_equal() -> None:
    x = [0.0] * 30 + [0.001, 9.0]
    assert list(np.flatnonzero(outliers(x))) == [31]


def test_no_spread_no_outlier() -> None:
    assert not outliers([0.3] * 5).any()


@given(
    st.lists(st.integers(-100, 100), min_size=4, max_size=20),
    st.integers(1, 1000),
    st.integers(-50, 50),
)
def test_robust_z_has_no_unit(x: list[int], scale: int, shift: int) -> None:
    there = robust_z([v * scale + shift for v in x])
    assert there == pytest.approx(robust_z(x), rel=1e-6, abs=1e-9)


def test_drift_is_scipys_spearman() -> None:
    rng = np.random.default_rng(2)
    t = np.arange(30.0)
    x = np.round(rng.normal(size=30) + 0.05 * t, 1)
    known = stats.spearmanr(t, x)
    found = drift(t, x)
    assert found.correlation == pytest.approx(known.statistic)
    assert found.p_value == pytest.approx(known.pvalue)


@pytest.mark.parametrize(("sign", "rho"), [(1, 1.0), (-1, -1.0)])
def test_a_straight_line_drifts(sign: int, rho: float) -> None:
    found = drift([1, 2, 3, 4, 5], [sign * v for v in (2, 4, 6, 8, 10)])
    assert found.correlation == pytest.approx(rho)
    assert found.p_value == 0


def test_nothing_moves_nothing_drifts() -> None:
    assert drift([1, 2, 3, 4], [7, 7, 7, 7]).p_value == 1.0


def test_drift_wants_a_time_for_each_value() -> None:
    with pytest.raises(ValueError, match="times"):
        drift([1, 2, 3, 4, 5], [1, 2, 3, 4])
    with pytest.raises(TooFewError):
        drift([1, 2], [1, 2])
