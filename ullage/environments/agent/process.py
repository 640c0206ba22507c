"""A program that an agent runs: what is asked, what comes back."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.quantities import exact_bytes
from ullage.common.text import printable
from ullage.environments.agent import clock as agent_clock
from ullage.environments.agent.channel import (
    PATIENCE_S,
    AgentChannel,
    AgentError,
    Exchange,
    quiet_future,
)
from ullage.environments.agent.clock import ClockMap, Instant
from ullage.environments.agent.frames import Data, FrameError, FrameKind, Message
from ullage.host import clock
from ullage.runs.events import Usage
from ullage.runs.records import LATEST_NS, User

KEEP_BYTES: Final = 8 * 1024 * 1024
OUTPUT_LIMIT: Final = 1024 * 1024 * 1024
"""A program that prints more is killed: a guest must not fill the controller's disk."""
_SIGKILL: Final = 9
LARGEST_STATUS: Final = (1 << 32) - 1
"""Windows has 32 bits of them: what an exception leaves is 0xC0000005. Linux has eight."""

T = TypeVar("T")


ITSELF: Final = ("/proc/self/exe",)
"""A child of the agent is the agent until it executes: an image may hold no other program."""


@dataclass(frozen=True)
class Command:
    """A program to run inside, by its argument list."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the agent's minimal environment."""
    cwd: str = "/"
    user: User | None = None
    """None: whom the agent runs as."""
    timeout_s: float = 600.0
    """Counted from the start; then the process group is killed."""


@dataclass(frozen=True)
class ProgramEnd:
    """How a program ended. Instants are on the controller's clock, but for the local ones."""

    status: int | None
    """Exit code; None when a signal ended it."""
    signal: int | None
    timed_out: bool
    start_ns: int
    """Read in the child just before `execve`."""
    end_ns: int
    """Read when `wait4` returned."""
    held_ns: int
    """So long after that the agent waited, as others held the program's output."""
    late_ns: int
    """How long after the agreed instant it started."""
    start_local_ns: int
    """By the instance's clock, as it said."""
    end_local_ns: int
    clock_bound_ns: int
    """start_ns and end_ns are not further off, whatever the paths of messages were."""
    clock_sure_ns: int
    """The same in 99.9 % of all cases, if the rates are steady."""
    reasons: tuple[str, ...]
    """What the instance says of its clock at the end."""
    arrived_ns: int
    """When the news came, on the controller's own clock: no guest can tell otherwise."""
    usage: Usage | None
    """None where its system does not count it."""

    def corrected(self, clock_map: ClockMap) -> ProgramEnd:
        """The same by a better map; FrameError where an instant can be none."""
        start = clock_map.to_controller(self.start_local_ns)
        end = clock_map.to_controller(self.end_local_ns)
        return replace(
            self,
            start_ns=start.ns,
            end_ns=end.ns,
            clock_bound_ns=max(start.hard_ns, end.hard_ns),
            clock_sure_ns=max(start.sure_ns, end.sure_ns),
        )


