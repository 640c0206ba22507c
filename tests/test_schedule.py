"""The order of trials."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage import schedule

names = st.lists(st.text("abcdef", min_size=1, max_size=3), min_size=1, max_size=7, unique=True)


@given(st.integers(0, 2**48), st.integers(0, 500), names, names)
def test_a_block_is_every_cell_once_and_pairs_are_neighbours(
    seed: int, number: int, environments: list[str], workloads: list[str]
) -> None:
    slots = schedule.block(seed, number, environments, workloads)
    cells = [(slot.environment, slot.workload) for slot in slots]
    assert sorted(cells) == sorted((e, w) for e in environments for w in workloads)
    assert [slot.order for slot in slots] == list(range(len(slots)))
    for first in range(0, len(slots), len(environments)):
        group = slots[first : first + len(environments)]
        assert len({slot.workload for slot in group}) == 1
        assert [slot.position for slot in group] == list(range(len(environments)))
    assert slots == schedule.block(seed, number, environments, workloads)


@pytest.mark.parametrize("count", range(2, 10))
def test_williams_balances_places_and_neighbours(count: int) -> None:
    rows = schedule.williams(count)
    places = Counter((place, item) for row in rows for place, item in enumerate(row))
    after = Counter(pair for row in rows for pair in pairwise(row))
    assert len(set(places.values())) == 1
    assert len(places) == count * count
    assert len(set(after.values())) == 1
    assert len(after) == count * (count - 1)


@given(st.integers(0, 2**48), st.integers(2, 6))
def test_a_cycle_of_blocks_is_balanced(seed: int, count: int) -> None:
    environments = [f"e{i}" for i in range(count)]
    cycle = len(schedule.williams(count))
    places = Counter(
        (slot.position, slot.environment)
        for number in range(cycle)
        for slot in schedule.block(seed, number, environments, ["w"])
    )
    assert set(places.values()) == {cycle // count}


def test_seeds_differ() -> None:
    environments = [f"e{i}" for i in range(5)]
    orders = {
        tuple(slot.environment for slot in schedule.block(seed, 0, environments, ["w"]))
        for seed in range(50)
    }
    assert len(orders) > 20


def test_trials_have_names_that_sort() -> None:
    slot = schedule.Slot(3, 17, 0, "vm", "w")
    assert slot.trial == "b003-t017"
