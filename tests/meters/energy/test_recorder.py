"""What is written of a meter, whatever it does."""

from __future__ import annotations

import errno
import itertools
import math
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.meters.energy.scripted import (
    Answer,
    Scripted,
    ScriptedOptions,
    channel,
    eventually,
    lines,
    scripted,
)
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.meters.energy.base import FaultError
from ullage.meters.energy.recorder import REOPEN_INTERVALS, LineFile, Recorder, next_due
from ullage.runs.readings import Closed, Fault, Line, Opened, Reading

T = TypeVar("T")
GONE = FaultError("gone", "no such device")
QUICK_S = 0.002


def absent(reason: str = "it was unplugged") -> UllageError:
    return UllageError(
        errors.ENERGY_METER_ABSENT, meter="scripted", where="here", reason=reason, fix="plug it in"
    )


def denied() -> UllageError:
    return UllageError(
        errors.ENERGY_METER_DENIED, meter="scripted", where="here", reason="no", fix="be root"
    )


class Recorded:
    """A recorder at work on a kind of meter."""

    def __init__(self, kind: type[Scripted], file: Path, **more: Any) -> None:
        self.kind, self.file = kind, file
        self.faults: list[Fault] = []
        more.setdefault("every_s", QUICK_S)
        self.recorder = Recorder(
            kind(kind.Options()), "wall", "u0000001", file, tell=self.faults.append, **more
        )
        self.recorder.start()

    def until(self, *, readings: int = 0, faults: int = 0, opened: int = 0) -> list[Line]:
        """Until the file has so many of them; all of it."""
        expected = Counter(reading=readings, fault=faults, opened=opened)
        eventually(lambda: Counter(line.event for line in lines(self.file)) >= expected)
        return self.stop()

    def stop(self) -> list[Line]:
        self.recorder.stop()
        return lines(self.file)


def of(recorder: list[Line], kind: type[T]) -> list[T]:
    return [line for line in recorder if isinstance(line, kind)]


def test_it_is_opened_read_once_more_at_the_end_and_closed(tmp_path: Path) -> None:
    kind = scripted(1.0, 2.0, 3.0)
    recorder = Recorded(kind, tmp_path / "wall.jsonl").until(readings=5)
    opened, *readings, closed = recorder
    assert isinstance(opened, Opened)
    assert (opened.label, opened.meter, opened.session) == ("wall", "scripted", "u0000001")
    assert opened.options == {"where": "here"}
    assert opened.channels == (channel(),)
    assert isinstance(closed, Closed)
    values = [line.values["wall"] for line in of(readings, Reading)]
    assert values[:3] == [1.0, 2.0, 3.0]
    assert len(values) == len(readings) == kind.number
    instants = [line.at_ns for line in recorder]
    assert instants == sorted(instants)
    assert kind.closes == 1


def test_all_calls_come_from_one_thread_which_is_not_ours(tmp_path: Path) -> None:
    kind = scripted(1.0, GONE, 2.0)
    Recorded(kind, tmp_path / "wall.jsonl").until(readings=2)
    assert len(kind.threads) == 1
    assert threading.get_ident() not in kind.threads


@given(
    first=st.floats(0, 1e6),
    passed=st.floats(0, 1e6),
    every=st.floats(1e-3, 3600),
)
def test_the_schedule_does_not_drift(first: float, passed: float, every: float) -> None:
    due = next_due(first, first + passed, every)
    assert first + passed - 1e-6 <= due <= first + passed + every + 1e-6
    steps = (due - first) / every
    assert math.isclose(steps, round(steps), abs_tol=1e-6 * max(1, steps))


def test_every_fault_is_written_and_each_kind_told_once(tmp_path: Path) -> None:
    battery = FaultError("on-battery", "the mains have failed")
    kind = scripted(1.0, GONE, GONE, battery, GONE, battery, 2.0)
    recorded = Recorded(kind, tmp_path / "wall.jsonl")
    recorder = recorded.until(readings=3)
    assert [f.code for f in of(recorder, Fault)] == [
        "gone",
        "gone",
        "on-battery",
        "gone",
        "on-battery",
    ]
    assert [(f.code, f.message) for f in recorded.faults] == [
        ("gone", "no such device"),
        ("on-battery", "the mains have failed"),
    ]
    assert recorded.recorder.faults == {"gone": 3, "on-battery": 2}
    assert recorded.recorder.readings == len(of(recorder, Reading))


