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
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.engine.engine import Engine
from ullage.meters.energy import metering
from ullage.meters.energy.base import FaultError
from ullage.meters.energy.recorder import Recorder
from ullage.nodes import doctor
from ullage.nodes.answers import Finding
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


def trials_energy(run_engine: Engine, folder: RunFolder) -> list[Integral | Missing]:
    """Of each trial, as the analysis has it."""
    (stretch,) = series.read(file_of(run_engine))
    wall = series.series(stretch, "wall")
    return [integrate(wall, trial.start_ns, trial.end_ns) for trial in folder.trials]


def codes(energies: list[Integral | Missing]) -> set[str]:
    return {energy.code for energy in energies if isinstance(energy, Missing)}


def test_the_readings_cover_the_idle_host_and_every_trial(
    meter: Callable[..., type[Scripted]], tmp_path: Path
) -> None:
    kind = meter(*(100.0 + 0.1 * (n % 7) for n in range(9999)))
    run_engine = engine(tmp_path)
    folder = go(run_engine)
    opened, *_, last, closed = lines(file_of(run_engine))
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
    energies = trials_energy(run_engine, folder)
    assert len(energies) == 6
    for energy, trial in zip(energies, folder.trials, strict=True):
        assert isinstance(energy, Integral), energy
        seconds = (trial.end_ns - trial.start_ns) / 1e9
        assert energy.joules == pytest.approx(100.3 * seconds, rel=0.01)
    assert warned(run_engine) == []
    assert kind.closes >= 2  # when it was looked for, and at the end
    parquet.write(folder)
    events = parquet.query("select kind from events where kind = 'idle'", run_engine.folder)
    assert events.num_rows == 1
    (fold,) = [energy for energy in provenance.folds(folder) if energy.title == "The energy meters"]
    assert fold.table is not None
    texts = [cell.text for cell in fold.table.rows[0]]
    assert texts[:3] == ["wall", "scripted", "where here"]
    assert texts[4:9] == ["wall", "power", "measured", "wall", "host"]


def test_one_unplugged_in_a_trial_is_told_once_and_that_trial_has_no_energy(
    meter: Callable[..., type[Scripted]], tmp_path: Path
) -> None:
    def until_the_third() -> float:
        if 2 < len(list(run_engine.folder.glob("trials/*"))) < 5:
            raise GONE
        return 50.0

    meter(until_the_third)
    run_engine = engine(tmp_path)
    folder = go(run_engine)
    assert all(trial.status == "ok" for trial in folder.trials)
    energies = trials_energy(run_engine, folder)
    assert codes(energies[2:4]) == {"gone"}
    assert isinstance(energies[0], Integral)
    assert isinstance(energies[-1], Integral)
    first, total = warned(run_engine)
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
    run_engine = engine(tmp_path)
    folder = go(run_engine)
    assert codes(trials_energy(run_engine, folder)) <= {code, "after"}
    assert all(
        isinstance(energy_fold, Missing) for energy_fold in trials_energy(run_engine, folder)
    )
    assert all(trial.status == "ok" for trial in folder.trials)
    assert f"faulty ({code})" in warned(run_engine)[0]
    assert words in warned(run_engine)[0]
    assert len(warned(run_engine)) == 2


def test_a_counter_that_falls_gives_no_energy_where_it_fell(
    meter: Callable[..., type[Scripted]], tmp_path: Path
) -> None:
    count = iter(range(1, 10**6))

    def counter() -> float:
        number, marked = next(count), any((tmp_path / "data").rglob("mark"))
        return number / 1000 if marked else 3.0 * number

    meter(counter, channels=[(channel(kind="energy"),)])
    run_engine = engine(tmp_path, load=MARKS)
    energies = trials_energy(run_engine, go(run_engine))
    assert isinstance(energies[0], Missing)
    assert all(isinstance(energy_fold, Integral) for energy_fold in energies[1:])


def test_a_counter_that_stands_still_gives_no_energy(
    meter: Callable[..., type[Scripted]], tmp_path: Path
) -> None:
    meter(5.0, channels=[(channel(kind="energy"),)])
    run_engine = engine(tmp_path)
    assert {type(energy_fold) for energy_fold in trials_energy(run_engine, go(run_engine))} == {
        Missing
    }


def test_a_power_that_jumps_out_of_all_reason_is_no_figure(
    meter: Callable[..., type[Scripted]], tmp_path: Path
) -> None:
    def power() -> float:
        return 1e12 if any((tmp_path / "data").rglob("mark")) else 100.0

    meter(power)
    run_engine = engine(tmp_path, load=MARKS)
    assert isinstance(trials_energy(run_engine, go(run_engine))[0], Missing)


