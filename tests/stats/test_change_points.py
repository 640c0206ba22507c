"""A change is where it was put, and few are where none was."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ullage.stats.series_checks import CHANGE_LEAST, change_points


@pytest.mark.parametrize(
    ("levels", "places"),
    [
        ((1,) * 8, []),
        ((1,) * 4 + (2,) * 4, [4]),
        ((1,) * 5 + (2,) * 5 + (1,) * 6, [5, 10]),
        ((1, 2, 1, 2), []),
        ((), []),
    ],
)
def test_steps_without_noise(levels: tuple[int, ...], places: list[int]) -> None:
    assert [change.index for change in change_points(levels)] == places


def test_a_step_of_two_standard_deviations_is_seen_where_it_is() -> None:
    random = np.random.default_rng(1)
    near = 0
    for _ in range(30):
        series = random.normal(size=30) + np.where(np.arange(30) < 18, 0.0, 2.0)
        near += any(abs(change.index - 18) <= 2 for change in change_points(series, shuffles=199))
    assert near >= 24


def test_few_values_in_order_are_no_change() -> None:
    """Of six, one split in ten shuffles is as large, however its sums are rounded."""
    for seed in range(20):
        series = np.sort(np.random.default_rng(seed).normal(size=6))
        assert change_points(series) == ()


def test_noise_alone_changes_as_often_as_the_level_says() -> None:
    """Of 200 series 5 % may; 12 % and more would come once in 30,000 tests."""
    random = np.random.default_rng(2)
    changed = sum(bool(change_points(random.normal(size=16), shuffles=99)) for _ in range(200))
    assert changed < 24


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), max_size=14))
def test_places_keep_their_distance_and_no_unit_matters(
    values: list[float],
) -> None:
    whole = [round(value) for value in values]
    changes = change_points(whole, shuffles=39)
    edges = [0, *(change.index for change in changes), len(whole)]
    assert all(b - a >= CHANGE_LEAST for a, b in pairwise(edges)) or not changes
    assert all(0 < change.p_value <= 0.05 for change in changes)
    doubled = change_points([2.0 * value for value in whole], shuffles=39)
    assert [change.index for change in doubled] == [change.index for change in changes]
