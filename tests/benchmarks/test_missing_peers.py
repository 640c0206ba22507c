"""A peer that is not installed is said in its rows; ours stand without it."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

import pytest

from benchmarks import figures
from benchmarks.elastic import simulator
from benchmarks.engine import analysis_speed, trial_cost
from benchmarks.engine.analysis_speed import SHAPES, Times
from benchmarks.figures import aimed

OURS = [Times(3.0 + n / 10, 6.0) for n in range(6)]
THEIRS = [Times(0.9, 1.5)] * 6


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Python package of a peer's is here."""
    monkeypatch.setattr(figures, "find_spec", lambda _: None)


def test_the_analysis_stands_without_duckdb(bare: None) -> None:
    for row in analysis_speed.rows(SHAPES[0], [OURS], [700_000_000]):
        assert (row.peer, row.peer_value, row.note) == ("", None, "not installed: duckdb")
        assert row.value > 0


def test_the_analysis_beside_duckdb() -> None:
    rows = analysis_speed.rows(SHAPES[0], [OURS, THEIRS], [700_000_000, 500_000_000])
    assert [row.peer_value for row in rows] == [0.9, 1.5, 500]
    assert [row.holds for row in rows] == [True, None, True]
    assert {row.note for row in rows} == {""}


def test_fewer_samples_show_a_miss_and_no_more() -> None:
    """By `--quick`: a tenth of the pairs that the aims are of."""
    short = SHAPES[0].shortened(10)
    seconds, _, memory = analysis_speed.rows(short, [OURS, THEIRS], [700_000_000, 1])
    assert (seconds.holds, memory.holds, aimed(seconds).holds) == (None, None, False)
    slow = [Times(6.0 + n, 6.0) for n in range(6)]
    seconds, _, memory = analysis_speed.rows(short, [slow, THEIRS], [2_000_000_000, 1])
    assert (seconds.holds, memory.holds) == (False, False)


def test_a_trial_stands_without_reframe() -> None:
    trials = {"native": [0.01] * 20}
    fine, other = trial_cost.rows(trials, {"hyperfine -N": [0.001], "ReFrame --repeat": []})
    assert (fine.peer_value, fine.note) == (0.001, "")
    assert (other.peer_value, other.note) == (None, "not installed: ReFrame")
    assert fine.value == other.value == 0.01
    assert other.holds is True


def test_too_few_trials_are_not_judged() -> None:
    (row,) = trial_cost.rows({"native": [0.01] * 3}, {"hyperfine -N": [0.001]})
    assert (row.high, row.holds) == (None, None)


def test_reframe_that_pip_cannot_install_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: subprocess.CompletedProcess[bytes] = subprocess.CompletedProcess([], returncode=1)
    monkeypatch.setattr(venv, "create", lambda *_, **__: None)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: refused)
    assert trial_cost.reframe(tmp_path) is None


def test_a_row_beside_simpy_says_that_there_is_none(bare: None) -> None:
    row = simulator._beside_simpy(1_000, "fixed", 5)
    assert row.name == "1,000 viewers, fixed times: speed"
    assert row.note == "not installed: simpy"
    assert figures.as_row(row)["value"] is None
