"""Plans on a real OpenStack: instances beside native and LXC, kills, many at once."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.real_openstack.by_hand import by_hand, by_us
from tests.lab.real_openstack.stack import Stack, started
from tests.lab.runkit import finished
from ullage.experiments.elastic.folder import (
    Act,
    NotReady,
    Ready,
    read_acts,
    repetition_folder,
)
from ullage.host import leftovers
from ullage.runs.events import Synchronised
from ullage.runs.reader import RunFolder, sessions

# From nothing 25 minutes and more, from a prepared folder 15: each instance is emulated.
pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.root, pytest.mark.timeout(7200)]

CLOUD = "{provider: openstack, cloud: lab, flavor: lab, boot_image: debian12, network: prov, "
CLOUD += "user: root, host_key: console, deadline_s: 1200}"
PLAN = f"""\
name: openstack
baseline: native
resources: {{cpus: 1, memory: 512MiB}}
allow: [pinning]
environments:
  native: {{provider: native}}
  lxc: {{provider: lxc}}
  cloud: {CLOUD}
workloads:
  - {{name: sysbench-cpu, time_s: 1}}
blocks: {{min: 3, max: 3}}
seed: 1
"""
ALLOCATION = f"""\
name: openstack-allocation
baseline: lxc
resources: {{cpus: 1, memory: 512MiB}}
allow: [pinning]
environments:
  lxc: {{provider: lxc}}
  cloud: {CLOUD}
workloads:
  - {{name: provisioning, limit_s: 1800, vary: {{count: [1, 2, 4]}}}}
blocks: {{min: 1, max: 1}}
seed: 1
"""


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with started() as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OS_CLIENT_CONFIG_FILE", str(running.clouds_yaml()))
        yield running


def listed(*options: str) -> Any:
    """What the cloud says that ullage has there."""
    argv = [
        sys.executable,
        "-m",
        "ullage",
        "cloud",
        "list",
        "openstack",
        "--cloud",
        "lab",
        "--json",
    ]
    done = subprocess.run([*argv, *options], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def keys(stack: Stack) -> str:
    """Names of key pairs that are still there."""
    return stack.inside(
        *("openstack", "--os-auth-url", "http://10.99.0.2:5000/v3", "--os-username", "guest"),
        *(
            "--os-password",
            "lab",
            "--os-project-name",
            "guests",
            "--os-user-domain-name",
            "Default",
        ),
        *("--os-project-domain-name", "Default", "--os-identity-api-version", "3"),
        *("keypair", "list", "-f", "value", "-c", "Name"),
    )


def test_a_plan_beside_native_and_lxc(stack: Stack, tmp_path: Path) -> None:
    status, folder = finished(tmp_path, PLAN)
    assert [t.reason for t in folder.trials if t.status != "ok"] == []
    assert status == 0
    records = {one.key: one for one in folder.resolved.environments}
    assert records["cloud"].label == "openstack lab"
    assert records["cloud"].treatments["idle"] == "paused"
    assert records["cloud"].nuisances["userland"] == records["native"].nuisances["userland"]
    looks = [e for e in folder.events if isinstance(e, Synchronised) and e.environment == "cloud"]
    assert [look for look in looks if look.why == "thaw"], "it stood still, and has lost the time"
    for trial in folder.trials:
        assert all(clock.hard_ns > 0 for clock in trial.clocks.values())
    _seconds(folder)
    assert listed() == []
    assert "ullage" not in keys(stack)


def _seconds(folder: RunFolder) -> None:
    for environment in ("native", "lxc", "cloud"):
        rates = [t.metrics for t in folder.trials if t.environment == environment]
        print(environment, rates)
        assert rates


def test_an_administrator_learns_the_host(stack: Stack, tmp_path: Path) -> None:
    plan = PLAN.replace("cloud: lab", "cloud: lab-admin").replace("  lxc: {provider: lxc}\n", "")
    status, folder = finished(tmp_path, plan.replace("min: 3, max: 3", "min: 1, max: 1"))
    assert status == 0
    (facts,) = [one.facts for one in folder.provisioned if one.environment == "cloud"]
    assert (facts["cloud_host"], facts["cloud_hypervisor"]) == ("oslab", "QEMU")


def test_killed_with_an_instance_there(stack: Stack, tmp_path: Path) -> None:
    """`ullage clean` asks the cloud, and `--resume` takes the run up."""
    file, runs = tmp_path / "plan.yaml", tmp_path / "runs"
    file.write_text(PLAN)
    argv = [sys.executable, "-m", "ullage", "run", str(file), "--runs", str(runs)]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as controller:
        end = time.monotonic() + 600
        while not (machines := listed()) and time.monotonic() < end:
            time.sleep(0.5)
        controller.send_signal(signal.SIGKILL)
    (one,) = machines
    remains = leftovers.find(one["tag"])
    assert "command" in {leftover.kind for leftover in remains}
    assert leftovers.remove(remains) == []
    assert listed() == []
    assert "ullage" not in keys(stack)
    (run,) = runs.iterdir()
    resumed = [*argv[:4], "--resume", str(run)]
    done = subprocess.run(resumed, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert [session.resumed for session in sessions(run)] == [False, True]
    assert listed() == []


def test_removed_by_tag_from_anywhere(stack: Stack, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN)
    argv = [sys.executable, "-m", "ullage", "run", str(file), "--runs", str(tmp_path / "runs")]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as controller:
        end = time.monotonic() + 600
        while not (machines := listed()) and time.monotonic() < end:
            time.sleep(0.5)
        controller.send_signal(signal.SIGKILL)
    remove = [sys.executable, "-m", "ullage", "cloud", "remove", "openstack", "--cloud", "lab"]
    done = subprocess.run(
        [*remove, "--tag", machines[0]["tag"]], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, f"{machines[0]['name']} is gone\n")
    assert listed() == []
    assert leftovers.remove(leftovers.find(machines[0]["tag"])) == []


def test_one_two_and_four_at_once(stack: Stack, tmp_path: Path) -> None:
    status, folder = finished(tmp_path, ALLOCATION)
    for trial in folder.trials:
        print(trial.environment, trial.workload, trial.metrics, trial.reason)
    assert status == 0
    for trial in folder.trials:
        if trial.environment == "cloud":
            parts = [trial.metrics[part] for part in ("choose_time", "copy_time", "boot_time")]
            assert all(isinstance(part, float) and part > 0 for part in parts), "the cloud's own"
    assert listed() == []


def test_what_we_add_to_an_allocation(stack: Stack, tmp_path: Path) -> None:
    """In turns, so that both have the same host; what it is stands in the docs."""
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    pairs = [(by_us(plan), by_hand(stack, tmp_path)) for _ in range(3)]
    ours, hand = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"ours {ours:.1f} s ÷ by hand {hand:.1f} s = {ours / hand:.2f}, of {pairs}")
    assert listed() == []


ELASTIC = f"""\
name: openstack-elastic
baseline: lxc
room: 2
resources: {{cpus: 1, memory: 512MiB}}
environments:
  lxc: {{provider: lxc}}
  cloud: {CLOUD.removesuffix("}")}, price: {{per_hour: 0.02, currency: EUR, billed: minute}}}}
