"""Lag-1 autocorrelation, its test and the effective number of values."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import signal
from scipy import stats as known

from ullage.stats.interval import TooFewError
from ullage.stats.series_checks import _ranks, autocorrelation

SERIES = st.lists(st.floats(-1e6, 1e6), min_size=6, max_size=40)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40))
def test_equal_values_share_their_ranks(values: list[int]) -> None:
    assert list(_ranks(np.array(values, dtype=float))) == list(known.rankdata(values))


def ar1(rng: np.random.Generator, rho: float, shape: tuple[int, int]) -> np.ndarray:
    """Rows of a stationary first-order autoregression with variance 1."""
    noise = rng.standard_normal(shape) * math.sqrt(1 - rho * rho)
    noise[:, 0] /= math.sqrt(1 - rho * rho)
    return signal.lfilter([1.0], [1.0, -rho], noise, axis=1)


@pytest.mark.parametrize("values", [range(6), range(7), (1, 1, 2, 3, 3, 4), (1, 2, 2, 2, 5, 6, 7)])
def test_p_values_of_few_values_are_exact(values: Sequence[float]) -> None:
    """Every order of the values is equally likely: p is how often so small a one comes."""
    p = np.array([autocorrelation(order).p_value for order in itertools.permutations(values)])
    for level in np.unique(p):
        assert np.mean(p <= level) == pytest.approx(level, abs=1e-12)


def test_the_most_alike_of_six_and_of_eight() -> None:
    """Only always rising and always falling have all steps 1: two orders."""
    for n in (6, 7, 8):
        assert autocorrelation(range(n)).p_value == pytest.approx(2 / math.factorial(n))


def test_the_approximation_is_as_good_as_it_says() -> None:
    """Of nine values, against all their orders."""
    orders = np.array(list(itertools.permutations(range(9))), dtype=np.int16)
    apart = (np.diff(orders, axis=1) ** 2).sum(axis=1)
    observed = np.sort(apart)
    for value in np.unique(apart)[:60]:
        order = orders[np.flatnonzero(apart == value)[0]]
        exact = np.searchsorted(observed, value, side="right") / observed.size
        predicted = autocorrelation(order).p_value
        assert exact / predicted <= 1.08
        assert exact / predicted >= (0.95 if exact > 0.005 else 0.5)


@pytest.mark.parametrize("draw", ["standard_normal", "standard_cauchy", "standard_exponential"])
def test_no_more_alarms_than_the_level_whatever_the_distribution(draw: str) -> None:
    rng = np.random.default_rng(4)
    p = [autocorrelation(getattr(rng, draw)(24)).p_value for _ in range(4000)]
    for level in (0.05, 0.01):
        rate, error = np.mean(np.array(p) <= level), math.sqrt(level * (1 - level) / 4000)
        assert abs(rate - level) <= 3.5 * error


def test_the_known_correlation_comes_out() -> None:
    rng = np.random.default_rng(5)
    correlations = [autocorrelation(x).rho for x in ar1(rng, 0.5, (2000, 30))]
    assert np.mean(correlations) == pytest.approx(0.5, abs=0.03), "uncorrected it is 0.41"


def test_the_effective_number_is_what_the_mean_varies_by() -> None:
    """Of a long AR(1) series: variance of the mean is that of so many independent values."""
    rng, n, rho = np.random.default_rng(6), 200, 0.6
    means = ar1(rng, rho, (4000, n)).mean(axis=1)
    effective = np.mean([autocorrelation(x).effective for x in ar1(rng, rho, (400, n))])
    assert 1 / means.var() == pytest.approx(n * (1 - rho) / (1 + rho), rel=0.1)
    assert effective == pytest.approx(n * (1 - rho) / (1 + rho), rel=0.1)


def test_it_is_found_when_it_is_there() -> None:
    rng = np.random.default_rng(7)
    p = np.array([autocorrelation(x).p_value for x in ar1(rng, 0.7, (300, 24))])
    assert np.mean(p <= 0.01) > 0.7


def test_the_widened_interval() -> None:
    x = [0.0, 0.5, 0.3, 0.2, 0.1, 0.6, 0.9, 0.7, 0.2, 0.4]
    dependence = autocorrelation(x)
    d = np.array(x) - np.mean(x)
    r = float(d[:-1] @ d[1:] / (d @ d))
    rho = (10 * r + 1) / 7
    m = 10 * (1 - rho) / (1 + rho)
    assert (dependence.rho, dependence.effective) == pytest.approx((rho, m))
    assert 2 < m < 10
    t = [float(known.t.ppf(0.975, df)) for df in (m - 1, 9)]
    assert dependence.widening(0.95) == pytest.approx(t[0] / t[1] * math.sqrt(10 / m))


@given(SERIES)
def test_any_series_gets_an_answer(values: list[float]) -> None:
    dependence = autocorrelation(values)
    assert -1 <= dependence.rho <= 1
    assert 0 <= dependence.p_value <= 1
    assert 1 <= dependence.effective <= dependence.n == len(values)
    assert dependence.widening(0.95) >= 1


@given(SERIES, st.floats(-100, 100), st.sampled_from([2.0**k for k in range(-8, 9)]))
def test_units_do_not_matter(values: list[float], shift: float, scale: float) -> None:
    x = np.round(values)  # so that shifting loses no digits
    first, second = autocorrelation(x), autocorrelation(x * scale + round(shift))
    assert first.p_value == pytest.approx(second.p_value)
    assert first.rho == pytest.approx(second.rho, abs=1e-6)


def test_alternation_is_no_gain() -> None:
    dependence = autocorrelation([1.0, 2.0] * 6)
    assert dependence.rho < 0
    assert (dependence.effective, dependence.widening(0.95)) == (12, 1)
    assert dependence.p_value > 0.99


def test_no_spread_no_correlation() -> None:
    assert autocorrelation([3.0] * 8) == autocorrelation([3.0] * 8)
    assert autocorrelation([3.0] * 8).p_value == 1


def test_too_few_and_not_finite() -> None:
    with pytest.raises(TooFewError):
        autocorrelation([1, 2, 3, 4, 5])
    with pytest.raises(ValueError, match="finite"):
        autocorrelation([1, 2, 3, 4, 5, math.nan])
