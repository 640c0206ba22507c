"""What a console or a hypervisor printed: the end of it, and the beginning in a file."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ullage.common.text import printable

SHOWN: Final = 600
"""Characters of it that stand in a message."""
_STORED: Final = 1 << 20
_KEPT: Final = 4096


class PrintedTail:
    """The end of what somebody printed, in memory; the beginning of it in a file.

    Both are bounded: what a guest prints must not fill the host.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._stored = 0
        self._tail = b""
        self.taken = 0
        """Bytes, ever."""

    @property
    def text(self) -> str:
        """The end, as text."""
        return self._tail.decode(errors="replace").strip()

    @property
    def shown(self) -> str:
        """As much of it as fits in a message, harmless."""
        return printable(self.text[-SHOWN:], SHOWN)

    def add(self, data: bytes) -> None:
        """Take the next piece."""
        self.taken += len(data)
        self._tail = (self._tail + data)[-_KEPT:]
        if self._path is not None and self._stored < _STORED:
            with contextlib.suppress(OSError), self._path.open("ab") as file:
                self._stored += file.write(data[: _STORED - self._stored])


async def listen(stream: asyncio.StreamReader, take: Callable[[bytes], None]) -> None:
    """Hand on what comes, until the stream ends."""
    with contextlib.suppress(ConnectionError):
        while data := await stream.read(65536):
            take(data)
