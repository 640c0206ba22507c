"""`ullage meter`: a meter for scripts, from its start to its total energy."""

from __future__ import annotations

import csv
import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.meters.energy.scripted import eventually, lines
from tests.support.meterkit import MODEL, QUICK, Shell, enough
from ullage.common import errors
from ullage.common.errors import ErrorKind, UllageError
from ullage.meters.energy import logger as background
from ullage.meters.energy.discovery import planned_meter
from ullage.runs.readings import Closed, Reading


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
    line = re.fullmatch(
        r"estimate: ([\d.]+) J ± [\d.]+ J \(estimated\), [\d.]+ W over ([\d.]+) s; .*"
        r"accuracy is not known\ntime: ([\d.]+) s\n",
        ended.stdout,
    )
    assert line is not None, ended.stdout
    assert float(line[1]) >= so_far["joules"]
    assert line[2] == line[3]
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
    logged = lines(tmp_path / "wall.jsonl")
    assert meter("log", "wall.jsonl", "--json").stdout == followed

    text = meter("log", "wall.jsonl").stdout.splitlines()
    assert len(text) == len(logged)
    assert "model opened: estimate" in text[0]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z  estimate [\d.e-]+ J", text[1])
    assert text[-1].endswith("  closed")

    rows = list(csv.DictReader(io.StringIO(meter("log", "wall.jsonl", "--csv").stdout)))
    readings = [line for line in logged if isinstance(line, Reading)]
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
    neighbour = meter("start", *MODEL, "--to", "two.jsonl", "--name", "two")
    assert neighbour.code == 0
    several = meter("stop")
    assert several.code == 2
    code = errors.ENERGY_LOGGER_SEVERAL.code
    assert f"error[{code}]: there are several loggers: model, two" in several.stderr
    assert "`ullage meter stop model`" in several.stderr
    enough(tmp_path / "one.jsonl")
    assert meter("stop", "model").code == 0


def test_readings_are_never_written_over(meter: Shell, tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text("precious")
    refused = meter("start", *MODEL, "--to", "old.jsonl")
    assert refused.code == errors.ENERGY_FILE_EXISTS.exit_code == 2
    assert "error[energy-file-exists]" in refused.stderr
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
        refused = meter(command)
        assert refused.code == 1
        words = f"error[{code}]: the logger model still runs, and its file {logger.file} is gone"
        assert words in refused.stderr
    ended = meter("stop")
    assert ended.code == 1
    assert f"error[{code}]: the logger model was stopped, and its file {logger.file}" in (
        ended.stderr
    )
    assert not logger.alive
    assert background.loggers() == []


@pytest.mark.parametrize("how", ["replaced", "emptied"])
def test_another_file_of_the_name_is_not_mixed_with_the_first(
    meter: Shell, tmp_path: Path, how: str
) -> None:
    assert meter("start", *QUICK, "--to", "wall.jsonl", "--name", "wall").code == 0
    file, replacement = tmp_path / "wall.jsonl", tmp_path / "other.jsonl"
    enough(file)
    meter("stop", "wall")
    whole = file.read_bytes()
    file.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))  # it still goes on
    followed = tmp_path / "followed"
    with followed.open("wb") as out:
        argv = [sys.executable, "-m", "ullage", "meter", "log", "wall.jsonl", "--follow", "--json"]
        follower = subprocess.Popen(
            argv, cwd=tmp_path, stdout=out, stderr=subprocess.PIPE, text=True
        )
    try:
        eventually(lambda: followed.stat().st_size == file.stat().st_size)
        if how == "emptied":
            file.write_bytes(b"")
        else:
            replacement.write_bytes(whole)
            replacement.rename(file)
        _, stderr = follower.communicate(timeout=120)
    finally:
        follower.kill()
    assert follower.returncode == errors.ENERGY_FILE_REPLACED.exit_code == 1
    assert f"error[{errors.ENERGY_FILE_REPLACED.code}]: wall.jsonl is another file" in stderr
    assert whole.startswith(followed.read_bytes())