class Process(Exchange):
    """A program that was asked for, with its output so far."""

    def __init__(
        self,
        channel: AgentChannel,
        command: Command,
        clock_map: Callable[[], ClockMap],
        stdout: OutputStream,
        stderr: OutputStream,
    ) -> None:
        program = command.argv[0] if command.argv else "nothing"
        super().__init__("spawn", purpose=f"run {printable(program, 80)}")
        self.id = 0
        self.command = command
        self._channel = channel
        self._clock_map = clock_map
        self._outputs = {FrameKind.STDOUT: stdout, FrameKind.STDERR: stderr}
        self._started: asyncio.Future[int] = quiet_future()
        self._finished: asyncio.Future[ProgramEnd] = quiet_future()
        self._trouble: Exception | None = None
        self._deadline_ns = 0
        self._late_ns = 0
        self.requested_ns = 0
        """When it was asked for, on the controller's own clock."""

    def send(self, at_ns: int | None) -> None:
        """Ask the agent to run it; at an instant of the controller's clock, or now."""
        command = self.command
        fields: dict[str, object] = {
            "argv": command.argv,
            "env": dict(command.env),
            "cwd": command.cwd,
            "timeout_ns": round(command.timeout_s * 1e9),
            "stdin": "null",
        }
        if command.user is not None:
            fields["user"] = command.user.model_dump(mode="json")
        if at_ns is not None:
            fields["at_ns"] = self._clock_map().to_agent(at_ns)
        now = self.requested_ns = clock.ordered_ns()
        self._deadline_ns = max(now, at_ns or now) + round(command.timeout_s * 1e9)
        self.id = self._channel.request(self, **fields)

    @property
    def stdout(self) -> bytes:
        """Standard output so far, as much of it as is kept."""
        return bytes(self._outputs[FrameKind.STDOUT].head)

    @property
    def stderr(self) -> bytes:
        """Standard error so far, as much of it as is kept."""
        return bytes(self._outputs[FrameKind.STDERR].head)

    @property
    def complete(self) -> bool:
        """False when a program printed more than is kept in memory."""
        return not any(output.cut for output in self._outputs.values())

    @property
    def running(self) -> bool:
        """False once it has ended, or nothing can be known of it any more."""
        return not self._finished.done()

    @contextmanager
    def listen_stderr(self) -> Iterator[asyncio.Queue[bytes]]:
        """Every piece of its standard error: what is kept so far, and what comes meanwhile."""
        listener, output = Listener(), self._outputs[FrameKind.STDERR]
        output.attend(listener)
        try:
            yield listener.pieces
        finally:
            output.forget(listener)

    async def started(self) -> int:
        """The instant of the start, on the controller's clock. AgentError when it could not be."""
        return await self._within(self._started)

    async def wait(self) -> ProgramEnd:
        """How it ended; all output has come by then."""
        return await self._within(self._finished)

    async def kill(self, signal: int = 15) -> None:
        """Send a signal to its process group; nothing happens when it has ended."""
        if not self.running:
            return
        try:
            await self._channel.call("kill", "done", lambda _: None, target=self.id, signal=signal)
        except AgentError as error:
            if error.error != "no-such-id":
                raise

    def kill_unheard(self) -> None:
        """SIGKILL to its process group, without waiting for an answer."""
        if self.running and self._channel.failure is None:
            self._channel.request(_Unheard("kill"), target=self.id, signal=_SIGKILL)

    async def wait_for_output(self, text: bytes, timeout_s: float) -> None:
        """Wait until standard output or error holds the text; AGENT_NOT_READY if it never does."""
        outputs = self._outputs.values()
        watchers = [output.watch(text) for output in outputs]
        try:
            signs: list[asyncio.Future[Any]] = [watcher.appeared for watcher in watchers]
            await asyncio.wait(
                (*signs, self._finished),
                timeout=timeout_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for output, watcher in zip(outputs, watchers, strict=True):
                output.forget(watcher)
        if any(watcher.appeared.done() for watcher in watchers):
            return
        if self._finished.done():
            ended = self._finished.result()
            how = f"status {ended.status}" if ended.signal is None else f"signal {ended.signal}"
            lines = self.stderr.decode("utf-8", "replace").strip().split("\n")[-2:]
            last, *before = (printable(line.strip(), 300) for line in reversed(lines))
            words = [last.removeprefix("error: "), *(f"before that: {line}" for line in before)]
            reason = "; ".join((*(words if last else ()), f"it ended with {how}"))
        else:
            reason = f"{timeout_s:g} s have passed"
        raise UllageError(
            errors.AGENT_NOT_READY,
            program=self.command.argv[0],
            agent=self._channel.agent,
            text=repr(text.decode(errors="replace")),
            reason=reason,
        )

    def on_message(self, message: Message, arrived_ns: int) -> bool:
        """Take `started` or `exit`."""
        if message.op == "started" and not self._started.done():
            self._started.set_result(_instant(message, "start_ns", self._clock_map()).ns)
            self._late_ns = message.optional_integer("late_ns", 0, LATEST_NS - 1) or 0
            return False
        if message.op != "exit":
            raise FrameError(f"{message.op} in answer to spawn")
        finished = _finished(message, self._clock_map(), self._late_ns, arrived_ns)
        if not self._started.done():
            self._started.set_result(finished.start_ns)
        self._close_outputs()
        if self._trouble is not None:
            self._finished.set_exception(self._trouble)
        else:
            self._finished.set_result(finished)
        return True

    def on_data(self, frame: Data) -> None:
        """Take a piece of output."""
        if frame.kind is FrameKind.FILE:
            raise FrameError("file data in answer to spawn")
        output = self._outputs[frame.kind]
        if self._trouble is not None:
            return
        try:
            output.add(frame.data)
        except OSError as error:
            self._trouble = _disk_trouble(error, output.path)
        if output.total > OUTPUT_LIMIT:
            self._trouble = UllageError(
                errors.AGENT_FLOOD,
                program=self.command.argv[0],
                agent=self._channel.agent,
                limit=exact_bytes(OUTPUT_LIMIT),
            )
        if self._trouble is not None:
            self.kill_unheard()

    def on_fail(self, error: UllageError) -> None:
        """It could not be run, or the channel is gone."""
        self._close_outputs()
        for future in (self._started, self._finished):
            if not future.done():
                future.set_exception(error)

    async def _within(self, future: asyncio.Future[T]) -> T:
        left_s = max(0, self._deadline_ns - clock.ordered_ns()) / 1e9 + PATIENCE_S
        if not (await asyncio.wait((future,), timeout=left_s))[0]:
            raise self._channel.silent(self.purpose, left_s)
        return future.result()

    def _close_outputs(self) -> None:
        for output in self._outputs.values():
            try:
                output.close()
            except OSError as error:
                self._trouble = self._trouble or _disk_trouble(error, output.path)


class OutputStream:
    """One stream of a program's output: to a file verbatim, and in memory up to a limit."""

    def __init__(self, path: Path | None, keep_bytes: int) -> None:
        self.path = path
        self.head = bytearray()
        self.total = 0
        self._keep_bytes = keep_bytes
        self._file: BinaryIO | None = None if path is None else path.open("wb")
        self._watchers: list[Watcher | Listener] = []

    @property
    def cut(self) -> bool:
        """True when there was more than is kept in memory."""
        return self.total > len(self.head)

    def add(self, data: bytes) -> None:
        """Take the next piece. OSError when the file cannot be written."""
        self.total += len(data)
        self.head += data[: self._keep_bytes - len(self.head)]
        for watcher in self._watchers:
            watcher.look(data)
        if self._file is not None:
            self._file.write(data)
            self._file.flush()

    def watch(self, text: bytes) -> Watcher:
        """Look for a text in what came so far and in what will come."""
        watcher = Watcher(text)
        self.attend(watcher)
        return watcher

    def attend(self, watcher: Watcher | Listener) -> None:
        """Show it what came so far, and what will come."""
        watcher.look(bytes(self.head))
        self._watchers.append(watcher)

    def forget(self, watcher: Watcher | Listener) -> None:
        self._watchers.remove(watcher)

    def close(self) -> None:
        """Close the file. OSError when it cannot be written."""
        if self._file is not None:
            self._file.close()


class Watcher:
    """Looks for a text in a stream that comes in pieces."""

    def __init__(self, text: bytes) -> None:
        self.appeared: asyncio.Future[None] = quiet_future()
        self._text = text
        self._end = b""

    def look(self, data: bytes) -> None:
        """Take the next piece."""
        joined = self._end + data
        if self._text in joined and not self.appeared.done():
            self.appeared.set_result(None)
        self._end = joined[max(0, len(joined) - len(self._text) + 1) :]


class Listener:
    """Hands a stream on, piece by piece."""

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[bytes] = asyncio.Queue()

    def look(self, data: bytes) -> None:
        """Take the next piece."""
        self.pieces.put_nowait(bytes(data))


class _Unheard(Exchange):
    """A request whose answer does not matter."""

    def on_message(self, message: Message, arrived_ns: int) -> bool:
        return True

    def on_fail(self, error: UllageError) -> None:
        pass


def _disk_trouble(error: OSError, path: Path | None) -> Exception:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return UllageError(errors.RUN_DISK_FULL, path=path)
    return error


def _finished(message: Message, clock_map: ClockMap, late_ns: int, arrived_ns: int) -> ProgramEnd:
    start, end = (_instant(message, name, clock_map) for name in ("start_ns", "end_ns"))
    if message.integer("end_ns") < message.integer("start_ns"):
        raise FrameError("exit: it ended before it started")
    return ProgramEnd(
        status=message.optional_integer("status", 0, LARGEST_STATUS),
        signal=message.optional_integer("signal", 1, 64),
        timed_out=message.fields.get("timed_out") is True,
        start_ns=start.ns,
        end_ns=end.ns,
        held_ns=message.optional_integer("held_ns", 0, LATEST_NS - 1) or 0,
        late_ns=late_ns,
        start_local_ns=message.integer("start_ns"),
        end_local_ns=message.integer("end_ns"),
        clock_bound_ns=max(start.hard_ns, end.hard_ns),
        clock_sure_ns=max(start.sure_ns, end.sure_ns),
        reasons=agent_clock.reasons(message),
        arrived_ns=arrived_ns,
        usage=_usage(Message("rusage", message.mapping("rusage"))),
    )


def _instant(message: Message, name: str, clock_map: ClockMap) -> Instant:
    """The field as an instant of the controller's clock; FrameError when it can be none."""
    local_ns = message.integer(name)
    try:
        return clock_map.to_controller(local_ns)
    except FrameError as error:
        raise FrameError(f"{message.op}: {name} is no instant of this machine") from error


def _usage(rusage: Message) -> Usage | None:
    """None where its system does not count what a program used."""
    counts = {name: rusage.optional_integer(name, 0, LATEST_NS - 1) for name in rusage.fields}
    user_ns, system_ns = counts.get("user_ns"), counts.get("system_ns")
    memory = counts.get("max_rss_bytes")
    if user_ns is None or system_ns is None or memory is None:
        return None
    return Usage(
        user_s=user_ns / 1e9,
        system_s=system_ns / 1e9,
        max_rss_bytes=memory,
        minor_faults=counts.get("minor_faults"),
        major_faults=counts.get("major_faults"),
        voluntary_switches=counts.get("voluntary_switches"),
        involuntary_switches=counts.get("involuntary_switches"),
    )
