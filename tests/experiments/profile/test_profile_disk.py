"""The disk's throttle and its counters in both versions of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.experiments.profile import disk
from ullage.experiments.profile.disk import DiskRequests
from ullage.host.cgroups import Hierarchy

PATH = "/ullage/u1/native-0"


def test_version_1(tmp_path: Path) -> None:
    tree = Hierarchy(tmp_path, 1, frozenset())
    place = disk.throttle(tree, PATH, "8:0", {"rbps": 1000, "wiops": 3})
    assert place == tmp_path / "ullage/u1/native-0"
    assert {file.name: file.read_text() for file in place.iterdir()} == {
        "blkio.throttle.read_bps_device": "8:0 1000",
        "blkio.throttle.write_iops_device": "8:0 3",
    }


def test_version_2(tmp_path: Path) -> None:
    """This host's new tree has no controllers, so plain files stand for it."""
    tree = Hierarchy(tmp_path, 2, frozenset())
    place = disk.throttle(tree, PATH, "8:0", {"rbps": 1000, "wiops": 3})
    assert (place / "io.max").read_text() == "8:0 rbps=1000 wiops=3"
    for above in (tmp_path, tmp_path / "ullage", tmp_path / "ullage/u1"):
        assert (above / "cgroup.subtree_control").read_text() == "+io"
    assert not (place / "cgroup.subtree_control").exists()


def test_requests_of_version_1_are_those_of_all_disks(tmp_path: Path) -> None:
    place = disk.group(Hierarchy(tmp_path, 1, frozenset()), PATH)
    (place / "blkio.throttle.io_service_bytes").write_text(
        "8:0 Read 4096\n8:0 Write 100\n8:0 Sync 4196\n8:16 Read 4\n8:0 Total 4196\nTotal 4200\n"
    )
    (place / "blkio.throttle.io_serviced").write_text("8:0 Read 1\n8:0 Write 2\n8:16 Read 5\n")
    requests = disk.requests(Hierarchy(tmp_path, 1, frozenset()), PATH)
    assert requests == DiskRequests(read_bytes=4100, written_bytes=100, reads=6, writes=2)


def test_requests_of_version_2_are_those_of_all_disks(tmp_path: Path) -> None:
    place = disk.group(Hierarchy(tmp_path, 2, frozenset()), PATH)
    (place / "io.stat").write_text(
        "8:16 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n8:0 rbytes=1 wbytes=0 rios=1\n"
    )
    requests = disk.requests(Hierarchy(tmp_path, 2, frozenset()), PATH)
    assert requests == DiskRequests(read_bytes=11, written_bytes=20, reads=2, writes=2)


def test_a_file_in_memory_is_on_no_disk() -> None:
    shared = Path("/dev/shm")
    if not shared.is_dir():
        pytest.skip("this host has no /dev/shm")
    assert disk.whole_disk(shared) is None
