"""The program at whose other end an agent is: `ssh`, `docker exec`, or the agent itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ullage.common import errors, processes
from ullage.common.errors import UllageError
from ullage.common.text import printable
from ullage.environments.agent.frames import MAX_BODY

_STDERR_KEPT: Final = 4096
_STDERR_STORED: Final = 1024 * 1024
_LEAVE_S: Final = 0.5
"""How long a transport may take to end by itself once its channel is closed."""


class Transport:
    """A transport with its pipes, and a bounded memory of what it said."""

    def __init__(self, process: asyncio.subprocess.Process, stderr: Path | None) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise ValueError("a transport needs three pipes")
        self.writer = process.stdin
        self.reader = process.stdout
        self._process = process
        self._tail = b""
        self._listener = asyncio.create_task(self._listen(process.stderr, stderr))

    @classmethod
    async def start(
        cls, argv: Sequence[str], stderr: Path | None, env: Mapping[str, str] | None, name: str
    ) -> Transport:
        """Start it in a session of its own."""
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=env,
                start_new_session=True,
                limit=MAX_BODY,
            )
        except OSError as error:
            reason = f"{argv[0]}: {error.strerror}"
            raise UllageError(errors.AGENT_NOT_STARTED, agent=name, reason=reason) from error
        return cls(process, stderr)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int | None:
        """How it ended; None: it has not."""
        return self._process.returncode

    async def ending(self) -> int | None:
        """The same, waited for a moment: its output may end before it does."""
        await processes.ended(self._process, _LEAVE_S)
        return self.status

    @property
    def tail(self) -> bytes:
        """The end of what it printed on standard error."""
        return self._tail

    async def end(self) -> None:
        """Wait for its end a moment, then kill it with its process group. PROCESS_STUCK."""
        try:
            if not await processes.ended(self._process, _LEAVE_S):
                await processes.kill(self._process, group=True)
            # Someone it left behind may still hold the pipe: take what is there, and go.
            await asyncio.wait((self._listener,), timeout=_LEAVE_S)
        finally:
            self._listener.cancel()
            processes.let_go(self._process)

    async def _listen(self, stream: asyncio.StreamReader, path: Path | None) -> None:
        stored = 0
        with contextlib.ExitStack() as stack:
            file = None if path is None else stack.enter_context(path.open("ab", buffering=0))
            while data := await stream.read(_STDERR_KEPT):
                self._tail = (self._tail + data)[-_STDERR_KEPT:]
                if file is not None and stored < _STDERR_STORED:
                    # A full disk must not stop the transport; the tail is still kept.
                    with contextlib.suppress(OSError):
                        stored += file.write(data[: _STDERR_STORED - stored])


def quoted(output: bytes) -> str:
    """The end of what a transport printed, for a message."""
    text = printable(output.decode(errors="replace")[-400:], 400)
    return f"; it said: {text}" if text else ""
