"""What nodes took to come: beside how many others, and in whose time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiments.elastic.analysis.test_demand import ready, requested
from tests.experiments.elastic.elastic_made import (
    NS,
    ZERO,
    SyntheticEnvironment,
    SyntheticRun,
    make,
)
from ullage.experiments.elastic.analysis import latencies
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.folder import NotReady


def test_a_node_is_beside_those_that_are_being_allocated_when_it_begins() -> None:
    acts = (
        requested(0, ZERO),
        requested(1, ZERO),  # at the same instant: the first of the two has nobody beside it
        requested(2, ZERO + 2 * NS + 1),  # the front wanted it when the first was there
        requested(3, ZERO + 4 * NS),  # when the second was given up
        ready(0, ZERO, ZERO + 2 * NS),
        NotReady(node=1, instance="n1", asked_ns=ZERO, at_ns=ZERO + 3 * NS, attempts=1, why="full"),
        ready(2, ZERO + 2 * NS, ZERO + 5 * NS),
        ready(3, ZERO + 4 * NS, ZERO + 5 * NS),
    )
    allocations = latencies.allocations(acts)
    assert [(concurrent, act.node) for concurrent, act, _ in allocations] == [
        (1, 0),
        (2, 2),
        (2, 3),
    ]
    assert [seconds for _, _, seconds in allocations] == pytest.approx([2.0, 3.0, 1.0])


def test_a_delay_that_was_injected_is_in_the_users_time(tmp_path: Path) -> None:
    plans = SyntheticRun(
        environments={"lxc": SyntheticEnvironment(tar_s=0.5, boot_delay_s=0.25)}, time_scale=10.0
    )
    path = make(tmp_path, plans)
    injected_s = [
        seconds
        for repetition in ElasticRun.open(path).repetitions
        for _, _, seconds in latencies.allocations(repetition.acts)
    ]
    (total_s,) = [sum(map(sum, latencies.of_run(path, None).values()))]
    assert total_s == pytest.approx(sum(injected_s) + len(injected_s) * 0.25 * 9)


def test_what_has_too_few_values_goes_to_the_next_smaller_number() -> None:
    few = {1: [1.0], 2: [2.0, 2.0, 2.0], 4: [4.0]}
    by_number = {
        row["concurrent"]: row["stages"][0]["time"]["values_s"] for row in latencies.rows(few)
    }
    assert by_number == {1: [1.0], 2: [2.0, 2.0, 2.0, 4.0]}
    none_alone = {2: [2.0, 2.0, 2.0], 3: [3.0, 3.0, 3.0]}
    assert [row["concurrent"] for row in latencies.rows(none_alone)] == [1, 3]