nodes: {{max: 2, allocation: one_per_need}}
arrivals: {{kind: uniform, rate: 1, viewers: 4}}
video: {{length: 20s, bitrate: 200000, generate: bytes}}
patience: PATIENCE
repetitions: 1
lateness_limit: 60
budgets: {{allocate: {{tries: 1, limit: 2400}}, release: {{tries: 2, limit: 600}}}}
seed: 7
"""


def elastic(tmp_path: Path, patience: str) -> tuple[tuple[Act, ...], dict[str, Any]]:
    """What was done to the cloud's nodes, and the figures of it."""
    file, runs = tmp_path / "plan.yaml", tmp_path / "runs"
    file.write_text(ELASTIC.replace("PATIENCE", patience))
    argv = [sys.executable, "-m", "ullage", "elastic", "run", str(file), "--runs", str(runs)]
    done = subprocess.run([*argv, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (run,) = runs.iterdir()
    (cloud,) = [e for e in json.loads(done.stdout)["environments"] if e["key"] == "cloud"]
    print(cloud)
    assert listed() == []
    figures = {estimate["metric"]: estimate["mean"] for estimate in cloud["estimates"]}
    return read_acts(repetition_folder(run, "cloud", 0)), figures


def test_an_elastic_run_whose_nodes_are_its_servers(stack: Stack, tmp_path: Path) -> None:
    acts, figures = elastic(tmp_path, "40m")
    ready = [act for act in acts if isinstance(act, Ready)]
    assert len(ready) == 2
    for act in ready:
        stages = act.stages
        assert all(stages[part] > 0 for part in ("TeF", "TcI", "TiI", "contextualisation"))
        assert stages["contextualisation"] + stages["furnishing"] < stages["TiI"] + 1
    assert figures["blocked"] == 0
    assert 0 < figures["tar_bare"] < figures["tar"]
    assert figures["cost_per_viewer"] > 0


def test_who_is_blocked_by_the_quota(stack: Stack, tmp_path: Path) -> None:
    """The second node is refused, and whoever waits for it is not blocked by slowness."""
    stack.inside("python3", "/lab/cloud.py", "one_instance")
    try:
        acts, figures = elastic(tmp_path, "20s")
    finally:
        stack.inside("python3", "/lab/cloud.py", "ten_instances")
    refusals = [act for act in acts if isinstance(act, NotReady)]
    assert refusals and {act.code for act in refusals} == {"cloud-quota"}
    assert 0 < figures["blocked_full"] <= figures["blocked"]


EC2 = """\
name: openstack-ec2
baseline: native
resources: {cpus: 1, memory: 512MiB}
allow: [pinning]
environments:
  native: {provider: native}
  cloud: {provider: ec2, endpoint: 'http://10.99.0.2:8788/', region: RegionOne, api: plain,
    flavor: lab, boot_image: debian12, user: root, host_key: console, deadline_s: 1200}
workloads:
  - {name: sysbench-cpu, time_s: 1}
blocks: {min: 1, max: 1}
seed: 1
"""


def test_the_same_cloud_by_ec2s_api(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.inside("bash", "/lab/ec2.sh")
    access, secret = stack.inside("python3", "/lab/cloud.py", "credentials").split()[-2:]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", access)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    status, folder = finished(tmp_path, EC2)
    assert [t.reason for t in folder.trials if t.status != "ok"] == []
    assert status == 0
    assert listed() == [], "one of Nova's own has nothing left either"
