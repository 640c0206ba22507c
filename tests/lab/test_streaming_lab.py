"""Real viewers of a real NGINX, native, in containers and VMs: a search, and a number given."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.lab.runkit import ran
from tests.lab.traces import left_by
from ullage.cli.main import app
from ullage.common.commands import run as command
from ullage.host.network.bridge import NamespaceEndpoint, Network
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder

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


def test_native_and_in_a_container(tmp_path: Path) -> None:
    folder = ran(tmp_path, PLAN, (0, 3))
    assert {trial.environment for trial in folder.trials} >= {"native", "container"}
    figures = {trial.workload for trial in folder.trials if trial.reason is None}
    assert figures >= {"film", "spread"}
    for trial in folder.trials:
        assert all(role.status in (0, 1) for role in trial.roles), trial.reason
        if trial.reason is not None:
            # Two viewers ask little, so the cap is the limit; else this machine stood still.
            none = "^no figure: .*(cap of 2 viewers|not one viewer)"
            why = none if trial.workload == "searched" else "began so late"
            assert trial.status == "invalid" and not trial.metrics
            assert re.search(why, trial.reason.message), trial.reason
            continue
        most = {"searched": 1, "film": 4, "spread": 5}[trial.workload]
        viewers, rate = trial.metrics["viewers"], trial.metrics["rate"]
        assert isinstance(viewers, float) and 0 <= viewers <= most
        assert isinstance(rate, float) and rate > 0
        assert trial.facts["clip"] == ("h264" if trial.workload == "film" else "bytes")
        if trial.workload == "spread":
            assert [role.role for role in trial.roles] == ["server-0", "server-1", "client"]


# Two viewers are 2 of the 2.3 Mbit/s that the network carries, and three more than it can: whatever
# else this machine does, so many bytes cannot come.
SLOW = ("rate", "2300kbit", "burst", "32kb", "latency", "200ms")
LINK = """\
name: streaming-link
baseline: lxc
resources: {cpus: 1, memory: 256MiB}
environments:
  lxc: {provider: lxc}
blocks: {min: 1, max: 1}
workloads:
  - {name: streaming, bitrate: 1000000, chunk: 32768, start: 1, cap: 64, step_s: 4, ramp_s: 0.5,
     tries: 3, late_limit_s: 60, link: 2300000}
"""


def searched(trial: Trial) -> tuple[int, list[tuple[int, str]]]:
    """The figure of a search that must have one, and its steps."""
    assert trial.status == "ok", trial.reason
    viewers = trial.metrics["viewers"]
    assert isinstance(viewers, float)
    steps = [step.split() for step in trial.facts["steps"].split(", ")]
    assert re.search(r"\d+ (of \d+ )?viewers? ", trial.facts["not_sustained"])
    return int(viewers), [(int(number), verdict) for number, verdict in steps]


def test_a_search_ends_where_the_link_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Network.namespace

    async def behind_a_slow_cable(network: Network, name: str) -> NamespaceEndpoint:
        endpoint = await real(network, name)
        await command(["tc", "qdisc", "add", "dev", endpoint.device, "root", "tbf", *SLOW])
        return endpoint

    monkeypatch.setattr(Network, "namespace", behind_a_slow_cable)
    plan, runs = tmp_path / "plan.yaml", tmp_path / "runs"
    plan.write_text(LINK)
    done = CliRunner().invoke(app, ["run", str(plan), "--runs", str(runs)])
    assert done.exit_code == 0, done.output
    assert not left_by(runs)
    (path,) = runs.iterdir()
    trials = RunFolder.open(path).trials
    assert {trial.environment for trial in trials} == {"lxc", "lxc~again"}
    for trial in trials:
        figure, steps = searched(trial)
        assert figure in (1, 2)
        assert steps[0] == (1, "sustained")
        assert steps.count((figure + 1, "not-sustained")) >= 3
        assert re.fullmatch(r"the link: (8[5-9]|9\d|10[0-4])% used", trial.facts["limit"])
        rate = trial.metrics["rate"]
        assert isinstance(rate, float) and rate < 2.6e6


# A tenth of a CPU, so that it is the servers that come to their end, and not the viewers.
LIMITED = """\
name: streaming-limit
resources: {cpus: 0.1, memory: 256MiB}
baseline: container
environments:
  container: {provider: lxc}
blocks: {min: 1, max: 1}
workloads:
  - {name: streaming, bitrate: 20000000, chunk: 262144, start: 8, cap: 4096, step_s: 3,
     ramp_s: 0.5, tries: 3, resolution: 0.5, late_limit_s: 60}
"""


def test_a_search_ends_where_a_quota_is_used_up(tmp_path: Path) -> None:
    trials = ran(tmp_path, LIMITED, (0, 3)).trials
    assert {trial.environment for trial in trials} >= {"container"}
    for trial in trials:
        figure, steps = searched(trial)
        cpus = trial.metrics["server_cpus"]
        assert isinstance(cpus, float) and 0 < cpus < 0.2
        assert (figure, "sustained") in steps
        refused = [viewers for viewers, verdict in steps if verdict == "not-sustained"]
        assert any(refused.count(viewers) >= 3 for viewers in refused if viewers > figure)
        # Nobody's CPUs are full, for a quota is a part of one.
        assert trial.facts["limit"].startswith("none found: the viewers' own CPU ")


# What an emulated machine can serve is far from what its host's viewers can watch. They hold some
# seconds of video, so that a moment in which a busy host stands still is no end of a search.
EMULATED = """\
name: streaming-vm
resources: {cpus: 1, memory: 256MiB}
baseline: vm
environments:
  vm: {provider: qemu, boot: agent}
blocks: {min: 1, max: 1}
workloads:
  - {name: streaming, bitrate: 5000000, chunk: 131072, start: 1, cap: 4096, step_s: 6, ramp_s: 0.5,
     tries: 2, resolution: 0.5, late_limit_s: 60, buffer_s: 3}
"""


def test_a_search_ends_where_an_emulated_machine_does(tmp_path: Path) -> None:
    trials = ran(tmp_path, EMULATED, (0, 3)).trials
    assert {trial.environment for trial in trials} >= {"vm"}
    for trial in trials:
        if trial.reason is not None:  # there is no figure where not one viewer was served in time
            assert re.search("^no figure: .*not one viewer|began so late", trial.reason.message)
            continue
        figure, steps = searched(trial)
        cpus = trial.metrics["server_cpus"]
        assert isinstance(cpus, float) and cpus > 0
        assert (figure, "sustained") in steps
        assert re.match("the servers' CPUs, 1: |none found: |this host's", trial.facts["limit"])
