"""Hartigan's dip, against values that are not ours."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.stats.interval import TooFewError
from ullage.stats.series_checks import _LEVELS, _QUANTILES, dip, two_groups

# By diptest 0.12.0 (C++, after Maechler's R package), `diptest.dipstat`.
DIPTEST = [
    ([0.0, 0.1, 0.2, 10.0, 10.1, 10.2], 0.245),
    ([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0], 0.07142857142857142),
    ([0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0], 0.07142857142857142),
    ([1.0, 1.0, 2.0, 2.0, 3.0, 4.0, 4.0, 4.0], 0.14583333333333331),
    ([-2.0, -2.0, -0.9, -0.8, 0.2, 0.3], 0.15942028985507248),
    ([0.0, 3.0, 3.1, 3.2, 3.3, 9.0, 9.1, 9.2, 9.3, 14.0, 14.1, 20.0], 0.1583333333333333),
]


@pytest.mark.parametrize(("values", "reference"), DIPTEST)
def test_the_dip_is_that_of_others(values: list[float], reference: float) -> None:
    assert dip(values) == pytest.approx(reference, abs=1e-6)


def test_the_dip_of_a_large_sample_is_that_of_others() -> None:
    """Quantiles of the logistic distribution, once and twice: no random numbers."""
    u = (np.arange(100) + 0.5) / 100
    logistic = np.log(u / (1 - u))
    assert dip(logistic) == pytest.approx(0.005, abs=1e-6)
    assert dip(np.concatenate([logistic, logistic + 8])) == pytest.approx(
        0.06910201709273839, abs=1e-6
    )


@pytest.mark.parametrize(
    ("n", "level", "reference"),
    [
        (10, 0.95, 0.139611395137099),
        (20, 0.95, 0.105130218270636),
        (50, 0.99, 0.0811998415355918),
        (200, 0.999, 0.0497198001867437),
    ],
)
def test_the_table_is_that_of_others(n: int, level: float, reference: float) -> None:
    """`qDiptab` of Maechler's R package diptest, from a million samples too."""
    at = _QUANTILES[n][_LEVELS.index(level)] / math.sqrt(n)
    assert at == pytest.approx(reference, rel=0.006)


@pytest.mark.parametrize("n", [6, 11, 40])
def test_of_uniform_values_the_p_value_is_uniform(n: int) -> None:
    """The table, interpolated at 11 and 40, against our own dip: a simulation of the level."""
    rng, times = np.random.default_rng(n), 2500
    p = np.array([two_groups(rng.random(n)).p_value for _ in range(times)])
    for level in (0.1, 0.05, 0.01):
        assert abs(np.mean(p <= level) - level) <= 3.5 * math.sqrt(level * (1 - level) / times)


@pytest.mark.parametrize("n", [6, 12, 60])
@pytest.mark.parametrize("kind", ["normal", "t3", "skewed"])
def test_one_group_raises_no_alarm(n: int, kind: str) -> None:
    rng, times = np.random.default_rng(9), 1000
    makers: Callable[[], np.ndarray] = {
        "normal": lambda: rng.standard_normal(n),
        "t3": lambda: rng.standard_t(3, n),
        "skewed": lambda: rng.standard_exponential(n),
    }[kind]
    alarms = sum(two_groups(makers()).p_value <= 0.05 for _ in range(times))
    assert alarms / times <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / times)


@pytest.mark.parametrize(("n", "apart"), [(12, 15.0), (24, 7.0), (100, 5.0)])
def test_two_groups_are_found_with_their_places(n: int, apart: float) -> None:
    rng, hits = np.random.default_rng(n), 0
    for _ in range(100):
        x = rng.standard_normal(n)
        x[: n // 2] += apart
        groups = two_groups(rng.permutation(x))
        hits += groups.p_value <= 0.01
        assert groups.below == pytest.approx(0.5, abs=0.1)
        assert groups.high - groups.low == pytest.approx(apart, abs=1.5)
    assert hits >= 80


def test_one_value_apart_is_no_group() -> None:
    x = [*np.random.default_rng(4).standard_normal(15), 40.0]
    assert two_groups(x).p_value > 0.5


@given(st.lists(st.integers(-1000, 1000), min_size=6, max_size=50))
def test_it_does_not_depend_on_order_sign_place_or_scale(values: list[int]) -> None:
    x = np.array(values, dtype=np.float64)
    statistic = dip(x)
    assert 1 / (2 * x.size) - 1e-6 <= statistic <= 0.25 + 1e-6
    assert dip(x[::-1]) == statistic
    assert dip(-x) == pytest.approx(statistic, abs=1e-6)
    assert dip(4 * x + 8) == pytest.approx(statistic, abs=1e-6)


def test_of_many_values_some_are_looked_at() -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.standard_normal(100_000), rng.standard_normal(100_000) + 6])
    groups = two_groups(rng.permutation(x))
    assert groups.p_value < 1e-4
    assert groups.below == pytest.approx(0.5, abs=0.05)
    assert two_groups(rng.standard_normal(200_000)).p_value > 0.5


def test_no_spread_no_groups() -> None:
    assert two_groups([5.0] * 9).p_value == 1


def test_too_few() -> None:
    with pytest.raises(TooFewError):
        two_groups([1, 2, 3, 4, 5])
