"""The writer of run folders."""

import errno
import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.files import put
from ullage.runs import writer
from ullage.runs.events import BlockDone
from ullage.runs.records import JOURNAL
from ullage.runs.writer import Journal


def event(number: int) -> BlockDone:
    return BlockDone(block=number, epoch_ns=1, seconds=0.5)


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / JOURNAL).read_text().splitlines()]


def test_events_are_lines(tmp_path: Path) -> None:
    with Journal(tmp_path) as written:
        written.append(event(1))
        written.append(event(2))
    assert [line["block"] for line in lines(tmp_path)] == [1, 2]
    assert {line["event"] for line in lines(tmp_path)} == {"block"}


@given(st.binary(max_size=50).filter(lambda tail: b"\n" not in tail))
def test_a_partial_line_is_cut_and_whole_ones_stay(
    tmp_path_factory: pytest.TempPathFactory, tail: bytes
) -> None:
    folder = tmp_path_factory.mktemp("run")
    with Journal(folder) as written:
        written.append(event(1))
    with (folder / JOURNAL).open("ab") as stream:
        stream.write(tail)
    with Journal(folder) as written:
        written.append(event(2))
    assert [line["block"] for line in lines(folder)] == [1, 2]


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Journal(tmp_path) as written:
        written.append(event(1))
        real = os.write

        def half(fd: int, data: bytes) -> int:
            real(fd, data[:7])
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "write", half)
        with pytest.raises(UllageError) as caught:
            written.append(event(2))
        assert caught.value.kind is errors.RUN_DISK_FULL
        monkeypatch.undo()
        written.append(event(3))
    assert [line["block"] for line in lines(tmp_path)] == [1, 3]


def test_only_one_controller_writes(tmp_path: Path) -> None:
    with Journal(tmp_path), pytest.raises(UllageError) as caught, Journal(tmp_path):
        pass
    assert caught.value.kind is errors.RUN_IN_USE
    with Journal(tmp_path):
        pass


def test_no_folder_no_journal(tmp_path: Path) -> None:
    with pytest.raises(UllageError) as caught:
        Journal(tmp_path / "absent")
    assert caught.value.kind is errors.RUN_NOT_FOUND


def test_folders_of_one_second_differ(tmp_path: Path) -> None:
    folders = {writer.new_folder(tmp_path, "demo") for _ in range(3)}
    assert len(folders) == 3
    assert all(folder.is_dir() for folder in folders)


def test_put_is_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "resolved.json"
    put(file, b"old")

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="broken"):
        put(file, b"new")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_put_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    for file in (tmp_path / "absent/out.csv", Path("/dev/null/out.csv")):
        with pytest.raises(OSError) as caught:
            put(file, b"new")
        assert caught.value.filename == str(file)


def test_a_killed_attempts_output_does_not_stay(tmp_path: Path) -> None:
    with Journal(tmp_path) as written:
        folder = written.trial_folder("b000-t001")
        (folder / "main.stdout").write_text("half")
        assert list(written.trial_folder("b000-t001").iterdir()) == []


def test_a_file_without_a_byte_has_the_digest_of_nothing(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        place = journal.trial_folder("b000-t000")
        (place / "main.stdout").touch()
        (place / "main.stderr").write_bytes(b"x")
        of_nothing = f"sha256:{hashlib.sha256().hexdigest()}"
        of_one = f"sha256:{hashlib.sha256(b'x').hexdigest()}"
        assert journal.digests(place) == {
            "trials/b000-t000/main.stderr": of_one,
            "trials/b000-t000/main.stdout": of_nothing,
        }
