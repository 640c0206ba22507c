"""Reads one meter over and over and writes down what it said, in threads beside the run."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

from ullage.common import sums
from ullage.common.errors import ENERGY_METER_ABSENT, ENERGY_METER_DENIED, UllageError
from ullage.common.files import append, cut_torn_end, last_lines
from ullage.common.sums import Chain
from ullage.common.text import clean
from ullage.host import clock
from ullage.meters.energy.base import (
    READ_DEADLINE_S,
    EnergyMeter,
    FaultError,
    PlannedMeter,
    refusal,
)
from ullage.runs.readings import Channel, Closed, Fault, Opened, Reading
from ullage.runs.records import LARGEST, Record
from ullage.runs.writer import now_ns

T = TypeVar("T")


class MeterCall(Generic[T]):
    """One call, and what came of it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._over = Event()

    @property
    def over(self) -> bool:
        """True when there is a result."""
        return self._over.is_set()

    @property
    def failed(self) -> bool:
        """True when the result is an error."""
        return self.over and self._error is not None

    def do(self) -> None:
        """In the meter's thread."""
        try:
            self._results.append(self._work())
        except BaseException as error:  # handed on, whatever it is
            self._error = error
        self._over.set()

    def result(self, deadline_s: float) -> T:
        """What it gave or raised; FaultError (`silent`) when there is nothing yet."""
        if not self._over.wait(deadline_s):
            raise FaultError("silent", f"no answer within {deadline_s:g} s")
        if self._error is not None:
            raise self._error
        return self._results[0]


class Caller:
    """Calls a meter that blocks, from one thread, which nobody need wait for."""

    def __init__(self, name: str) -> None:
        self._todo: SimpleQueue[MeterCall[Any] | None] = SimpleQueue()
        self._last: MeterCall[Any] | None = None
        Thread(target=self._serve, name=f"meter {name}", daemon=True).start()

    @property
    def busy(self) -> bool:
        """True while a call has no result."""
        return self._last is not None and not self._last.over

    def begin(self, work: Callable[[], T]) -> MeterCall[T]:
        """Have it done; one at a time: FaultError (`silent`) while an earlier call hangs."""
        if self.busy:
            raise FaultError("silent", "an earlier request still has no answer")
        call = MeterCall(work)
        self._last = call
        self._todo.put(call)
        return call

    def call(self, work: Callable[[], T], deadline_s: float) -> T:
        """What it gives or raises; FaultError (`silent`) when that takes longer.

        What comes too late is dropped.
        """
        return self.begin(work).result(deadline_s)

    def end(self, farewell: Callable[[], object], deadline_s: float) -> None:
        """Do this last. Waits for it, unless a call hangs: it is then done after that."""
        call, hangs = MeterCall(farewell), self.busy
        self._todo.put(call)
        self._todo.put(None)
        if not hangs:
            call.result(deadline_s)

    def _serve(self) -> None:
        while (call := self._todo.get()) is not None:
            call.do()


