"""Simulated pipelines: cut as a recording lies there, judged by the gate itself."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from benchmarks.statistics.gate_rates import command, counts
from benchmarks.statistics.gate_rates.counts import PIPELINES, Task, _enough
from benchmarks.statistics.gate_rates.pipelines import (
    REFERENCE,
    TRIAL_S,
    Noise,
    Pipeline,
    Runs,
    answer,
    stretches,
)
from benchmarks.statistics.traces import all_traces

PAIRS, ONE, THREE = Pipeline(0, 6), Pipeline(1, 6), Pipeline(3, 6)


def quiet(pipeline: Pipeline, spread: float = 1e-3) -> Runs:
    rng = np.random.default_rng(1)
    noise = Noise(*spread * rng.standard_normal((2, pipeline.rows)))
    return Runs(pipeline, noise, stretches(rng, pipeline.rows, pipeline), 1)


@pytest.mark.parametrize("pipeline", PIPELINES, ids=str)
def test_runs_are_disjoint_and_in_the_order_of_time(pipeline: Pipeline) -> None:
    rng = np.random.default_rng(2)
    one = pipeline.blocks * pipeline.per_block
    for _ in range(50):
        starts = stretches(rng, pipeline.rows + 40, pipeline)
        assert len(starts) == pipeline.baselines + 1
        assert all(b - a >= one for a, b in pairwise(starts))
        assert starts[0] >= 0 and starts[-1] + one + pipeline.extra <= pipeline.rows + 40


@pytest.mark.parametrize("pipeline", PIPELINES, ids=str)
def test_every_kind_fits_on_every_recording_or_is_one_run(pipeline: Pipeline) -> None:
    fits = all(pipeline.rows <= trace.turns for trace in all_traces())
    assert fits or not pipeline.baselines


def test_each_trial_takes_the_row_of_its_moment() -> None:
    pipeline = Pipeline(1, 6, reference=True)
    rows = np.arange(24) / 100
    runs = Runs(pipeline, Noise(rows, 10 + rows), [0, 0], 3)
    run = runs.folder(1, 6, slower=2.0)
    assert runs.folder(1, 4, slower=2.0).events == run.events[:16]
    for trial in run.trials:
        own = rows[4 * trial.block + trial.order]
        log = 10 + own if trial.workload == REFERENCE else math.log(2) + own
        seconds = trial.metrics["seconds"]
        assert isinstance(seconds, float)
        assert math.log(seconds) == pytest.approx(log)
    assert run.complete_blocks == tuple(range(6))


@pytest.mark.parametrize("pipeline", [PAIRS, ONE, THREE, Pipeline(1, 6, reference=True)], ids=str)
@pytest.mark.parametrize(("slower", "outcome"), [(1.0, "within"), (1.05, "worse")])
def test_without_noise_to_speak_of_no_gate_is_wrong(
    pipeline: Pipeline, slower: float, outcome: str
) -> None:
    outcome_of_gate = answer(quiet(pipeline), slower=slower, line=0.03)
    assert outcome_of_gate.outcome == outcome
    assert outcome_of_gate.seconds == pytest.approx(6 * pipeline.per_block * TRIAL_S)


def test_what_shows_nothing_takes_all_the_time_there_is() -> None:
    outcome_of_gate = answer(quiet(PAIRS, 0.3), slower=1.0, line=0.03)
    block_s = PAIRS.per_block * TRIAL_S
    assert outcome_of_gate.outcome == "inconclusive"
    assert 600 - block_s <= outcome_of_gate.seconds - 6 * block_s <= 600


def test_outcomes_are_counted_by_program() -> None:
    trace = all_traces()[0]
    tried = Task(trace, PAIRS, 8, seed=1)()
    assert [row.line for row in tried] == list(counts.LINES)
    for row in tried:
        assert sum(share.hits for share in row.same.values()) == 8
        assert set(row.caught) == set(trace.columns)
        assert sum(share.hits for share in row.caught.values()) == row.slow["worse"].hits
        assert all(figure.low is not None for figure in command.figures(row))


def test_as_many_blocks_as_the_formula_says_have_the_power() -> None:
    """By the non-central t distribution."""
    beyond = math.log(1.05)
    n = _enough(0.05, beyond)
    assert n is not None
    power = stats.nct.sf(stats.t.ppf(0.99, n - 1), n - 1, beyond / 0.05 * math.sqrt(n))
    assert power == pytest.approx(0.9, abs=0.03)
    assert _enough(100.0, beyond) is None
