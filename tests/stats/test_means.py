from __future__ import annotations

import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ullage.stats.interval import MeanKind, TooFewError, mean

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


def test_harmonic_mean_of_tiny_rates_is_not_zero() -> None:
    assert mean([5e-324, 5e-324], "harmonic") == 5e-324


def test_one_value_and_equal_values_are_their_own_mean() -> None:
    kind: MeanKind
    for kind in get_args(MeanKind):
        assert mean([0.1], kind) == pytest.approx(0.1)
        assert mean([0.1] * 1_000_000, kind) == pytest.approx(0.1, rel=1e-14)


def test_what_has_no_mean_is_refused() -> None:
    with pytest.raises(TooFewError):
        mean([], "arithmetic")
    with pytest.raises(ValueError, match="not finite"):
        mean([1, math.inf], "harmonic")
