"""A/A on records: each figure once, the product's verdicts, and what would be caught."""

from __future__ import annotations

import numpy as np

from benchmarks.statistics import aa_traces, design
from benchmarks.statistics.design import Plan
from benchmarks.statistics.noise import ar1
from benchmarks.statistics.traces import Trace, all_traces
from ullage.plan import schedule

PLAN = Plan(environments=("a", "b"), workloads=("cpu", "disk"), blocks=12)


def test_every_row_of_a_stretch_is_used_once_by_each_workload() -> None:
    found = aa_traces.rows(PLAN, 5)
    for seed in range(5):
        for workload in range(2):
            assert sorted(found[seed, :, workload].ravel()) == list(range(48))


def test_the_order_within_a_block_is_the_schedule_s() -> None:
    environments = (design.BASELINE, design.AGAIN, "a", "b")
    found = aa_traces.rows(PLAN, 2)
    for slot in schedule.block(1, 7, environments, PLAN.workloads):
        at = PLAN.workloads.index(slot.workload), environments.index(slot.environment)
        assert found[1, 7, *at] == 7 * 4 + slot.position


def test_ratios_are_of_the_rows_that_the_order_names() -> None:
    trace = Trace("ramp", {"cpu": np.arange(200.0), "disk": np.arange(200.0) ** 2})
    order = aa_traces.rows(PLAN, 3)
    found = aa_traces.campaigns(trace, PLAN, np.array([0, 10, 20]), order)
    assert found.shape == (3, 12, 2, 3)
    expected = order[2, :, 0, 2] - order[2, :, 0, 0]
    np.testing.assert_array_equal(found[2, :, 0, 1], expected)
    rows = order[1, 4, 1] + 10
    assert found[1, 4, 1, 0] == rows[1] ** 2 - rows[0] ** 2


def test_a_wandering_machine_fools_the_sequence_and_not_the_blocks() -> None:
    wandering = ar1(np.random.default_rng(9), 1, 600, 0.97, 0.1)[0]
    found = aa_traces.run(Trace("wandering", {"cpu": wandering, "disk": wandering[::-1]}), 300, 1)
    assert (found.family, found.rows, found.disjoint) == (4, 48, 12)
    assert found.holm.at_most(0.05)
    assert not found.sequential.at_most(0.3)
    assert found.sequential_any.value > found.sequential.value
    assert found.worst.of == 25


def test_the_kept_traces() -> None:
    for trace in all_traces():
        found = aa_traces.run(trace, 200, 1)
        assert found.family == 2 * len(trace.columns)
        # Eight in a hundred is the reach; the figure itself, of more campaigns, is in the docs.
        assert found.holm.at_most(0.08)
        assert found.verdict.value <= found.holm.value
        assert not found.sequential_any.at_most(0.08)
