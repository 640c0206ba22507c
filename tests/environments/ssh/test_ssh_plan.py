"""A whole plan with machines that one reaches by ssh, and one whose service restarts in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testing.ssh.machine import UserMachine
from tests.lab.runkit import finished
from ullage.analysis.overhead import analyse
from ullage.analysis.sentences import answer
from ullage.host import leftovers, user_commands
from ullage.runs.reader import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.usefixtures("agent_binary")]

PLAN = """
name: by-ssh
baseline: native
resources: {{cpus: {cpus}, memory: host}}
allow: [pinning, userland]
environments:
  native: {{provider: native}}
  there: {there}
workloads:
  - {workload}
blocks: {{min: 3, max: 3}}
"""


def plan(machine: UserMachine, workload: str) -> str:
    cpus = len(os.sched_getaffinity(0))
    return PLAN.format(cpus=cpus, there=json.dumps(machine.fields()), workload=workload)


def test_a_plan_with_a_windows(windows: UserMachine, tmp_path: Path) -> None:
    """The way is a Windows' own; what stands at its end is Wine, and every sentence says so."""
    text = plan(windows, "{name: basics, test: cpu, events: 20}")
    status, folder = finished(tmp_path, text)
    assert status == 0
    trials = [trial for trial in folder.trials if trial.environment == "there"]
    assert [trial.status for trial in trials] == ["ok"] * 3
    (sentence,) = [line for line in answer(analyse(folder)) if "(Windows)" in line]
    assert "(not Windows) against Debian 12, as the plan allows" in sentence
    assert windows.left() == []
    secret = (windows.keys / "user").read_bytes()[60:120]
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or secret not in file.read_bytes(), file


def test_a_service_that_restarts_costs_one_trial(linux: UserMachine, tmp_path: Path) -> None:
    """Cut off in the midst of its first trial: that one has no figures, and says why."""
    file, runs = tmp_path / "plan.yaml", tmp_path / "runs"
    file.write_text(plan(linux, "{name: command, argv: [sleep, '3.25']}"))
    argv = [sys.executable, "-m", "ullage", "run", str(file), "--runs", str(runs)]
    with subprocess.Popen(argv) as controller:
        while not linux.runs("sleep", "3.25") and controller.poll() is None:
            time.sleep(0.05)
        assert linux.hang_up() > 0
    assert controller.returncode == 3
    folder = RunFolder.open(next(runs.iterdir()))
    trials = [trial for trial in folder.trials if trial.environment == "there"]
    assert [trial.status for trial in trials] == ["failed", "ok", "ok"]
    assert "ssh-lost" in trials[0].model_dump_json()
    assert linux.left() == []


def test_a_killed_run_is_cleaned(linux: UserMachine, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(plan(linux, "{name: command, argv: [sleep, '1']}"))
    argv = [sys.executable, "-m", "ullage", "run", str(file), "--runs", str(tmp_path / "runs")]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as controller:
        while not linux.left() and controller.poll() is None:
            time.sleep(0.05)
        controller.kill()
    (name,) = linux.left()
    tag = name.split("-")[1]
    assert [r.name for r in user_commands.records() if r.tag == tag] == [name]
    remains = leftovers.find(tag)
    assert leftovers.remove(remains) == []
    assert linux.left() == []
