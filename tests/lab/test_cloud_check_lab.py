"""`ullage cloud check`: how far one instance comes in each cloud, and what it costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from testing.clouds import ec2
from testing.clouds.fake import SMALL, CloudFake
from tests.environments.clouds import cloudkit

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.usefixtures("agent_binary")]

PLAN = """
name: cloud
resources: {{cpus: {cpus}, memory: host}}
allow: [pinning]
baseline: native
environments:
  native: {{provider: native}}
  cloud: {cloud}
workloads:
  - {{name: command, argv: [sha256sum, /bin/bash]}}
"""
STEPS = [
    "the cloud answers",
    "what we may have there: ",
    "asked for an instance",
    "it runs",
    "ssh lets us in",
    "its agent answers",
    "it is gone",
]


def check(
    cloud: CloudFake | ec2.Ec2Double, place: Path, *options: str, **more: Any
) -> subprocess.CompletedProcess[str]:
    file = place / "plan.yaml"
    file.write_text(PLAN.format(cpus=cloud.cpus, cloud=json.dumps(cloud.plan(**more))))
    argv = [sys.executable, "-m", "ullage", "cloud", "check", str(file), *options]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=os.environ)


def passed(cloud: CloudFake | ec2.Ec2Double, place: Path) -> None:
    price = {"price": {"per_hour": 60, "currency": "EUR", "billed": "minute"}}
    done = check(cloud, place, "--json", **price)
    assert done.returncode == 0, done.stderr
    (seen,) = json.loads(done.stdout)
    assert len(seen["steps"]) == len(STEPS)
    for step, words in zip(seen["steps"], STEPS, strict=True):
        assert step["words"].startswith(words)
    assert seen["cost"] == pytest.approx(-(-seen["lived_s"] // 60))
    assert 0 < seen["rtt_ns"] // 2 <= seen["clock_bound_ns"]
    assert cloud.left() == []


@pytest.mark.parametrize("name", sorted(cloudkit.KINDS))
def test_on_a_fake(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cloudkit.standing_cloud(name, tmp_path, monkeypatch) as cloud:
        cloud.room = 3
        passed(cloud, tmp_path)
        none = check(cloud, tmp_path, "native")
        assert (none.returncode, "has no environment in a cloud: native" in none.stderr) == (
            2,
            True,
        )
        small = check(cloud, tmp_path, flavor=SMALL)
        assert (small.returncode, "cloud-flavor" in small.stderr) == (2, True)


def test_on_the_double_of_ec2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIANOTONE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with ec2.cloud() as cloud:
        passed(cloud, tmp_path)
