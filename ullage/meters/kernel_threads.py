"""The kernel's own threads: hundreds of small files, kept open so that a reading is one call each.

A file of a thread that has ended can be read no more, also when its number was given again: what is
kept is that thread's alone.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from ullage.meters import process_groups, procfs
from ullage.meters.process_groups import ProcessGroup

_MOST_OPEN: Final = 1024
"""Files; more threads than that are opened at each reading."""
_PART: Final = 8
"""Of the descriptors that this process may have, one in so many is for these."""
_LONGEST: Final = 128


@dataclass
class _KernelThread:
    """One that was there at the last reading."""

    group: ProcessGroup
    path: str
    descriptor: int | None = None

    def read(self) -> bytes | None:
        """None: it has ended, or its file is refused."""
        if self.descriptor is None:
            return procfs.read_bytes(self.path)
        try:
            return os.pread(self.descriptor, _LONGEST, 0)
        except OSError:
            return None

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


@dataclass
class KernelThreads:
    """Those of one /proc."""

    proc: Path
    _kept: dict[int, _KernelThread] = field(default_factory=dict)
    _open: int = 0

    def times(self, but: Container[int]) -> Iterator[tuple[int, ProcessGroup, bytes]]:
        """Number, group and `schedstat` of each but some; none where the kernel does not list them.

        One that has ended with its number given again is a new one.
        """
        numbers = process_groups.KTHREADD
        listed = procfs.whole(f"{self.proc}/{numbers}/task/{numbers}/children")
        now = set(map(int, listed.split()))
        for gone in self._kept.keys() - now:
            self._drop(gone)
        for pid in now:
            if pid in but:
                continue
            thread = self._kept.get(pid) or self._keep(pid)
            if (times := thread.read()) is None and thread.descriptor is not None:
                self._drop(pid)
                thread = self._keep(pid)
                times = thread.read()
            if times is not None:
                yield pid, thread.group, times

    def _keep(self, pid: int) -> _KernelThread:
        path = f"{self.proc}/{pid}"
        group = process_groups.of_kernel(process_groups.comm(path))
        thread = _KernelThread(group, f"{path}/schedstat")
        if self._open < _most_open():
            try:
                thread.descriptor = os.open(thread.path, os.O_RDONLY | os.O_CLOEXEC)
                self._open += 1
            except OSError:
                pass
        self._kept[pid] = thread
        return thread

    def _drop(self, pid: int) -> None:
        thread = self._kept.pop(pid)
        self._open -= thread.descriptor is not None
        thread.close()

    def close(self) -> None:
        """Keep nothing open."""
        for pid in list(self._kept):
            self._drop(pid)


@cache
def kernel_threads(proc: Path) -> KernelThreads:
    """Those of a /proc, as this process keeps them open."""
    return KernelThreads(proc)


@cache
def _most_open() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_OPEN if soft == resource.RLIM_INFINITY else min(_MOST_OPEN, soft // _PART)
