"""A tar that comes in through a pipe: kept, its digest computed and unpacked, all in one pass."""

from __future__ import annotations

import fcntl
import hashlib
import os
import select
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from ullage.common.commands import CommandError, tail

_PIECE: Final = 1 << 20
"""Also what a pipe may hold: a reader that is late holds nobody up at once."""
_LOOK_MS: Final = 500
"""So often is looked whether it is wanted still, when nothing comes."""
_MOST_WORDS: Final = 1 << 16


class CutError(Exception):
    """It ended before its end."""


class Inflow:
    """One archive, of which so many bytes are to come."""

    def __init__(self, descriptor: int, size: int) -> None:
        """descriptor: the pipe's reading end; whoever made it closes it."""
        self._descriptor, self._size = descriptor, size
        self._stop = threading.Event()
        self._unpacking: subprocess.Popen[bytes] | None = None
        widen(descriptor)

    def stop(self) -> None:
        """It is not wanted any more; `keep` and `drain` end soon, by CutError."""
        self._stop.set()
        if (process := self._unpacking) is not None:  # it may take nothing any more
            process.kill()

    def drain(self) -> None:
        """Take it to its end, and keep nothing. It blocks. CutError."""
        for _ in self._pieces():
            pass

    def keep(self, tar: Path, unpack: Sequence[str]) -> str:
        """Write it there, and feed the program that unpacks it; its SHA-256.

        It blocks. CutError, OSError when it cannot be written, CommandError of the program.
        """
        total = hashlib.sha256()
        with _fed(unpack) as program, tar.open("wb", buffering=0) as file:
            self._unpacking = program.process
            for piece in self._pieces():
                total.update(piece)
                _write(file, piece)
                program.add(piece)
            try:
                program.finish()
            except CommandError:
                self._require_wanted()
                raise
        return total.hexdigest()

    def _pieces(self) -> Iterator[memoryview]:
        buffer = memoryview(bytearray(_PIECE))
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        left = self._size
        while left:
            self._require_wanted()
            if not poll.poll(_LOOK_MS):
                continue
            count = os.readv(self._descriptor, [buffer[: min(left, _PIECE)]])
            if count == 0:
                raise CutError(f"{self._size - left} of {self._size} bytes have come")
            left -= count
            yield buffer[:count]

    def _require_wanted(self) -> None:
        if self._stop.is_set():
            raise CutError("it is not wanted any more")


class _Program:
    """Takes what comes on its standard input; one that has ended takes no more."""

    def __init__(self, process: subprocess.Popen[bytes], words: int) -> None:
        assert process.stdin is not None
        self.process, self._stdin, self._words = process, process.stdin, words
        widen(self._stdin.fileno())

    def add(self, piece: memoryview) -> None:
        if not self._stdin.closed:
            try:
                _write(self._stdin, piece)
            except BrokenPipeError:  # it says why with its end
                self._close()

    def finish(self) -> None:
        """CommandError unless all went well."""
        self._close()
        status = self.process.wait()
        if status != 0:
            size = os.fstat(self._words).st_size
            words = os.pread(self._words, _MOST_WORDS, max(0, size - _MOST_WORDS))
            name = Path(str(self.process.args[0])).name  # type: ignore[index]
            reason = tail(words.decode(errors="replace")) or f"exit status {status}"
            raise CommandError(name, status, reason)

    def _close(self) -> None:
        with suppress(BrokenPipeError):
            self._stdin.close()


@contextmanager
def _fed(argv: Sequence[str]) -> Iterator[_Program]:
    """The program runs, and has ended afterwards whatever happens.

    What it complains of is kept in memory: the disk may be what it complains of.
    """
    words = os.memfd_create("complaints")
    try:
        process = subprocess.Popen(
            argv,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=words,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
        )
        with process:
            try:
                yield _Program(process, words)
            finally:
                process.kill()
    finally:
        os.close(words)


def _write(file: IO[bytes], piece: memoryview) -> None:
    while piece:
        piece = piece[os.write(file.fileno(), piece) :]


def widen(pipe: int) -> None:
    """Let it hold more; one that may not, or is no pipe, works all the same."""
    with suppress(OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIECE)
