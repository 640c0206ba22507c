"""A whole plan with an instance of a cloud: a run, its folder, and what it has left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from testing.clouds.ec2 import Ec2Double
from tests.environments.clouds import cloudkit
from tests.lab.runkit import finished
from ullage.host import leftovers, user_commands

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.usefixtures("agent_binary")]


def test_a_plan_runs_there(cloud: Ec2Double, tmp_path: Path) -> None:
    plan = cloudkit.PLAN.format(cpus=cloud.cpus, cloud=json.dumps(cloud.plan()))
    status, folder = finished(tmp_path, plan)
    assert status == 0
    trials = [trial for trial in folder.trials if trial.environment == "cloud"]
    assert [trial.status for trial in trials] == ["ok"] * 3
    (record,) = [e for e in folder.resolved.environments if e.key == "cloud"]
    (native,) = [e for e in folder.resolved.environments if e.key == "native"]
    assert record.label == "ec2 lab.host"
    assert record.nuisances["pinning"] == "by ec2"
    assert record.nuisances["userland"] == native.nuisances["userland"], "the same bytes"
    assert record.treatments["idle"] == "not frozen"
    assert cloud.left() == []
    assert not [r for r in user_commands.records() if cloud.endpoint in r.listing]
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert b"s3cret-s3cret" not in file.read_bytes(), file
            assert b"PRIVATE KEY" not in file.read_bytes(), file


def test_pinning_must_be_allowed(cloud: Ec2Double, tmp_path: Path) -> None:
    plan = cloudkit.PLAN.format(cpus=cloud.cpus, cloud=json.dumps(cloud.plan()))
    file = tmp_path / "plan.yaml"
    file.write_text(plan.replace("allow: [pinning]\n", ""))
    done = _ullage("run", str(file), "--runs", str(tmp_path / "runs"))
    assert done.returncode == 2
    assert "pinning" in done.stderr
    assert cloud.left() == []


def test_what_is_there_is_listed_and_removed_by_tag(cloud: Ec2Double) -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGIlc0TGf5Gr4h9F2mrCjbFqBHnnwuySMvFeOJBZdBZL"
    client, name = cloud.client(), "ullage-u1234567-c-0"
    client.import_key_pair(KeyName=name, PublicKeyMaterial=key.encode())
    tags = [{"Key": "Name", "Value": name}, {"Key": "ullage-tag", "Value": "u1234567"}]
    client.run_instances(
        ImageId=cloud.image,
        InstanceType="t3.micro",
        KeyName=name,
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )
    reach = ("ec2", "--endpoint", cloud.endpoint, "--region", "us-east-1")
    listed = json.loads(_ullage("cloud", "list", *reach, "--json").stdout)
    assert [(one["name"], one["tag"], one["state"]) for one in listed] == [
        (name, "u1234567", "running")
    ]
    assert _ullage("cloud", "list", *reach, "--tag", "u7654321").stdout == ""
    assert _ullage("cloud", "remove", *reach).returncode == 2
    assert _ullage("cloud", "list", "frobnicate").returncode == 2
    done = _ullage("cloud", "remove", *reach, "--tag", "u1234567")
    assert (done.returncode, done.stderr) == (0, f"{name} is gone\n")
    assert cloud.left() == []


def test_killed_between_request_and_answer(cloud: Ec2Double, tmp_path: Path) -> None:
    """Nobody has learned the instance's id, and it is not forgotten."""
    file = tmp_path / "plan.yaml"
    file.write_text(cloudkit.PLAN.format(cpus=cloud.cpus, cloud=json.dumps(cloud.plan())))
    argv = [sys.executable, "-m", "ullage", "run", str(file), "--runs", str(tmp_path / "runs")]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as controller:
        cloud.on_launch = controller.kill
        assert controller.wait(200) == -9
    assert len(cloud.left()) == 2, "the instance and its key"
    (tags,) = [i["Tags"] for i in _instances(cloud) if i["State"]["Name"] == "running"]
    tag = next(one["Value"] for one in tags if one["Key"] == "ullage-tag")
    remains = leftovers.find(tag)
    assert "command" in {leftover.kind for leftover in remains}
    ((late, words),) = leftovers.remove(remains)
    assert late.kind == "command" and "may still make it" in words, "nobody has its answer"
    assert cloud.left() == []
    cloudkit.nothing_comes_any_more(tag)
    assert leftovers.remove(leftovers.find(tag)) == []
    assert leftovers.find(tag) == []


def _instances(cloud: Ec2Double) -> list[Any]:
    reservations = cloud.client().describe_instances()["Reservations"]
    return [instance for one in reservations for instance in one["Instances"]]


def _ullage(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "ullage", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=os.environ)


def test_instances_are_made_there_and_their_servers_are_reached(
    cloud: Ec2Double, tmp_path: Path
) -> None:
    """`provisioning` of a cloud: by its own addresses, not on the run's network."""
    cloud.wired = True
    plan = cloudkit.PLAN.format(cpus=cloud.cpus, cloud=json.dumps(cloud.plan()))
    command = "{name: command, argv: [sha256sum, /bin/bash]}"
    plan = plan.replace(command, "{name: provisioning, count: 2}")
    status, folder = finished(tmp_path, plan.replace("min: 3, max: 3", "min: 1, max: 1"))
    assert status == 0
    (trial,) = [trial for trial in folder.trials if trial.environment == "cloud"]
    assert trial.status == "ok", trial.reason
    for part in ("choose_time", "copy_time", "boot_time", "reply_time"):
        seconds = trial.metrics[part]
        assert isinstance(seconds, float) and seconds > 0
    assert cloud.left() == []
