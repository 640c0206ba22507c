"""A run beside a real `upsd`: energy for the work with its interval, and what becomes of faults."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from testing.energy.nut_double import NutDouble, needs_nut, started
from tests.meters.energy.scripted import eventually
from ullage.analysis.energy import series
from ullage.runs.reader import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root, needs_nut]

IDLE, BUSY = 14.263, 33.002
"""Load of a UPS of 865 W by a host that does nothing, and one whose CPUs are all busy."""
PLAN = """\
name: metered
baseline: native
image: host
resources: {{cpus: 1, memory: 512MiB}}
environments:
  native:    {{provider: native}}
  container: {{provider: oci}}
workloads:
  - {{name: sysbench-cpu, time_s: 5}}
blocks: {{min: {blocks}, max: {blocks}}}
meters: {{wall: {{meter: nut, ups: "{ups}", rating: 865, accuracy: 3%}}}}
idle: 8s
seed: 4
"""


class Cpus:
    """How busy all CPUs of this host are."""

    def __init__(self) -> None:
        self._before = self._now()

    def busy(self) -> float:
        """Share of the time since this was asked last."""
        now = self._now()
        total = max(1, sum(now) - sum(self._before))
        idle = now[3] + now[4] - self._before[3] - self._before[4]
        self._before = now
        return min(1.0, max(0.0, 1 - idle / total))

    def _now(self) -> list[int]:
        words = Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]
        return [int(word) for word in words]


@contextmanager
def feeding_this_host(ups: NutDouble) -> Iterator[None]:
    """Meanwhile the UPS tells what its rating and the host's load make."""
    over, cpus = threading.Event(), Cpus()

    def tell() -> None:
        while not over.wait(0.5):
            load = IDLE + (BUSY - IDLE) * cpus.busy()
            ups.tell(ups_status="OL", ups_load=f"{load:.3f}")

    thread = threading.Thread(target=tell)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture
def ups(tmp_path: Path) -> Iterator[NutDouble]:
    folder = tmp_path / "nut"
    folder.mkdir()
    with started(folder) as double:
        yield double


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent_binary: Path) -> None:
    for name in ("STATE", "DATA", "CACHE"):
        monkeypatch.setenv(f"ULLAGE_{name}_DIR", str(tmp_path / name.lower()))


def ullage(*words: str) -> list[str]:
    return [sys.executable, "-m", "ullage", *words]


def run(tmp_path: Path, ups: NutDouble, blocks: int) -> subprocess.Popen[str]:
    (tmp_path / "plan.yaml").write_text(PLAN.format(ups=ups.ups, blocks=blocks))
    argv = ullage("run", str(tmp_path / "plan.yaml"), "--runs", str(tmp_path / "runs"))
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def energy_rows(folder: Path) -> list[dict[str, Any]]:
    analysis = json.loads(subprocess.check_output(ullage("show", str(folder), "--json")))
    rows: list[dict[str, Any]] = analysis["energy"]
    return rows


def trials(tmp_path: Path) -> int:
    """How many have been journaled."""
    return sum(
        file.read_text().count('"event":"trial"') for file in tmp_path.glob("runs/*/journal.jsonl")
    )


def test_energy_for_the_work_with_its_interval(tmp_path: Path, ups: NutDouble) -> None:
    with feeding_this_host(ups):
        process = run(tmp_path, ups, blocks=6)
        out, err = process.communicate(timeout=1800)
    assert process.returncode == 0, err
    assert "reading the energy meters wall (nut)" in err
    assert "resting 8 s" in err
    (folder,) = (tmp_path / "runs").iterdir()
    by_environment = {row["environment"]: row for row in energy_rows(folder)}
    assert {"native", "container"} <= set(by_environment)
    for name in ("native", "container"):
        energy = by_environment[name]
        assert energy["method"] == "measured"
        assert energy["scope"] == "wall"
        watts = energy["mean_power"]["values"]["median"]
        assert 865 * IDLE / 100 * 0.97 <= watts <= 865 * BUSY / 100 * 1.03
        assert 0 < energy["per_unit"]["low"] <= energy["per_unit"]["high"]
    # Readline has told C of a width of 80 that Python does not know of: what is piped has none.
    wide = dict(os.environ)
    table = subprocess.check_output(ullage("show", str(folder)), text=True, env=wide)
    assert "J per" in table
    assert "measured at the wall" in table
    readings = subprocess.check_output(
        ullage("meter", "energy", str(folder / "meters/wall.jsonl"), "--json"), text=True
    )
    (whole,) = json.loads(readings)
    assert whole["joules"] > sum(1 for _ in RunFolder.open(folder).trials) * 5 * 865 * IDLE / 100
    assert out


def test_upsd_dies_and_comes_back(tmp_path: Path, ups: NutDouble) -> None:
    process = run(tmp_path, ups, blocks=4)
    try:
        eventually(lambda: trials(tmp_path) >= 3, 600)
        ups.kill()
        eventually(lambda: trials(tmp_path) >= 6, 600)
        ups.start()
        _, err = process.communicate(timeout=1800)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert err.count("wall (nut) is faulty (gone)") == 1
    assert "readings failed: gone" in err
    (path,) = (tmp_path / "runs").iterdir()
    folder = RunFolder.open(path)
    assert [trial.status for trial in folder.trials] == ["ok"] * 12
    (stretch,) = series.read(path / "meters/wall.jsonl")
    assert stretch.closed is not None
    last = max(fault.at_ns for fault in stretch.faults)
    assert any(reading.at_ns > last for reading in stretch.readings)


def test_on_battery_is_told_and_has_no_energy(tmp_path: Path, ups: NutDouble) -> None:
    process = run(tmp_path, ups, blocks=2)
    try:
        eventually(lambda: trials(tmp_path) >= 2, 600)
        ups.tell(ups_status="OB DISCHRG", ups_load="33.002")
        _, err = process.communicate(timeout=1800)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert err.count("wall (nut) is faulty (on-battery)") == 1
    (path,) = (tmp_path / "runs").iterdir()
    (stretch,) = series.read(path / "meters/wall.jsonl")
    assert {fault.code for fault in stretch.faults} == {"on-battery"}
