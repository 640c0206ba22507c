"""One link for all: a namespace, containers and a VM at 100 Mbit/s; and a NIC that vanishes."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab.runkit import ran
from tests.lab.traces import left_by
from ullage.runs.reader import RunFolder, sessions

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: links
baseline: native
resources: {cpus: 1, memory: 256MiB}
network: {rate: 100Mbit}
environments:
  native: {provider: native}
  crun: {provider: oci}
  lxc: {provider: lxc}
  vm: {provider: qemu, accel: tcg}
workloads:
  - {name: iperf3, time_s: 2, vary: {peer: [host, second, away]}}
blocks: {min: 1, max: 1}
"""
RATE = 100e6


def test_every_environment_has_the_same_link(tmp_path: Path) -> None:
    folder = ran(tmp_path, PLAN)
    assert [(t.trial, t.workload, t.reason) for t in folder.trials if t.status != "ok"] == []
    assert folder.resolved.network == {"rate": RATE, "queue": 0.01}
    assert {trial.environment for trial in folder.trials} >= {"native", "crun", "lxc", "vm"}
    for trial in folder.trials:
        # A full bucket goes through at once; an emulated CPU may not fill the link.
        least = 0.01 if trial.environment == "vm" else 0.5
        throughput = trial.metrics["throughput"]
        assert isinstance(throughput, float)
        assert least * RATE < throughput < 1.01 * RATE, trial.trial
    page = (folder.path / "report.html").read_text(encoding="utf-8")
    assert "link carries 100 Mbit/s each way" in page
    assert left_by(folder.path.parent) == []


VANISHING = """\
name: vanishing
baseline: native
resources: {cpus: 1, memory: 256MiB}
environments:
  native: {provider: native}
  crun: {provider: oci}
workloads:
  - {name: iperf3, time_s: 1}
blocks: {min: 3, max: 3}
seed: 1
"""


def test_a_nic_that_vanishes_costs_the_trials_of_its_own_environment(tmp_path: Path) -> None:
    file, runs = tmp_path / "plan.yaml", tmp_path / "runs"
    file.write_text(VANISHING)
    argv = [sys.executable, "-m", "ullage", "run", str(file), "--runs", str(runs)]
    with subprocess.Popen(argv) as controller:
        while not list(runs.glob("*/trials/*")):
            assert controller.poll() is None
            time.sleep(0.2)  # pytest's own time limit ends this
        (run,) = runs.iterdir()
        (session,) = sessions(run)
        place = f"{session.tag}-crun-0"
        subprocess.run(["ip", "-n", place, "link", "delete", "dev", "eth0"], check=True)
        assert controller.wait() == 3, "some trials have no figures"
    folder = RunFolder.open(run)
    gone = {t.environment: t.reason for t in folder.trials if t.block == 2 and t.reason}
    assert list(gone) == ["crun"]
    assert "unreachable" in str(gone["crun"]), gone
    assert not [t for t in folder.trials if t.reason and t.environment != "crun"]
    assert left_by(runs) == []
