"""The disk that a run may take."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.regular import LARGEST
from ullage.runs.room import RECORDS, Room, taken


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "trials" / "b000-t000").mkdir(parents=True)
    (tmp_path / "trials" / "b000-t000" / "main.stdout").write_bytes(b"x" * 600)
    (tmp_path / "trials" / "b000-t000" / "endless").symlink_to("/dev/zero")
    (tmp_path / "journal.jsonl").write_bytes(b"x" * 300)
    return tmp_path


def test_all_files_count(run: Path) -> None:
    assert taken(run) == 900
    Room(run, 901).check()
    with pytest.raises(UllageError) as caught:
        Room(run, 900).check()
    assert caught.value.kind is errors.RUN_OUTPUTS_FULL


def test_no_trial_begins_whose_journal_could_not_be_read_back(run: Path) -> None:
    room_of_journal = Room(run, 1 << 40)
    os.truncate(run / "journal.jsonl", RECORDS - 1)
    room_of_journal.check()
    os.truncate(run / "journal.jsonl", RECORDS)
    with pytest.raises(UllageError) as caught:
        room_of_journal.check()
    assert caught.value.kind is errors.RUN_JOURNAL_FULL
    assert RECORDS < LARGEST


def test_what_was_measured_since_counts_too(run: Path) -> None:
    room = Room(run, 2000)
    room.check()
    place = run / "trials" / "b000-t001"
    place.mkdir()
    (place / "main.stdout").write_bytes(b"x" * 1200)
    room.add(place)
    with pytest.raises(UllageError) as caught:
        room.check()
    assert caught.value.kind is errors.RUN_OUTPUTS_FULL


def test_a_trial_begins_only_with_room_for_one_like_the_largest(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 1_000
    usage = type(shutil.disk_usage(run))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10_000, 10_000 - free, free))
    room = Room(run, 10_000)
    room.check()
    room.add(run / "trials" / "b000-t000")
    with pytest.raises(UllageError) as caught:
        room.check()
    assert caught.value.kind is errors.RUN_DISK_LOW
    assert "has 1000B left" in caught.value.message
    assert os.path.lexists(run / "trials" / "b000-t000")


def test_a_disk_of_data_is_watched_unless_it_was_low_from_the_start(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What workloads prepared may fill one on purpose: that is said, and stops nobody."""
    usage = type(shutil.disk_usage(run))
    free = {run: 9_000, Path("/proc"): 9_000, Path("/sys"): 10}
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10_000, 0, free[path]))
    room = Room(run, 10_000)
    (low,) = room.watch([Path("/proc"), Path("/sys")])
    assert low.facts["path"] == Path("/sys")
    room.check()
    free[Path("/proc")] = 499
    with pytest.raises(UllageError) as caught:
        room.check()
    assert caught.value.kind is errors.RUN_DISK_LOW
    assert "the disk of /proc has 499B left" in caught.value.message
