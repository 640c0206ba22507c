"""What the simulator says of repetitions that it was not fitted on.

The real ones are made by a model of its own in Python, which draws what nodes take: a fit on some
repetitions has to predict others, but for chance.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.experiments.elastic.elastic_made import SyntheticEnvironment, SyntheticRun, make
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.simulator import prediction

PLAN = SyntheticRun(
    environments={
        "lxc": SyntheticEnvironment(tar_s=0.5),
        "late": SyntheticEnvironment(tar_s=2.0, boot_delay_s=1.5),
    }
)


def by_way(
    run: ElasticRun, *others: ElasticRun
) -> dict[tuple[str, str], prediction.HeldOutPrediction]:
    predictions = prediction.predictions(run, others, seeds=2)
    return {(p.environment, p.held_out): p for p in predictions}


def near(by_chance: prediction.HeldOutPrediction) -> bool:
    """Is the error within a few times its interval, and small?"""
    assert by_chance.low is not None and by_chance.high is not None
    return (
        abs(by_chance.error) < max(0.01, 1.5 * (by_chance.high - by_chance.low))
        and abs(by_chance.error) < 0.08
    )


def test_a_repetition_is_predicted_from_others(tmp_path: Path) -> None:
    run = ElasticRun.open(make(tmp_path, PLAN))
    late = by_way(run)["late", "seed"]
    assert late.repetitions == PLAN.repetitions
    assert late.real > 0.02
    assert near(late)
    assert late.error == pytest.approx(late.predicted - late.real)


def test_a_delay_that_was_never_fitted_is_predicted(tmp_path: Path) -> None:
    """Fitted on nodes that nobody held, predicted for those that are held for 1.5 s; and back."""
    run = ElasticRun.open(make(tmp_path, PLAN))
    predictions = by_way(run)
    assert near(predictions["late", "delay"])
    assert near(predictions["lxc", "delay"])
    assert predictions["lxc", "delay"].predicted < 0.01 < predictions["late", "delay"].predicted


def test_a_load_is_predicted_from_another_run(tmp_path: Path) -> None:
    busy = replace(PLAN, name="busy", viewers=120, rate_hz=8.0, seed=9)
    run, other = (ElasticRun.open(make(tmp_path, plan)) for plan in (PLAN, busy))
    load = by_way(run, other)["late", "load"]
    assert load.real > 0.2
    assert near(load)


def test_nothing_of_the_predicted_repetition_is_used(tmp_path: Path) -> None:
    """Its acts may say what they like: a twin would follow them."""
    run = ElasticRun.open(make(tmp_path, PLAN))
    first = next(r for r in run.repetitions if r.environment == "late")
    fitted = prediction.fit(r for r in run.of("late") if r.number != first.number)
    assert fitted is not None
    silent = replace(first, acts=())
    of_both = [prediction.predict(run, r, fitted, 2) for r in (first, silent)]
    assert of_both[0] == of_both[1]


def test_too_few_allocations_are_no_fit(tmp_path: Path) -> None:
    run = ElasticRun.open(make(tmp_path, replace(PLAN, repetitions=1)))
    assert prediction.fit(()) is None
    assert ("late", "seed") not in by_way(run), "there is no other repetition"
