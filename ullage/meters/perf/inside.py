"""What the CPUs of guests work at, function by function: a `perf record` in each, a trial long.

Asked for by `causes: guest`. From the host a vCPU is a thread, whatever the guest does in it. So
`perf` of the image looks from inside, as often as the host's own does, from before the programs of
a trial start until they have ended; what it saw is printed there and read here as a stranger's
word. Programs' functions are named from the image's own files on the host, never by the guest.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from ullage.common import sums
from ullage.common.commands import tail
from ullage.common.errors import UllageError
from ullage.common.files import put
from ullage.common.text import printable
from ullage.environments.agent.channel import AgentError
from ullage.environments.agent.client import AgentClient
from ullage.environments.agent.process import Command, Process
from ullage.meters.perf.mappings import OwnFile, OwnFiles
from ullage.meters.perf.sampler import HZ, MOST_HZ, RECORD, SCRIPT
from ullage.meters.perf.script import ScriptReader, TrialWindow
from ullage.meters.process_groups import ProcessGroup
from ullage.runs.symbols import GUEST_FILE, Symbols
from ullage.runs.writer import disk_full_as_error

_PLACE: Final = "/dev/shm/ullage-perf"  # noqa: S108
"""Memory: on a disk it would be work of that disk."""
_MOST_BYTES: Final = "32M"
_MOST_TEXT: Final = 64 << 20
MOST_SHIFTED: Final = 0.05
"""Of a trial: by so much its window may be off. No more of its samples are then of what was before
or after it, which moves a function's share by less than chance does with a few hundred samples."""
_READY_S: Final = 60.0
_SCRIPT_S: Final = 600.0
_MOUNTS: Final = 1 << 20
_INTERRUPT: Final = 2
_LONGEST_S: Final = 7 * 24 * 3600.0
_MARK: Final = "true"
_MARKED: Final = re.compile(
    rf" (\d{{1,9}})\.(\d{{9}}): PERF_RECORD_COMM exec: {_MARK}:\d{{1,10}}/\d{{1,10}}$"
)
_NUMBERS: Final = re.compile(r"(\d{1,4}):(\d{1,7})")

_PREPARE: Final = f"rm -rf {_PLACE} && mkdir -m 700 {_PLACE} && mkfifo {_PLACE}/c {_PLACE}/a"
_RECORD: Final = (
    *("perf", *RECORD, f"--max-size={_MOST_BYTES}"),
    *(f"--control=fifo:{_PLACE}/c,{_PLACE}/a", f"--output={_PLACE}/data"),
)
_LOOKS: Final = f"echo ping > {_PLACE}/c && head -n 1 {_PLACE}/a"
"""Answered once it looks."""
_SCRIPT: Final = ("perf", *SCRIPT, "--input", f"{_PLACE}/data", "--symfs", f"{_PLACE}/none")
"""It names the guest's kernel alone: there are no files at that place."""


class GuestInstance(Protocol):
    """An instance with a kernel of its own."""

    @property
    def name(self) -> str: ...
    @property
    def agent(self) -> AgentClient: ...


@dataclass
class GuestFiles(OwnFiles):
    """Files of a guest's root: they were made from the image's, so a path is enough.

    Their numbers are those of the guest's own disk. One that it has changed itself, where its root
    is writable, has names of the image's all the same.
    """

    root_device: int = 0

    def find(self, device: int, inode: int, path: str) -> OwnFile | None:
        """The image's file of that path, where the guest's is on its root."""
        if not self.root or device != self.root_device:
            return None
        return self._once((device, inode, path))

    def _look(self, device: int, inode: int, path: str) -> OwnFile | None:
        place = self._root + path
        try:
            status = os.lstat(place)
            if not stat.S_ISREG(status.st_mode) or os.path.realpath(place) != place:
                return None
        except (OSError, ValueError):
            return None
        return OwnFile(Path(place), (status.st_dev, status.st_ino))


@dataclass
class _Recording:
    """One guest that is looked at."""

    guest: GuestInstance
    process: Process
    hz: int
    cpus: int
    marks_ns: tuple[int, ...]
    """When `true` was started in it, by the run's clock: perf saw that too."""

    @property
    def over(self) -> bool:
        return len(self.marks_ns) > 1


@dataclass(frozen=True)
class _Folded:
    """What was seen in one guest."""

    window: TrialWindow
    bound_ns: int
    lost: int


