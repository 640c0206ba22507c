"""Elastic runs whose nodes stand on two machines with real sshd, and viewers of this one."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from testing.two_nodes.lab import Lab, lab
from tests.lab.traces import left_with
from tests.lab.two_nodes.labkit import clean, machines, ullage
from ullage.common import errors
from ullage.experiments.elastic import folder
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.folder import Lost, Ready, Retried
from ullage.runs.events import Started

__all__ = ["machines"]

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: two-machines
machines:
{machines}
place: {place}
between: {between}
room: 1
resources: {{cpus: 1, memory: 128MiB}}
environments:
  container: {{provider: {provider}}}
arrivals: {{kind: uniform, rate: 1, viewers: {viewers}}}
video: {{length: {length}s, bitrate: 200000, generate: bytes}}
patience: 60s
nodes: {{max: {viewers}, min: {kept}, allocation: one_per_need}}
repetitions: {repetitions}
lateness_limit: 30
budgets: {{allocate: {{tries: 4, limit: 60}}}}
seed: 3
"""
AWAY = """\
  a: {{ssh: root@node-a, config: {config}}}
  b: {{ssh: root@node-b, config: {config}}}"""
USUAL = {
    "place": "spread",
    "between": "routes",
    "provider": "lxc",
    "viewers": 4,
    "length": 6,
    "kept": 0,
    "repetitions": 2,
}


def planned(folder_of: Path, ours: Lab, *, here: bool, **fields: object) -> Path:
    names = AWAY.format(config=ours.config)
    if here:
        names = "  here: {local: true}\n" + names
    file = folder_of / "plan.yaml"
    file.write_text(PLAN.format(machines=names, **{**USUAL, **fields}), encoding="utf-8")
    return file


def opened(runs: Path) -> ElasticRun:
    (path,) = runs.iterdir()
    return ElasticRun.open(path)


def left_by(runs: Path) -> list[str]:
    (path,) = runs.iterdir()
    events = folder.read_events(path)
    return left_with({event.tag for event in events if isinstance(event, Started)})


def ready(run: ElasticRun, number: int) -> list[Ready]:
    return [act for act in run.repetitions[number].acts if isinstance(act, Ready)]


def test_viewers_are_served_from_three_machines(machines: Lab, tmp_path: Path) -> None:
    plan = planned(tmp_path, machines, here=True, kept=3)
    done = ullage("elastic", "run", str(plan), "--runs", str(tmp_path / "runs"))
    assert done.returncode == 0, done.stderr
    run = opened(tmp_path / "runs")
    assert [r.status for r in run.repetitions] == ["ok", "ok"]
    served = [s for r in run.repetitions for s in r.sessions if s.outcome == "served"]
    assert len(served) == 8
    assert {act.machine for act in ready(run, 0)} == {"here", "a", "b"}
    by_address = {act.address: act.machine for act in ready(run, 0)}
    watched = {by_address[s.node] for s in run.repetitions[0].sessions if s.node in by_address}
    assert watched == {"here", "a", "b"}  # through the front, from each of them
    copies = {number: longest_copies(run, number) for number in (0, 1)}
    for name in ("a", "b"):  # sent once, and then there
        assert copies[0][name] > 10 * copies[1][name]
    assert run.resolved.machines["a"].address == "root@node-a"
    assert "longest TcI" in done.stdout
    assert not left_by(tmp_path / "runs")
    assert clean(machines, "node-a") == clean(machines, "node-b") == []


def longest_copies(run: ElasticRun, number: int) -> dict[str, float]:
    copies: dict[str, float] = {}
    for act in ready(run, number):
        copies[act.machine] = max(copies.get(act.machine, 0.0), act.stages["TcI"])
    return copies


def test_packed_over_vxlan_and_none_on_this_machine(machines: Lab, tmp_path: Path) -> None:
    plan = planned(
        tmp_path,
        machines,
        here=False,
        place="pack",
        between="vxlan",
        provider="oci",
        kept=3,
        repetitions=1,
    )
    done = ullage("elastic", "run", str(plan), "--runs", str(tmp_path / "runs"))
    assert done.returncode == 0, done.stderr
    run = opened(tmp_path / "runs")
    places = [act.machine for act in sorted(ready(run, 0), key=lambda act: act.node)]
    cpus = len(run.resolved.machines["a"].facts["cpus"])
    assert places[: cpus + 1] == ["a"] * cpus + ["b"]
    assert {s.outcome for s in run.repetitions[0].sessions} == {"served"}
    assert not left_by(tmp_path / "runs")
    assert clean(machines, "node-a") == clean(machines, "node-b") == []


def test_a_machine_that_dies_takes_its_nodes_and_not_the_run(tmp_path: Path) -> None:
    with lab() as ours:
        for name in ours.machines:
            ullage("node", "install", f"root@{name}", "--node-config", str(ours.config))
        plan = planned(tmp_path, ours, here=False, viewers=6, length=20)
        runs = tmp_path / "runs"
        argv = [sys.executable, "-m", "ullage", "elastic", "run", str(plan), "--runs", str(runs)]
        process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
        while not streams_on(runs, "a"):
            assert process.poll() is None, "it ended too early"
            time.sleep(0.05)
        ours.machines["node-a"].kill()
        _, stderr = process.communicate(timeout=900)
        assert process.returncode == 0, stderr
        assert clean(ours, "node-b") == []
    run = opened(runs)
    lost = [act for act in run.repetitions[0].acts if isinstance(act, Lost)]
    assert {act.machine for act in lost} == {"a"}
    assert all("the node a is gone" in act.why for act in lost)
    failed = [act for act in run.repetitions[0].acts if isinstance(act, Retried)]
    # Of what was just being made there: it may have been nothing.
    assert {act.code for act in failed if act.what == "allocate"} <= {errors.NODE_LOST.code}
    after = [act for act in ready(run, 0) if act.at_ns > lost[0].at_ns]
    assert after and {act.machine for act in after} == {"b"}
    assert {act.machine for act in ready(run, 1)} == {"b"}
    assert errors.NODE_LOST.code in {warning.code for warning in run.warnings}
    assert {s.outcome for s in run.repetitions[1].sessions} == {"served"}
    assert not left_by(runs)


def streams_on(runs: Path, machine: str) -> bool:
    """Has a node there been told to the front?"""
    for log in runs.glob(f"*/{folder.REPETITIONS}/*/000/{folder.CONTROLLER_LOG}"):
        acts = folder.read_acts(log.parent)
        if any(isinstance(act, Ready) and act.machine == machine for act in acts):
            return True
    return False


def test_a_link_that_lets_no_viewer_through_is_an_error(machines: Lab, tmp_path: Path) -> None:
    """Between its instances and others all may pass: what this machine itself sends does not."""
    plan = planned(tmp_path, machines, here=False)
    gateways = ("-s", "10.213.0.1/255.255.0.255", "-j", "DROP")  # of each subnet the first address
    machines.machines["node-b"].run("iptables", "-I", "FORWARD", *gateways)
    try:
        done = ullage("elastic", "run", str(plan), "--runs", str(tmp_path / "runs"))
    finally:
        machines.machines["node-b"].run("iptables", "-D", "FORWARD", *gateways)
    assert f"error[{errors.NODE_NETWORK.code}]" in done.stderr
    assert "from the front and the viewers" in done.stderr
    assert not left_by(tmp_path / "runs")
    assert clean(machines, "node-a") == clean(machines, "node-b") == []
