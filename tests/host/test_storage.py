"""Directories of a plan's choice for `/data`: which disk it is, and what is found again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.host import devices, leftovers, paths, storage
from ullage.host.storage import DiskRequest

TAG = "u00d15c5"


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULLAGE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("ULLAGE_STATE_DIR", str(tmp_path / "state"))
    paths.data_dir(TAG).mkdir(parents=True)


MOUNTS = b"""\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:21 / /proc rw - proc proc rw
30 22 8:17 / /mnt/a\\040b rw,relatime - xfs /dev/sdb1 rw
31 22 0:50 /sub /mnt/c rw shared:9 master:2 - btrfs /dev/sdc rw,subvol=/sub
32 22 8:33 / /mnt/c rw - ext4 /dev/sdd1 rw
"""


def test_mounts_are_read_as_the_kernel_writes_them() -> None:
    disks = dict(storage.mounted(MOUNTS))
    assert (disks[Path("/")].number, disks[Path("/mnt/a b")].source) == ("8:1", "/dev/sdb1")
    # What was mounted last is what one sees.
    assert disks[Path("/mnt/c")].file_system == "ext4"


@given(st.binary(max_size=200))
def test_no_mountinfo_breaks_it(mountinfo: bytes) -> None:
    list(storage.mounted(mountinfo))


def test_a_directory_stands_where_the_kernel_says(tmp_path: Path) -> None:
    """As stat(1) has it, where the file system has one device."""
    disk = storage.disk(tmp_path)
    assert disk.file_system and disk.source
    assert str(disk).startswith(f"{disk.file_system} on {disk.source}")


def test_two_directories_of_one_disk_are_no_comparison(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    devices.check({"a": DiskRequest(first), "b": DiskRequest(first)})
    with pytest.raises(UllageError, match="a and b have different") as caught:
        devices.check({"a": DiskRequest(first), "b": DiskRequest(second)})
    assert caught.value.kind is errors.DISK_SHARED


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_what_is_no_directory_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "file":
        path.write_bytes(b"")
    with pytest.raises(UllageError) as caught:
        devices.check({"a": DiskRequest(path)})
    assert caught.value.kind is errors.DISK_UNUSABLE


def test_what_a_dead_run_left_elsewhere_is_found_and_removed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "ssd"
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("kept")
    data = storage.place(TAG, "native-0", elsewhere)
    data.mkdir()
    (data / "big").write_bytes(bytes(1000))
    assert data == elsewhere / f"ullage-{TAG}" / "native-0"
    remains = leftovers.find(TAG)
    assert [leftover.name for leftover in remains] == [str(data.parent), str(paths.data_dir(TAG))]
    assert leftovers.remove(remains) == []
    assert [path.name for path in elsewhere.iterdir()] == ["mine"]


def test_nothing_of_another_name_is_ever_removed(tmp_path: Path) -> None:
    other = tmp_path / "home"
    other.mkdir()
    link = tmp_path / f"ullage-{TAG}"
    link.symlink_to(other)
    names = [str(other), str(link), f"ullage-{TAG}", "/etc", 7, None, "../x"]
    (paths.data_dir(TAG) / "elsewhere.json").write_text(json.dumps(names))
    assert [leftover.name for leftover in leftovers.find(TAG)] == [str(paths.data_dir(TAG))]


@pytest.mark.parametrize("noted", ["", "{", "7", '{"a": 1}', "[[]]"])
def test_a_note_that_says_nothing(noted: str) -> None:
    (paths.data_dir(TAG) / "elsewhere.json").write_text(noted)
    assert storage.rooms(TAG) == []
