"""Two providers, two workloads, two factors: run, interrupted with Ctrl-C, resumed, reported."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab.traces import left_by
from ullage.runs.reader import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: factors
baseline: native
resources: {cpus: 2, memory: 512MiB}
environments:
  native: {provider: native}
  container: {provider: oci}
  vm: {provider: qemu, vary: {nic: [virtio, e1000]}}
workloads:
  - {name: sysbench-cpu, time_s: 1, vary: {threads: [1, 2]}}
  - {name: iperf3, time_s: 1}
blocks: {min: 2, max: 3}
"""
ENVIRONMENTS = {"native", "native~again", "container", "vm[nic=virtio]", "vm[nic=e1000]"}
WORKLOADS = {"sysbench-cpu[threads=1]", "sysbench-cpu[threads=2]", "iperf3"}


def command(*argv: str) -> list[str]:
    return [sys.executable, "-m", "ullage", *argv]


def journaled(runs: Path) -> int:
    """Trials in the journal by now."""
    return sum(
        line.startswith(b'{"event":"trial"')
        for path in runs.glob("*/journal.jsonl")
        for line in path.read_bytes().splitlines()
    )


def test_a_plan_with_factors_is_interrupted_and_resumed(tmp_path: Path) -> None:
    plan, runs = tmp_path / "plan.yaml", tmp_path / "runs"
    plan.write_text(PLAN)
    first = subprocess.Popen(
        command("run", str(plan), "--runs", str(runs)), stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 300
    while journaled(runs) < 20:  # in the second block
        assert time.monotonic() < deadline
        assert first.poll() is None
        time.sleep(0.1)
    first.send_signal(signal.SIGINT)
    _, stderr = first.communicate(timeout=120)
    assert first.returncode == 130, stderr
    assert "ullage run --resume" in stderr
    assert not left_by(runs)
    done = journaled(runs)
    (folder,) = runs.iterdir()
    resumed = subprocess.run(
        command("run", "--resume", str(folder), "--runs", str(runs)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert resumed.returncode == 0, resumed.stderr
    assert "qemu-tcg (emulated), nic e1000" in resumed.stdout or "qemu-kvm" in resumed.stdout
    run = RunFolder.open(folder)
    cells = [(trial.block, trial.environment, trial.workload) for trial in run.trials]
    assert len(cells) == len(set(cells)) == 3 * 5 * 3
    assert done < len(cells)
    assert {environment for _, environment, _ in cells} == ENVIRONMENTS
    assert {workload for _, _, workload in cells} == WORKLOADS
    assert all(trial.status == "ok" for trial in run.trials)
    assert (folder / "report.html").stat().st_size > 100_000
    show = subprocess.run(
        command("show", str(folder), "--json"), capture_output=True, text=True, check=True
    )
    assert len(json.loads(show.stdout)["comparisons"]) >= 3 * 3
    assert not left_by(runs)
