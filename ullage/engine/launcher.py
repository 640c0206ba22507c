"""Programs that a program of a trial starts in other instances: `mpirun` and its daemons.

`mpi.SHELL_FILE` stands where `mpirun` looks for `ssh`. It prints what it was asked to do and ends;
the engine hears it, and has the agent there start it. So no instance needs a server, a port or a
key.
"""

from __future__ import annotations

import asyncio
import ipaddress
import shlex
from asyncio import FIRST_COMPLETED
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from ullage.engine.program import Part, TrialFailedError
from ullage.environments import Instance
from ullage.workloads.base import Task
from ullage.workloads.mpi.mpi import LONGEST, MARK, plain

MOST: Final = 1024
"""Lines that one program may say: a guest must not start without end."""

LAUNCH_FAILED: Final = "launch-failed"

PROGRAMS: Final = frozenset({"orted", "/usr/bin/hydra_pmi_proxy"})
"""The daemons of Open MPI and MPICH: nothing else is started for a guest, and never by a shell."""
PATIENCE_S: Final = 5.0
"""So long may a program go on after what it had started has failed: it knows better why."""
LINGER_S: Final = 30.0
"""So long may what a program had started go on after its end."""

StartPart = Callable[[Part], Awaitable[object]]


class Requests:
    """The lines with `MARK` in a stream that comes in pieces."""

    def __init__(self) -> None:
        self._partial = b""
        self._count = 0

    def take(self, data: bytes) -> list[tuple[str, tuple[str, ...]]]:
        """(address, argument list) of each whole line so far that asks for something.

        TrialFailedError for a line that cannot be what `mpi.SHELL_FILE` prints.
        """
        *lines, last = (self._partial + data).split(b"\n")
        # Of a line that does not begin with the mark, only so much is kept that it still might.
        self._partial = last if last.startswith(MARK) else last[: len(MARK)]
        if len(self._partial) > LONGEST:
            raise TrialFailedError("bad-launch", f"a request is longer than {LONGEST} bytes")
        return [self._read(line) for line in lines if line.startswith(MARK)]

    def _read(self, line: bytes) -> tuple[str, tuple[str, ...]]:
        self._count += 1
        if self._count > MOST:
            raise TrialFailedError("bad-launch", f"more than {MOST} programs were asked for")
        try:
            address, _, command = line[len(MARK) :].decode().partition(" ")
            argv = tuple(shlex.split(command))
            if not argv or argv[0] not in PROGRAMS:
                raise ValueError(f"{plain(command)} is no daemon of an MPI")
            return str(ipaddress.IPv4Address(address)), argv
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

    async def run(self, start: StartPart) -> None:
        """Until the program has ended, and all that it had started.

        TrialFailedError for a request that cannot be met, and when one of them ended badly or does
        not end. How the program itself ended is not judged here, but where it did not end in time
        or was killed that is the reason: what it had started then fails too.
        """
        ended = asyncio.create_task(self.by.wait())
        listening = asyncio.create_task(self._listen(start, ended))
        try:
            await asyncio.wait({listening})
            if trouble := listening.exception():
                await asyncio.wait({ended}, timeout=PATIENCE_S)
                self._judge(trouble)
            await ended
            await self._wait_for_started()
        finally:
            await _cancelled(ended, listening, *self._watchers)

    async def _listen(self, start: StartPart, ended: asyncio.Task[None]) -> None:
        """Take requests and watch what was started, until the program has ended."""
        assert self.by.process is not None
        requests = Requests()
        with self.by.process.listen_stderr() as pieces:
            while not (ended.done() and pieces.empty()):
                for address, argv in requests.take(await self._heard(pieces, ended)):
                    part = self._part(address, argv)
                    if ended.done():
                        continue  # nobody is there any more to whom it could speak
                    self.parts.append(part)
                    await start(part)
                    self._watchers.append(asyncio.create_task(_watch(part)))

    async def _heard(self, pieces: asyncio.Queue[bytes], ended: asyncio.Task[None]) -> bytes:
        """The next piece; empty where something has ended before it came."""
        heard = asyncio.create_task(pieces.get())
        try:
            await asyncio.wait({heard, ended, *self._watchers}, return_when=FIRST_COMPLETED)
            for watcher in [task for task in self._watchers if task.done()]:
                watcher.result()
                self._watchers.remove(watcher)
            return heard.result() if heard.done() else b""
        finally:
            heard.cancel()

    async def _wait_for_started(self) -> None:
        """Until what was started has ended too."""
        if not self._watchers:
            return
        done, late = await asyncio.wait(self._watchers, timeout=LINGER_S)
        for watcher in done:
            if trouble := watcher.exception():
                self._judge(trouble)
        if late:
            raise TrialFailedError(
                LAUNCH_FAILED,
                f"what {self.by.name} had started still runs {LINGER_S:g} s after its end",
            )

    def _judge(self, trouble: BaseException) -> None:
        """Raise it, with what the program itself says; unless the program was killed before."""
        done = self.by.finished
        if not isinstance(trouble, TrialFailedError) or done is None:
            raise trouble
        reason = trouble.reason
        if done.signal is None or reason.code != LAUNCH_FAILED:
            words = f"{reason.message}; {self.by.name} says: {tail(self.by)}"
            raise TrialFailedError(reason.code, words)

    def _part(self, address: str, argv: tuple[str, ...]) -> Part:
        instance = self.instances.get(address)
        if instance is None:
            raise TrialFailedError("bad-launch", f"{address} is no instance of this trial")
        by = self.by
        task = Task(
            f"{by.task.role}-{len(self.parts)}",
            argv,
            env=by.task.env,
            timeout_s=by.task.timeout_s,
        )
        name = f"{by.name}-launched-{len(self.parts)}"
        return Part(name, task, instance, self.cwd(instance), own=False)


async def _watch(part: Part) -> None:
    """TrialFailedError when it is killed or ends with a status other than 0."""
    await part.wait()
    assert part.finished is not None
    done = part.finished
    if done.status != 0:
        how = f"signal {done.signal}" if done.signal is not None else f"status {done.status}"
        raise TrialFailedError(LAUNCH_FAILED, f"{part.name} ended with {how}: {tail(part)}")


def tail(part: Part) -> str:
    """The end of what it printed, for a message, without requests and without `mpirun`'s rules."""
    assert part.process is not None
    return plain((part.process.stderr or part.process.stdout).decode("utf-8", "replace"))


async def _cancelled(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
