"""Energies of whole runs as people and programs read them: each figure, in every format."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from testing.synthetic import CURVE_WORKLOAD
from tests.analysis.energykit import CPU, analysed, metered, run
from ullage.analysis.comparison.model import Analysis
from ullage.analysis.energy import words
from ullage.cli import main
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.report import energy_table
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import WorkloadRecord

POWERS = {"native": 100.0, "container": 130.0, "lxc": 100.0, "vm": 200.0}


def _load(trial: Trial) -> float:
    return POWERS[trial.environment.partition("~")[0]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    unmetered = run(
        tmp_path_factory.mktemp("energy") / "run", workloads=(CPU, CURVE_WORKLOAD), blocks=6
    )
    return metered(unmetered, _load, idle=40.0)


@pytest.fixture(scope="module")
def analysis(folder: RunFolder) -> Analysis:
    return analysed(folder)


def _named(metric: str) -> tuple[WorkloadRecord, ...]:
    renamed = CPU.metrics[0].model_copy(update={"name": metric})
    return (CPU.model_copy(update={"metrics": (renamed, *CPU.metrics[1:])}),)


@pytest.mark.parametrize(
    ("metric", "amount"),
    [("events_per_second", "1,000 events"), ("queries_per_second", "1,000 queries")],
)
def test_show_prints_each_figure_with_its_method_and_scope(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    metric: str,
    amount: str,
) -> None:
    folder = run(tmp_path / "run", workloads=_named(metric), blocks=6)
    metered(folder, lambda trial: _load(trial) / 50, idle=0.8)
    monkeypatch.setattr(sys, "argv", ["ullage", "show", str(folder.path)])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert not ended.value.code
    assert amount.partition(" ")[2] in capsys.readouterr().out
    cells = list(energy_table.terminal(analysed(folder)).columns[5].cells)
    assert len(cells) == 4
    assert all(f" J per {amount} (measured at the wall)" in str(cell) for cell in cells)


@pytest.mark.parametrize(
    ("metric", "singular"),
    [
        ("events_per_second", "event"),
        ("queries_per_second", "query"),
        ("context_switches_per_second", "context switch"),
        ("accesses_per_second", "access"),
        ("rate", "unit"),
    ],
)
def test_the_smallest_amount_is_one_of_its_things(
    tmp_path: Path, metric: str, singular: str
) -> None:
    folder = run(tmp_path / "run", workloads=_named(metric), blocks=3)
    metered(folder, lambda _: 90_000.0)
    assert words.rows(analysed(folder))[0][5].endswith(f" per {singular} (measured at the wall)")


def test_every_format_has_every_row(folder: RunFolder, analysis: Analysis) -> None:
    expected = energy_table.rows(analysis)
    assert len(expected) == len(analysis.energy)
    assert all(list(row) == list(energy_table.COLUMNS) for row in expected)
    assert json.loads(energy_table.export(analysis, "json"))["rows"] == expected
    table = pq.read_table(pa.BufferReader(energy_table.export(analysis, "parquet")))
    assert table.to_pylist() == expected
    read = list(csv.DictReader(io.StringIO(energy_table.export(analysis, "csv").decode())))
    assert [row["energy_j"] for row in read] == [str(row["energy_j"]) for row in expected]
    latex = energy_table.export(analysis, "latex").decode()
    assert latex.count("measured at the wall") == len(expected)
    with pytest.raises(UllageError) as caught:
        energy_table.export(analysis, "svg")
    assert caught.value.kind is errors.EXPORT_UNKNOWN_FORMAT


def test_the_command_exports_it(
    folder: RunFolder, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sys, "argv", ["ullage", "export", str(folder.path), "--energy", "--format", "csv"]
    )
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert not ended.value.code
    assert capfdbinary.readouterr().out.startswith(b"run,environment,")
