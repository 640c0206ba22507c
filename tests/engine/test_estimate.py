"""The time that a plan will take."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.engine.estimate import (
    TRIAL_OVERHEAD_S,
    DurationHistory,
    TimeEstimate,
    estimate,
    learn_from,
    provision_key,
    trial_key,
)
from ullage.plan import matrix, schema
from ullage.runs.events import Trial

PLAN = """\
name: small
baseline: native
image: host
environments:
  native: {provider: native}
  one: {provider: native}
  two: {provider: oci}
workloads:
  - {name: sysbench-cpu, time_s: 2}
  - {name: sysbench-memory, time_s: 3}
"""


def _estimate(text: str, history: DurationHistory) -> TimeEstimate:
    checked, document = schema.loads(text)
    return estimate(checked, matrix.resolve(checked, document), history)


@pytest.fixture
def history(tmp_path: Path) -> DurationHistory:
    return DurationHistory(tmp_path / "history.json")


@pytest.mark.parametrize(
    ("least", "most", "budget", "seconds"),
    [
        (6, 40, None, (310, 2010)),
        (6, 40, 600.0, (310, 600)),
        (6, 40, 120.0, (310, 310)),  # the least number of blocks runs in any case
        (6, 6, 9000.0, (310, 310)),
    ],
)
def test_a_budget_cuts_what_is_not_needed(
    least: int, most: int, budget: float | None, seconds: tuple[float, float]
) -> None:
    estimated = TimeEstimate(10.0, 50.0, least, most, budget, learned=False)
    assert (estimated.least_s, estimated.most_s) == seconds


@pytest.mark.parametrize(
    ("budget", "blocks_each", "reached"),
    [
        (None, None, 40),
        (510.0, None, 10),
        (509.0, None, 9),
        (120.0, None, 6),
        (9000.0, None, 40),
        (None, 2, 40),
        (550.0, 2, 10),  # five generations of 10 + 2 × 50 s
        (549.0, 2, 8),
    ],
)
def test_blocks_that_a_budget_allows(
    budget: float | None, blocks_each: int | None, reached: int
) -> None:
    estimated = TimeEstimate(10.0, 50.0, 6, 40, budget, learned=False, blocks_each=blocks_each)
    assert estimated.blocks_reached == reached
    assert budget is None or reached == 6 or estimated.seconds(reached) <= budget


def test_instances_made_anew_are_made_for_each_generation() -> None:
    estimated = TimeEstimate(10.0, 50.0, 6, 12, None, learned=False, blocks_each=3)
    assert (estimated.least_s, estimated.most_s) == (2 * 10 + 6 * 50, 4 * 10 + 12 * 50)


def test_a_block_is_every_trial_one_after_another(history: DurationHistory) -> None:
    estimated = _estimate(PLAN, history)
    # native, native~again, one, two
    assert estimated.block_s == pytest.approx(4 * (2 + 3 + 2 * TRIAL_OVERHEAD_S))
    assert not estimated.learned


def test_iterations_multiply_the_work(history: DurationHistory) -> None:
    once = _estimate(PLAN, history)
    estimated = _estimate(f"{PLAN}repeat: {{instances: 2, iterations: 5}}\n", history)
    assert estimated.block_s == pytest.approx(5 * once.block_s)
    assert estimated.blocks_each == 2


def test_the_two_of_a_duet_take_the_time_of_the_slower(history: DurationHistory) -> None:
    for provider, seconds in (("native", 2.0), ("oci", 5.0)):
        for load in ("sysbench-cpu", "sysbench-memory"):
            history.seconds[trial_key(provider, load)] = seconds
    estimated = _estimate(f"{PLAN}design: duet\n", history)
    # native~again and one beside native: 2 s; two: 5 s; for each workload.
    assert estimated.block_s == pytest.approx(2 * (2 + 2 + 5))
    assert estimated.learned


def test_the_slowest_to_be_made_decides(history: DurationHistory) -> None:
    history.seconds[provision_key("oci")] = 7.5
    history.seconds[provision_key("native")] = 0.1
    assert _estimate(PLAN, history).provision_s == 7.5


def test_learns_the_seconds_of_one_iteration(history: DurationHistory) -> None:
    figures = {"t": 1.0}
    trial = Trial(
        trial="b000-t000",
        block=0,
        order=0,
        position=0,
        environment="one",
        workload="w",
        status="ok",
        epoch_ns=0,
        start_ns=0,
        end_ns=8_000_000_000,
        overhead_s=0.4,
    )
    learn_from(history, {"one": "native"}, [trial])
    assert history.seconds[trial_key("native", "w")] == pytest.approx(8.4)
    history.seconds.clear()
    several = trial.model_copy(update={"iterations": (figures,) * 4})
    learn_from(history, {"one": "native"}, [several])
    assert history.seconds[trial_key("native", "w")] == pytest.approx(2.1)
