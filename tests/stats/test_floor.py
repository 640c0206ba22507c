from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.stats.interval import IntervalEstimate, t_interval
from ullage.stats.uncertainty import APART, noise_floor, random_part, reach


def _interval(low: float, high: float) -> IntervalEstimate:
    return IntervalEstimate(math.sqrt(low * high), low, high, 0.95, 12, "t")


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
    floor = noise_floor([IntervalEstimate(1.0, 0.0, math.inf, 0.95, 2, "t")])
    assert floor is not None
    assert floor.ratio == math.inf
    assert reach(IntervalEstimate(1.0, 0.0, 2.0, 0.95, 2, "t")) == math.inf
    assert reach(_interval(0.25, 2.0)) == pytest.approx(math.log(4))


def test_in_a_duet_only_the_random_part_is_wider() -> None:
    """Interval exp(0.02 ± 0.05): the mean stays, the half width is √2 times as much."""
    floor = noise_floor([_interval(math.exp(-0.03), math.exp(0.07))], APART)
    assert floor is not None
    assert floor.log == pytest.approx(0.02 + math.sqrt(2) * 0.05)
    assert not floor.biased
    assert reach(IntervalEstimate(1.0, 0.0, math.inf, 0.95, 2, "t"), APART) == math.inf


def test_the_random_part_is_the_error_of_a_difference_of_means() -> None:
    rng = np.random.default_rng(41)
    baselines, again, environment = (
        rng.standard_normal((2, 20_000)),
        *rng.standard_normal((2, 20_000)),
    )
    for second, correlation in ((0, 0.5), (1, 0.0)):
        effect, null = environment - baselines[0], again - baselines[second]
        observed = np.std(effect - null) / np.std(null)
        assert observed == pytest.approx(random_part(correlation), rel=0.03)


@given(st.lists(st.floats(-1, 1), min_size=6, max_size=12))
def test_floor_does_not_know_which_copy_is_first(x: list[float]) -> None:
    first = noise_floor([t_interval(x, 0.95)])
    second = noise_floor([t_interval([-v for v in x], 0.95)])
    assert first is not None
    assert second is not None
    assert first.ratio == pytest.approx(second.ratio, rel=1e-9)
