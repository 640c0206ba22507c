"""The writer of `controller.jsonl`."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from ullage.elastic.folder import Act


class Acts:
    """Writes `controller.jsonl`; on the disk when it is closed."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("xb")

    def add(self, act: Act) -> None:
        """A line, with the kernel when this returns."""
        self._file.write(act.model_dump_json().encode() + b"\n")
        self._file.flush()

    def __enter__(self) -> Acts:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._file as file:
            os.fsync(file.fileno())
