"""Real viewers of a real NGINX, native, in containers and VMs: a search, and a number given."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.traces import left_by
from ullage.folder import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root]

# This machine may be busy: here it matters that everything works, not how late.
SMALL = "bitrate: 200000, chunk: 16384, step_s: 2, late_limit_s: 60"
PLAN = f"""\
name: streaming
baseline: native
resources: {{cpus: 1, memory: 256MiB}}
environments:
  native: {{provider: native, instances: 2}}
  container: {{provider: oci, instances: 2}}
blocks: {{min: 1, max: 1}}
workloads:
  - {{name: streaming, as: searched, start: 1, cap: 2, {SMALL}}}
  - {{name: streaming, as: film, viewers: 4, clip: h264, {SMALL}}}
  - {{name: streaming, as: spread, viewers: 5, servers: each, client: second, {SMALL}}}
"""


def run(tmp_path: Path, text: str) -> RunFolder:
    """The plan, run whole; some of its trials may have no figure."""
    plan = tmp_path / "plan.yaml"
    plan.write_text(text)
    argv = [sys.executable, "-m", "ullage.cli", "run", str(plan), "--json"]
    done = subprocess.run(
        [*argv, "--runs", str(tmp_path / "runs")], capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 3), done.stderr
    assert not left_by(tmp_path / "runs")
    (path,) = (tmp_path / "runs").iterdir()
    return RunFolder.open(path)


def test_native_and_in_a_container(tmp_path: Path) -> None:
    folder = run(tmp_path, PLAN)
    assert {trial.environment for trial in folder.trials} >= {"native", "container"}
    for trial in folder.trials:
        assert all(role.status in (0, 1) for role in trial.roles), trial.reason
        if trial.reason is not None:
            # Two viewers ask little, so the cap is the limit; else this machine stood still.
            assert trial.status == "invalid" and not trial.metrics
            assert re.search("^no figure: |began so late", trial.reason.message), trial.reason
            continue
        most = {"searched": 1, "film": 4, "spread": 5}[trial.workload]
        viewers, rate = trial.metrics["viewers"], trial.metrics["rate"]
        assert isinstance(viewers, float) and 0 <= viewers <= most
        assert isinstance(rate, float) and rate > 0
        assert trial.facts["clip"] == ("h264" if trial.workload == "film" else "bytes")
        if trial.workload == "spread":
            assert [role.role for role in trial.roles] == ["server-0", "server-1", "client"]


# A quarter of a CPU, so that it is the servers that come to their end, and not the viewers.
LIMITED = """\
name: streaming-limit
resources: {cpus: 0.25, memory: 256MiB}
baseline: container
environments:
  container: {provider: lxc}
  vm: {provider: qemu, boot: agent}
blocks: {min: 1, max: 1}
workloads:
  - {name: streaming, bitrate: 1000000, chunk: 32768, start: 4, cap: 8192, step_s: 4,
     resolution: 0.4, late_limit_s: 60}
"""


def test_how_many_a_container_and_an_emulated_machine_sustain(tmp_path: Path) -> None:
    trials = run(tmp_path, LIMITED).trials
    assert {trial.environment for trial in trials} >= {"container", "vm"}
    for trial in trials:
        if trial.reason is not None:
            # The viewers came to their own end, or this machine stood still.
            assert trial.status == "invalid" and not trial.metrics
            assert re.search("^no figure: |began so late", trial.reason.message), trial.reason
            continue
        viewers, cpus = trial.metrics["viewers"], trial.metrics["server_cpus"]
        assert isinstance(viewers, float) and 1 <= viewers < 8192
        assert isinstance(cpus, float) and cpus > 0
        assert "not-sustained" in trial.facts["steps"]
