"""Meter `perf`."""

from __future__ import annotations

import math
import os
import re
import selectors
import subprocess
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fcntl import F_SETPIPE_SZ, fcntl
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ullage.common.quantities import Seconds
from ullage.common.text import clean
from ullage.meters.energy.base import (
    READ_DEADLINE_S,
    EnergyMeter,
    Every,
    FaultError,
    MeterOptions,
    refusal,
)
from ullage.meters.energy.rapl import STEP_J
from ullage.runs.readings import Channel

# What `perf stat --json --per-socket --interval-print` says of energy, line by line.
#
# The fields are those of `tools/perf/util/stat-display.c` of Linux 6.1 and newer: `interval` is the
# time since perf began, `counter-value` a text, and `pcnt-running` below 100 means that the value
# is scaled up from the part of the interval that was counted.

CHANNELS: Final[dict[str, tuple[str, Literal["package", "memory"]]]] = {
    "package": ("power/energy-pkg/", "package"),
    "memory": ("power/energy-ram/", "memory"),
}
"""First word of a channel → its event and scope."""

_SOCKET: Final = re.compile(r"S(\d{1,4})")
_WHOLE_PERCENT: Final = 99.99


class _Fields(BaseModel):
    """Of a line; what else stands in it is not needed."""

    model_config = ConfigDict(frozen=True)

    interval: float
    socket: str
    value: str = Field(alias="counter-value")
    unit: str = ""
    event: str
    running: float = Field(100.0, alias="pcnt-running")


@dataclass(frozen=True)
class IntervalEnergy:
    """The energy of one package or memory in one interval."""

    interval_s: float
    """When it ended, since perf began."""
    channel: str
    joules: float


@dataclass
class PerfInterval:
    """The lines of one interval, as they come."""

    expected: frozenset[str] = frozenset()
    """The channels that make it whole."""
    end_s: float | None = None
    joules: dict[str, float] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """True when each channel has told."""
        return bool(self.expected) and self.joules.keys() == self.expected

    def begins(self, line: IntervalEnergy) -> bool:
        """True when the line is of this interval."""
        return self.end_s in (None, line.interval_s)

    def take(self, line: IntervalEnergy) -> None:
        """FaultError when it belongs to another interval, or tells what was told."""
        strange = self.expected and line.channel not in self.expected
        if strange or not self.begins(line) or line.channel in self.joules:
            raise FaultError("nonsense", f"an interval without all its channels: {line.channel}")
        self.end_s = line.interval_s
        self.joules[line.channel] = line.joules


def parse_line(text: bytes) -> IntervalEnergy:
    """What a line says; FaultError when no energy follows from it."""
    excerpt = clean(text.decode("utf-8", "replace").strip(), 120)
    try:
        fields = _Fields.model_validate_json(text)
    except ValidationError as error:
        raise FaultError("nonsense", f"no line of perf stat --json: {excerpt}") from error
    if fields.value == "<not supported>":
        raise FaultError("gone", f"{fields.event} is not supported here")
    if fields.value == "<not counted>":
        raise FaultError("gone", f"{fields.event} was not counted for a while")
    if fields.running < _WHOLE_PERCENT:
        share = f"{fields.event} was counted for {fields.running:g} % of the time"
        raise FaultError("nonsense", f"{share}; the rest is a guess")
    return IntervalEnergy(fields.interval, _channel(fields, excerpt), _joules(fields, excerpt))


def _channel(fields: _Fields, excerpt: str) -> str:
    socket = _SOCKET.fullmatch(fields.socket)
    for first, (event, _) in CHANNELS.items():
        if socket and fields.event.rstrip("/") == event.rstrip("/"):
            return f"{first}-{socket[1]}"
    raise FaultError("nonsense", f"neither package nor memory: {excerpt}")


def _joules(fields: _Fields, excerpt: str) -> float:
    try:
        value = float(fields.value)
    except ValueError:
        value = math.nan
    if fields.unit != "Joules" or not math.isfinite(value) or value < 0:
        raise FaultError("nonsense", f"no energy: {excerpt}")
    return value


_PIPE_BYTES: Final = 1 << 20
_SHORTEST_S, _LONGEST_S = 0.01, 1.0
_FIXES: Final = {
    "gone": "install linux-perf (6.1 or newer); in most guests no processor tells its energy,"
    " docs/guide/energy-meters.md has other meters",
    "denied": "run as root, or as root: `sysctl kernel.perf_event_paranoid=0`, or"
    " `setcap cap_perfmon+ep $(readlink -f $(which perf))`",
    "nonsense": "look at what `perf stat -a -j -e power/energy-pkg/ sleep 1` says",
}


class PerfOptions(MeterOptions):
    """What a plan may say of `perf`."""

    every: Every = Field(
        Seconds(1.0),
        le=600,
        description="between two readings, `1s` or `0.5s`; 10 ms at least, ten minutes at most",
    )
    program: str = Field("perf", min_length=1, description="the program, or its path")


