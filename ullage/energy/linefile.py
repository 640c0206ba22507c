"""The writer of a meter's file: JSON, a line for each reading, readable whenever it is cut off."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import TracebackType

from ullage.runs import Record

_BLOCK = 1 << 16


class LineFile:
    """Appends whole lines. Each is with the kernel when `append` returns, so `kill -9` takes none.

    It is not waited for until it is on the disk: that would load the disk beside the trials.
    """

    def __init__(self, file: Path, *, new: bool = False) -> None:
        """new: FileExistsError when there is one already."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (os.O_EXCL if new else 0)
        self.file = file
        self._fd = os.open(file, flags, 0o644)
        self._cut_partial_line()

    def append(self, line: Record) -> None:
        """Write it, or nothing of it: OSError, also for a full disk."""
        text = line.model_dump_json().encode() + b"\n"
        end = os.fstat(self._fd).st_size
        try:
            if os.write(self._fd, text) != len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.file))
        except BaseException:
            os.ftruncate(self._fd, end)
            raise

    def close(self) -> None:
        """Wait until all of it is on the disk."""
        try:
            os.fsync(self._fd)
        finally:
            os.close(self._fd)

    def __enter__(self) -> LineFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _cut_partial_line(self) -> None:
        """What a killed writer, or a machine without power, has left of a line."""
        end = os.fstat(self._fd).st_size
        whole = end
        while whole > 0:
            start = max(0, whole - _BLOCK)
            found = os.pread(self._fd, whole - start, start).rfind(b"\n")
            whole = start + found + 1
            if found >= 0:
                break
        if whole != end:
            os.ftruncate(self._fd, whole)