class LineFile:
    """Appends whole lines. Each is with the kernel when `append` returns, so `kill -9` takes none.

    It is not waited for until it is on the disk: that would load the disk beside the trials.
    """

    def __init__(self, file: Path, *, new: bool = False) -> None:
        """new: FileExistsError when there is one already."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (os.O_EXCL if new else 0)
        self.file = file
        self._fd = os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        cut_torn_end(self._fd)
        last, _ = [b"", *last_lines(self._fd, 2)][-2:]
        self._chain = Chain(sums.sum_of(last) or "")

    def append(self, line: Record) -> None:
        """Write it, or nothing of it: OSError, also for a full disk."""
        chain = Chain(self._chain.before)
        append(self._fd, self.file, chain.sealed(line.model_dump_json().encode()) + b"\n")
        self._chain = chain

    def close(self) -> None:
        """Wait until all of it is on the disk."""
        try:
            os.fsync(self._fd)
        finally:
            os.close(self._fd)

    def __enter__(self) -> LineFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


OPEN_DEADLINE_S: Final = 4 * READ_DEADLINE_S
"""A meter that takes longer to be found is absent."""
REOPEN_INTERVALS: Final = 5
"""After a fault the meter is opened anew, at most once in so many readings."""
REOPEN_S: Final = 5.0
"""Where readings are rare, it is not longer than this, or one reading."""

_CODES: Final = {ENERGY_METER_ABSENT: "gone", ENERGY_METER_DENIED: "denied"}
_LONGEST_MESSAGE: Final = 500
_AS_BEFORE: Final = "on-battery"
"""The fault of a meter that is there and answers: to open it anew mends nothing."""


class Recorder:
    """One meter, read at the instants `every_s` apart from the start on; its file only grows.

    Nothing is smoothed or made up: an instant at which there was no answer to be trusted has a
    `Fault`, one that passed while another reading took too long has nothing.
    """

    def __init__(
        self,
        meter: EnergyMeter,
        label: str,
        session: str,
        file: Path,
        every_s: float,
        *,
        tell: Callable[[Fault], None] = lambda fault: None,
        new: bool = False,
        read_deadline_s: float = READ_DEADLINE_S,
    ) -> None:
        """tell: called from the recorder's thread, once for each code of a fault.

        new: the file must not be there yet.
        """
        self.meter, self.label, self.file, self.every_s = meter, label, file, every_s
        self.channels: tuple[Channel, ...] = ()
        self.readings = 0
        self.faults: Counter[str] = Counter()
        self.patience = min(REOPEN_INTERVALS, max(1, int(REOPEN_S / every_s)))
        """How many readings it waits before it opens the meter anew."""
        self.failed: OSError | None = None
        """Why nothing is written any more: the file could not be."""
        self._session, self._tell, self._new = session, tell, new
        self._deadline_s = read_deadline_s
        self._caller = Caller(label)
        self._ending = threading.Event()
        self._lines: LineFile
        self._thread: threading.Thread | None = None
        self._since_opened = 0
        self._faulty = False
        self._opening: MeterCall[tuple[Channel, ...]] | None = None
        """Of a meter that is not known to be what it was: nothing is read until this went well."""

    def open(self) -> tuple[Channel, ...]:
        """Find the meter; UllageError when it is not there. Nothing is written yet."""
        try:
            self.channels = self._caller.call(self.meter.open, OPEN_DEADLINE_S)
        except FaultError as fault:
            fix = "see that it is connected and answers; `ullage meter list` tries all of them"
            raise refusal(self.meter.name, self.label, fault, fix) from fault
        except OSError as error:
            raise UllageError(
                ENERGY_METER_ABSENT,
                meter=self.meter.name,
                where=error.filename or self.label,
                reason=error.strerror or error,
                fix="see that it is connected; `ullage meter list` says what each meter needs",
            ) from error
        return self.channels

    def start(self) -> None:
        """Begin to write; opens the meter when that has not been done. UllageError, OSError."""
        if not self.channels:
            self.open()
        self._lines = LineFile(self.file, new=self._new)
        self._write_opened()
        self._thread = threading.Thread(target=self._run, name=f"recorder {self.label}")
        self._thread.daemon = True
        self._thread.start()

    def end(self) -> None:
        """Ask for the end: one more reading, then no more. Does not wait; see `stop`."""
        self._ending.set()

    def stop(self) -> None:
        """End it and wait; a meter that hangs is not waited for longer than its deadline."""
        self.end()
        if self._thread is not None:
            self._thread.join(4 * self._deadline_s)
            self._thread = None
        with suppress(Exception):  # it is let go of; what it says to that helps nobody
            self._caller.end(self.meter.close, self._deadline_s)

    @property
    def ended(self) -> bool:
        """True once it writes no more, by `end` or because it failed."""
        return self._thread is not None and not self._thread.is_alive()

    def _run(self) -> None:
        first = time.monotonic()
        try:
            with self._lines:
                due = first
                while not self._ending.wait(max(0.0, due - time.monotonic())):
                    self._read_once()
                    due = next_due(first, time.monotonic(), self.every_s)
                self._read_once(reopen=False)
                self._lines.append(Closed(at_ns=clock.ordered_ns()))
        except OSError as error:
            self.failed = error

    def _read_once(self, *, reopen: bool = True) -> None:
        self._since_opened += 1
        anew = self._answer(lambda: self._reopen_if_faulty(begin=reopen))
        if anew is None:
            return
        if anew:
            self._write_opened()
        reading = self._answer(self._read_checked)
        if reading is None:
            return
        before, values, after = reading
        self._faulty = False
        self.readings += 1
        half = (after - before + 1) // 2
        self._lines.append(Reading(at_ns=before + half, within_ns=half, values=dict(values)))

    def _answer(self, ask: Callable[[], T]) -> T | None:
        """What the meter gives; None when that is a fault, which is then written.

        Nothing else is written in `ask`: an OSError of the file is no fault of the meter.
        """
        try:
            return ask()
        except FaultError as fault:
            self._fault(fault.code, str(fault))
        except UllageError as error:
            self._fault(_CODES.get(error.kind, "nonsense"), error.message)
        except Exception as error:  # a mistake in a meter loses a reading, and not the run
            self._fault("nonsense", f"{type(error).__name__}: {error}")
        return None

    def _read_checked(self) -> tuple[int, Mapping[str, float], int]:
        reading = self._caller.call(self._read_timed, self._deadline_s)
        self._check(reading[1])
        return reading

    def _read_timed(self) -> tuple[int, Mapping[str, float], int]:
        before = clock.ordered_ns()
        return before, self.meter.read(), clock.ordered_ns()

    def _check(self, values: Mapping[str, float]) -> None:
        """Refuse what no channel of the meter can say."""
        channels = {channel.name: channel for channel in self.channels}
        if not values:
            raise FaultError("nonsense", "it gave no value")
        for name, value in values.items():
            if name not in channels:
                raise FaultError("nonsense", f"it gave a value for {name!r}, which it has not")
            if not 0 <= value <= LARGEST:
                raise FaultError("nonsense", f"{name} is {value:g}")

    def _reopen_if_faulty(self, *, begin: bool) -> bool:
        """Open it anew after a fault, now and then; what came of that may show in a later reading.

        What it has may be another thing now, and a counter begins where it likes: True for that,
        which is a new stretch. An opening that failed says so at each instant until the next one:
        the meter may have forgotten what its figures mean, so it is not asked for any.
        """
        due = begin and self._faulty and self._since_opened > self.patience
        if self._opening is None and not due:
            return False
        if self._opening is None or (self._opening.failed and due):
            self._opening = self._caller.begin(self._open_anew)
            self._since_opened = 0
        channels = self._opening.result(self._deadline_s)
        self._opening = None
        anew = channels != self.channels or any(channel.kind == "energy" for channel in channels)
        self.channels = channels
        return anew

    def _open_anew(self) -> tuple[Channel, ...]:
        self.meter.close()
        return self.meter.open()

    def _fault(self, code: str, message: str) -> None:
        self._faulty = code != _AS_BEFORE
        fault = Fault(at_ns=clock.ordered_ns(), code=code, message=clean(message, _LONGEST_MESSAGE))
        self._lines.append(fault)
        self.faults[code] += 1
        if self.faults[code] == 1:
            self._tell(fault)

    def _write_opened(self) -> None:
        self._lines.append(
            Opened(
                session=self._session,
                label=self.label,
                meter=self.meter.name,
                options=self.meter.options.model_dump(mode="json", exclude={"every"}),
                every_s=self.every_s,
                channels=self.channels,
                epoch_ns=now_ns(),
                at_ns=clock.ordered_ns(),
            )
        )


def trial_open(planned: PlannedMeter) -> tuple[Channel, ...]:
    """What the meter has, without reading it; UllageError when it is not there."""
    recorder = Recorder(planned.make(), planned.label, "", Path(), planned.options.every)
    try:
        return recorder.open()
    finally:
        recorder.stop()


def next_due(first_s: float, now_s: float, every_s: float) -> float:
    """The next instant of the schedule, which does not drift; those that passed are left out."""
    return first_s + (math.floor((now_s - first_s) / every_s) + 1) * every_s
