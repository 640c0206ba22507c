"""A real OpenStack: kills, a quota, who may know what, our own disk, EC2's API, ours by hand."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab.real_openstack.by_hand import by_hand, by_us
from tests.lab.real_openstack.plans import CLOUD, PLAN, elastic, keys, listed
from tests.lab.real_openstack.stack import Stack
from tests.lab.runkit import finished
from ullage.experiments.elastic.folder import NotReady
from ullage.host import leftovers
from ullage.runs.reader import sessions

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.root, pytest.mark.timeout(7200)]


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


def test_what_we_add_to_an_allocation(stack: Stack, tmp_path: Path) -> None:
    """In turns, so that both have the same host; what it is stands in the docs."""
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    pairs = [(by_us(plan), by_hand(stack, tmp_path)) for _ in range(3)]
    ours, hand = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"ours {ours:.1f} s ÷ by hand {hand:.1f} s = {ours / hand:.2f}, of {pairs}")
    assert listed() == []


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


def test_a_disk_that_has_the_image_already(stack: Stack, tmp_path: Path) -> None:
    """Exported, given to the cloud, booted by its own boot loader; only the agent is sent there."""
    plan = tmp_path / "plan.yaml"
    own = "flavor: lab1g, boot_image: ullage, network: prov, deadline_s: 1800"
    instance = f"{{provider: openstack, cloud: lab, {own}}}"
    text = PLAN.replace("512MiB", "1GiB").replace(CLOUD, instance)
    plan.write_text(text)
    disk = stack.place / "root/images/ullage.qcow2"
    disk.unlink(missing_ok=True)
    export = [sys.executable, "-m", "ullage", "image", "export", str(plan)]
    subprocess.run([*export, "--for", "openstack", "--to", str(disk)], check=True)
    stack.inside("python3", "/lab/cloud.py", "own_disk")
    status, folder = finished(tmp_path, text)
    assert [t.reason for t in folder.trials if t.status != "ok"] == []
    assert status == 0
    (facts,) = [one.facts for one in folder.provisioned if one.environment == "cloud"]
    assert facts["cloud_image"] == "on its disk"
    assert listed() == []


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
