"""Noisy neighbours that are real VMs, beside a container."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab.traces import left_by
from ullage.plan import neighbours
from ullage.runs.reader import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: beside
baseline: container
resources: {cpus: 1, memory: 512MiB}
environments:
  container: {provider: oci}
  vm: {provider: qemu}
  noisy: {provider: oci, neighbour: {environment: vm}}
  film: {provider: oci, neighbour: {program: ffmpeg, environment: vm, cpus: other}}
workloads:
  - {name: sysbench-cpu, time_s: 2}
blocks: {min: 1, max: 1}
"""


def host_cpus_of_vms() -> dict[str, str]:
    """The VMs that run on this host, by name → the CPUs that they may use."""
    cpus_by_name = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            argv = (process / "cmdline").read_text().split("\0")
            if "qemu-system" in argv[0] and "-name" in argv:
                name = argv[argv.index("-name") + 1].partition(",")[0]
                status = (process / "status").read_text()
                cpus_by_name[name] = status.partition("Cpus_allowed_list:")[2].split()[0]
    return cpus_by_name


def test_a_vm_works_beside_a_container(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    argv = [sys.executable, "-m", "ullage", "run", str(plan), "--json"]
    argv += ["--runs", str(tmp_path / "runs")]
    pinned: dict[str, str] = {}
    summary = tmp_path / "summary.json"
    with summary.open("wb") as stdout, subprocess.Popen(argv, stdout=stdout) as running:
        while running.poll() is None:  # nobody would read a pipe here, and the summary fills one
            pinned |= host_cpus_of_vms()  # the last look: while it boots it may be elsewhere
            time.sleep(0.2)
    assert running.returncode == 0
    assert not left_by(tmp_path / "runs")
    folder = RunFolder.open(Path(json.loads(summary.read_text())["folder"]))
    facts = {instance.instance: instance.facts for instance in folder.provisioned}
    for trial in folder.trials:
        assert trial.status == "ok", trial.reason
        neighbour_roles = [role for role in trial.roles if role.role.startswith(neighbours.ROLE)]
        (main,) = [role for role in trial.roles if role.role == "main"]
        assert len(neighbour_roles) == (trial.environment in ("noisy", "film"))
        for role in neighbour_roles:
            assert facts[role.instance]["hypervisor"].startswith("qemu")
            assert role.start_ns < main.start_ns and main.end_ns < role.end_ns
            assert role.usage is not None and role.usage.user_s > 0
            own = ",".join(map(str, facts[main.instance]["cpus_allowed"]))
            assert (pinned[role.instance] == own) == (trial.environment == "noisy"), "CPUs"
    labels = {environment.key: environment.label for environment in folder.resolved.environments}
    assert "beside stress-ng" in labels["noisy"] and "beside ffmpeg" in labels["film"]
