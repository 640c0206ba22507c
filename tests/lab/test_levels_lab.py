"""Generations, iterations and duets with real containers and guests, and under `kill -9`."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.lab.runkit import ran
from tests.lab.traces import left_by
from ullage.runs.reader import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: levels
baseline: native
resources: {cpus: 1, memory: 256MiB}
environments:
  native: {provider: native}
  container: {provider: oci}
"""
GUESTS = """\
  lxc: {provider: lxc}
  vm: {provider: qemu}
"""
BOOT = """\
workloads:
  - name: command
    argv: [sh, -c, "cat /proc/sys/kernel/random/boot_id; echo >> log; wc -l < log"]
"""
NAMES = {"native", "native~again", "container", "lxc", "vm"}


def test_generations_of_real_environments(tmp_path: Path) -> None:
    folder = ran(
        tmp_path,
        f"{PLAN}{GUESTS}{BOOT}  - {{name: iperf3, time_s: 1}}\n"
        "blocks: {min: 4, max: 4}\nrepeat: {instances: 2, iterations: 2}\n",
    )
    assert [(t.trial, t.reason) for t in folder.trials if t.status != "ok"] == []
    created = Counter(
        (instance.environment, instance.generation) for instance in folder.provisioned
    )
    assert created == {("host", 0): 1} | {(name, i): 1 for name in NAMES for i in (0, 1)}
    boots: dict[str, set[str]] = {name: set() for name in NAMES}
    for trial in folder.trials:
        assert trial.generation == trial.block // 2
        assert len(trial.iterations) == 2
        if trial.workload == "iperf3":
            assert [role.role for role in trial.roles[:2]] == ["server-i00", "client-i00"]
            continue
        for number, role in enumerate(trial.roles, start=1):
            boot, count = (folder.path / str(role.stdout)).read_text().split()
            assert int(count) == 2 * (trial.block % 2) + number, "an old instance, or its data"
            boots[trial.environment].add(boot)
    once = dict.fromkeys(NAMES, 1) | {"vm": 2, "lxc": 2}  # LXC names each start of a container
    assert {name: len(ids) for name, ids in boots.items()} == once


def test_a_duet_of_real_environments(tmp_path: Path) -> None:
    folder = ran(
        tmp_path,
        f"{PLAN}{GUESTS}design: duet\nworkloads:\n  - {{name: sysbench-cpu, time_s: 1}}\n"
        "blocks: {min: 4, max: 4}\nrepeat: {instances: 2}\n",
    )
    assert folder.complete_blocks == (0, 1, 2, 3)
    ok = [trial for trial in folder.trials if trial.status == "ok"]
    # A busy machine may hold one of two up; then it is told, and both are out.
    lost = {trial.reason.code for trial in folder.trials if trial.reason}
    assert lost <= {"not-beside"} and len(ok) >= len(folder.trials) // 2
    sides = Counter((t.environment, t.side) for t in folder.trials if t.partner == "native")
    assert sides == {(name, side): 2 for name in NAMES - {"native"} for side in (0, 1)}
    trial_of = {(trial.block, trial.environment, trial.partner): trial for trial in ok}
    for (block, environment, partner), trial in trial_of.items():
        assert partner is not None
        partner_trial = trial_of[block, partner, environment]
        assert {trial.side, partner_trial.side} == {0, 1}
        both = min(trial.end_ns, partner_trial.end_ns) - max(trial.start_ns, partner_trial.start_ns)
        assert both > 0.8e9


TRIALS = 12 * 2 * 2
KILLS = 8


def test_duets_killed_again_and_again(tmp_path: Path) -> None:
    rng = random.Random(6)
    plan, runs = tmp_path / "plan.yaml", tmp_path / "runs"
    plan.write_text(
        f"{PLAN}design: duet\nworkloads:\n  - {{name: command, argv: [sleep, '0.3']}}\n"
        "blocks: {min: 12, max: 12}\nrepeat: {instances: 3}\nseed: 2\n"
    )
    program = [sys.executable, "-m", "ullage"]
    subprocess.run([*program, "image", "build", str(plan)], check=True, capture_output=True)
    argv = [*program, "run", str(plan), "--runs", str(runs)]
    for _ in range(KILLS):
        controller = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(1.0, 8.0))
        controller.send_signal(signal.SIGKILL)
        controller.wait()
        if runs.exists() and any(runs.glob("*/journal.jsonl")):
            argv = [*program, "run", "--resume", str(next(runs.iterdir())), "--runs", str(runs)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    folder = RunFolder.open(next(runs.iterdir()))
    assert len(folder.sessions) > 1, "it was always killed too early"
    assert len(folder.trials) == TRIALS and len(folder.complete_blocks) == 12
    assert all(trial.generation == trial.block // 3 for trial in folder.trials)
    halves = {(t.block, t.environment, t.partner) for t in folder.trials}
    assert all((block, partner, environment) in halves for block, environment, partner in halves)
    subprocess.run([*program, "clean", "--yes"], check=True, capture_output=True)
    assert not left_by(runs)