class _NotSampledError(Exception):
    """Why a guest has no samples."""


@dataclass
class GuestSampler:
    """Of a run; each trial has `GuestSamples` of its own."""

    root: Path | None
    """Of the image that guests have; None: there are several, and no program has functions."""
    warn: Callable[[str, str], None]
    _warned: set[str] = field(default_factory=set)

    async def begin(self, guests: Sequence[GuestInstance]) -> GuestSamples:
        """Look at these, and wait until all are looked at; who cannot be looked at is left out."""
        recordings = await asyncio.gather(*(self.attempt(guest, _begin(guest)) for guest in guests))
        return GuestSamples(self, [one for one in recordings if one], len(guests))

    async def attempt(self, guest: GuestInstance, step: Awaitable[Any]) -> Any:
        """What comes of a step; None when nothing does: that is said once of each guest."""
        try:
            return await step
        except (_NotSampledError, AgentError) as error:
            reason = str(error)
        except UllageError:
            return None  # it is gone: the trial itself tells
        if guest.name not in self._warned:
            self._warned.add(guest.name)
            text = f"{guest.name} is not looked into: {printable(reason, 400)}"
            self.warn("guest-not-sampled", text)
        return None


@dataclass
class GuestSamples:
    """The guests of one trial, while they are looked at and afterwards."""

    sampler: GuestSampler
    recordings: list[_Recording]
    guests: int

    async def end(self) -> None:
        """Stop looking; may be called twice."""
        looking = [one for one in self.recordings if not one.over]
        await asyncio.gather(*(self.sampler.attempt(one.guest, _end(one)) for one in looking))
        self.recordings = [one for one in self.recordings if one.over]

    async def write(self, folder: Path, start_ns: int, end_ns: int) -> None:
        """Read what was seen, and keep it with the trial, if all of its guests were looked at."""
        if not self.recordings or end_ns <= start_ns:
            return
        folded = [
            await self.sampler.attempt(one.guest, self._fold(one, start_ns, end_ns))
            for one in self.recordings
        ]
        if len(folded) == self.guests and all(folded):
            self._keep(folder, (start_ns, end_ns), folded)

    async def _fold(self, one: _Recording, start_ns: int, end_ns: int) -> _Folded:
        """Have it printed inside, and count what lies within the trial."""
        text = await _printed(one.guest.agent)
        device = await _root_device(one.guest.agent)
        files = GuestFiles(self.sampler.root, root_device=device)
        root = one.guest.agent.facts.get("pid") or 1
        span = start_ns, end_ns
        return await asyncio.to_thread(_counted, text, one.marks_ns, span, files, root)

    def _keep(self, folder: Path, span: tuple[int, int], folded: Sequence[_Folded]) -> None:
        start_ns, end_ns = span
        window = TrialWindow(start_ns, end_ns, {})
        for one in folded:
            window.count += one.window.count
        _set_perf_apart(window)
        table = window.table()
        symbols = Symbols(
            hz=min(one.hz for one in self.recordings),
            cpus=sum(one.cpus for one in self.recordings),
            start_ns=start_ns,
            end_ns=end_ns,
            bound_ns=max(one.bound_ns for one in folded),
            lost=min(sum(one.lost for one in folded), (1 << 31) - 1),
            rows=table.rows,
            rest=table.unlisted,
            folded=table.folded,
        )
        with disk_full_as_error(folder):
            put(folder / GUEST_FILE, sums.sealed(symbols.model_dump_json().encode()))


