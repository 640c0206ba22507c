"""What a plan with an instance of a cloud must allow, and what is removed there by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from testing.clouds.ec2 import Ec2Double
from tests.environments.clouds import cloudkit

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.usefixtures("agent_binary")]


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


def _ullage(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "ullage", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=os.environ)