@pytest.mark.parametrize(
    "answer",
    [
        {"wall": math.nan},
        {"wall": math.inf},
        {"wall": -3.0},
        {"other": 1.0},
        {},
        ZeroDivisionError("a mistake of ours"),
        OSError(errno.ENODEV, "No such device"),
        RuntimeError("\x1b[2Jlong" * 1000),
    ],
)
def test_what_no_meter_can_say_is_a_fault_and_no_figure(answer: Any, tmp_path: Path) -> None:
    recorder = Recorded(scripted(7.0, answer, 8.0), tmp_path / "wall.jsonl").until(readings=2)
    (fault,) = of(recorder, Fault)
    assert fault.code == "nonsense"
    assert len(fault.message) < 600
    assert "\x1b" not in fault.message
    assert {r.values["wall"] for r in of(recorder, Reading)} == {7.0, 8.0}


def test_a_meter_that_hangs_is_silent_and_does_not_hold_up_the_end(tmp_path: Path) -> None:
    release = threading.Event()

    def hang() -> float:
        assert release.wait(60)
        return 9.0

    kind = scripted(1.0, hang)
    file = tmp_path / "wall.jsonl"
    recorded = Recorded(kind, file, read_deadline_s=0.5)
    try:
        eventually(lambda: len(of(lines(file), Fault)) >= 4)
        recorded.recorder.end()
        eventually(lambda: recorded.recorder.ended)
        recorder = recorded.stop()
        assert {f.code for f in of(recorder, Fault)} == {"silent"}
        assert of(recorder, Closed)
        assert kind.number == 2  # nobody asked again while it hung
        assert kind.closes == 0
    finally:
        release.set()
    eventually(lambda: kind.closes == 1)
    assert lines(file) == recorder  # nothing comes after the end


def test_a_meter_that_answers_again_goes_on_and_what_came_late_is_dropped(tmp_path: Path) -> None:
    release = threading.Event()

    def hang() -> float:
        assert release.wait(60)
        return 666.0

    file = tmp_path / "wall.jsonl"
    recorded = Recorded(scripted(1.0, hang, 2.0), file, read_deadline_s=2)
    eventually(lambda: Counter(line.event for line in lines(file)) >= Counter(reading=1, fault=2))
    release.set()
    recorder = recorded.until(readings=3)
    assert {r.values["wall"] for r in of(recorder, Reading)} == {1.0, 2.0}


def test_a_meter_that_is_gone_is_looked_for_again_but_not_each_time(tmp_path: Path) -> None:
    script: list[Answer] = [1.0, *[GONE] * (REOPEN_INTERVALS - 1), 2.0]
    kind = scripted(*script, channels=[(channel(),), absent(), denied(), (channel(),)])
    recorder = Recorded(kind, tmp_path / "wall.jsonl").until(readings=3)
    codes = [f.code for f in of(recorder, Fault)]
    interval = 1 + REOPEN_INTERVALS  # an opening that failed, and what waits for the next
    assert codes == ["gone"] * (REOPEN_INTERVALS - 1) + ["gone"] * interval + ["denied"] * interval
    assert kind.opens == 4
    assert len(of(recorder, Opened)) == 1  # the same channels of a power: the same stretch


def test_nothing_is_read_of_a_meter_that_could_not_be_opened_anew(tmp_path: Path) -> None:
    file, back = tmp_path / "wall.jsonl", threading.Event()

    class Kept(scripted(1.0, *[GONE] * (REOPEN_INTERVALS - 1), 666.0)):  # type: ignore[misc]
        def open(self) -> Any:
            if type(self).opens and not back.is_set():
                type(self).opens += 1
                raise absent("it tells neither")
            return super().open()

        def read(self) -> Any:
            assert type(self).opens < 2 or back.is_set(), "its figures mean nothing yet"
            return super().read()

    recorded = Recorded(Kept, file)
    eventually(lambda: Kept.opens >= 3)
    recorder = recorded.stop()
    assert {r.values["wall"] for r in of(recorder, Reading)} == {1.0}
    faults = of(recorder, Fault)
    assert {fault.code for fault in faults} == {"gone"}
    assert all("it tells neither" in fault.message for fault in faults[REOPEN_INTERVALS - 1 :])
    assert Kept.number == REOPEN_INTERVALS, "nor at the end"


@pytest.mark.parametrize(("every_s", "most"), [(0.01, 5), (1.0, 5), (2.0, 2), (60.0, 1)])
def test_a_meter_that_is_read_rarely_is_not_waited_for_long(
    every_s: float, most: int, tmp_path: Path
) -> None:
    recorder = Recorder(scripted()(ScriptedOptions()), "wall", "u1", tmp_path / "w", every_s)
    assert recorder.patience == most
    recorder.stop()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (channel("wall"), channel("package-0")),
        (channel("wall", "energy"), channel("wall", "energy")),
    ],
)
def test_what_may_have_begun_anew_is_a_new_stretch(before: Any, after: Any, tmp_path: Path) -> None:
    kind = scripted(
        {before.name: 5.0},
        *[GONE] * REOPEN_INTERVALS,
        {after.name: 1.0},
        channels=[(before,), (after,)],
    )
    recorder = Recorded(kind, tmp_path / "wall.jsonl").until(readings=2, opened=2)
    assert [o.channels for o in of(recorder, Opened)] == [(before,), (after,)]
    second = recorder.index(of(recorder, Opened)[1])
    assert {after.name} == {name for r in of(recorder[second:], Reading) for name in r.values}


