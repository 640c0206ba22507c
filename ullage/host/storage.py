"""Directories and devices of a plan's choice for `/data`: on which disk, and what is left there.

A run makes one directory in each directory, with its tag in the name. It notes them first in its
own data directory, so that `ullage clean` finds them after the worst of deaths.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from ullage.common.errors import DISK_UNUSABLE, UllageError
from ullage.common.files import put
from ullage.common.regular import read_regular
from ullage.common.text import clean, unescape
from ullage.host.paths import check_tag, data_dir

_MOUNTS: Final = Path("/proc/self/mountinfo")
_DEVICES: Final = Path("/sys/dev/block")
_NOTED: Final = "elsewhere.json"
_MOST_BYTES: Final = 1 << 20
_PREFIX: Final = "ullage-"
_POINTS: Final = "devices"


FileSystem = Literal["ext4", "xfs", "btrfs"]


@dataclass(frozen=True)
class HostDisk:
    """What a directory stands on."""

    number: str
    """`8:17`, of the file system's device as mounts tell it."""
    file_system: str
    source: str
    """`/dev/sdb1`"""
    rotational: bool | None
    """None: it is no block device, or does not say."""

    @property
    def key(self) -> str:
        """The same for all that stands on it: subvolumes have numbers of their own."""
        return self.source if self.source.startswith("/dev/") else self.number

    def __str__(self) -> str:
        """`ext4 on /dev/sdb1, rotational`."""
        turning = {True: ", rotational", False: ", not rotational", None: ""}[self.rotational]
        return f"{self.file_system} on {self.source}{turning}"


def disk(directory: Path) -> HostDisk:
    """The disk that an existing directory stands on. DISK_UNUSABLE when it is none."""
    if not directory.is_dir():
        raise UllageError(DISK_UNUSABLE, path=directory, reason="it is no directory of this host")
    disks = dict(mounted(_MOUNTS.read_bytes()))
    path = directory.resolve()
    standing = next(disks[place] for place in (path, *path.parents) if place in disks)
    if standing.rotational is None and is_device(Path(standing.source)):
        # btrfs has a number of its own, which no device has.
        return replace(standing, rotational=_rotational(device_number(Path(standing.source))))
    return standing


def is_device(path: Path) -> bool:
    """Is it a block device of this host?"""
    try:
        return stat.S_ISBLK(path.stat().st_mode)
    except OSError:
        return False


def device_number(path: Path) -> str:
    """`8:17`, as mounts tell it."""
    device = path.stat().st_rdev
    return f"{os.major(device)}:{os.minor(device)}"


def mount_point(tag: str, path: Path) -> Path:
    """Where a run mounts a device."""
    return data_dir(tag) / _POINTS / device_number(path).replace(":", "-")


def device(path: Path, kind: FileSystem | None) -> HostDisk:
    """What a block device will be, with the file system of a run on it."""
    number = device_number(path)
    return HostDisk(number, kind or "ext4", str(path.resolve()), _rotational(number))


def mounted(mountinfo: bytes) -> Iterator[tuple[Path, HostDisk]]:
    """Point and disk of each line of `/proc/…/mountinfo`; what is mounted over comes first."""
    for line in mountinfo.decode(errors="surrogateescape").splitlines():
        mount, _, device = line.partition(" - ")
        fields, what = mount.split(), device.split()
        if len(fields) < 5 or len(what) < 2:
            continue
        number = fields[2]
        source = clean(unescape(what[1]), 200)
        yield (
            Path(unescape(fields[4])),
            HostDisk(number, clean(what[0], 40), source, _rotational(number)),
        )


def _rotational(number: str) -> bool | None:
    device = (_DEVICES / number).resolve()
    for place in (device, device.parent):  # of a partition the whole disk tells it
        try:
            return (place / "queue/rotational").read_text(encoding="ascii").strip() == "1"
        except OSError:
            continue
    return None


@dataclass(frozen=True)
class DiskRequest:
    """What an environment of a plan asks of the disk of its `/data`."""

    path: Path | None = None
    """A directory or a block device; None: where ullage keeps its own."""
    file_system: FileSystem | None = None
    """None: whichever there is, on a device ext4."""
    own: bool = False
    """`/data` is a file system of its own, in a file there (a VM)."""


def base(tag: str, path: Path) -> Path:
    """The directory that stands for a path of a plan: of a device its mount point."""
    return mount_point(tag, path) if is_device(path) else path


def place(tag: str, name: str, directory: Path | None) -> Path:
    """Where an instance's data go: a directory of its own, on the disk that the plan chose."""
    if directory is None:
        return data_dir(tag) / name
    if is_device(directory):
        return mount_point(tag, directory) / name
    room = directory.resolve() / f"{_PREFIX}{check_tag(tag)}"
    noted = rooms(tag)
    if room not in noted:
        put(data_dir(tag) / _NOTED, json.dumps([str(path) for path in (*noted, room)]).encode())
    try:
        room.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UllageError(DISK_UNUSABLE, path=directory, reason=reason) from error
    return room / name


def rooms(tag: str) -> list[Path]:
    """The run's directories elsewhere, as it noted them; nothing that has another name."""
    try:
        names = json.loads(read_regular(data_dir(tag) / _NOTED, _MOST_BYTES))
    except (OSError, ValueError):
        return []
    if not isinstance(names, list):
        return []
    paths = [Path(name) for name in names if isinstance(name, str)]
    return [path for path in paths if path.is_absolute() and path.name == f"{_PREFIX}{tag}"]
