"""The row of a sweep on two CPUs: pairs, and no figure on a machine of one."""

from __future__ import annotations

import math

import pytest

from benchmarks.elastic import sweep
from benchmarks.elastic.sweep import Cpus


@pytest.mark.parametrize(
    ("speeds", "holds"),
    [([2.0, 1.99, 2.0, 1.98], True), ([1.5, 1.6, 1.5, 1.6], False), ([1.5, 2.2, 2.1, 1.6], None)],
)
def test_the_whole_interval_is_on_one_side_of_the_aim(
    speeds: list[float], holds: bool | None
) -> None:
    runs: list[Cpus] = []

    def took(cpus: Cpus) -> float:
        pair = len(runs) // 2
        runs.append(cpus)
        return 8.0 if len(cpus) == 1 else 8.0 / speeds[pair]

    row = sweep.beside([1, 3, 5], len(speeds), took)
    assert row.value == pytest.approx(math.prod(speeds) ** (1 / len(speeds)))
    assert row.holds is holds
    assert [*map(len, runs)].count(1) == len(speeds)
    assert set(runs) == {frozenset({1}), frozenset({1, 3})}
    assert len({len(first) for first in runs[::2]}) == 2, "not always the same goes first"


def test_one_cpu_has_no_figure() -> None:
    row = sweep.beside([0], 4, lambda _: pytest.fail("nothing to compare"))
    assert math.isnan(row.value) and row.note == "there is one CPU here"
    assert row.holds is None
