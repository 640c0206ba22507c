"""`import ullage`: light, and its values are those of the commands."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

import ullage
from testing.synthetic import SCRIPT, make_run
from tests.support import commandkit
from ullage.common import errors

SLOW: Final = {"pydantic", "asyncio", "numpy", "scipy", "pyarrow", "typer", "yaml"}
TABLE: Final = "environment,block,value\n" + "".join(
    f"{name},{block},{10 * factor + block / 10}\n"
    for block in range(12)
    for name, factor in (("a", 1), ("b", 2))
)
PLAN: Final = {
    "name": "library",
    "baseline": "native",
    "image": "host",
    "environments": {"native": {"provider": "native"}, "other": {"provider": "native"}},
    "workloads": [{"name": "command", "argv": ["true"]}],
    "blocks": {"min": 2, "max": 2},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("library") / "run", blocks=8)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "times.csv"
    file.write_text(TABLE)
    return file


def shown(*argv: str) -> object:
    done = commandkit.ullage(*argv, "--json")
    assert done.code == 0, done.stderr
    return json.loads(done.stdout)


def test_the_import_alone_loads_nothing_else() -> None:
    script = "import ullage, sys; dir(ullage); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert loaded & SLOW == set()
    assert {name for name in loaded if name.startswith("ullage.")} == set()


def test_reading_a_run_loads_nothing_that_measures(folder: Path) -> None:
    script = f"import ullage, sys; ullage.open_run({str(folder)!r}).samples; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    measuring = ("engine", "plan", "meters", "workloads", "environments", "host")
    rooms = {name.split(".")[1] for name in done.stdout.split() if name.startswith("ullage.")}
    assert rooms & set(measuring) == set()


def test_a_run_is_what_show_says(folder: Path) -> None:
    run = ullage.open_run(folder)
    assert run.analysis.model_dump(mode="json") == shown("show", str(folder))
    assert [c.verdict for c in run] == [c.verdict for c in run.comparisons]
    assert run.path == folder and len(run) == len(run.comparisons)
    assert repr(run).startswith("On this machine")


def test_tables_are_those_of_the_parquet_files(folder: Path, tmp_path: Path) -> None:
    run = ullage.open_run(folder)
    assert isinstance(run.samples, pa.Table) and run.samples.num_rows > 0
    assert {"environment", "workload", "value", "unit"} <= set(run.samples.column_names)
    assert run.events.num_rows > 0 and run.meters.num_rows >= 0
    assert run.report(tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_a_table_is_what_compare_says(table: Path) -> None:
    answer = ullage.compare(table, baseline="a", better="lower")
    document = shown("compare", str(table), "--baseline", "a", "--better", "lower")
    assert isinstance(document, dict)
    document.pop("notes")
    assert answer.analysis.model_dump(mode="json") == document
    (comparison,) = answer
    assert comparison.verdict == "worse"


def test_runs_are_what_compare_says(folder: Path, tmp_path: Path) -> None:
    later = make_run(tmp_path / "later", seed=2, blocks=8)
    changes = ullage.compare_runs(folder, later)
    assert changes.model_dump(mode="json") == shown("compare", str(folder), str(later))


def test_a_notebook_shows_sentences_and_pictures_and_runs_nothing(tmp_path: Path) -> None:
    run = ullage.open_run(make_run(tmp_path / "run", blocks=8))
    html = run._repr_html_()
    assert html.startswith("<iframe srcdoc=") and 'sandbox=""' in html
    assert html.count("&lt;svg") > 1
    assert "<script" not in html and SCRIPT not in html


@pytest.mark.root
def test_a_plan_is_run(tmp_path: Path) -> None:
    run = ullage.run(PLAN, runs=tmp_path / "runs")
    assert run.path.parent == tmp_path / "runs"
    assert run.analysis.trials == 2 * 3
    assert (run.path / "plan.yaml").exists()


def test_a_bad_plan_is_an_error_of_the_catalogue(tmp_path: Path) -> None:
    with pytest.raises(errors.UllageError) as refusal:
        ullage.run({**PLAN, "baseline": "nothing"}, runs=tmp_path)
    assert refusal.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.root
def test_a_plan_is_run_where_a_loop_runs_as_in_a_notebook(tmp_path: Path) -> None:
    async def cell() -> ullage.Run:
        return ullage.run(PLAN, runs=tmp_path / "runs")

    assert asyncio.run(cell()).analysis.trials == 2 * 3


def test_an_interrupted_run_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ullage.experiments.run.run_plan", lambda *_, **__: None)
    with pytest.raises(errors.UllageError) as refusal:
        ullage.run(PLAN, runs=tmp_path)
    assert refusal.value.kind is errors.RUN_INTERRUPTED


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ullage.nothing  # type: ignore[attr-defined]
