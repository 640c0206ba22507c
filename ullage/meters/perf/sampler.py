"""What the host's CPUs work at, function by function, while a run lasts: one `perf record`.

`perf` looks at every CPU so and so often, in every environment alike and from the first trial to
the last; nothing of it begins or ends in a trial. Its file is read between two trials, every two
minutes, and each trial is cut out of it at its own start and end by the run's clock.

`perf` reads no program's own file but the host's hypervisors': it is root, and those in an instance
are anybody's. What else it could not name we look for in the files of the run's image, which are
ours (`mapped`). Of all others it is the file that was running.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ullage.common import processes, sums
from ullage.common.commands import needed, tail
from ullage.common.errors import PERF_BROKEN, PERF_DENIED, PERF_MISSING, UllageError
from ullage.common.files import put
from ullage.common.text import printable
from ullage.host import clock
from ullage.meters import process_groups, procfs
from ullage.meters.base import Scene
from ullage.meters.perf.mappings import OwnFiles
from ullage.meters.perf.script import FIELDS, ScriptReader, TrialWindow
from ullage.meters.process_groups import ProcessGroup
from ullage.runs.symbols import Symbols
from ullage.runs.writer import disk_full_as_error

FILE: Final = "symbols.json"
"""In the folder of each trial."""
EVERY_S: Final = 120.0
"""The samples are read when so much time has gone by, between two trials."""
_AT_ONCE: Final = 64
"""Trials whose tables are written at the same time."""
HZ: Final = 49
"""Not 50: what the kernel does at each of its ticks would be seen each time or never. To print
and fold a sample takes 25 µs, so of each busy CPU this is an eighth of a percent."""
MOST_HZ: Final = 800
"""Over all CPUs: with more than 16 of them each is looked at less often."""
_MOST_BYTES: Final = "128M"
_READY_S: Final = 60.0
_END_S: Final = 30.0
_READ_S: Final = 600.0
_POLL_S: Final = 0.005
_LINE: Final = 1 << 16
_CHUNK: Final = 1 << 18
_LATEST: Final = (1 << 31) - 1
_OVER: Final = "it ended while the run went on"

RECORD: Final = (
    *("record", "--quiet", "--all-cpus", "--event", "cpu-clock:I"),  # I: not where it is idle
    *("--clockid", "CLOCK_MONOTONIC_RAW", "--no-buildid", "--no-buildid-cache"),
)
SCRIPT: Final = (
    *("script", "--ns", "-F", FIELDS, "--kallsyms=/proc/kallsyms"),
    *("--show-task-events", "--show-mmap-events", "--show-lost-events"),
)
_ENDLESS: Final = ("--switch-output=signal", f"--max-size={_MOST_BYTES}")


@dataclass(frozen=True)
class ClockPair:
    """The clock of the samples and the run's, at about the same instant."""

    raw_ns: int
    ordered_ns: int
    half_ns: int
    """The two are no further apart."""

    @classmethod
    def now(cls) -> ClockPair:
        """The closest of a few."""
        return min((cls._once() for _ in range(5)), key=lambda look: look.half_ns)

    @classmethod
    def _once(cls) -> ClockPair:
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        ordered = clock.ordered_ns()
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        return cls((before + after) // 2, ordered, (after - before + 1) // 2)


@dataclass(frozen=True)
class Watch:
    """A trial that has begun."""

    before: ClockPair
    roots: dict[int, ProcessGroup]
    ends: frozenset[int]
    """Of these, those at the other end."""


class _Control:
    """The pipes over which perf can be asked whether it looks; it ends when they are closed."""

    def __init__(self) -> None:
        self.requests, self._ask = os.pipe()
        self._answer, self.answered = os.pipe()
        os.set_blocking(self._answer, False)

    def ping(self) -> None:
        os.write(self._ask, b"ping\n")

    def answers(self) -> bool:
        try:
            return os.read(self._answer, 16).startswith(b"ack")
        except BlockingIOError:
            return False

    def close(self) -> None:
        for descriptor in (self.requests, self._ask, self._answer, self.answered):
            os.close(descriptor)


@dataclass
class _FinishedTrial:
    """A trial that is over, whose samples have not been read yet."""

    folder: Path
    start_ns: int
    end_ns: int
    bound_ns: int
    window: TrialWindow


@dataclass
class Sampler:
    """`perf record` while it runs; made by `start`."""

    directory: Path
    perf: str
    hz: int
    process: asyncio.subprocess.Process
    control: _Control
    warn: Callable[[str, str], None]
    files: OwnFiles
    _read_s: float = field(default_factory=time.monotonic)
    _finished: list[_FinishedTrial] = field(default_factory=list)
    _warned: set[str] = field(default_factory=set)

    @classmethod
    async def start(
        cls, directory: Path, warn: Callable[[str, str], None], image: Path | None = None
    ) -> Sampler:
        """Begin to look, and wait until it does. PERF_MISSING, PERF_DENIED, PERF_BROKEN.

        `directory` is private and ours alone; it is made here. `perf` ends with this process,
        however that ends. image: the root that the run's instances have.
        """
        perf, files = _perf(), OwnFiles(image)
        _lay_out(directory)
        hz = max(1, min(HZ, MOST_HZ // (os.cpu_count() or 1)))
        argv = [needed("setpriv", "util-linux"), "--pdeathsig", "KILL", "--", perf, *RECORD]
        argv += [*_ENDLESS, f"--freq={hz}", f"--output={directory / 'now'}"]
        control = _Control()
        try:
            process = await _start_recording(argv, directory / "said", control)
        except BaseException:
            control.close()
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return cls(directory, perf, hz, process, control, warn, files)

    def watch(self, scene: Scene) -> Watch:
        """A trial begins: who is who, and what time it is."""
        return Watch(ClockPair.now(), process_groups.members(scene), process_groups.ends(scene))

    def note(self, watch: Watch, folder: Path, start_ns: int, end_ns: int) -> None:
        """It is over; its instants are of the run's clock. Nothing if perf has ended meanwhile."""
        if self._over():
            self._say(_broken(_OVER))
            return
        after = ClockPair.now()
        offsets = [look.raw_ns - look.ordered_ns for look in (watch.before, after)]
        shift = sum(offsets) // 2
        bound = abs(offsets[1] - offsets[0]) + max(watch.before.half_ns, after.half_ns)
        window = TrialWindow(start_ns + shift, end_ns + shift, watch.roots, watch.ends)
        self._finished.append(_FinishedTrial(folder, start_ns, end_ns, bound, window))

    async def settle(self) -> None:
        """Between two trials: read what there is, if it is time."""
        if self._finished and time.monotonic() - self._read_s >= EVERY_S:
            await self._collect(self._switch)

    async def stop(self) -> None:
        """Stop looking, and read the rest."""
        try:
            await self._collect(self._end)
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    async def _collect(self, finish: Callable[[], Awaitable[None]]) -> None:
        """Read the files once `finish` has closed them; what goes wrong is said, and no more."""
        over = self._over()  # by itself, before we have it end
        try:
            await finish()
            await self._read(cut=over)
        except UllageError as error:
            if error.kind is not PERF_BROKEN:
                raise
            self._finished.clear()
            self._say(error)
        self._read_s = time.monotonic()

    def _over(self) -> bool:
        """Has perf ended? It does so without an error when its file is as large as it may be."""
        return self.process.returncode is not None

    def _say(self, error: UllageError) -> None:
        if error.message not in self._warned:
            self._warned.add(error.message)
            self.warn(error.code, error.message)

    async def _switch(self) -> None:
        """Have the samples so far in a file of their own."""
        if self._over():
            return
        before = len(self._files())
        self.process.send_signal(signal.SIGUSR2)
        await _until(lambda: len(self._files()) > before, "it does not close its file", _END_S)

    async def _end(self) -> None:
        if not self._over():
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGINT)
            await processes.ended(self.process, _END_S)
        try:
            await processes.end(self.process)
        finally:
            self.control.close()

    def _files(self) -> list[Path]:
        return sorted(self.directory.glob("now.*"))

    async def _read(self, *, cut: bool) -> None:
        """cut: perf ended by itself, so trials may go on after its last record."""
        if not self._finished:
            return
        reader = ScriptReader([trial.window for trial in self._finished], os.getpid(), self.files)
        files = self._files()
        if not files:
            raise _broken("it left no file")
        for file in files:
            await self._fold(file, reader)
            file.unlink()
        noted, self._finished = self._finished, []
        # Of the others nobody looked at all.
        whole = [t for t in noted if not (cut and t.window.end_ns > reader.latest_ns)]
        if len(whole) < len(noted):
            self._say(_broken(_OVER))
        for first in range(0, len(whole), _AT_ONCE):
            # Each waits for the disk, which takes several in one go.
            some = whole[first : first + _AT_ONCE]
            await asyncio.gather(*(asyncio.to_thread(self._write, t, reader.lost) for t in some))

    async def _fold(self, file: Path, reader: ScriptReader) -> None:
        """Have perf print one file, and take its lines as they come."""
        process = await asyncio.create_subprocess_exec(
            *(self.perf, *SCRIPT, "--input", str(file)),
            *("--symfs", str(self.directory / "files")),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
            limit=_CHUNK,
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(_READ_S):
                unfinished = b""
                while chunk := await process.stdout.read(_CHUNK):
                    *lines, unfinished = (unfinished + chunk).split(b"\n")
                    if len(unfinished) > _LINE:
                        raise _broken("perf script prints a line without an end")
                    for line in lines:
                        reader.take(line.decode("utf-8", "replace"))
                await process.wait()
        except TimeoutError as error:
            raise _broken("perf script does not end") from error
        finally:
            await processes.end(process)
        if process.returncode != 0:
            raise _broken(f"perf script ended with {process.returncode}")

    def _write(self, trial: _FinishedTrial, lost: int) -> None:
        table = trial.window.table()
        symbols = Symbols(
            hz=self.hz,
            cpus=os.cpu_count() or 1,
            start_ns=trial.start_ns,
            end_ns=trial.end_ns,
            bound_ns=trial.bound_ns,
            lost=min(lost, _LATEST),
            rows=table.rows,
            rest=table.unlisted,
            folded=table.folded,
            bin_ns=trial.window.bin_ns,
            over_time=trial.window.over_time(),
            by_core=trial.window.by_core(),
            cores_over_time=trial.window.cores_over_time(),
        )
        with disk_full_as_error(trial.folder):
            put(trial.folder / FILE, sums.sealed(symbols.model_dump_json().encode()))


async def started(
    directory: Path, warn: Callable[[str, str], None], image: Path | None = None
) -> Sampler | None:
    """A sampler, or None where this host has none: that is said, and the run goes on."""
    try:
        return await Sampler.start(directory, warn, image)
    except UllageError as error:
        if error.kind not in (PERF_MISSING, PERF_DENIED, PERF_BROKEN):
            raise
        warn(error.code, f"{error.message}; {error.hint}")
        return None


def _perf() -> str:
    perf = shutil.which("perf")
    if perf is None:
        raise UllageError(PERF_MISSING)
    return perf


async def _start_recording(
    argv: list[str], log: Path, control: _Control
) -> asyncio.subprocess.Process:
    """Start perf, and ask it until it answers: then it looks."""
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(*argv, f"--control=fd:{control.requests},{control.answered}"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=stderr,
            env={**os.environ, "LC_ALL": "C"},
            pass_fds=(control.requests, control.answered),
            start_new_session=True,
        )
    control.ping()
    try:
        await _until(
            lambda: control.answers() or process.returncode is not None, "no answer", _READY_S
        )
    except BaseException:
        await processes.end(process)
        raise
    if process.returncode is not None:
        raise _refusal(procfs.whole(log))
    return process


def _refusal(log: str) -> UllageError:
    if "perf_event_paranoid" in log or "ermi" in log:
        reason = procfs.read("/proc/sys/kernel/perf_event_paranoid")
        return UllageError(
            PERF_DENIED, reason=f"kernel.perf_event_paranoid is {(reason or 'unknown').strip()}"
        )
    return _broken(printable(tail(log), 200) or "it ended at once")


def _lay_out(directory: Path) -> None:
    """With the only files of programs that perf may read: the host's own hypervisors."""
    root = directory / "files"
    root.mkdir(parents=True, mode=0o700)
    for place in ("/usr/bin", "/usr/libexec", "/usr/local/bin"):
        for program in Path(place).glob("qemu-system-*"):
            link = root / place.lstrip("/") / program.name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(program)


async def _until(done: Callable[[], bool], otherwise: str, patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while not done():
        if time.monotonic() > deadline:
            raise _broken(otherwise)
        await asyncio.sleep(_POLL_S)


def _broken(reason: str) -> UllageError:
    return UllageError(PERF_BROKEN, reason=reason)
