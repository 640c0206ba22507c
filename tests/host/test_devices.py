"""Block devices for `/data`: real loop devices, empty, full, mounted, and what a run leaves."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.host import devices, disks, leftovers, paths, storage
from ullage.host.storage import DiskRequest, FileSystem

pytestmark = pytest.mark.root

TAG = "u00d15c6"


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULLAGE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("ULLAGE_STATE_DIR", str(tmp_path / "state"))
    paths.data_dir(TAG).mkdir(parents=True)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Path]:
    """A device of 512 MiB, and nothing on it."""
    file = tmp_path / "disk.img"
    with file.open("xb") as image:
        image.truncate(512 << 20)
    argv = ["losetup", "--find", "--show", str(file)]
    device = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
    try:
        yield Path(device)
    finally:
        leftovers.remove(leftovers.find(TAG))
        subprocess.run(["losetup", "--detach", device], check=True)


def refused(request: DiskRequest) -> str:
    with pytest.raises(UllageError) as caught:
        devices.check({"a": request})
    assert caught.value.kind is errors.DISK_UNUSABLE
    return caught.value.message


def test_only_an_empty_device_that_nobody_uses_is_taken(loop: Path, tmp_path: Path) -> None:
    devices.check({"a": DiskRequest(loop), "b": DiskRequest(loop)})
    subprocess.run(["mkfs.ext4", "-q", str(loop)], check=True)
    assert "it holds ext4, which would be lost: `wipefs -a" in refused(DiskRequest(loop))
    (tmp_path / "point").mkdir()
    subprocess.run(["mount", str(loop), str(tmp_path / "point")], check=True)
    try:
        assert "it is in use: mounted" in refused(DiskRequest(loop))
    finally:
        subprocess.run(["umount", str(loop)], check=True)
    subprocess.run(["wipefs", "-qa", str(loop)], check=True)
    subprocess.run(["mkswap", "-q", str(loop)], check=True)
    assert "it holds swap" in refused(DiskRequest(loop))


def test_a_device_holds_one_file_system(loop: Path) -> None:
    requests = {"a": DiskRequest(loop, "xfs"), "b": DiskRequest(loop, "ext4")}
    with pytest.raises(UllageError, match="a has xfs on it and b ext4") as caught:
        devices.check(requests)
    assert caught.value.kind is errors.DISK_UNUSABLE


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_a_run_has_its_file_system_on_it(loop: Path, kind: FileSystem) -> None:
    """Again for the same run it is kept; what a dead run left is found, and the device taken."""
    request = DiskRequest(loop, kind)
    asyncio.run(devices.mount(TAG, [request]))
    place = storage.place(TAG, "native-0", loop)
    place.mkdir()
    (place / "file").write_text("kept")
    asyncio.run(devices.mount(TAG, [request]))
    assert (place / "file").read_text() == "kept"
    standing = storage.disk(place)
    assert (standing.file_system, standing.source) == (kind, str(loop))
    assert storage.base(TAG, loop) == place.parent
    assert str(storage.device(loop, kind)) == str(standing)
    assert "in use" in refused(request)
    assert leftovers.remove(leftovers.find(TAG)) == []
    assert not [point for point in disks.points() if point.is_relative_to(paths.data_dir(TAG))]
    devices.check({"a": request})
    asyncio.run(devices.mount(TAG, [request]))
    assert not place.exists()


def test_a_device_that_is_too_small_is_said(loop: Path) -> None:
    subprocess.run(["truncate", "-s", "8M", str(_backing(loop))], check=True)
    subprocess.run(["losetup", "--set-capacity", str(loop)], check=True)
    with pytest.raises(UllageError) as caught:
        asyncio.run(devices.mount(TAG, [DiskRequest(loop, "xfs")]))
    assert caught.value.kind is errors.DISK_NOT_MADE


def _backing(loop: Path) -> Path:
    return Path((Path("/sys/block") / loop.name / "loop/backing_file").read_text().strip())


def test_a_directory_must_have_the_file_system_that_is_asked_for(tmp_path: Path) -> None:
    kind = storage.disk(tmp_path).file_system
    other: FileSystem = "btrfs" if kind != "btrfs" else "xfs"
    assert f"`file_system` is {other}" in refused(DiskRequest(tmp_path, other))
    assert f"`file_system` is {other}" in refused(DiskRequest(None, other))
    devices.check({"vm": DiskRequest(tmp_path, other, own=True)})
