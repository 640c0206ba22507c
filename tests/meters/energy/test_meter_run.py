"""Energy meters beside a real run: what is kept, and what the user is told of their faults."""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testing.energy.redfish_double import serving
from testing.energy.tlskit import certificate
from tests.meters.energy.meterrunkit import (
    FEW_S,
    PLAN,
    SLEEP,
    engine,
    file_of,
    go,
    namable,
    no_gaps,
    warned,
)
from tests.meters.energy.scripted import Scripted, channel, lines
from tests.support import enginekit
from ullage.analysis.energy import series
from ullage.analysis.energy.integral import Integral, Missing, integrate
from ullage.cli import doctor
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.engine.engine import Engine
from ullage.meters.energy import metering
from ullage.meters.energy.base import FaultError
from ullage.meters.energy.recorder import Recorder
from ullage.report import provenance
from ullage.runs import parquet
from ullage.runs.events import Idle, Trial
from ullage.runs.reader import RunFolder
from ullage.runs.readings import Closed, Fault, Opened, Reading

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("places_of_its_own")]

MARKS = 'name: command, argv: ["sh", "-c", "sleep 0.1; touch mark; sleep 0.1"]'
GONE = FaultError("gone", "no such device")


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Callable[..., type[Scripted]]:
    return namable(monkeypatch)


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    no_gaps(monkeypatch)


def trials_energy(one: Engine, folder: RunFolder) -> list[Integral | Missing]:
    """Of each trial, as the analysis has it."""
    (stretch,) = series.read(file_of(one))
    wall = series.series(stretch, "wall")
    return [integrate(wall, trial.start_ns, trial.end_ns) for trial in folder.trials]


def codes(found: list[Integral | Missing]) -> set[str]:
    return {each.code for each in found if isinstance(each, Missing)}


def test_the_readings_cover_the_idle_host_and_every_trial(
    meter: Callable[..., type[Scripted]], tmp_path: Path
) -> None:
    kind = meter(*(100.0 + 0.1 * (n % 7) for n in range(9999)))
    one = engine(tmp_path)
    folder = go(one)
    opened, *_, last, closed = lines(file_of(one))
    assert isinstance(opened, Opened)
    assert isinstance(last, Reading)
    assert isinstance(closed, Closed)
    assert opened.session == folder.sessions[0].tag
    (idle,) = [event for event in folder.events if isinstance(event, Idle)]
    up = [n for n, event in enumerate(folder.events) if event.event == "provisioned"]
    first = next(n for n, event in enumerate(folder.events) if isinstance(event, Trial))
    assert max(up) < folder.events.index(idle) < first
    assert opened.at_ns < idle.start_ns
    assert idle.end_ns - idle.start_ns >= 0.1e9
    assert idle.end_ns <= folder.trials[0].start_ns
    assert last.at_ns > max(trial.end_ns for trial in folder.trials)
    (record,) = folder.resolved.energy_meters
    assert (record.label, record.meter, record.every_s) == ("wall", "scripted", FEW_S)
    assert record.channels == (channel(),)
    found = trials_energy(one, folder)
    assert len(found) == 6
    for each, trial in zip(found, folder.trials, strict=True):
        assert isinstance(each, Integral), each
        seconds = (trial.end_ns - trial.start_ns) / 1e9
        assert each.joules == pytest.approx(100.3 * seconds, rel=0.01)
    assert warned(one) == []
    assert kind.closes >= 2  # when it was looked for, and at the end
    parquet.write(folder)
    events = parquet.query("select kind from events where kind = 'idle'", one.folder)
    assert events.num_rows == 1
    (fold,) = [each for each in provenance.folds(folder) if each.title == "The energy meters"]
    assert fold.table is not None
    told = [cell.text for cell in fold.table.rows[0]]
    assert told[:3] == ["wall", "scripted", "where here"]
    assert told[4:9] == ["wall", "power", "measured", "wall", "host"]


