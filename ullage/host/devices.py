"""The disks that a plan asks for: are they there and different, and block devices mounted.

Of devices only what nobody uses and what is empty is taken, or what carries the label of an
earlier run. The file system stays on the device when the run ends, with that label; its mount does
not.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ullage.common.commands import CommandError, needed, run
from ullage.common.errors import DISK_SHARED, DISK_UNUSABLE, UllageError
from ullage.host import disks
from ullage.host.paths import TAG, data_root
from ullage.host.storage import (
    DiskRequest,
    FileSystem,
    HostDisk,
    device,
    disk,
    is_device,
    mount_point,
)

LABEL: Final = "ullage-data"
"""Of the file systems that runs make: the next run may make them anew."""
_OURS: Final = re.compile(rf"{LABEL}|ullage-{TAG.pattern}")
"""That, or the label of a run's swap."""

_PROBE_S: Final = 30
_BLANK: Final = 2
"""Status of blkid(8) that finds nothing on a device."""
_MKFS_S: Final = 3600.0
"""A file system on a large hard disk is laid out whole: nothing is left for later."""


def refusal(path: Path) -> str | None:
    """Why no run may take the device; None: it may."""
    if os.geteuid() != 0:
        return "only root can make a file system on a device"
    try:
        os.close(os.open(path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        if error.errno == errno.EBUSY:
            return "it is in use: mounted, swapped to, or part of another device"
        return error.strerror or str(error)
    return _content(path)


def _content(path: Path) -> str | None:
    """What stands on it that is not ours."""
    argv = [needed("blkid", "util-linux"), "-p", "-o", "export", str(path)]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", timeout=_PROBE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it does not answer within {_PROBE_S} s"
    facts = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    if done.returncode == _BLANK or _OURS.fullmatch(facts.get("LABEL", "")):
        return None
    content = facts.get("TYPE") or facts.get("PTTYPE")
    holds = f"{content}" if content else f"what blkid cannot tell ({done.stderr.strip()[:100]})"
    return f"it holds {holds}, which would be lost: `wipefs -a {path}` empties it"


def check(requests: Mapping[str, DiskRequest]) -> None:
    """Environment → its request: DISK_UNUSABLE, or DISK_SHARED where two stand on one disk.

    Different paths are written to compare disks; on one disk every figure would be alike, and be
    read as an answer.
    """
    standing: dict[str, tuple[str, Path]] = {}
    for environment, request in requests.items():
        if request.path is None and request.file_system is None:
            continue
        its_disk = _checked(request)
        if request.path is None:
            continue
        path = request.path.resolve()
        other, there = standing.setdefault(its_disk.key, (environment, path))
        if there != path:
            raise UllageError(
                DISK_SHARED, first=other, second=environment, disk=f"{its_disk} ({there}, {path})"
            )
        if is_device(path):
            _check_kind(path, other, requests[other], environment, request)


def _checked(request: DiskRequest) -> HostDisk:
    """The disk that it asks for. DISK_UNUSABLE."""
    path = request.path or _existing(data_root())
    if is_device(path):
        if reason := refusal(path):
            raise UllageError(DISK_UNUSABLE, path=path, reason=reason)
        return device(path, request.file_system)
    if request.path is not None and not os.access(path, os.W_OK | os.X_OK):
        reason = "it is not there, or may not be written to"
        raise UllageError(DISK_UNUSABLE, path=path, reason=reason)
    its_disk, kind = disk(path), request.file_system
    if kind and not request.own and its_disk.file_system != kind:
        reason = f"`file_system` is {kind}, and it stands on {its_disk}"
        raise UllageError(DISK_UNUSABLE, path=path, reason=reason)
    return its_disk


def _check_kind(path: Path, first: str, one: DiskRequest, second: str, other: DiskRequest) -> None:
    """DISK_UNUSABLE where two environments want different file systems on one device."""
    kinds = one.file_system or "ext4", other.file_system or "ext4"
    if kinds[0] != kinds[1]:
        reason = f"{first} has {kinds[0]} on it and {second} {kinds[1]}; it can hold one"
        raise UllageError(DISK_UNUSABLE, path=path, reason=reason)


def _existing(path: Path) -> Path:
    return next(place for place in (path, *path.parents) if place.is_dir())


async def mount(tag: str, requests: Iterable[DiskRequest]) -> None:
    """File systems on the devices among them, for this run. DISK_UNUSABLE, DISK_NOT_MADE."""
    for request in requests:
        if request.path is not None and is_device(request.path):
            await _mount(tag, request.path, request.file_system or "ext4")


async def _mount(tag: str, path: Path, kind: FileSystem) -> None:
    """A new file system on the device, mounted for the run; again for the same run it is kept.

    DISK_UNUSABLE, DISK_NOT_MADE.
    """
    place = mount_point(tag, path)
    if place in disks.points():
        return
    if reason := refusal(path):
        raise UllageError(DISK_UNUSABLE, path=path, reason=reason)
    await disks.format_device(path, kind, LABEL, timeout_s=_MKFS_S)
    place.mkdir(parents=True, exist_ok=True)
    try:
        await run(["mount", "-t", kind, "-o", "noatime", str(path), str(place)], timeout_s=_PROBE_S)
    except CommandError as error:
        raise UllageError(DISK_UNUSABLE, path=path, reason=error.reason) from error
