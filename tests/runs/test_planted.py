"""Folders that somebody else laid out: nothing in them leads a reader or a writer elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from testing.synthetic import make_run
from tests.support.commandkit import ullage
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.files import put
from ullage.runs import parquet
from ullage.runs.reader import RunFolder
from ullage.runs.records import JOURNAL
from ullage.runs.writer import Journal

DERIVED = ("report.html", "samples.parquet", "events.parquet", "meters.parquet", "clocks.parquet")
PRECIOUS = "the victim's own"


@pytest.fixture(autouse=True)
def places_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "runs" / "20261120T000000-a", blocks=2, raw=False)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    file = tmp_path / "victim"
    file.write_text(PRECIOUS)
    return file


def test_no_link_at_a_temporary_name_is_written_through(
    run: Path, victim: Path, tmp_path: Path
) -> None:
    for name in DERIVED:
        (run / f".{name}.{os.getpid()}.tmp").symlink_to(victim)
    folder = RunFolder.open(run)
    parquet.write(folder)
    put(run / "report.html", b"a page")
    assert victim.read_text() == PRECIOUS


def test_a_link_in_the_place_of_what_is_written_is_replaced(run: Path, victim: Path) -> None:
    for name in DERIVED:
        (run / name).symlink_to(victim)
    assert ullage("report", str(run), cwd=run.parent.parent).code == 0
    assert victim.read_text() == PRECIOUS
    assert not any((run / name).is_symlink() for name in DERIVED)


def test_the_temporary_name_cannot_be_foreseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    real = os.rename

    def watched(source: str, target: str, **places: int) -> None:
        names.append(source)
        real(source, target, **places)

    monkeypatch.setattr(os, "rename", watched)
    for _ in range(2):
        put(tmp_path / "file", b"")
    assert len(set(names)) == 2
    assert not any(str(os.getpid()) in name.split(".") for name in names)


def test_the_folder_is_the_one_that_was_opened(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner moves it away while it is written, and lays a link to another's in its place."""
    folder, home = tmp_path / "run", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    (home / "file").write_text(PRECIOUS)
    real = os.fsync

    def swapped(fd: int) -> None:
        real(fd)
        if not folder.is_symlink():
            folder.rename(tmp_path / "moved")
            folder.symlink_to(home)

    monkeypatch.setattr(os, "fsync", swapped)
    put(folder / "file", b"new")
    assert (home / "file").read_text() == PRECIOUS
    assert (tmp_path / "moved" / "file").read_bytes() == b"new"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user")
def test_a_folder_of_somebody_else_stays_as_it_is(run: Path, tmp_path: Path) -> None:
    for path in (run, *run.rglob("*")):
        os.chown(path, 12345, 12345)
    before = sorted(path.name for path in run.iterdir())
    done = ullage("report", str(run), cwd=tmp_path)
    assert done.code == 0, done.stderr
    assert parquet.query("select count(*) as n from samples", run.parent).to_pylist()[0]["n"] > 0
    assert sorted(path.name for path in run.iterdir()) == before
    assert len(list((tmp_path / "cache" / "derived").glob("*/report.html"))) == 1
    assert len(list((tmp_path / "cache" / "derived").glob("*/samples.parquet"))) == 1


def test_read_only_writes_into_no_run(run: Path, tmp_path: Path) -> None:
    before = sorted(path.name for path in run.iterdir())
    for argv in (
        ("report", str(run)),
        ("query", "from samples"),
    ):
        done = ullage(*argv, "--read-only", cwd=tmp_path)
        assert done.code == 0, done.stderr
    assert sorted(path.name for path in run.iterdir()) == before


def test_tables_that_were_changed_are_made_again(run: Path) -> None:
    """Whoever gives a folder away can put tables in it that are not of its journal."""
    sql = "select max(value) as most from samples"
    right = parquet.query(sql, run.parent).to_pylist()
    file = run / "samples.parquet"
    table = pq.read_table(file)
    values = [None if value is None else 10 * value for value in table["value"].to_pylist()]
    pq.write_table(table.set_column(table.schema.get_field_index("value"), "value", [values]), file)
    assert parquet.query(sql, run.parent).to_pylist() == right


@pytest.mark.parametrize("name", [JOURNAL, "trials", "trials/b000-t000", "meters", "plan.yaml"])
def test_nothing_is_taken_up_through_a_link(tmp_path: Path, victim: Path, name: str) -> None:
    run, home = tmp_path / "run", tmp_path / "home"
    run.mkdir()
    home.mkdir()
    (home / "precious").write_text(PRECIOUS)
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).symlink_to(home if "." not in name else victim)
    with pytest.raises(UllageError) as caught, Journal(run) as journal:
        journal.trial_folder("b000-t000")
    assert caught.value.kind is errors.RUN_NOT_OURS
    assert name in caught.value.message
    assert (home / "precious").read_text() == victim.read_text() == PRECIOUS


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user")
def test_nobody_takes_up_what_another_can_change(run: Path) -> None:
    os.chown(run, 12345, 12345)
    with pytest.raises(UllageError) as caught:
        Journal(run)
    assert caught.value.kind is errors.RUN_NOT_OURS
