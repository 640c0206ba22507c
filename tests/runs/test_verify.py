"""`ullage verify`: what holds, what does not, and of what nobody can tell."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from testing.synthetic import make_run
from tests.runs.sealedrun import sealed_run
from tests.support.commandkit import ullage
from tests.test_old_folders import OLD
from ullage.common import errors, sums
from ullage.common.errors import UllageError
from ullage.common.regular import digest
from ullage.runs import parquet
from ullage.runs.events import BlockDone
from ullage.runs.reader import RunFolder, find_runs
from ullage.runs.records import JOURNAL, RESOLVED
from ullage.runs.verify import verify
from ullage.runs.writer import Journal


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return sealed_run(tmp_path / "runs")


def states(run: Path) -> dict[str, str]:
    return {checked.file: checked.state for checked in verify(run) if checked.state != "holds"}


def test_all_that_was_written_holds(run: Path) -> None:
    parquet.write(RunFolder.open(run))
    assert RunFolder.open(run).summed
    assert states(run) == {}
    files = {checked.file for checked in verify(run)}
    assert {
        JOURNAL,
        RESOLVED,
        "plan.yaml",
        "samples.parquet",
        "trials/b001-t000/main.stdout",
    } <= files


@pytest.mark.parametrize("name", ["/etc/passwd", "a\ud800", ""])
def test_a_journal_that_names_what_no_run_holds(tmp_path: Path, name: str) -> None:
    (tmp_path / JOURNAL).write_text(json.dumps({"files": {name: "x"}}) + "\n")
    (checked,) = verify(tmp_path)
    assert (checked.file, checked.state) == (name, "changed")
    assert checked.detail.startswith("its name ")


@pytest.mark.parametrize(
    ("name", "change", "state"),
    [
        (JOURNAL, lambda data: data.replace(b'"block":1', b'"block":0', 1), "changed"),
        (RESOLVED, lambda data: data.replace(b'"margin": 0', b'"margin": 1'), "changed"),
        ("plan.yaml", lambda data: data + b"\n", "changed"),
        ("trials/b001-t000/main.stdout", lambda data: data[:-1], "changed"),
        ("trials/b001-t000/main.stdout", None, "missing"),
        ("tables.json", lambda data: data.replace(b"sha256:", b"sha256;", 1), "changed"),
        ("samples.parquet", lambda data: data[:-9] + b"X" + data[-8:], "unverified"),
        ("report.html", lambda _: b"a page", "unverified"),
    ],
)
def test_what_was_changed_is_named(
    run: Path, name: str, change: Callable[[bytes], bytes] | None, state: str
) -> None:
    parquet.write(RunFolder.open(run))
    file = run / name
    if change is None:
        file.unlink()
    else:
        before = file.read_bytes() if file.exists() else b""
        assert change(before) != before
        file.write_bytes(change(before))
    assert states(run)[name] == state
    done = ullage("verify", str(run), cwd=run.parent)
    assert done.code == (1 if state in ("changed", "missing") else 0)
    assert f"{state} {name}" in done.stdout


def test_a_changed_line_is_read_by_nobody(run: Path) -> None:
    journal = run / JOURNAL
    text = journal.read_text()
    journal.write_text(text.replace('"overhead_s":0', '"overhead_s":1', 1))
    with pytest.raises(UllageError, match="its checksum does not hold") as caught:
        RunFolder.open(run)
    assert caught.value.kind is errors.RUN_BAD_FORMAT


def test_old_runs_are_unverified_and_read(tmp_path: Path) -> None:
    for run in find_runs(OLD / "run"):
        assert not RunFolder.open(run).summed
        assert set(states(run).values()) == {"unverified"}
    run = make_run(tmp_path / "runs" / "20261120T000000-a", blocks=2, raw=False)
    assert "unverified" in ullage("list", cwd=tmp_path).stdout
    assert "unverified" in ullage("show", str(run), cwd=tmp_path).stderr
    assert ullage("verify", str(run), cwd=tmp_path).code == 0


def test_an_old_run_that_goes_on_has_sums_from_there(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "20261120T000000-a", blocks=2, raw=False, finished=False)
    old = len((run / JOURNAL).read_text().splitlines())
    with Journal(run) as journal:
        journal.append(BlockDone(block=9, epoch_ns=1, seconds=1.0))
    (journal_checked,) = (checked for checked in verify(run) if checked.file == JOURNAL)
    assert journal_checked.state == "unverified"
    assert journal_checked.detail == f"{old:,} of {old + 1:,} lines have no checksum"
    RunFolder.open(run)


def test_a_flipped_end_of_the_last_line_is_no_cut(run: Path) -> None:
    """A cut line is left out and its trial run again; a whole one may not be lost so."""
    journal = run / JOURNAL
    data = journal.read_bytes()
    journal.write_bytes(data[:-1] + b"\x0b")
    with pytest.raises(UllageError, match="more after its end"):
        RunFolder.open(run)
    with Journal(run):
        pass
    assert journal.read_bytes() == data[:-1] + b"\x0b"
    journal.write_bytes(data[:-1])
    assert RunFolder.open(run).truncated


def test_every_file_of_an_older_clock_or_elastic_run_is_unverified() -> None:
    for kind in ("elastic", "clock"):
        (run,) = (OLD / kind).iterdir()
        assert set(states(run).values()) == {"unverified"}


def test_verify_as_json(run: Path) -> None:
    done = ullage("verify", str(run), "--json", cwd=run.parent)
    assert {file["state"] for file in json.loads(done.stdout)} == {"holds"}
    assert sums.has_sum((run / RESOLVED).read_bytes())


def test_no_such_run(tmp_path: Path) -> None:
    with pytest.raises(UllageError) as caught:
        verify(tmp_path / "absent")
    assert caught.value.kind is errors.RUN_NOT_FOUND


def test_the_sum_of_what_was_planned_cannot_be_left_out(run: Path) -> None:
    file = run / RESOLVED
    file.write_bytes(sums.opened(file.read_bytes()).replace(b'"margin": 0.02', b'"margin": 0.5 '))
    assert states(run)[RESOLVED] == "changed"
    with pytest.raises(UllageError, match="no checksum") as caught:
        RunFolder.open(run)
    assert caught.value.kind is errors.RUN_BAD_FORMAT


def test_digests_are_of_files_of_the_folder_alone(run: Path) -> None:
    outside = run.parent / "outside"
    outside.write_bytes(b"x")
    with pytest.raises(OSError, match="leads out"):
        digest(run / ".." / "outside", run)


def test_an_empty_journal_holds_nothing(run: Path) -> None:
    (run / JOURNAL).write_bytes(b"")
    assert states(run)[JOURNAL] == "unverified"