def test_one_unplugged_in_a_trial_is_told_once_and_that_trial_has_no_energy(
    meter: Callable[..., type[Scripted]], tmp_path: Path
) -> None:
    def until_the_third() -> float:
        if 2 < len(list(one.folder.glob("trials/*"))) < 5:
            raise GONE
        return 50.0

    meter(until_the_third)
    one = engine(tmp_path)
    folder = go(one)
    assert all(trial.status == "ok" for trial in folder.trials)
    found = trials_energy(one, folder)
    assert codes(found[2:4]) == {"gone"}
    assert isinstance(found[0], Integral)
    assert isinstance(found[-1], Integral)
    first, total = warned(one)
    assert "wall (scripted) is faulty (gone): no such device" in first
    assert "trials meanwhile have no energy" in first
    assert "readings failed: gone" in total
    assert [w.code for w in folder.warnings] == ["meter-faulty"] * 2


@pytest.mark.parametrize(
    ("lie", "code", "words"),
    [
        (-5.0, "nonsense", "wall is -5"),
        (math.nan, "nonsense", "wall is nan"),
        (FaultError("on-battery", "the mains have failed"), "on-battery", "the mains have failed"),
        (FaultError("denied", "not any more"), "denied", "not any more"),
    ],
)
def test_a_meter_that_lies_or_may_not_be_read_gives_no_figure_and_is_told(
    meter: Callable[..., type[Scripted]], lie: Any, code: str, words: str, tmp_path: Path
) -> None:
    meter(1.0, lie)
    one = engine(tmp_path)
    folder = go(one)
    assert codes(trials_energy(one, folder)) <= {code, "after"}
    assert all(isinstance(each, Missing) for each in trials_energy(one, folder))
    assert all(trial.status == "ok" for trial in folder.trials)
    assert f"faulty ({code})" in warned(one)[0]
    assert words in warned(one)[0]
    assert len(warned(one)) == 2


def test_a_counter_that_falls_gives_no_energy_where_it_fell(
    meter: Callable[..., type[Scripted]], tmp_path: Path
) -> None:
    count = iter(range(1, 10**6))

    def counter() -> float:
        number, marked = next(count), any((tmp_path / "data").rglob("mark"))
        return number / 1000 if marked else 3.0 * number

    meter(counter, channels=[(channel(kind="energy"),)])
    one = engine(tmp_path, load=MARKS)
    found = trials_energy(one, go(one))
    assert isinstance(found[0], Missing)
    assert all(isinstance(each, Integral) for each in found[1:])


def test_a_counter_that_stands_still_gives_no_energy(
    meter: Callable[..., type[Scripted]], tmp_path: Path
) -> None:
    meter(5.0, channels=[(channel(kind="energy"),)])
    one = engine(tmp_path)
    assert {type(each) for each in trials_energy(one, go(one))} == {Missing}


def test_a_power_that_jumps_out_of_all_reason_is_no_figure(
    meter: Callable[..., type[Scripted]], tmp_path: Path
) -> None:
    def power() -> float:
        return 1e12 if any((tmp_path / "data").rglob("mark")) else 100.0

    meter(power)
    one = engine(tmp_path, load=MARKS)
    assert isinstance(trials_energy(one, go(one))[0], Missing)


def test_one_that_is_not_there_is_said_before_anything_is_made(
    meter: Callable[..., type[Scripted]], tmp_path: Path
) -> None:
    facts = {"meter": "scripted", "where": "/dev/ttyUSB0", "reason": "no", "fix": "plug it in"}
    for kind in (errors.ENERGY_METER_ABSENT, errors.ENERGY_METER_DENIED):
        meter(channels=[UllageError(kind, **facts)])
        one = engine(tmp_path)
        with pytest.raises(UllageError) as caught:
            asyncio.run(one.run())
        assert caught.value.kind is kind
        assert caught.value.hint == "plug it in"
        journal = (one.folder / "journal.jsonl").read_text()
        assert '"provisioned"' not in journal
        assert not file_of(one).parent.exists()


