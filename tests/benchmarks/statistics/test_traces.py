"""Recorded noise: what is read, and what is drawn out of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.statistics.noise import recorded
from benchmarks.statistics.traces import (
    FOLDER,
    SEGMENT,
    Trace,
    TraceError,
    all_traces,
    read,
    segments,
)


def test_the_kept_traces_are_read_and_their_noise_has_the_truth_one() -> None:
    traces = all_traces()
    assert [kept.name for kept in traces] == sorted(file.stem for file in FOLDER.glob("*.csv"))
    assert "two-core-vm" in {kept.name for kept in traces}
    for trace in traces:
        assert trace.turns >= 2 * SEGMENT
        for column in trace.columns.values():
            assert abs(float(column.mean())) < 1e-12


def test_a_lower_rate_is_a_longer_time(tmp_path: Path) -> None:
    rows = [f"{i},{100 if i % 2 else 50}" for i in range(2 * SEGMENT)]
    file = tmp_path / "one.csv"
    file.write_text("# machine: none\n" + "\n".join(["t_s,cpu_eps", *rows]) + "\n# went on: now\n")
    trace = read(file)
    assert list(trace.columns) == ["cpu"]
    np.testing.assert_allclose(trace.columns["cpu"][:2], [np.log(2) / 2, -np.log(2) / 2])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "t_s,cpu_eps\n1,2\n",
        "t_s,colour\n" + "1,2\n" * 200,
        "t_s,cpu_eps\n" + "1,2\n" * 200 + "1\n",
        "t_s,cpu_eps\n" + "1,2\n" * 200 + "1,0\n",
        "t_s,cpu_eps\n" + "1,2\n" * 200 + "1,inf\n",
        "t_s,cpu_eps\n" + "1,2\n" * 200 + "1,nan\n",
        "t_s,cpu_eps\n" + "1,2\n" * 200 + "1,fast\n",
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(text)
    with pytest.raises(TraceError, match="bad"):
        read(file)


def test_a_series_is_made_of_stretches_as_they_were() -> None:
    column = np.arange(200.0)
    series = segments(column, np.random.default_rng(3), 300, 150)
    assert series.shape == (300, 150)
    follows = np.diff(series, axis=1) == 1
    # Two or three seams in each series of 150 rows, and none between them.
    assert set(np.unique((~follows).sum(axis=1))) <= {1, 2, 3}
    assert (np.abs(np.bincount(series.astype(int).ravel())[60:140] / 300 - 1) < 0.35).all()


def test_every_column_is_a_regime() -> None:
    trace = Trace("mine", {"cpu": np.arange(130.0), "disk": np.zeros(130)})
    regimes = recorded(trace)
    assert [regime.name for regime in regimes] == ["mine: cpu", "mine: disk"]
    assert not any(regime.synthetic for regime in regimes)
    assert not regimes[1].series(np.random.default_rng(1), 2, 5).any()
