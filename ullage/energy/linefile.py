"""The writer of a meter's file: JSON, a line for each reading, readable whenever it is cut off."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from ullage.appending import append, cut_torn_end
from ullage.runs import Record


class LineFile:
    """Appends whole lines. Each is with the kernel when `append` returns, so `kill -9` takes none.

    It is not waited for until it is on the disk: that would load the disk beside the trials.
    """

    def __init__(self, file: Path, *, new: bool = False) -> None:
        """new: FileExistsError when there is one already."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (os.O_EXCL if new else 0)
        self.file = file
        self._fd = os.open(file, flags, 0o644)
        cut_torn_end(self._fd)

    def append(self, line: Record) -> None:
        """Write it, or nothing of it: OSError, also for a full disk."""
        append(self._fd, self.file, line.model_dump_json().encode() + b"\n")

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