def test_a_ups_on_battery_is_not_opened_anew(tmp_path: Path) -> None:
    kind = scripted(1.0, *[FaultError("on-battery", "no mains")] * 20, 2.0)
    Recorded(kind, tmp_path / "wall.jsonl").until(readings=2)
    assert kind.opens == 1


def test_one_that_is_not_there_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    file = tmp_path / "wall.jsonl"
    for recorder in (absent(), denied(), OSError(errno.ENOENT, "No such file", "/dev/ttyUSB0")):
        with pytest.raises(UllageError) as caught:
            Recorded(scripted(channels=[recorder]), file)
        kinds = (errors.ENERGY_METER_ABSENT, errors.ENERGY_METER_DENIED)
        assert caught.value.kind in kinds
        assert caught.value.hint
    assert not file.exists()


def test_a_session_that_goes_on_appends(tmp_path: Path) -> None:
    file = tmp_path / "wall.jsonl"
    first = Recorded(scripted(1.0), file).until(readings=2)
    with file.open("ab") as stream:
        stream.write(b'{"event":"read')
    second = Recorded(scripted(2.0), file).until(opened=2, readings=len(of(first, Reading)) + 1)
    assert second[: len(first)] == first
    assert isinstance(second[len(first)], Opened)


def test_a_new_file_is_new(tmp_path: Path) -> None:
    file = tmp_path / "wall.jsonl"
    file.write_text("precious\n")
    with pytest.raises(FileExistsError):
        Recorded(scripted(1.0), file, new=True)
    assert file.read_text() == "precious\n"


def test_a_full_disk_ends_it_with_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "wall.jsonl"
    recorded = Recorded(scripted(1.0), file)
    eventually(lambda: len(of(lines(file), Reading)) >= 2)
    real = os.write

    def half(fd: int, data: bytes) -> int:
        if b"reading" not in data:
            return real(fd, data)
        return real(fd, data[:7])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", half)
        eventually(lambda: recorded.recorder.ended)
    assert recorded.recorder.failed is not None
    assert recorded.recorder.failed.errno == errno.ENOSPC
    recorder = recorded.stop()
    assert file.read_bytes().endswith(b"}\n")
    assert not of(recorder, Closed)


def test_a_full_disk_at_a_new_stretch_is_no_fault_of_the_meter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, openings = os.write, itertools.count()

    def full(fd: int, data: bytes) -> int:
        if b'"opened"' in data and next(openings):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, data)

    counter = channel("wall", "energy")
    kind = scripted(5.0, *[GONE] * REOPEN_INTERVALS, 1.0, channels=[(counter,)])
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        recorded = Recorded(kind, tmp_path / "wall.jsonl")
        recorder = recorded.recorder
        eventually(lambda: recorder.ended or recorder.faults["nonsense"] > 0)
        lines_written = recorded.stop()
    assert recorder.failed is not None
    assert recorder.failed.errno == errno.ENOSPC
    assert {fault.code for fault in of(lines_written, Fault)} == {"gone"}
    assert [line.values["wall"] for line in of(lines_written, Reading)] == [5.0]


@given(st.binary(max_size=200).filter(lambda tail: b"\n" not in tail), st.integers(0, 3))
def test_a_torn_line_is_cut_and_whole_ones_stay(
    tmp_path_factory: pytest.TempPathFactory, tail: bytes, whole: int
) -> None:
    file = tmp_path_factory.mktemp("meters") / "wall.jsonl"
    closings = [Closed(at_ns=n) for n in range(whole + 1)]
    with LineFile(file) as written:
        for line in closings[:-1]:
            written.append(line)
    with file.open("ab") as stream:
        stream.write(tail)
    with LineFile(file) as written:
        written.append(closings[-1])
    assert lines(file) == closings


KILLED = """
import sys, time
from pathlib import Path
from tests.meters.energy.scripted import scripted
from ullage.meters.energy.recorder import Recorder
kind = scripted(1.0)
Recorder(kind(kind.Options()), "wall", "u0000001", Path(sys.argv[1]), 0.001).start()
time.sleep(600)
"""


def test_a_killed_recorder_leaves_whole_lines(tmp_path: Path) -> None:
    file = tmp_path / "wall.jsonl"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(file)])
    try:
        eventually(lambda: len(of(lines(file), Reading)) >= 20)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    recorder = lines(file)
    assert len(of(recorder, Reading)) >= 20
    assert not of(recorder, Closed)
