"""Workloads between instances on two machines: all arrives, and goes where the plan says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from testing.two_nodes.lab import Lab
from tests.lab.traces import left_by
from tests.lab.two_nodes.labkit import clean, folder_of, machines, ullage

__all__ = ["machines"]

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: between
baseline: near
image: {image}
nodes:
  here: {{local: true}}
  a: {{ssh: root@node-a, config: {config}}}
  b: {{ssh: root@node-b, config: {config}}}
network: {{between: {between}}}
resources: {{cpus: 1, memory: 256MiB}}
environments:
  near: {{provider: native}}
  far: {{provider: {far}, place: {{a: 1}}}}
workloads:
{workloads}
blocks: {{min: 1, max: 1}}
seed: 5
"""
IPERF3 = "  - {name: iperf3, vary: {peer: [host, second, away, {environment: near}]}}"
MPI = """\
  - {name: mpi-pingpong, peer: away, max_size: 1KiB, repetitions: 20, warmups: 5}
  - {name: netpipe, peer: away, largest: 1KiB}"""


def planned(place: Path, ours: Lab, workloads: str, **fields: str) -> Path:
    values = {"image": "host", "between": "routes", "far": "native", **fields}
    file = place / "plan.yaml"
    file.write_text(PLAN.format(config=ours.config, workloads=workloads, **values))
    return file


@pytest.mark.parametrize("between", ["routes", "vxlan"])
def test_every_peer_is_where_the_plan_says(machines: Lab, tmp_path: Path, between: str) -> None:
    plan = planned(tmp_path, machines, IPERF3, between=between)
    done = ullage("run", str(plan), "--runs", str(tmp_path / "runs"))
    assert done.returncode == 0, done.stderr
    folder = folder_of(tmp_path / "runs")
    assert {trial.status for trial in folder.trials} == {"ok"}
    titles = {w.key: w.title for w in folder.resolved.workloads}
    assert titles["iperf3[peer=away]"] == "network to an instance on another node, 1 stream"
    facts = folder.resolved.nodes["a"].facts
    assert facts["between"] == f"{between}, MTU {1450 if between == 'vxlan' else 1500}"
    metered = {t.workload for t in folder.trials if t.environment == "far" and t.meters}
    assert metered == {"iperf3[peer=host]", "iperf3[peer=second]"}
    assert not left_by(tmp_path / "runs")
    assert clean(machines, "node-a") == clean(machines, "node-b") == []


def test_messages_between_instances_of_lxc_and_of_native(machines: Lab, tmp_path: Path) -> None:
    plan = planned(tmp_path, machines, MPI, image="built", far="lxc")
    done = ullage("run", str(plan), "--runs", str(tmp_path / "runs"))
    assert done.returncode == 0, done.stderr
    assert {trial.status for trial in folder_of(tmp_path / "runs").trials} == {"ok"}


def test_a_smaller_mtu_of_one_machine_is_that_of_all(machines: Lab, tmp_path: Path) -> None:
    """A bridge takes the least of its ports, so the machine on it tells of no more.

    Where no end can see it, ssh itself does not get through: `tests/host/network/test_between.py`
    has datagrams that are lost.
    """
    plan = planned(tmp_path, machines, IPERF3)
    port = f"{machines.bridge}a"
    subprocess.run(["ip", "link", "set", port, "mtu", "1000"], check=True)
    try:
        done = ullage("run", str(plan), "--runs", str(tmp_path / "runs"))
    finally:
        subprocess.run(["ip", "link", "set", port, "mtu", "1500"], check=True)
    assert done.returncode == 0, done.stderr
    assert "routes, MTU 1000" in (folder_of(tmp_path / "runs").path / "resolved.json").read_text()
    assert not left_by(tmp_path / "runs")
