"""Which files of a run's image the processes have in their memory, and where.

Instances that share the host's kernel run programs from the image's own files, which we made and
nobody inside can write. The kernel tells the file by device and number when it is mapped: only
if that is the image's own file its functions are told, and they are read from that one.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ullage.meters.perf.elf import Functions, functions

MOST_FILES: Final = 4_096
_MOST_MAPPED: Final = 512
"""Files that are kept of one process, the latest."""


@dataclass(frozen=True)
class MappedFile:
    """Part of a file in a process's memory."""

    start: int
    end: int
    offset: int
    """Of its first byte, in the file."""
    path: str
    """As its process sees it."""
    file: OwnFile


@dataclass
class OwnFile:
    """A file of the image; it is read when its first function is asked for."""

    path: Path
    identity: tuple[int, int]
    _read: bool = False
    _functions: Functions | None = None

    def function(self, offset: int) -> str:
        """The function at this byte of it; empty: not known."""
        if not self._read:
            self._read = True
            self._functions = self._opened()
        return self._functions.at(offset) if self._functions is not None else ""

    def _opened(self) -> Functions | None:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as stream:
            if _identity(os.fstat(descriptor)) != self.identity:
                return None
            return functions(stream)


@dataclass
class OwnFiles:
    """Those below the image's root that somebody has mapped; each is looked for and read once."""

    root: Path | None
    """None: the run has no image, so no file is its own."""
    _root: str = field(init=False)
    _device: int | None = field(init=False)
    _files: dict[tuple[int, int, str], OwnFile | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._root = os.path.realpath(self.root) if self.root else ""
        self._device = Path(self._root).stat().st_dev if self.root else None

    def find(self, device: int, inode: int, path: str) -> OwnFile | None:
        """The image's file that was mapped under this path; None: it is none."""
        return self._once((device, inode, path)) if device == self._device else None

    def _once(self, key: tuple[int, int, str]) -> OwnFile | None:
        if key not in self._files:
            if len(self._files) >= MOST_FILES:
                return None
            self._files[key] = self._look(*key)
        return self._files[key]

    def _look(self, device: int, inode: int, path: str) -> OwnFile | None:
        # Who began before the samples did is told from outside, with the place on the host.
        inside = path.removeprefix(self._root) if path.startswith(f"{self._root}/") else path
        if not inside.startswith("/"):
            return None
        place = self._root + inside
        try:
            status = os.lstat(place)
            if not stat.S_ISREG(status.st_mode) or _identity(status) != (device, inode):
                return None
            if os.path.realpath(place) != place:
                return None  # a link may lead out of the image, and the kernel tells none
        except (OSError, ValueError):
            return None
        return OwnFile(Path(place), (device, inode))


@dataclass
class Mapped:
    """What each process has mapped of these, as perf tells it in the order of time."""

    files: OwnFiles
    _of: dict[int, tuple[MappedFile, ...]] = field(default_factory=dict)

    def mapped(
        self, pid: int, span: tuple[int, int], offset: int, identity: tuple[int, int], path: str
    ) -> bool:
        """Is it one of them? span: its first address and length."""
        file = self.files.find(*identity, path)
        if file is None:
            return False
        start, length = span
        mine = self._of.get(pid, ())[-_MOST_MAPPED + 1 :]
        self._of[pid] = (*mine, MappedFile(start, start + length, offset, path, file))
        return True

    def forked(self, child: int, parent: int) -> None:
        """It begins with all that its parent has."""
        self._of[child] = self._of.get(parent, ())

    def replaced(self, pid: int) -> None:
        """It runs another program now."""
        self._of.pop(pid, None)

    def function(self, pid: int, address: int, path: str) -> str:
        """What it executes at an address that is in this file; empty: not known."""
        for mapping in reversed(self._of.get(pid, ())):
            if mapping.start <= address < mapping.end and mapping.path == path:
                return mapping.file.function(address - mapping.start + mapping.offset)
        return ""


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
