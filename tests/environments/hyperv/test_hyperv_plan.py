"""A whole plan with a machine of a Hyper-V host: a run, its folder, and what it has left."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testing.hyperv.host import HypervDouble
from tests.lab.runkit import finished
from ullage.analysis.overhead import analyse
from ullage.analysis.sentences import answer
from ullage.host import leftovers, user_commands

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.usefixtures("agent_binary")]

PLAN = """
name: hyper-v
baseline: native
resources: {{cpus: {cpus}, memory: host}}
allow: [pinning]
environments:
  native: {{provider: native}}
  vm: {vm}
workloads:
  - {{name: command, argv: [sha256sum, /bin/bash]}}
blocks: {{min: 3, max: 3}}
"""


def plan(hyperv: HypervDouble) -> str:
    return PLAN.format(cpus=hyperv.state["cpus"], vm=json.dumps(hyperv.plan()))


def test_a_plan_runs_there(hyperv: HypervDouble, tmp_path: Path) -> None:
    status, folder = finished(tmp_path, plan(hyperv))
    assert status == 0
    trials = [trial for trial in folder.trials if trial.environment == "vm"]
    assert [trial.status for trial in trials] == ["ok"] * 3
    (record,) = [e for e in folder.resolved.environments if e.key == "vm"]
    (native,) = [e for e in folder.resolved.environments if e.key == "native"]
    assert record.label == "hyperv"
    assert record.nuisances["pinning"] == "by Hyper-V"
    assert record.nuisances["userland"] == native.nuisances["userland"], "the same bytes"
    assert "a double" in record.treatments["hypervisor"]
    calls = hyperv.state["calls"]
    assert calls.count("Suspend-VM") >= 3, "what is idle stands still"
    assert calls.count("Remove-VM") == calls.count("New-VM") == 1
    assert hyperv.left() == []
    assert not [r for r in user_commands.records() if "hv1" in r.listing]
    secret = (hyperv.folder / "guest").read_bytes()[60:120]
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or secret not in file.read_bytes(), file


def is_made(hyperv: HypervDouble) -> bool:
    """Its host has said so: before that one may still come, and its record would stay."""
    tags = {name.split("-")[1] for name in hyperv.left()}
    return any(one.tag in tags and not one.may_come for one in user_commands.records())


def test_a_killed_run_is_cleaned(hyperv: HypervDouble, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(plan(hyperv))
    argv = [sys.executable, "-m", "ullage", "run", str(file), "--runs", str(tmp_path / "runs")]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as controller:
        while not is_made(hyperv) and controller.poll() is None:
            time.sleep(0.05)
        controller.kill()
    (name,) = set(hyperv.left())
    tag = name.split("-")[1]
    remains = leftovers.find(tag)
    assert "command" in {leftover.kind for leftover in remains}
    assert leftovers.remove(remains) == []
    assert hyperv.left() == []
    assert leftovers.find(tag) == []


WINDOWS = """
name: windows-on-hyper-v
baseline: native
resources: {{cpus: {cpus}, memory: host}}
allow: [pinning, userland]
environments:
  native: {{provider: native}}
  windows: {vm}
workloads:
  - {{name: basics, test: cpu, events: 20}}
blocks: {{min: 3, max: 3}}
"""


def test_a_plan_with_a_windows_guest(hyperv: HypervDouble, tmp_path: Path) -> None:
    """The way is a Windows' own; what stands at its end is Wine, and every sentence says so."""
    parent = hyperv.folder / "c/images/debian.vhdx"
    parent.write_text(json.dumps({**json.loads(parent.read_text()), "windows": True}))
    vm = json.dumps(hyperv.plan(guest="windows"))
    status, folder = finished(tmp_path, WINDOWS.format(cpus=hyperv.state["cpus"], vm=vm))
    assert status == 0
    trials = [trial for trial in folder.trials if trial.environment == "windows"]
    assert [trial.status for trial in trials] == ["ok"] * 3
    (sentence,) = [line for line in answer(analyse(folder)) if "hyperv (Windows)" in line]
    assert "(not Windows) against Debian 12, as the plan allows" in sentence
    assert hyperv.left() == []
