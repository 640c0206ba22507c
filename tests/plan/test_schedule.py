"""The order of trials."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.plan import schedule
from ullage.runs.records import size

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


@given(st.integers(0, 2**48), st.integers(2, 7), st.data())
def test_who_has_left_is_in_no_block_and_the_others_stay_balanced(
    seed: int, count: int, data: st.DataObject
) -> None:
    environments = [f"e{i}" for i in range(count)]
    gone = data.draw(st.sets(st.sampled_from(environments), max_size=count))
    left = {(environment, "w") for environment in gone}
    staying = [environment for environment in environments if environment not in gone]
    cycle = len(schedule.williams(max(1, len(staying))))
    blocks = [
        schedule.block(seed, number, environments, ["v", "w"], left=left) for number in range(cycle)
    ]
    for slots in blocks:
        assert sorted(slot.environment for slot in slots if slot.workload == "w") == staying
        assert sorted(slot.environment for slot in slots if slot.workload == "v") == environments
        assert [slot.order for slot in slots] == list(range(len(slots)))
    places = Counter(
        (slot.position, slot.environment)
        for slots in blocks
        for slot in slots
        if slot.workload == "w"
    )
    assert set(places.values()) <= {cycle // max(1, len(staying))}


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


# --- duets ----------------------------------------------------------------------------------------
@given(st.integers(0, 2**48), st.integers(0, 500), names, names)
def test_a_block_of_duets_is_every_pair_once(
    seed: int, number: int, others: list[str], workloads: list[str]
) -> None:
    turns = schedule.duet(seed, number, others, workloads, "base")
    assert turns == schedule.duet(seed, number, others, workloads, "base")
    slots = [slot for turn in turns for slot in turn]
    assert [slot.order for slot in slots] == list(range(len(slots)))
    assert len(slots) == size("duet", len(others) + 1, len(workloads))
    pairs = [(slot.environment, slot.workload) for slot, _ in turns]
    assert sorted(pairs) == sorted((e, w) for e in others for w in workloads)
    for tested, baseline in turns:
        assert (tested.partner, baseline.partner) == ("base", tested.environment)
        assert baseline.environment == "base"
        assert (tested.block, tested.workload, tested.position) == (
            baseline.block,
            baseline.workload,
            baseline.position,
        )
        assert {tested.side, baseline.side} == {0, 1}


@given(st.integers(0, 2**48), st.integers(0, 250), st.integers(1, 5))
def test_in_two_blocks_each_pair_is_once_either_way_round(
    seed: int, cycle: int, count: int
) -> None:
    others = [f"e{i}" for i in range(count)]
    sides = Counter(
        (slot.environment, slot.workload, slot.side)
        for number in (2 * cycle, 2 * cycle + 1)
        for slot, _ in schedule.duet(seed, number, others, ["v", "w"], "base")
    )
    assert set(sides.values()) == {1}
    assert len(sides) == 4 * count


def test_sides_are_drawn_by_the_seed() -> None:
    first = [schedule.duet(seed, 0, ["vm"], ["w"], "base")[0][0].side for seed in range(200)]
    # Binomial: 200 fair draws lie within 60 and 140 but for 1 in 10^8.
    assert 60 < sum(side or 0 for side in first) < 140


def test_the_order_of_pairs_is_balanced_as_that_of_environments() -> None:
    others = ["a", "b", "c"]
    places = Counter(
        (slot.position, slot.environment)
        for number in range(len(schedule.williams(3)))
        for slot, _ in schedule.duet(5, number, others, ["w"], "base")
    )
    assert set(places.values()) == {2}


@pytest.mark.parametrize(
    ("number", "every", "generation"), [(0, None, 0), (9, None, 0), (5, 6, 0), (6, 6, 1), (7, 1, 7)]
)
def test_generations_follow_from_the_number_of_the_block(
    number: int, every: int | None, generation: int
) -> None:
    assert schedule.generation(number, every) == generation
