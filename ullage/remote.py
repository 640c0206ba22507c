"""Programs that a program of a trial starts in other instances: `mpirun` and its daemons.

`SHELL` stands where `mpirun` looks for `ssh`. It prints what it was asked to do and ends; the
engine hears it, and has the agent there start it. So no instance needs a server, a port or a key.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from ullage.environments import Instance
from ullage.part import Part, TrialFailedError
from ullage.workloads.base import Task

SHELL: Final = Path(__file__).resolve().parent / "workloads" / "remote.sh"
"""Give it to an instance by `Workload.files`, and name it to `mpirun`."""

MARK: Final = b"ullage-exec "
LONGEST: Final = 64 * 1024
"""Bytes of a line: `mpirun` names every node in it."""
MOST: Final = 1024
"""Lines that one program may say: a guest must not start without end."""

PATIENCE_S: Final = 5.0
"""So long may a program go on after what it had started has failed: it knows better why."""

Start = Callable[[Part], Awaitable[object]]


class Requests:
    """The lines with `MARK` in a stream that comes in pieces."""

    def __init__(self) -> None:
        self._rest = b""
        self._count = 0

    def take(self, data: bytes) -> list[tuple[str, str]]:
        """(address, command) of each whole line so far that asks for something.

        TrialFailedError for a line that cannot be what `SHELL` prints.
        """
        *lines, rest = (self._rest + data).split(b"\n")
        # Of a line that does not begin with the mark, only so much is kept that it still might.
        self._rest = rest if rest.startswith(MARK) else rest[: len(MARK)]
        if len(self._rest) > LONGEST:
            raise TrialFailedError("bad-launch", f"a request is longer than {LONGEST} bytes")
        return [self._read(line) for line in lines if line.startswith(MARK)]

    def _read(self, line: bytes) -> tuple[str, str]:
        self._count += 1
        if self._count > MOST:
            raise TrialFailedError("bad-launch", f"more than {MOST} programs were asked for")
        try:
            address, _, command = line[len(MARK) :].decode().partition(" ")
            return str(ipaddress.IPv4Address(address)), command
        except ValueError as error:
            raise TrialFailedError("bad-launch", f"not a request: {error}") from error


class Launcher:
    """Starts what one program of a trial asks for, until it has ended."""

    def __init__(
        self, by: Part, instances: Mapping[str, Instance], cwd: Callable[[Instance], str]
    ) -> None:
        self.by, self.instances, self.cwd = by, instances, cwd
        self.parts: list[Part] = []
        self._watchers: list[asyncio.Task[None]] = []

    async def run(self, start: Start) -> None:
        """Until the program has ended, and all that it had started.

        TrialFailedError for a request that cannot be met, and when one of them failed and the
        program does not end by itself.
        """
        ended = asyncio.create_task(self.by.wait())
        watching = asyncio.create_task(self._listen(start))
        try:
            await asyncio.wait({ended, watching}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({ended}, timeout=PATIENCE_S)
            if not ended.done():
                watching.result()  # raises
            await ended
            await asyncio.gather(*(part.wait() for part in self.parts))
        finally:
            await _cancelled(ended, watching, *self._watchers)

    async def _listen(self, start: Start) -> None:
        """Take requests, and watch what was started; ends only by what goes wrong."""
        assert self.by.process is not None
        pieces, requests = self.by.process.listen_stderr(), Requests()
        while True:
            heard = asyncio.create_task(pieces.get())
            try:
                await asyncio.wait({heard, *self._watchers}, return_when=asyncio.FIRST_COMPLETED)
                for watcher in [each for each in self._watchers if each.done()]:
                    watcher.result()
                    self._watchers.remove(watcher)
                data = heard.result() if heard.done() else b""
            finally:
                heard.cancel()
            for address, command in requests.take(data):
                part = self._part(address, command)
                self.parts.append(part)
                await start(part)
                self._watchers.append(asyncio.create_task(_watch(part)))

    def _part(self, address: str, command: str) -> Part:
        instance = self.instances.get(address)
        if instance is None:
            raise TrialFailedError("bad-launch", f"{address} is no instance of this trial")
        by = self.by
        task = Task(
            f"{by.task.role}-{len(self.parts)}",
            ("/bin/sh", "-c", command),
            env=by.task.env,
            timeout_s=by.task.timeout_s,
        )
        name = f"{by.name}-launched-{len(self.parts)}"
        return Part(name, task, instance, self.cwd(instance), by=by)


async def _watch(part: Part) -> None:
    """TrialFailedError when it ends badly."""
    await part.wait()
    assert part.finished is not None
    if part.finished.status != 0:
        raise TrialFailedError("launch-failed", f"{part.name} ended badly: {part.said()}")


async def _cancelled(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
