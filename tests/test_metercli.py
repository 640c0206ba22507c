"""`ullage meter`: a meter for scripts, from its start to its total energy."""

from __future__ import annotations

import csv
import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import commandkit
from tests.commandkit import Done
from tests.energy.scripted import channel, eventually, lines
from ullage import clock, errors, meterfile
from ullage.analysis.energy.integrate import Integral, Missing
from ullage.analysis.energy.series import Stretch
from ullage.energy import background
from ullage.energy.chosen import chosen
from ullage.energy.linefile import LineFile
from ullage.errors import ErrorKind, UllageError
from ullage.meterfile import Window
from ullage.readings import Closed, Fault, Opened, Reading
from ullage.runs import Record

QUICK = ("model", "-o", "idle_watts=10", "-o", "core_watts=5", "--every", "0.05")
MODEL = (*QUICK[:-1], "1s")
"""On a busy machine too, a reading comes within four of these: there is no gap."""


class Shell:
    """Runs `ullage meter` as a script does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *words: str) -> Done:
        return commandkit.ullage("meter", *words, cwd=self.folder, timeout_s=300)


@pytest.fixture
def meter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """The command; every logger that a test left is ended."""
    monkeypatch.setenv("ULLAGE_STATE_DIR", str(tmp_path / "state"))
    yield Shell(tmp_path)
    for logger in background.loggers():
        background.stop(logger)


def enough(file: Path, readings: int = 3) -> None:
    """Wait until it has so many."""
    eventually(lambda: sum(isinstance(line, Reading) for line in lines(file)) >= readings)


# --- start, log, total energy, total time, stop ---------------------------------------------------
def test_a_script_starts_looks_and_stops(meter: Shell, tmp_path: Path) -> None:
    file = tmp_path / "wall.jsonl"
    began = meter("start", *MODEL, "--to", "wall.jsonl")
    assert began.code == 0, began.stderr
    assert began.stdout == ""
    assert "`ullage meter stop model` ends it" in began.stderr
    enough(file)
    (logger,) = background.loggers()
    assert logger.alive
    assert logger.file == file

    (listed,) = meter("list", "--json").json["loggers"]
    assert (listed["name"], listed["alive"], listed["pid"]) == ("model", True, logger.pid)

    so_far = meter("energy", "--json").json[0]
    assert so_far["method"] == "estimated"
    assert so_far["mean_watts"] >= 9.9
    assert so_far["joules"] == pytest.approx(so_far["mean_watts"] * so_far["seconds"])
    assert meter("time", "--json").json["seconds"] >= so_far["seconds"]

    ended = meter("stop")
    assert ended.code == 0, ended.stderr
    told = re.fullmatch(
        r"estimate: ([\d.]+) J ± [\d.]+ J \(estimated\), [\d.]+ W over ([\d.]+) s; .*"
        r"accuracy is not known\ntime: ([\d.]+) s\n",
        ended.stdout,
    )
    assert told is not None, ended.stdout
    assert float(told[1]) >= so_far["joules"]
    assert told[2] == told[3]
    assert not logger.alive
    assert background.loggers() == []
    assert isinstance(lines(file)[-1], Closed)
    assert meter("energy", "wall.jsonl").stdout == ended.stdout.splitlines(keepends=True)[0]
    assert meter("stop").code == 2


def test_the_log_is_text_csv_or_json_and_can_be_followed(meter: Shell, tmp_path: Path) -> None:
    assert meter("start", *QUICK, "--to", "wall.jsonl", "--name", "wall").code == 0
    copy = tmp_path / "followed"
    with copy.open("wb") as stream:
        follower = subprocess.Popen(
            [sys.executable, "-m", "ullage", "meter", "log", "wall", "--follow", "--json"],
            stdout=stream,
        )
    try:
        enough(tmp_path / "wall.jsonl")
        eventually(lambda: copy.stat().st_size > 0)  # it has found the logger, which runs
        assert "had died" not in meter("stop", "wall").stderr
        follower.wait(120)
    finally:
        follower.kill()
        follower.wait()
    followed = copy.read_text()
    assert followed == (tmp_path / "wall.jsonl").read_text()
    found = lines(tmp_path / "wall.jsonl")
    assert meter("log", "wall.jsonl", "--json").stdout == followed

    text = meter("log", "wall.jsonl").stdout.splitlines()
    assert len(text) == len(found)
    assert "model opened: estimate" in text[0]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z  estimate [\d.e-]+ J", text[1])
    assert text[-1].endswith("  closed")

    rows = list(csv.DictReader(io.StringIO(meter("log", "wall.jsonl", "--csv").stdout)))
    readings = [line for line in found if isinstance(line, Reading)]
    assert [float(row["value"]) for row in rows] == [r.values["estimate"] for r in readings]
    assert {(row["channel"], row["unit"]) for row in rows} == {("estimate", "J")}


def test_a_second_of_its_name_is_refused_and_the_first_goes_on(
    meter: Shell, tmp_path: Path
) -> None:
    assert meter("start", *MODEL, "--to", "one.jsonl").code == 0
    second = meter("start", *MODEL, "--to", "two.jsonl")
    assert second.code == errors.ENERGY_LOGGER_RUNS.exit_code == 2
    assert "error[energy-logger-runs]: a logger named model runs already" in second.stderr
    assert str(tmp_path / "one.jsonl") in second.stderr
    assert not (tmp_path / "two.jsonl").exists()
    beside = meter("start", *MODEL, "--to", "two.jsonl", "--name", "two")
    assert beside.code == 0
    several = meter("stop")
    assert several.code == 2
    code = errors.ENERGY_LOGGER_SEVERAL.code
    assert f"error[{code}]: there are several loggers: model, two" in several.stderr
    assert "`ullage meter stop model`" in several.stderr
    enough(tmp_path / "one.jsonl")
    assert meter("stop", "model").code == 0


def test_readings_are_never_written_over(meter: Shell, tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text("precious")
    said = meter("start", *MODEL, "--to", "old.jsonl")
    assert said.code == errors.ENERGY_FILE_EXISTS.exit_code == 2
    assert "error[energy-file-exists]" in said.stderr
    assert (tmp_path / "old.jsonl").read_text() == "precious"
    assert meter("start", *MODEL, "--to", "nowhere/at/all.jsonl").code == 2
    assert background.loggers() == []


def test_a_killed_logger_is_told_and_its_readings_stay(meter: Shell, tmp_path: Path) -> None:
    file = tmp_path / "wall.jsonl"
    assert meter("start", *MODEL, "--to", "wall.jsonl").code == 0
    enough(file)
    (logger,) = background.loggers()
    os.kill(logger.pid, signal.SIGKILL)
    eventually(lambda: not logger.alive)
    assert "died: it was killed" in meter("list").stdout
    assert meter("energy").code == 0
    ended = meter("stop")
    assert ended.code == 1
    assert "model had died before: it was killed" in ended.stderr
    assert ended.stdout.startswith("estimate: ")
    assert background.loggers() == []
    assert len(lines(file)) >= 4

    assert meter("start", *MODEL, "--to", "new.jsonl").code == 0
    os.kill(background.loggers()[0].pid, signal.SIGKILL)
    again = meter("start", *MODEL, "--to", "newer.jsonl")
    assert again.code == 0
    assert "the logger model of before died" in again.stderr
    assert str(tmp_path / "new.jsonl") in again.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_in_order(meter: Shell, number: signal.Signals, tmp_path: Path) -> None:
    assert meter("start", *MODEL, "--to", "wall.jsonl").code == 0
    (logger,) = background.loggers()
    os.kill(logger.pid, number)
    eventually(lambda: not logger.alive)
    assert isinstance(lines(tmp_path / "wall.jsonl")[-1], Closed)


@pytest.mark.root
def test_a_full_disk_is_told_when_it_is_stopped(meter: Shell, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(small)]
    subprocess.run(mount, check=True)
    try:
        assert meter("start", *QUICK[:-1], "0.01", "--to", "small/wall.jsonl").code == 0
        (logger,) = background.loggers()
        eventually(lambda: not logger.alive)
        ended = meter("stop")
        assert ended.code == 1
        assert "No space left on device" in ended.stderr
        assert (small / "wall.jsonl").read_bytes().endswith(b"}\n")
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_logger_whose_file_was_removed_is_told(meter: Shell, tmp_path: Path) -> None:
    assert meter("start", *MODEL, "--to", "wall.jsonl").code == 0
    assert meter("list", "--json").json["loggers"][0]["file_gone"] is False
    (logger,) = background.loggers()
    logger.file.unlink()
    assert "wall.jsonl, but that file is gone: it was removed or moved" in meter("list").stdout
    assert meter("list", "--json").json["loggers"][0]["file_gone"] is True
    code = errors.ENERGY_FILE_GONE.code
    for command in ("energy", "time", "log"):
        said = meter(command)
        assert said.code == 1
        words = f"error[{code}]: the logger model still runs, and its file {logger.file} is gone"
        assert words in said.stderr
    ended = meter("stop")
    assert ended.code == 1
    assert f"error[{code}]: the logger model was stopped, and its file {logger.file}" in (
        ended.stderr
    )
    assert not logger.alive
    assert background.loggers() == []


def test_a_dead_logger_whose_file_was_removed_is_told(meter: Shell) -> None:
    assert meter("start", *MODEL, "--to", "wall.jsonl").code == 0
    (logger,) = background.loggers()
    os.kill(logger.pid, signal.SIGKILL)
    eventually(lambda: not logger.alive)
    logger.file.unlink()
    ended = meter("stop")
    assert ended.code == 1
    assert "the logger model had died before: it was killed" in ended.stderr
    assert "what it had written is in" not in ended.stderr


def test_one_that_is_not_there_is_said_and_nothing_is_left(meter: Shell, tmp_path: Path) -> None:
    said = meter("start", "rapl", "-o", "powercap=/nowhere", "--to", "wall.jsonl")
    assert said.code == 2
    assert "error[energy-meter-absent]: rapl: nothing at /nowhere" in said.stderr
    assert "hint: " in said.stderr
    assert not (tmp_path / "wall.jsonl").exists()
    assert background.loggers() == []


def test_a_logger_that_cannot_begin_says_why(
    meter: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(UllageError) as caught:
        background.start(
            "x", chosen("x", "model", ["idle_watts=1", "core_watts=1"]), tmp_path / "x.jsonl"
        )
    assert caught.value.kind is errors.ENERGY_LOGGER_FAILED
    assert not (tmp_path / "x.jsonl").exists()


# --- what was meant -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("meter_name", "options", "kind", "words"),
    [
        ("modl", [], errors.ENERGY_METER_UNKNOWN, "did you mean model?"),
        ("model", ["idle_wats=3"], errors.ENERGY_METER_BAD_OPTION, "did you mean idle_watts?"),
        ("model", ["idle_watts=much"], errors.ENERGY_METER_BAD_OPTION, "'much'"),
        ("model", ["idle_watts"], errors.ENERGY_METER_BAD_OPTION, "-o key=value"),
        ("model", ["every=1s", "every=2s"], errors.ENERGY_METER_BAD_OPTION, "given once"),
        ("model", ["every=soon"], errors.ENERGY_METER_BAD_OPTION, "a duration such as"),
        ("model", ["every=500ms"], errors.ENERGY_METER_BAD_OPTION, "`0.5s`"),
        ("model", ["every=0.00001"], errors.ENERGY_METER_BAD_OPTION, "or equal to 0.01"),
        ("rapl", ["every=0.009"], errors.ENERGY_METER_BAD_OPTION, "10 ms at least"),
        ("perf", ["every=0.009"], errors.ENERGY_METER_BAD_OPTION, "10 ms at least"),
        ("model", [], errors.ENERGY_METER_BAD_OPTION, "model: its options: found none; needs"),
        ("model", ["idle_watts=1"], errors.ENERGY_METER_BAD_OPTION, "docs/energy-meters.md"),
        ("model", ["idle_watts=nan", "core_watts=1"], errors.ENERGY_METER_BAD_OPTION, "a finite"),
        ("model", ["idle_watts=1", "core_watts=inf"], errors.ENERGY_METER_BAD_OPTION, "a finite"),
    ],
)
def test_a_wrong_option_is_told(
    meter_name: str, options: list[str], kind: ErrorKind, words: str
) -> None:
    with pytest.raises(UllageError) as caught:
        chosen("x", meter_name, options)
    assert caught.value.kind is kind
    assert words in f"{caught.value.message} {caught.value.hint}"


def test_what_stands_behind_an_option_is_read_as_in_a_plan() -> None:
    options: Any = chosen("x", "model", ["idle_watts=3", "core_watts=2.5", "every=1m"]).options
    assert (options.idle_watts, options.core_watts, options.every) == (3, 2.5, 60)


def test_names_are_plain(meter: Shell) -> None:
    for name in ("../x", "Wall", ""):
        said = meter("start", *MODEL, "--to", "x.jsonl", "--name", name)
        assert "error[energy-logger-bad-name]" in said.stderr
    assert errors.ENERGY_LOGGER_BAD_NAME.exit_code == 2


def test_an_unknown_logger_or_file_is_told(meter: Shell, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "bad.jsonl").write_text("nonsense\nmore\n")
    code = errors.ENERGY_LOGGER_UNKNOWN.code
    assert f"error[{code}]: there is no logger; loggers: none" in meter("energy").stderr
    assert f"error[{code}]: no logger and no file is named x" in meter("log", "x").stderr
    code = errors.ENERGY_READINGS_NONE.code
    assert f"error[{code}]: y.jsonl: there is no such file" in meter("time", "./y.jsonl").stderr
    empty = meter("energy", "empty.jsonl")
    assert f"error[{code}]: empty.jsonl: it holds no readings" in empty.stderr
    assert "error[energy-readings-bad]" in meter("energy", "bad.jsonl").stderr


def test_the_list_has_every_meter_and_what_it_needs(meter: Shell) -> None:
    found = {each["name"]: each for each in meter("list", "--json").json["meters"]}
    assert {"rapl", "model"} <= set(found)
    assert found["model"]["state"] == "ask"
    assert "idle_watts" in found["model"]["detail"]
    for each in found.values():
        assert each["summary"]
        assert (each["state"] in ("absent", "denied")) == bool(each["hint"])
    text = meter("list").stdout
    assert all(name in text for name in found)


# --- between two instants -------------------------------------------------------------------------
S = 10**9
EPOCH = 1_700_000_000 * S


def made(file: Path, *said: Record) -> Path:
    """A file with these lines."""
    with LineFile(file) as written:
        for line in said:
            written.append(line)
    return file


def opened(at_s: float = 100, epoch_s: float = 0, *, power: bool = True) -> Opened:
    return Opened(
        session="u0000001",
        label="wall",
        meter="nut",
        options={},
        every_s=1,
        channels=(channel(kind="power" if power else "energy"),),
        epoch_ns=EPOCH + round(epoch_s * S),
        at_ns=round(at_s * S),
    )


def steady(first_s: int, last_s: int, watts: float = 50) -> list[Reading]:
    return [
        Reading(at_ns=n * S, within_ns=1000, values={"wall": watts + 0.1 * (n % 2)})
        for n in range(first_s, last_s + 1)
    ]


@pytest.fixture
def hiccup(tmp_path: Path) -> Path:
    """Twenty seconds with two faults in the middle."""
    faults = [Fault(at_ns=n * S, code="gone", message="unplugged") for n in (110, 111)]
    file = tmp_path / "wall.jsonl"
    return made(file, opened(), *steady(100, 109), *faults, *steady(112, 120))


def test_a_time_with_a_hole_has_no_energy_but_its_parts_have(meter: Shell, hiccup: Path) -> None:
    said = meter("energy", str(hiccup))
    assert said.code == errors.ENERGY_NOT_KNOWN.exit_code == 1
    assert said.stdout == ""
    assert "error[energy-not-known]: wall: no energy of this time: gone: unplugged" in said.stderr
    (told,) = meter("energy", str(hiccup), "--json").json
    assert told["joules"] is None
    assert told["reason"]["code"] == "gone"
    parts = meter("energy", str(hiccup), "--parts", "--json").json
    assert [(p["from_ns"] // S, p["to_ns"] // S) for p in parts] == [(100, 109), (112, 120)]
    assert [p["joules"] for p in parts] == pytest.approx([450, 400], rel=0.01)
    early = meter("energy", str(hiccup), "--from", "+2s", "--to", "+7.5s", "--json").json[0]
    assert early["joules"] == pytest.approx(5.5 * 50, rel=0.01)
    assert meter("energy", str(hiccup), "--from", "+5s", "--to", "+5s").code == 1
    assert meter("energy", str(hiccup), "--to", "+500s").code == 1
    assert meter("time", str(hiccup)).stdout == "20.000 s\n"


def test_parts_of_a_time_that_has_none_are_told_why(meter: Shell, tmp_path: Path) -> None:
    gone = Fault(at_ns=101 * S, code="gone", message="unplugged")
    first, _, last = steady(100, 102)
    file = made(tmp_path / "wall.jsonl", opened(), first, gone, last)
    whole, parts = meter("energy", str(file)), meter("energy", str(file), "--parts")
    assert "wall: no energy of this time: gone: unplugged" in whole.stderr
    assert (parts.code, parts.stdout, parts.stderr) == (1, "", whole.stderr)
    as_json = meter("energy", str(file), "--parts", "--json")
    assert (as_json.code, as_json.json, as_json.stderr) == (1, [], whole.stderr)


def stretches(file: Path) -> tuple[Stretch, ...]:
    return meterfile.read(file)


@pytest.mark.parametrize(
    "text",
    [
        "+5s",
        "+5",
        "1700000005",
        "1700000005.000",
        datetime.fromtimestamp(1_700_000_005, UTC).isoformat(),
        datetime.fromtimestamp(1_700_000_005, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        datetime.fromtimestamp(1_700_000_005).isoformat(),
    ],
)
def test_an_instant_is_said_in_many_ways(text: str, hiccup: Path) -> None:
    assert meterfile.instant(text, stretches(hiccup)) == 105 * S


@pytest.mark.parametrize("text", ["", "+", "+soon", "now", "1e9", "-5", "0001-01-01", "+1e999"])
def test_what_is_no_instant_is_told(text: str, hiccup: Path) -> None:
    with pytest.raises(UllageError) as caught:
        meterfile.instant(text, stretches(hiccup))
    assert caught.value.kind is errors.ENERGY_BAD_INSTANT


@given(st.text(max_size=30))
def test_any_text_is_an_instant_or_told(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    file = made(tmp_path_factory.mktemp("m") / "wall.jsonl", opened(), *steady(100, 101))
    try:
        assert meterfile.instant(text, stretches(file)) >= 0
    except UllageError as error:
        assert error.kind is errors.ENERGY_BAD_INSTANT


def test_a_meter_opened_anew_is_not_integrated_across(tmp_path: Path) -> None:
    file = made(
        tmp_path / "wall.jsonl",
        opened(),
        *steady(100, 110),
        Closed(at_ns=110 * S),
        opened(200, 100),
        *steady(200, 210),
    )
    found = stretches(file)
    (whole,) = meterfile.measured(found, Window(105 * S, 205 * S))
    assert isinstance(whole.energy, Missing)
    assert whole.energy.code == "gap"
    (second,) = meterfile.measured(found, Window(202 * S, 205 * S))
    assert isinstance(second.energy, Integral)
    assert meterfile.instant("1700000103", found) == 203 * S
    assert meterfile.seconds(found) == 20
    parts = meterfile.parts(found, Window(105 * S, 205 * S))
    assert [p.window.seconds for p in parts] == [5, 5]


def test_the_machines_time_was_set_meanwhile(
    meter: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert meter("start", *MODEL, "--to", "wall.jsonl").code == 0
    file = tmp_path / "wall.jsonl"
    enough(file)
    found = stretches(file)
    assert meterfile.clock_set_by(found) == 0
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 3600 * S)
    assert meterfile.clock_set_by(found) == pytest.approx(-3600, abs=1)
    first, last = meterfile.covered(found) or Window(0, 0), clock.ordered_ns()
    assert first.start_ns <= meterfile.instant("+0s", found) + S < last + S
    # What was written before the clock was set is found by the clock as it was.
    when = found[0].opened.epoch_ns / S
    assert abs(meterfile.instant(f"{when:.3f}", found) - found[0].opened.at_ns) < 2e6


# --- coefficients ---------------------------------------------------------------------------------
def test_coefficients_of_the_model_from_two_files(meter: Shell, tmp_path: Path) -> None:
    busy = [0.0, 0.5, 1.0, 1.5, 2.0, 0.25, 0.75, 1.25, 1.75, 0.1, 0.9, 1.9]
    instants = range(100, 100 + 5 * len(busy) + 1)
    level = [busy[min((n - 100) // 5, len(busy) - 1)] for n in instants]
    watts = [
        Reading(at_ns=n * S, within_ns=1, values={"wall": 40 + 12 * b + 0.1 * (n % 2)})
        for n, b in zip(instants, level, strict=True)
    ]
    total, cpu = 0.0, []
    for n, b in zip(instants, level, strict=True):
        cpu.append(Reading(at_ns=n * S, within_ns=1, values={"wall": total}))
        total += b
    made(tmp_path / "wall.jsonl", opened(), *watts)
    load = opened(power=False).model_copy(
        update={"meter": "model", "options": {"idle_watts": 0.0, "core_watts": 1.0}}
    )
    made(tmp_path / "load.jsonl", load, *cpu)
    said = meter("fit", "wall.jsonl", "load.jsonl", "--window", "5s")
    assert said.code == 0, said.stderr
    assert said.json["idle_watts"] == pytest.approx(40, abs=1.5)
    assert said.json["core_watts"] == pytest.approx(12, abs=1.5)
    (tmp_path / "fit.json").write_text(said.stdout)
    assert meter("start", "model", "-o", "fit=fit.json", "--to", "m.jsonl").code == 0
    twice = meter("fit", "load.jsonl", "wall.jsonl", "--window", "never")
    assert twice.code == 2
    assert "error[energy-bad-instant]" in twice.stderr
    (tmp_path / "empty.jsonl").touch()
    for power, other, words in (
        ("no.jsonl", "load.jsonl", "no.jsonl: there is no such file"),
        ("wall.jsonl", "no.jsonl", "no.jsonl: there is no such file"),
        ("empty.jsonl", "load.jsonl", "empty.jsonl: it holds no readings"),
    ):
        none = meter("fit", power, other)
        assert none.code == 2
        assert f"error[energy-readings-none]: {words}" in none.stderr