class Perf(EnergyMeter):
    """Energy of each processor package and of its memory, by `perf stat`.

    The same counters of the processor as `rapl` (`power/energy-pkg/`, `power/energy-ram/`), by
    another way through the kernel, for hosts that open performance events to a user and powercap to
    none. One `perf stat -a --per-socket -j` runs as a child and tells the energy of five intervals
    between two readings, each of 10 ms to 1 s; their sum is the channel `package-0`, from 0 when
    the meter was opened. A reading waits for the end of the interval, so its instant is that at
    which the controller got the line, and the time it waited is how wrong that may be. An interval
    that perf could not count, or guessed from a part of it, ends the stretch: what was used
    meanwhile is not known. Its maker states no accuracy. Needs linux-perf 6.1, and root,
    `CAP_PERFMON` or `kernel.perf_event_paranoid` of 0 or less.
    """

    name = "perf"
    Options = PerfOptions
    EVENTS = Path("/sys/bus/event_source/devices/power/events")
    """Where the kernel lists them: `energy-ram` is not everywhere, and perf refuses all then."""

    def __init__(self, options: PerfOptions) -> None:
        super().__init__(options)
        self._child: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None
        self._pipe: int | None = None
        self._lines: deque[bytes] = deque()
        self._text = b""
        self._now = PerfInterval()
        self._joules: dict[str, float] = {}
        self._broken: FaultError | None = None

    def open(self) -> tuple[Channel, ...]:
        """Start perf, and wait for its first interval."""
        self._text, self._now, self._broken = b"", PerfInterval(), None
        self._lines.clear()
        try:
            self._start()
            self._first(time.monotonic() + READ_DEADLINE_S)
        except FaultError as fault:
            self._broken = fault
            self.close()
            fix = _FIXES.get(fault.code, _FIXES["gone"])
            raise refusal(self.name, self.options.program, fault, fix) from fault
        return tuple(self._channel(name) for name in self._joules)

    def read(self) -> Mapping[str, float]:
        """The sums when the interval that goes on now has ended."""
        if self._broken is not None:
            raise self._broken
        deadline = time.monotonic() + READ_DEADLINE_S
        try:
            self._fill()
            while self._add():  # intervals that ended before this call
                pass
            while not self._add():
                self._wait(deadline)
        except FaultError as fault:
            if fault.code != "silent":
                self._broken = fault
            raise
        return dict(self._joules)

    def close(self) -> None:
        if self._child is not None:
            self._child.terminate()
            try:
                self._child.wait(READ_DEADLINE_S)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
            self._child = None
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None

    def _start(self) -> None:
        interval_s = min(max(self.options.every / 5, _SHORTEST_S), _LONGEST_S)
        self._stderr = TemporaryFile()  # noqa: SIM115  # until `close`
        self._pipe, theirs = os.pipe()
        os.set_blocking(self._pipe, False)
        with suppress(OSError):  # what it tells between two readings has to fit
            fcntl(self._pipe, F_SETPIPE_SZ, _PIPE_BYTES)
        argv = [self.options.program, "stat", "--all-cpus", "--per-socket", "--json"]
        argv += ["--interval-print", f"{interval_s * 1000:.0f}", "--log-fd", str(theirs)]
        try:
            self._child = subprocess.Popen(
                [*argv, "--event", ",".join(self._events())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=(theirs,),
                env={**os.environ, "LC_ALL": "C"},
                start_new_session=True,
            )
        except OSError as error:
            raise FaultError("gone", error.strerror or "cannot be started") from error
        finally:
            os.close(theirs)

    def _events(self) -> list[str]:
        """Packages always, so that perf itself says why there are none; memory where it is."""
        ram = (self.EVENTS / "energy-ram").exists()
        return ["power/energy-pkg/", *(["power/energy-ram/"] if ram else [])]

    def _first(self, deadline: float) -> None:
        """Whatever is told of the first interval, until the second begins, are the channels."""
        while (line := self._line()) is None or self._now.begins(line):
            if line is not None:
                self._now.take(line)
            else:
                self._wait(deadline)
        if not any(name.startswith("package") for name in self._now.joules):
            raise FaultError("nonsense", "it told of no package")
        self._joules = dict(self._now.joules)
        self._now = PerfInterval(expected=frozenset(self._joules))
        self._now.take(line)

    def _add(self) -> bool:
        """Take lines until an interval is whole and in the sums; False when there are no more."""
        while not self._now.whole:
            line = self._line()
            if line is None:
                return False
            self._now.take(line)
        for name, joules in self._now.joules.items():
            self._joules[name] += joules
        self._now = PerfInterval(expected=self._now.expected)
        return True

    def _line(self) -> IntervalEnergy | None:
        """The next line that has come whole."""
        while self._lines:
            text = self._lines.popleft()
            if text.strip():
                return parse_line(text)
        return None

    def _wait(self, deadline: float) -> None:
        """Until perf says something. FaultError (`silent`, and what `_ended` says)."""
        assert self._pipe is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._pipe, selectors.EVENT_READ)
            if not selector.select(max(deadline - time.monotonic(), 0)):
                raise FaultError("silent", f"perf said nothing for {READ_DEADLINE_S:g} s")
        self._fill()

    def _fill(self) -> None:
        """All that perf has said so far."""
        assert self._pipe is not None
        with suppress(BlockingIOError):
            while piece := os.read(self._pipe, 1 << 16):
                *lines, self._text = (self._text + piece).split(b"\n")
                self._lines.extend(lines)
            raise self._ended()

    def _ended(self) -> FaultError:
        assert self._child is not None and self._stderr is not None
        status = self._child.wait()
        self._stderr.seek(0)
        complaint = clean(self._stderr.read(4000).decode("utf-8", "replace"))
        if any(word in complaint for word in ("perf_event_paranoid", "ermission denied")):
            return FaultError("denied", "the kernel does not let this user count the whole host")
        lines = [line.strip() for line in complaint.splitlines() if line.strip()]
        # perf points with \___ at the reason, under a line that only repeats the event.
        reason_line = next((line for line in lines if line.startswith("\\___")), "".join(lines[:1]))
        reason = reason_line.removeprefix("\\___").strip()
        return FaultError("gone", f"it ended with status {status}: {reason or 'no reason given'}")

    def _channel(self, name: str) -> Channel:
        event, scope = CHANNELS[name.partition("-")[0]]
        return Channel(
            name=name,
            kind="energy",
            method="measured",
            scope=scope,
            observer="host",
            resolution=STEP_J,
            source=f"{self.options.program} stat -e {event}",
        )
