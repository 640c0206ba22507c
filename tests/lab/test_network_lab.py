"""The network's workloads between environments, over one bridge and over two, in one image."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.runkit import ran
from tests.lab.traces import left_by
from tests.support.enginekit import run
from ullage.workloads.base import Context, Task
from ullage.workloads.network.connections import Connections, ConnectionsParameters

pytestmark = [pytest.mark.lab, pytest.mark.root]

PLAN = """\
name: network
baseline: native
resources: {cpus: 1, memory: 256MiB}
environments:
  native: {provider: native}
  container: {provider: oci}
workloads:
  - {name: iperf3, vary: {peer: [away, {environment: native}, {environment: container}]}}
  - {name: iperf3, as: udp, protocol: udp, bitrate: 10000000, peer: second}
  - {name: netpipe, largest: 1KiB, repeats: 3, vary: {peer: [away, {environment: container}]}}
  - {name: connections, time_s: 0.3, vary: {peer: [host, away, {environment: container}]}}
  - {name: connections, as: paced, time_s: 0.3, rate: 100, late_limit_s: 10, close: client}
  - {name: flood-ping, count: 500, vary: {peer: [second, away]}}
blocks: {min: 1, max: 1}
"""


def test_every_workload_meets_every_environment(tmp_path: Path) -> None:
    folder = ran(tmp_path, PLAN)
    assert [(t.trial, t.workload, t.reason) for t in folder.trials if t.status != "ok"] == []
    met = set()
    for trial in folder.trials:
        mine, theirs = (
            {role.instance.rpartition("-")[0] for role in trial.roles if role.role in names}
            for names in (("client", "sender", "prober"), ("server", "receiver"))
        )
        assert mine == {trial.environment.replace("~", "-")}
        if "environment:" in trial.workload:
            named = trial.workload.partition("environment:")[2].rstrip("]")
            assert theirs == {named}
            met.add((trial.environment, named))
        assert trial.metrics
    assert met == {
        (client, server)
        for client in ("native", "native~again", "container")
        for server in ("native", "container")
    }
    titles = {load.key: load.title for load in folder.resolved.workloads}
    assert titles["iperf3[peer=environment:container]"] == "network to container, 1 stream"
    assert titles["iperf3[peer=away]"] == (
        "network to an instance on a second bridge of this host, 1 stream"
    )


def test_too_few_ports_fail_the_trial_with_the_reason(tmp_path: Path) -> None:
    """So that no figure is that of a generator which ran out of ports."""
    text = """\
name: ports
image: host
baseline: native
resources: {cpus: 1, memory: 256MiB}
environments: {native: {provider: native}}
workloads: [{name: connections, rate: 100000, time_s: 2, close: client}]
blocks: {min: 1, max: 1}
"""
    plan = tmp_path / "plan.yaml"
    plan.write_text(text)
    argv = [sys.executable, "-m", "ullage", "run", str(plan), "--runs", str(tmp_path / "runs")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "ports are needed" in done.stderr
    assert not left_by(tmp_path / "runs")


@pytest.mark.usefixtures("places_of_its_own")
@pytest.mark.parametrize(
    ("prefix", "ready_s", "status", "message"),
    [
        (("sleep", "30"), 0.5, "failed", "0.5 s have passed (sleep in "),
        (("timeout", "-s", "KILL", "0.7"), 20.0, "invalid", "connections failed"),
    ],
    ids=["never listens", "ends before its client"],
)
def test_a_server_that_is_not_there(
    prefix: tuple[str, ...],
    ready_s: float,
    status: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = Connections.tasks

    def tasks(
        self: Connections, parameters: ConnectionsParameters, context: Context
    ) -> Sequence[Task]:
        server, client = real(self, parameters, context)
        argv = prefix if prefix[0] == "sleep" else (*prefix, *server.argv)
        return replace(server, argv=argv, ready_s=ready_s), client

    monkeypatch.setattr(Connections, "tasks", tasks)
    _, folder = run(tmp_path, ["name: connections, time_s: 1.5"], blocks=1)
    assert folder.trials
    for trial in folder.trials:
        assert trial.status == status
        assert trial.reason is not None
        assert message in trial.reason.message
        assert not trial.metrics