def test_another_file_of_the_name_is_not_taken_for_the_loggers(
    meter: Shell, tmp_path: Path
) -> None:
    assert meter("start", *MODEL, "--to", "wall.jsonl").code == 0
    (logger,) = background.loggers()
    enough(logger.file)
    (tmp_path / "copy").write_bytes(logger.file.read_bytes())
    (tmp_path / "copy").rename(logger.file)
    for command in ("energy", "time", "log", "stop"):
        refused = meter(command)
        assert f"error[{errors.ENERGY_FILE_GONE.code}]" in refused.stderr, command
        assert refused.stdout == ""
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
    refused = meter("start", "rapl", "-o", "powercap=/nowhere", "--to", "wall.jsonl")
    assert refused.code == 2
    assert "error[energy-meter-absent]: rapl: nothing at /nowhere" in refused.stderr
    assert "hint: " in refused.stderr
    assert not (tmp_path / "wall.jsonl").exists()
    assert background.loggers() == []


def test_a_logger_that_cannot_begin_says_why(
    meter: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(UllageError) as caught:
        background.start(
            "x", planned_meter("x", "model", ["idle_watts=1", "core_watts=1"]), tmp_path / "x.jsonl"
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
        ("model", ["every=0.00001"], errors.ENERGY_METER_BAD_OPTION, "or equal to 0.01"),
        ("rapl", ["every=0.009"], errors.ENERGY_METER_BAD_OPTION, "10 ms at least"),
        ("perf", ["every=0.009"], errors.ENERGY_METER_BAD_OPTION, "10 ms at least"),
        ("model", [], errors.ENERGY_METER_BAD_OPTION, "model: its options: found none; needs"),
        ("model", ["idle_watts=1"], errors.ENERGY_METER_BAD_OPTION, "docs/guide/energy-meters.md"),
        ("model", ["idle_watts=nan", "core_watts=1"], errors.ENERGY_METER_BAD_OPTION, "a finite"),
        ("model", ["idle_watts=1", "core_watts=inf"], errors.ENERGY_METER_BAD_OPTION, "a finite"),
    ],
)
def test_a_wrong_option_is_told(
    meter_name: str, options: list[str], kind: ErrorKind, words: str
) -> None:
    with pytest.raises(UllageError) as caught:
        planned_meter("x", meter_name, options)
    assert caught.value.kind is kind
    assert words in f"{caught.value.message} {caught.value.hint}"


def test_what_stands_behind_an_option_is_read_as_in_a_plan() -> None:
    options: Any = planned_meter(
        "x", "model", ["idle_watts=3", "core_watts=2.5", "every=1m"]
    ).options
    assert (options.idle_watts, options.core_watts, options.every) == (3, 2.5, 60)


def test_names_are_plain(meter: Shell) -> None:
    for name in ("../x", "Wall", ""):
        refused = meter("start", *MODEL, "--to", "x.jsonl", "--name", name)
        assert "error[energy-logger-bad-name]" in refused.stderr
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


def test_readings_that_are_no_file_are_not_waited_for(meter: Shell, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with (tmp_path / "holes.jsonl").open("wb") as file:
        file.truncate(20 << 30)
    for name, reason in (("pipe", "not a regular file"), ("holes", "larger than 1GiB")):
        done = meter("log", f"./{name}.jsonl")
        assert f"error[{errors.ENERGY_READINGS_BAD.code}]" in done.stderr
        assert reason in done.stderr
    code = errors.ENERGY_READINGS_NONE.code
    none = meter("log", "./none.jsonl")
    assert f"error[{code}]: none.jsonl: there is no such file" in none.stderr


def test_the_list_has_every_meter_and_what_it_needs(meter: Shell) -> None:
    meters = {listed["name"]: listed for listed in meter("list", "--json").json["meters"]}
    assert {"rapl", "model"} <= set(meters)
    assert meters["model"]["state"] == "ask"
    assert "idle_watts" in meters["model"]["detail"]
    for listed in meters.values():
        assert listed["summary"]
        assert (listed["state"] in ("absent", "denied")) == bool(listed["hint"])
    text = meter("list").stdout
    assert all(name in text for name in meters)
