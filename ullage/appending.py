"""Files of lines that only grow: a line is written whole or not at all, and torn ends are cut."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

_BLOCK: Final = 1 << 16


def append(fd: int, file: Path, lines: bytes, *, wait: bool = False) -> None:
    """Write them, or nothing of them: OSError, also for a full disk.

    wait: until they are on the disk. They are with the kernel anyway, so `kill -9` takes none.
    """
    end = os.fstat(fd).st_size
    try:
        if os.write(fd, lines) != len(lines):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
        if wait:
            os.fsync(fd)
    except BaseException:
        os.ftruncate(fd, end)
        raise


def cut_torn_end(fd: int) -> bool:
    """Take away what a killed writer, or a machine without power, has left of a line.

    True: there was something.
    """
    end = os.fstat(fd).st_size
    whole = end
    while whole > 0:
        start = max(0, whole - _BLOCK)
        found = os.pread(fd, whole - start, start).rfind(b"\n")
        whole = start + found + 1
        if found >= 0:
            break
    if whole != end:
        os.ftruncate(fd, whole)
    return whole != end
