from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.stats.interval import collapse, t_interval

LABEL = st.integers(-(2**63), 2**63 - 1)
VALUE = st.floats(-3, 3)


def test_means_come_in_order_of_first_appearance() -> None:
    means = collapse([1, 10, 3, 20, 5], [7, -2, 7, -2, 0])
    assert list(means) == [2, 15, 5]


def test_one_group_is_left_as_it_is() -> None:
    assert list(collapse([3, 1, 2], [4, 4, 4])) == [3, 1, 2]
    assert collapse([], []).size == 0


@given(st.lists(LABEL, min_size=2, max_size=8, unique=True), st.integers(1, 5), st.data())
def test_balanced_groups_keep_the_mean(
    labels: list[int], per_label: int, data: st.DataObject
) -> None:
    groups = data.draw(st.permutations(labels * per_label))
    x = data.draw(st.lists(VALUE, min_size=len(groups), max_size=len(groups)))
    means = collapse(x, groups)
    assert np.mean(means) == pytest.approx(np.mean(x), abs=1e-12)
    first = list(dict.fromkeys(groups))
    for label, mean in zip(first, means, strict=True):
        mine = [v for v, group in zip(x, groups, strict=True) if group == label]
        assert mean == pytest.approx(math.fsum(mine) / len(mine), abs=1e-12)


@given(VALUE, st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_equal_values_have_their_value_as_mean(value: float, groups: list[int]) -> None:
    assert set(collapse([value] * len(groups), groups)) == {value}


def test_an_interval_of_group_means_covers_where_one_of_values_does_not() -> None:
    """6 generations of 10 blocks, half of the variance between generations."""
    rng = np.random.default_rng(3)
    campaigns, generations, blocks = 2000, 6, 10
    groups = np.repeat(np.arange(generations), blocks)
    of_means, of_values = 0, 0
    for _ in range(campaigns):
        x = rng.normal(0, 0.1, generations)[groups] + rng.normal(0, 0.1, groups.size)
        of_means += not t_interval(collapse(x, groups), 0.95).excludes(1)
        of_values += not t_interval(x, 0.95).excludes(1)
    noise = 3 * math.sqrt(0.95 * 0.05 / campaigns)
    assert abs(of_means / campaigns - 0.95) <= noise
    assert of_values / campaigns < 0.75


def test_a_million_values_in_a_thousand_groups() -> None:
    groups = np.arange(1_000_000) % 1000
    assert collapse(groups.astype(float), groups) == pytest.approx(np.arange(1000))


def test_what_cannot_be_grouped_is_refused() -> None:
    with pytest.raises(ValueError, match="1 groups for 2 values"):
        collapse([1, 2], [1])
    with pytest.raises(ValueError, match="integers"):
        collapse([1, 2], [0.5, 1.5])
    with pytest.raises(ValueError, match="not finite"):
        collapse([1, math.nan], [1, 2])
