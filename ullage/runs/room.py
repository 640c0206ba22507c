"""The disk that a run may take: what its plan allows, and what is left of it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ullage.common.errors import (
    RUN_DISK_LOW,
    RUN_JOURNAL_FULL,
    RUN_OUTPUTS_FULL,
    UllageError,
)
from ullage.common.quantities import format_bytes
from ullage.common.regular import LARGEST
from ullage.runs.records import JOURNAL

OUTPUTS: Final = 20 << 30
"""Bytes of a run's folder, unless its plan says another number."""
RECORDS: Final = LARGEST - (128 << 20)
"""Bytes of a journal after which no trial begins: a larger file than `LARGEST` is not read back."""
RESERVE: Final = 256 << 20
"""Bytes that are left to others on the disk; of a small one, a twentieth."""


class Room:
    """Looked at before each trial: what was done is kept then, and the run can be taken up."""

    def __init__(self, folder: Path, most: int) -> None:
        self.folder, self.most = folder, most
        self._measured = sum(taken(path) for path in folder.iterdir() if path.is_dir())
        self._largest = 0
        """Of what was measured at once in this session."""
        self._disks: list[Path] = []
        """Directories of data, each on a disk of its own."""

    def check(self) -> None:
        """RUN_OUTPUTS_FULL, RUN_JOURNAL_FULL, RUN_DISK_LOW."""
        if (written := _size(self.folder / JOURNAL)) >= RECORDS:
            raise UllageError(
                RUN_JOURNAL_FULL,
                path=self.folder,
                used=format_bytes(written),
                most=format_bytes(RECORDS),
            )
        with os.scandir(self.folder) as entries:
            used = self._measured + sum(_size(entry.path) for entry in entries)
        if used >= self.most:
            raise UllageError(
                RUN_OUTPUTS_FULL,
                path=self.folder,
                used=format_bytes(used),
                most=format_bytes(self.most),
            )
        _refuse_low(self.folder, self._largest)
        for disk in self._disks:
            _refuse_low(disk, 0)

    def watch(self, directories: Iterable[Path]) -> list[UllageError]:
        """Look at the disks of these too, from now on; at those that are low already never again.

        What the workloads prepared may fill a disk, and the plan may want just that: it is for the
        caller to say so.
        """
        low = []
        for disk in {directory.stat().st_dev: directory for directory in directories}.values():
            try:
                _refuse_low(disk, 0)
            except UllageError as error:
                low.append(error)
            else:
                self._disks.append(disk)
        return low

    def add(self, *places: Path) -> int:
        """What was measured since: the folders that it left; how many bytes are in them."""
        size = sum(map(taken, places))
        self._measured += size
        self._largest = max(self._largest, size)
        return size


def _refuse_low(disk: Path, more: int) -> None:
    """RUN_DISK_LOW unless the reserve and so much more are free."""
    total, _, free = shutil.disk_usage(disk)
    if free < (least := min(RESERVE, total // 20) + more):
        raise UllageError(
            RUN_DISK_LOW, path=disk, free=format_bytes(free), least=format_bytes(least)
        )


def taken(place: Path) -> int:
    """Bytes of all regular files in and under a folder."""
    size = 0
    for above, _, files in os.walk(place):
        for name in files:
            size += _size(f"{above}/{name}")
    return size


def _size(path: Path | str) -> int:
    """Of a regular file that is there; 0 of all else."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
