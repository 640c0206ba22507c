"""Work shared out over threads and processes gives what it gives one after another."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.analysis.tablekit import Columns, analysed, noisy
from ullage.analysis.tables import workers
from ullage.analysis.tables.workers import RunCalls, by_processes, by_threads, go_over, in_turn


@pytest.mark.parametrize("run", [in_turn, by_threads, by_processes])
def test_results_come_back_in_order(run: RunCalls) -> None:
    data = np.arange(1000.0)
    calls = [partial(np.sum, data[:at]) for at in range(50)]
    assert run(calls) == [at * (at - 1) / 2 for at in range(50)]
    assert run([]) == []


@pytest.mark.parametrize("run", [in_turn, by_threads, by_processes])
def test_an_error_comes_through(run: RunCalls) -> None:
    def fail() -> None:
        raise ValueError("of a call")

    with pytest.raises(ValueError, match="of a call"):
        run([fail])


@pytest.mark.parametrize(
    ("rows", "number", "parts"), [(10_000_000, 1, by_threads), (1000, 3, in_turn)]
)
def test_the_shape_of_the_table_decides(rows: int, number: int, parts: RunCalls) -> None:
    cells, ways = go_over(rows, [lambda: "cell"] * 2, [lambda run: run] * number)
    assert cells == ["cell"] * 2
    assert ways == [parts] * number


def test_processes_and_threads_find_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns: Columns = {"environment": [], "workload": [], "block": [], "value": []}
    for at in range(5):
        noise = noisy(15, 1.03, seed=at)
        columns["workload"] += [f"w{at}"] * 30
        for key, values in noise.items():
            columns[key] += values
    expected = analysed(tmp_path, columns)
    monkeypatch.setattr(workers, "MANY", 5)
    monkeypatch.setattr(workers, "CHUNK", 2)
    assert analysed(tmp_path, columns) == expected
    monkeypatch.setattr(workers, "LARGE", 1)
    assert analysed(tmp_path, columns) == expected
