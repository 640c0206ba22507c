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
    rows = aa_traces.rows(PLAN, 5)
    for seed in range(5):
        for workload in range(2):
            assert sorted(rows[seed, :, workload].ravel()) == list(range(48))


def test_the_order_within_a_block_is_the_schedule_s() -> None:
    environments = (design.BASELINE, design.AGAIN, "a", "b")
    rows = aa_traces.rows(PLAN, 2)
    for slot in schedule.block(1, 7, environments, PLAN.workloads):
        at = PLAN.workloads.index(slot.workload), environments.index(slot.environment)
        assert rows[1, 7, *at] == 7 * 4 + slot.position


def test_ratios_are_of_the_rows_that_the_order_names() -> None:
    trace = Trace("ramp", {"cpu": np.arange(200.0), "disk": np.arange(200.0) ** 2})
    order = aa_traces.rows(PLAN, 3)
    ratios = aa_traces.campaigns(trace, PLAN, np.array([0, 10, 20]), order)
    assert ratios.shape == (3, 12, 2, 3)
    expected = order[2, :, 0, 2] - order[2, :, 0, 0]
    np.testing.assert_array_equal(ratios[2, :, 0, 1], expected)
    rows = order[1, 4, 1] + 10
    assert ratios[1, 4, 1, 0] == rows[1] ** 2 - rows[0] ** 2


def test_a_wandering_machine_fools_the_sequence_and_not_the_blocks() -> None:
    wandering = ar1(np.random.default_rng(9), 1, 600, 0.97, 0.1)[0]
    outcome = aa_traces.run(Trace("wandering", {"cpu": wandering, "disk": wandering[::-1]}), 300, 1)
    assert (outcome.family, outcome.rows, outcome.disjoint) == (4, 48, 12)
    assert outcome.holm.at_most(0.05)
    assert not outcome.sequential.at_most(0.3)
    assert outcome.sequential_any.value > outcome.sequential.value
    assert outcome.worst.of == 25


def test_the_kept_traces() -> None:
    for trace in all_traces():
        outcome = aa_traces.run(trace, 200, 1)
        assert outcome.family == 2 * len(trace.columns)
        # Eight in a hundred is the reach; the figure itself, of more campaigns, is in the docs.
        assert outcome.holm.at_most(0.08)
        assert outcome.verdict.value <= outcome.holm.value
        assert not outcome.sequential_any.at_most(0.08)
