"""Podman as the runtime: a run, and what a killed one leaves."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab.traces import left_by
from ullage.runs.reader import RunFolder, newest_run

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: podman
baseline: native
resources: {cpus: 1, memory: 512MiB}
environments:
  native: {provider: native}
  container: {provider: oci, runtime: podman}
workloads:
  - {name: iperf3, time_s: 1}
  - {name: sysbench-fileio, total_size: 64MiB, files: 2, time_s: 1}
blocks: {min: 2, max: 2}
"""


def command(*argv: str) -> list[str]:
    return [sys.executable, "-m", "ullage", *argv]


def containers() -> str:
    done = subprocess.run(["podman", "ps", "--all"], capture_output=True, text=True, check=True)
    return done.stdout


def test_a_run_with_podman(tmp_path: Path) -> None:
    plan, runs = tmp_path / "plan.yaml", tmp_path / "runs"
    plan.write_text(PLAN)
    done = subprocess.run(
        command("run", str(plan), "--runs", str(runs)), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    folder = RunFolder.open(newest_run(runs))
    assert [trial.status for trial in folder.trials] == ["ok"] * (2 * 3 * 2)
    assert "container (podman)" in done.stdout
    assert "ullage-u" not in containers()
    assert left_by(runs) == []


def test_what_a_killed_run_leaves(tmp_path: Path) -> None:
    plan, runs = tmp_path / "plan.yaml", tmp_path / "runs"
    plan.write_text(PLAN)
    killed = subprocess.Popen(
        command("run", str(plan), "--runs", str(runs)), stderr=subprocess.DEVNULL
    )
    while not list(runs.glob("*/trials/*")):
        assert killed.poll() is None
        time.sleep(0.05)
    killed.kill()
    killed.wait()
    assert "ullage-u" in containers()
    cleaned = subprocess.run(command("clean", "--yes"), capture_output=True, text=True, check=False)
    assert cleaned.returncode == 0, cleaned.stderr
    assert "ullage-u" not in containers()
    assert left_by(runs) == []