async def _begin(guest: GuestInstance) -> _Recording:
    """Start perf inside, and wait until it looks."""
    agent = guest.agent
    cpus = agent.facts.get("cpus_online") or 1
    hz = max(1, min(HZ, MOST_HZ // cpus))
    await _shell(agent, _PREPARE)
    command = Command((*_RECORD, f"--freq={hz}"), {"LC_ALL": "C"}, timeout_s=_LONGEST_S)
    process = await agent.spawn(command)
    try:
        await _looks(process, agent)
        first = await _mark(agent)
    except BaseException:
        process.kill_unheard()
        raise
    return _Recording(guest, process, hz, cpus, (first,))


async def _looks(process: Process, agent: AgentClient) -> None:
    """Wait until it does; what it says where it ends instead."""
    await process.started()
    ended = asyncio.ensure_future(process.wait())
    ready = asyncio.ensure_future(_shell(agent, _LOOKS))
    try:
        await asyncio.wait((ended, ready), return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            text = process.stderr.decode(errors="replace")
            raise _NotSampledError(f"perf: {tail(text) or 'it ended at once'}")
        await ready
    finally:
        for task in (ended, ready):
            task.cancel()
        await asyncio.gather(ended, ready, return_exceptions=True)


async def _end(one: _Recording) -> None:
    if not one.process.running:
        raise _NotSampledError("perf ended while the programs ran")
    last = await _mark(one.guest.agent)
    await one.process.kill(_INTERRUPT)
    try:
        async with asyncio.timeout(_READY_S):
            await one.process.wait()
    except TimeoutError:
        one.process.kill_unheard()
        raise _NotSampledError(f"perf did not end within {_READY_S:g} s") from None
    one.marks_ns = (*one.marks_ns, last)


async def _mark(agent: AgentClient) -> int:
    """Start a program that does nothing: its instant is known by both clocks."""
    done, _, _ = await agent.run(Command((_MARK,), timeout_s=_READY_S))
    return done.start_ns


async def _printed(agent: AgentClient) -> bytes:
    """What perf tells inside; then nothing of it is left there."""
    command = Command(_SCRIPT, {"LC_ALL": "C"}, timeout_s=_SCRIPT_S)
    done, text, stderr = await agent.run(command, keep_bytes=_MOST_TEXT)
    await _shell(agent, f"rm -rf {_PLACE}")
    if done.status != 0:
        raise _NotSampledError(f"perf script: {tail(stderr.decode(errors='replace'))}")
    if len(text) >= _MOST_TEXT:
        raise _NotSampledError(f"perf script printed more than {_MOST_TEXT >> 20} MiB")
    return text


def _counted(
    text: bytes, marks_ns: Sequence[int], span: tuple[int, int], files: GuestFiles, agent: int
) -> _Folded:
    """What of it lies within the trial; agent: its number inside."""
    lines = text.decode("utf-8", "replace").split("\n")
    start_ns, end_ns = span
    shift_ns, bound_ns = _between(marks_ns, lines)
    if bound_ns > MOST_SHIFTED * (end_ns - start_ns):
        raise _NotSampledError(
            f"its trial cannot be found in what perf saw: the two ends disagree by"
            f" {bound_ns / 1e6:.0f} ms"
        )
    roots: dict[int, ProcessGroup] = {agent: "agent"}
    window = TrialWindow(start_ns + shift_ns, end_ns + shift_ns, roots)
    reader = ScriptReader([window], -1, files)
    for line in lines:
        reader.take(line)
    return _Folded(window, bound_ns, reader.lost)


def _between(marks_ns: Sequence[int], lines: Sequence[str]) -> tuple[int, int]:
    """What the clock of the samples is ahead of the run's, and how far off that may be.

    By the first and the last start of the program that marks; between them, others' count nothing.
    """
    seen = [int(row[1]) * 10**9 + int(row[2]) for row in map(_MARKED.search, lines) if row]
    if len(seen) < 2:
        raise _NotSampledError("perf did not see when the trial began and ended")
    first, last = seen[0] - marks_ns[0], seen[-1] - marks_ns[-1]
    return (first + last) // 2, abs(last - first)


async def _shell(agent: AgentClient, text: str) -> None:
    command = Command(("sh", "-c", text), timeout_s=_READY_S)
    done, _, stderr = await agent.run(command)
    if done.status != 0:
        raise _NotSampledError(tail(stderr.decode(errors="replace")) or f"`{text}` failed")


async def _root_device(agent: AgentClient) -> int:
    """The number of the guest's root, as its kernel tells; 0: it tells none.

    Format: proc(5), mountinfo; what is mounted over another comes later.
    """
    text = (await agent.get("/proc/self/mountinfo", _MOUNTS)).decode("utf-8", "replace")
    rows = [line.split() for line in text.splitlines()]
    for row in reversed(rows):
        if len(row) > 4 and row[4] == "/" and (numbers := _NUMBERS.fullmatch(row[2])):
            return os.makedev(int(numbers[1]), int(numbers[2]))
    return 0


def _set_perf_apart(window: TrialWindow) -> None:
    """What looks is no program of the trial."""
    for key in [key for key in window.count if key[:2] == ("programs", "perf")]:
        window.count["controller", *key[1:]] += window.count.pop(key)
