"""One link for all: a namespace, containers and a VM at 100 Mbit/s."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.runkit import ran
from tests.lab.traces import left_by

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
