"""Directories of a plan's own choice for `/data`: on which disk they stand, and what is left there.

A run makes one directory in each, with its tag in the name. It notes them first in its own data
directory, so that `ullage clean` finds them after the worst of deaths.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ullage.common.errors import DISK_SHARED, DISK_UNUSABLE, UllageError
from ullage.common.files import put
from ullage.common.regular import read_regular
from ullage.common.text import clean, unescape
from ullage.host.paths import check_tag, data_dir

_MOUNTS: Final = Path("/proc/self/mountinfo")
_DEVICES: Final = Path("/sys/dev/block")
_NOTED: Final = "elsewhere.json"
_MOST_BYTES: Final = 1 << 20
_PREFIX: Final = "ullage-"


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
    return next(disks[place] for place in (path, *path.parents) if place in disks)


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


def check(directories: Mapping[str, Path]) -> None:
    """Environment → its directory: DISK_UNUSABLE, or DISK_SHARED where two stand on one disk.

    Different directories are written to compare disks; on one disk every figure would be alike,
    and be read as an answer.
    """
    standing: dict[str, tuple[str, Path]] = {}
    for environment, directory in directories.items():
        if not os.access(directory, os.W_OK | os.X_OK):
            reason = "it is not there, or may not be written to"
            raise UllageError(DISK_UNUSABLE, path=directory, reason=reason)
        its_disk, path = disk(directory), directory.resolve()
        other, there = standing.setdefault(its_disk.number, (environment, path))
        if there != path:
            raise UllageError(
                DISK_SHARED, first=other, second=environment, disk=f"{its_disk} ({there}, {path})"
            )


def place(tag: str, name: str, directory: Path | None) -> Path:
    """Where an instance's data go: a directory of its own, on the disk that the plan chose."""
    if directory is None:
        return data_dir(tag) / name
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
