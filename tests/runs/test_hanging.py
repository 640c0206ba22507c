"""Folders with what is no file in the place of a file, or with more than anybody can read.

Each is refused with an error of the catalogue, and left out by name where others are shown.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from testing.synthetic import make_run
from tests.experiments.elastic.elastic_made import SyntheticRun, make
from tests.support.commandkit import ullage
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.listing import list_runs as list_elastic
from ullage.runs import parquet
from ullage.runs.listing import list_runs
from ullage.runs.reader import RunFolder

HUGE = 20 << 30


def fifo(file: Path) -> None:
    os.mkfifo(file)


def endless(file: Path) -> None:
    file.symlink_to("/dev/zero")


def sparse(file: Path) -> None:
    with file.open("wb") as stream:
        stream.truncate(HUGE)


def linked(file: Path) -> None:
    file.symlink_to("/etc/passwd")


def folder(file: Path) -> None:
    file.mkdir()


PLANTS = (fifo, endless, sparse, linked, folder)
Plant = Callable[[Path], None]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    make_run(tmp_path / "runs" / "20261121T000000-good", blocks=2, raw=False)
    make_run(tmp_path / "runs" / "20261120T000000-bad", blocks=2, raw=False)
    return tmp_path / "runs"


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("name", ["journal.jsonl", "resolved.json"])
def test_a_bad_run_is_left_out_by_name(runs: Path, name: str, plant: Plant) -> None:
    bad = runs / "20261120T000000-bad"
    (bad / name).unlink()
    plant(bad / name)
    with pytest.raises(UllageError) as caught:
        RunFolder.open(bad)
    assert caught.value.kind is errors.RUN_BAD_FORMAT
    problems = {run.run: run.problem for run in list_runs(runs)}
    assert problems["20261121T000000-good"] is None
    assert name in (problems[bad.name] or "")
    left_out: list[Path] = []
    sql = "select count(distinct run) as n from samples"
    table = parquet.query(sql, runs, lambda path, _: left_out.append(path))
    assert table.to_pylist() == [{"n": 1}]
    assert left_out == [bad]


@pytest.mark.parametrize("plant", PLANTS)
def test_what_lies_beside_hangs_nobody(runs: Path, plant: Plant) -> None:
    bad = runs / "20261120T000000-bad"
    trials = RunFolder.open(bad).trials
    for name in ("plan.yaml", "meters/wall.jsonl", f"trials/{trials[0].trial}/symbols.json"):
        (bad / name).unlink(missing_ok=True)
        (bad / name).parent.mkdir(parents=True, exist_ok=True)
        plant(bad / name)
    done = ullage("report", str(bad), cwd=runs.parent)
    assert done.code in {0, 2}
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize(
    "name",
    [
        "journal.jsonl",
        "resolved.json",
        "repetitions/lxc/000/outcome.json",
        "repetitions/lxc/000/viewers.json",
        "repetitions/lxc/000/sessions.jsonl",
        "repetitions/lxc/000/controller.jsonl",
    ],
)
def test_elastic_runs_hang_nobody(tmp_path: Path, name: str, plant: Plant) -> None:
    run = make(tmp_path / "runs", SyntheticRun(repetitions=2, viewers=10))
    (run / name).unlink()
    plant(run / name)
    with pytest.raises(UllageError) as caught:
        ElasticRun.open(run)
    assert caught.value.kind in {errors.RUN_BAD_FORMAT, errors.RUN_NOT_FOUND}
    list_elastic(run.parent)
    list_runs(run.parent)


def test_a_repetition_in_another_folder_is_not_read(tmp_path: Path) -> None:
    run = make(tmp_path / "runs", SyntheticRun(repetitions=2, viewers=10))
    place = run / "repetitions" / "lxc"
    shutil.move(place, tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UllageError, match="leads elsewhere"):
        ElasticRun.open(run)


@pytest.mark.parametrize("field", ["messages", "looks", "pid", "minor_faults"])
def test_one_number_that_no_table_holds_ends_no_query(runs: Path, field: str) -> None:
    file = runs / "20261120T000000-bad" / "journal.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    trial = next(line for line in lines if line["event"] == "trial" and line["roles"])
    clock = {"shared": True, "looks": [1], "messages": 1, "took_ns": 1, "hard_ns": 1, "sure_ns": 1}
    trial["clocks"] = {"native-0": clock}
    match field:
        case "messages":
            clock["messages"] = 2**64
        case "looks":
            clock["looks"] = [2**64]
        case "pid":
            lines[0]["pid"] = 2**64
        case _:
            usage = {"user_s": 0, "system_s": 0, "max_rss_bytes": 0, "minor_faults": 2**64}
            trial["roles"][0]["usage"] = usage
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    left_out: list[Path] = []
    sql = "select count(distinct run) as n from samples"
    table = parquet.query(sql, runs, lambda path, _: left_out.append(path))
    assert table.to_pylist() == [{"n": 1}]
    assert left_out == [file.parent]


@pytest.mark.parametrize("name", ["resolved.json", "journal.jsonl"])
def test_a_record_of_a_million_wrong_values_takes_no_memory(runs: Path, name: str) -> None:
    """Pydantic makes a note of each: ten megabytes became five gigabytes, for all runs' list."""
    file = runs / "20261120T000000-bad" / name
    junk = "[" + ",".join(["[]"] * 1_000_000) + "]"
    field = '"workloads"' if name == "resolved.json" else '"roles"'
    text, times = re.subn(rf"{field}: ?\[", f'{field}:{junk},"_":[', file.read_text(), count=1)
    assert times == 1
    file.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "ullage", "list"],
        cwd=runs.parent,
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (400 << 20, 400 << 20)),
    )
    printed = " ".join(done.stdout.split())
    assert "20261121T000000-good" in printed
    assert "a record in it has more than 250,000 values" in printed


def test_tables_without_an_end_are_made_anew(tmp_path: Path) -> None:
    run = make_run(tmp_path, blocks=6)
    parquet.write(RunFolder.open(run))
    (run / "samples.parquet").unlink()
    with (run / "samples.parquet").open("wb") as file:
        file.truncate(15 << 40)
    done = ullage("query", "--runs", str(tmp_path), "select count(*) as n from samples")
    assert done.code == 0, done.stderr


def test_a_circle_of_links_is_no_output(tmp_path: Path) -> None:
    run = make_run(tmp_path, blocks=6)
    (run / "circle").symlink_to("circle")
    with pytest.raises(UllageError) as caught:
        RunFolder.open(run).raw("circle")
    assert caught.value.kind is errors.RUN_BAD_FORMAT
