"""A run over the machines of an allocation, on a real slurmctld with two slurmd."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from testing.slurm.cluster import Cluster, cluster
from tests.lab.traces import left_by
from ullage.runs.reader import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: slurm
baseline: one
image: host
nodes: {n: {slurm: 2}}
resources: {cpus: 1, memory: 128MiB}
environments:
  one: {provider: native, place: {n1: 1}}
  two: {provider: native, place: {n2: 1}}
workloads: [{name: command, argv: [sleep, "%s"]}]
blocks: {min: %d, max: %d}
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[Cluster]:
    with cluster() as ours:
        yield ours


def within(allocation: Mapping[str, str], place: Path) -> dict[str, str]:
    """The same, with a home of its own on both machines."""
    return {**allocation, "HOME": str(place)}


def ullage(env: Mapping[str, str], *argv: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "ullage", *argv]
    return subprocess.run(
        program, env=env, capture_output=True, text=True, check=False, timeout=1200
    )


def planned(place: Path, seconds: str, blocks: int) -> str:
    plan = place / "plan.yaml"
    plan.write_text(PLAN % (seconds, blocks, blocks), encoding="utf-8")
    return str(plan)


def test_a_run_in_an_allocation(slurm: Cluster, tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    plan = planned(tmp_path, "0.01", 2)
    with slurm.allocation(2) as allocation:
        env = within(allocation, tmp_path)
        missing = ullage(env, "run", plan, "--runs", runs)
        assert "node-not-installed" in missing.stderr and "slurm:lab1" in missing.stderr
        assert ullage(env, "node", "install", "slurm:lab1").returncode == 0
        done = ullage(env, "run", plan, "--runs", str(tmp_path / "good"))
        assert done.returncode == 0, done.stderr
        left = ullage(env, "clean", "--dry-run", "--json", "--node", "slurm:lab2")
    (path,) = (tmp_path / "good").iterdir()
    folder = RunFolder.open(path)
    assert {trial.status for trial in folder.trials} == {"ok"}
    addresses = {name: node.address for name, node in folder.resolved.nodes.items()}
    assert addresses == {"n1": "slurm:lab1", "n2": "slurm:lab2"}
    assert not left_by(tmp_path / "good")
    assert not [one for one in json.loads(left.stdout) if str(tmp_path) in (one["run"] or "")]


def test_an_allocation_that_ends(slurm: Cluster, tmp_path: Path) -> None:
    plan, runs = planned(tmp_path, "1", 6), tmp_path / "runs"
    with slurm.allocation(2) as allocation:
        env = within(allocation, tmp_path)
        assert ullage(env, "node", "install", "slurm:lab1").returncode == 0
        argv = [sys.executable, "-m", "ullage", "run", plan, "--runs", str(runs)]
        run = subprocess.Popen(argv, env=env, stderr=subprocess.PIPE, text=True)
        worked = wait_for_trials(runs, 4)
    _, words = run.communicate(timeout=600)
    assert run.returncode == 3 and "node-allocation" in words, words
    (path,) = runs.iterdir()
    trials = RunFolder.open(path).trials
    assert sum(trial.status == "ok" for trial in trials) >= worked
    lost = [trial.reason.code for trial in trials if trial.reason]
    assert len(lost) == 1 and lost[0] in {"node-lost", "agent-lost"}
    with slurm.allocation(2) as allocation:
        again = ullage(within(allocation, tmp_path), "run", "--resume", str(path))
    assert again.returncode == 3, again.stderr  # a trial was lost, and says so
    folder = RunFolder.open(path)
    assert len(folder.complete_blocks) == 6
    assert {trial.status for trial in folder.trials[len(trials) :]} == {"ok"}


def wait_for_trials(runs: Path, count: int) -> int:
    for _ in range(6000):
        for journal in runs.glob("*/journal.jsonl"):
            if (number := journal.read_text("utf-8").count('"event":"trial"')) >= count:
                return number
        time.sleep(0.1)
    raise AssertionError("no trials")