def test_one_that_is_not_there_is_said_before_anything_is_made(
    meter: Callable[..., type[Scripted]], tmp_path: Path
) -> None:
    facts = {"meter": "scripted", "where": "/dev/ttyUSB0", "reason": "no", "fix": "plug it in"}
    for kind in (errors.ENERGY_METER_ABSENT, errors.ENERGY_METER_DENIED):
        meter(channels=[UllageError(kind, **facts)])
        run_engine = engine(tmp_path)
        with pytest.raises(UllageError) as caught:
            asyncio.run(run_engine.run())
        assert caught.value.kind is kind
        assert caught.value.hint == "plug it in"
        journal = (run_engine.folder / "journal.jsonl").read_text()
        assert '"provisioned"' not in journal
        assert not file_of(run_engine).parent.exists()


def test_an_optional_one_that_is_not_there_is_told_and_leaves_no_zeros(
    meter: Callable[..., type[Scripted]], tmp_path: Path
) -> None:
    facts = {"meter": "scripted", "where": "here", "reason": "no", "fix": "plug it in"}
    meter(channels=[UllageError(errors.ENERGY_METER_ABSENT, **facts)])
    run_engine = engine(tmp_path, options=", optional: true")
    folder = go(run_engine)
    assert [trial.status for trial in folder.trials] == ["ok"] * 6
    assert not file_of(run_engine).exists()
    assert folder.resolved.energy_meters[0].channels == ()
    assert not [event for event in folder.events if isinstance(event, Idle)]
    (warning,) = warned(run_engine)
    assert "wall: scripted: nothing at here: no; the plan calls it optional" in warning
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
    run_engine = engine(tmp_path)
    try:
        folder = go(run_engine)
    finally:
        release.set()
    assert [trial.status for trial in folder.trials] == ["ok"] * 6
    readings = lines(file_of(run_engine))
    assert isinstance(readings[-1], Closed)
    assert {line.code for line in readings if isinstance(line, Fault)} == {"silent"}
    assert "faulty (silent)" in warned(run_engine)[0]


def test_a_meter_that_nobody_checked_is_warned_of_once(tmp_path: Path) -> None:
    with serving(certificate(tmp_path)) as double:
        double.locked = False
        options = f"{{meter: redfish, url: {double.url}, insecure: true, every: 500ms}}"
        run_engine = enginekit.engine(
            tmp_path, [SLEEP], extra=f"meters: {{wall: {options}}}\nidle: 0\n"
        )
        folder = go(run_engine)
    (unchecked,) = [
        energy_fold
        for energy_fold in folder.warnings
        if energy_fold.code == metering.METER_UNCHECKED
    ]
    assert unchecked.message.startswith("wall (redfish): insecure: true: nobody checks that it is")
    assert warned(run_engine).count(unchecked.message) == 1


def test_a_dry_run_says_what_is_not_here(tmp_path: Path) -> None:
    text = PLAN.replace("meters: {", "meters: {cpu: {meter: rapl, powercap: /nowhere}, ")
    (tmp_path / "plan.yaml").write_text(f"{text}design: duet\n")
    ullage = [sys.executable, "-m", "ullage", "run", "--dry-run", str(tmp_path / "plan.yaml")]
    dry_run = subprocess.run(ullage, capture_output=True, text=True, check=False)
    assert dry_run.returncode == 0, dry_run.stderr
    assert "energy meters: cpu (rapl), load (model); the host rests 0.2 s" in dry_run.stdout
    assert "not on this host: energy meter cpu: rapl: nothing at /nowhere" in dry_run.stderr
    assert "energy meter load" not in dry_run.stderr
    assert "two trials run at the same time" in dry_run.stderr
    plan_json = json.loads(subprocess.check_output([*ullage, "--json"], stderr=subprocess.DEVNULL))
    assert plan_json["energy_meters"][1] == {"label": "load", "meter": "model", "optional": False}
    assert plan_json["idle_s"] == 0.2


def test_the_doctor_knows_which_meters_can_be_read(
    meter: Callable[..., type[Scripted]],
) -> None:
    meter()
    assert doctor._energy() == Finding(
        what="energy", state="ok", detail="scripted can be read here"
    )
    facts = {"meter": "scripted", "where": "here", "reason": "no", "fix": "plug it in"}
    meter(channels=[UllageError(errors.ENERGY_METER_ABSENT, **facts)])
    checks = doctor._energy()
    assert checks.state == "limited"
    assert "ullage meter list" in checks.hint


def test_a_duet_is_told_that_energy_is_of_no_one_trial(
    meter: Callable[..., type[Scripted]], tmp_path: Path
) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("a duet needs two CPUs")
    meter(7.0)
    run_engine = engine(tmp_path, extra="design: duet\n")
    folder = go(run_engine)
    assert "energy-not-per-trial" in [w.code for w in folder.warnings]
    assert any("two trials run at the same time" in text for text in warned(run_engine))
