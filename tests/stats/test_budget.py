"""Type A and Type B together, against the worked examples of the GUM."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as known

from ullage.stats.interval import t_interval
from ullage.stats.uncertainty import combine, effective_df, rectangular

UNCERTAINTY = st.floats(0, 10)


def test_effective_degrees_of_the_gums_end_gauge() -> None:
    """GUM H.1.6: uncertainties in nm with their degrees of freedom give 16 (16.7 cut down)."""
    degrees = effective_df([(25, 18), (9.7, 25.6), (2.9, 50), (16.6, 2)])
    assert math.floor(degrees) == 16


def test_effective_degrees_of_the_gums_second_example() -> None:
    """GUM G.4.1: relative uncertainties 0.25, 0.57 and 0.82 % of n = 10, 5 and 15 give 19.0."""
    assert effective_df([(0.25, 9), (0.57, 4), (0.82, 14)]) == pytest.approx(19.0, abs=0.1)


def test_without_systematic_parts_it_is_the_t_interval() -> None:
    x = np.random.default_rng(1).normal(0.1, 0.05, 12)
    error = x.std(ddof=1) / math.sqrt(12)
    combined, t = combine(error, 11, [], x.mean(), 0.95), t_interval(x, 0.95)
    assert (combined.low, combined.high) == pytest.approx((t.low, t.high))
    assert combined.df == pytest.approx(11)
    assert combined.type_b == 0


def test_by_hand() -> None:
    combined = combine(0.03, 5, [0.04], 0.0, 0.95)
    df = 0.05**4 / (0.03**4 / 5)
    assert combined.standard == pytest.approx(0.05)
    assert combined.df == pytest.approx(df)
    assert combined.factor == pytest.approx(float(known.t.ppf(0.975, df)))
    assert combined.expanded == pytest.approx(combined.factor * 0.05)
    assert combined.high == pytest.approx(math.exp(combined.expanded))
    assert combined.low == pytest.approx(1 / combined.high)


def test_only_systematic() -> None:
    combined = combine(0.0, 5, [0.03, 0.04], 0.0, 0.95)
    assert math.isinf(combined.df)
    assert combined.factor == pytest.approx(1.959964, abs=1e-6)
    assert combined.type_b == pytest.approx(0.05)


def test_nothing_uncertain() -> None:
    combined = combine(0.0, 5, [], math.log(2), 0.95)
    assert (combined.low, combined.high, combined.expanded) == pytest.approx((2.0, 2.0, 0.0))


@given(UNCERTAINTY, st.integers(1, 1000), st.lists(UNCERTAINTY, max_size=5))
def test_more_parts_are_never_less(type_a: float, df: int, parts: list[float]) -> None:
    combined = combine(type_a, df, parts, 0.0, 0.95)
    more = combine(type_a, df, [*parts, 1.0], 0.0, 0.95)
    assert combined.df >= df * (1 - 1e-9)
    assert more.standard > combined.standard
    assert combined.standard == pytest.approx(math.hypot(combined.type_a, combined.type_b))


@given(UNCERTAINTY, st.integers(1, 30), st.lists(UNCERTAINTY, max_size=5))
def test_it_is_never_less_than_the_repetitions_alone(
    type_a: float, df: int, parts: list[float]
) -> None:
    """With u_B = u_A / 2 and one degree of freedom Welch–Satterthwaite halves the interval."""
    alone = combine(type_a, df, [], 0.0, 0.95)
    assert combine(type_a, df, parts, 0.0, 0.95).expanded >= alone.expanded * (1 - 1e-12)


def test_together_they_cover() -> None:
    """A true value of 0, a systematic error within ± 0.1, and six noisy repetitions."""
    rng, times = np.random.default_rng(2), 20_000
    x = rng.uniform(-0.1, 0.1, (times, 1)) + rng.normal(0, 0.1, (times, 6))
    means, errors = x.mean(axis=1), x.std(axis=1, ddof=1) / math.sqrt(6)
    part = rectangular(0.1)
    both = zip(means, errors, strict=True)
    covered = sum(abs(m) <= combine(e, 5, [part], 0.0, 0.95).expanded for m, e in both)
    alone = np.mean(np.abs(means) <= known.t.ppf(0.975, 5) * errors)
    assert covered / times >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / times)
    assert alone < 0.9, "what repeating does not show, an interval of repetitions does not hold"


def test_a_rectangle_has_its_standard_deviation() -> None:
    x = np.linspace(-2, 2, 100_001)
    assert rectangular(2.0) == pytest.approx(x.std(), rel=1e-4)


@pytest.mark.parametrize("parts", [[-0.1], [math.nan], [math.inf]])
def test_what_is_no_uncertainty_is_refused(parts: list[float]) -> None:
    with pytest.raises(ValueError, match="uncertainty"):
        combine(0.1, 5, parts, 0.0, 0.95)
