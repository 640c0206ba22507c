from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ullage.stats.interval import TooFewError
from ullage.stats.series_checks import median, outliers, robust_z


def test_outlier_limit_is_that_of_hyperfine() -> None:
    """10 robust standard deviations, 14.8 MAD."""
    x = np.array([-1.0, -1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, -1.0])
    for far, flagged in ((14.7, False), (14.9, True)):
        assert bool(outliers([*x, far])[-1]) is flagged


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=40))
def test_the_median_is_numpys_to_the_last_bit(x: list[float]) -> None:
    assert median(np.array(x)) == float(np.median(x))


def test_scale_is_scipys_normal_mad() -> None:
    x = np.random.default_rng(1).standard_t(3, 51)
    scale = stats.median_abs_deviation(x, scale="normal")
    assert robust_z(x) == pytest.approx(np.abs(x - np.median(x)) / scale, rel=1e-4)


def test_outliers_where_most_values_are_equal() -> None:
    x = [0.0] * 30 + [0.001, 9.0]
    assert list(np.flatnonzero(outliers(x))) == [31]


def test_no_spread_no_outlier() -> None:
    assert not outliers([0.3] * 5).any()
    assert not outliers([0.3]).any()


def test_rounding_is_no_distance() -> None:
    """0.1 + 0.2 is not 0.3 in floating point, but it is no outlier among many of them."""
    assert not outliers([0.3] * 40 + [0.1 + 0.2]).any()


@given(
    st.lists(st.integers(-100, 100), min_size=4, max_size=20),
    st.integers(1, 1000),
    st.integers(-50, 50),
)
def test_robust_z_has_no_unit(x: list[int], scale: int, shift: int) -> None:
    shifted = robust_z([v * scale + shift for v in x])
    assert shifted == pytest.approx(robust_z(x), rel=1e-6, abs=1e-9)


def test_a_million_values_with_one_wild() -> None:
    x = np.random.default_rng(3).normal(size=1_000_000)
    x[17] = 20.0
    assert list(np.flatnonzero(outliers(x))) == [17]


def test_what_cannot_be_judged_is_refused() -> None:
    with pytest.raises(ValueError, match="value 2 of 2 is nan, not finite"):
        robust_z([1.0, math.nan])
    with pytest.raises(TooFewError):
        robust_z([])