def test_an_optional_one_that_is_not_there_is_told_and_leaves_no_zeros(
    meter: Callable[..., type[Scripted]], tmp_path: Path
) -> None:
    facts = {"meter": "scripted", "where": "here", "reason": "no", "fix": "plug it in"}
    meter(channels=[UllageError(errors.ENERGY_METER_ABSENT, **facts)])
    one = engine(tmp_path, options=", optional: true")
    folder = go(one)
    assert [trial.status for trial in folder.trials] == ["ok"] * 6
    assert not file_of(one).exists()
    assert folder.resolved.energy_meters[0].channels == ()
    assert not [event for event in folder.events if isinstance(event, Idle)]
    (told,) = warned(one)
    assert "wall: scripted: nothing at here: no; the plan calls it optional" in told
    assert folder.warnings[0].code == "meter-absent"


def test_one_that_hangs_holds_up_neither_the_trials_nor_the_end(
    meter: Callable[..., type[Scripted]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    defaults = Recorder.__init__.__kwdefaults__ or {}
    monkeypatch.setitem(defaults, "read_deadline_s", 0.2)

    def hang() -> float:
        release.wait(120)
        return 1.0

    meter(1.0, hang)
    one = engine(tmp_path)
    try:
        folder = go(one)
    finally:
        release.set()
    assert [trial.status for trial in folder.trials] == ["ok"] * 6
    found = lines(file_of(one))
    assert isinstance(found[-1], Closed)
    assert {line.code for line in found if isinstance(line, Fault)} == {"silent"}
    assert "faulty (silent)" in warned(one)[0]


def test_a_meter_that_nobody_checked_is_warned_of_once(tmp_path: Path) -> None:
    with serving(certificate(tmp_path)) as double:
        double.locked = False
        options = f"{{meter: redfish, url: {double.url}, insecure: true, every: 500ms}}"
        one = enginekit.engine(tmp_path, [SLEEP], extra=f"meters: {{wall: {options}}}\nidle: 0\n")
        folder = go(one)
    (told,) = [each for each in folder.warnings if each.code == metering.METER_UNCHECKED]
    assert told.message.startswith("wall (redfish): insecure: true: nobody checks that it is")
    assert warned(one).count(told.message) == 1


def test_a_dry_run_says_what_is_not_here(tmp_path: Path) -> None:
    text = PLAN.replace("meters: {", "meters: {cpu: {meter: rapl, powercap: /nowhere}, ")
    (tmp_path / "plan.yaml").write_text(f"{text}design: duet\n")
    ullage = [sys.executable, "-m", "ullage", "run", "--dry-run", str(tmp_path / "plan.yaml")]
    said = subprocess.run(ullage, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert "energy meters: cpu (rapl), load (model); the host rests 0.2 s" in said.stdout
    assert "not on this host: energy meter cpu: rapl: nothing at /nowhere" in said.stderr
    assert "energy meter load" not in said.stderr
    assert "two trials run at the same time" in said.stderr
    told = json.loads(subprocess.check_output([*ullage, "--json"], stderr=subprocess.DEVNULL))
    assert told["energy_meters"][1] == {"label": "load", "meter": "model", "optional": False}
    assert told["idle_s"] == 0.2


def test_the_doctor_knows_which_meters_can_be_read(
    meter: Callable[..., type[Scripted]],
) -> None:
    meter()
    assert doctor._energy() == doctor.Finding("energy", "ok", "scripted can be read here")
    facts = {"meter": "scripted", "where": "here", "reason": "no", "fix": "plug it in"}
    meter(channels=[UllageError(errors.ENERGY_METER_ABSENT, **facts)])
    found = doctor._energy()
    assert found.state == "limited"
    assert "ullage meter list" in found.hint


def test_a_duet_is_told_that_energy_is_of_no_one_trial(
    meter: Callable[..., type[Scripted]], tmp_path: Path
) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("a duet needs two CPUs")
    meter(7.0)
    one = engine(tmp_path, extra="design: duet\n")
    folder = go(one)
    assert "energy-not-per-trial" in [w.code for w in folder.warnings]
    assert any("two trials run at the same time" in text for text in warned(one))
