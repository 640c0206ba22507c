"""A whole plan on each cloud that is a fake: a run, its folder, and what it has left."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.clouds.fake import CloudFake
from tests.environments.clouds import cloudkit
from tests.lab.runkit import finished
from ullage.host import leftovers, user_commands

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.usefixtures("agent_binary")]

PLAN = """
name: cloud
baseline: native
resources: {{cpus: {cpus}, memory: host}}
allow: [pinning]
environments:
  native: {{provider: native}}
  cloud: {cloud}
workloads:
  - {{name: command, argv: [sha256sum, /bin/bash]}}
blocks: {{min: 3, max: 3}}
"""


@pytest.fixture(params=sorted(cloudkit.KINDS))
def cloud(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CloudFake]:
    with cloudkit.standing_cloud(request.param, tmp_path, monkeypatch) as fake:
        yield fake


def plan(cloud: CloudFake) -> str:
    return PLAN.format(cpus=cloud.cpus, cloud=json.dumps(cloud.plan()))


def test_a_plan_runs_there(cloud: CloudFake, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    status, folder = finished(place, plan(cloud))
    assert status == 0
    trials = [trial for trial in folder.trials if trial.environment == "cloud"]
    assert [trial.status for trial in trials] == ["ok"] * 3
    seen = {e.key: e for e in folder.resolved.environments}
    assert seen["cloud"].label == f"{cloud.plan()['provider']} lab.host"
    assert seen["cloud"].nuisances["userland"] == seen["native"].nuisances["userland"]
    assert cloud.left() == []
    assert not [r for r in user_commands.records() if cloud.endpoint in " ".join(r.listing)]
    for file in place.rglob("*"):
        if file.is_file():
            assert not any(secret.encode() in file.read_bytes() for secret in cloud.SIGNED), file
            assert b"PRIVATE KEY" not in file.read_bytes(), file


def test_killed_between_request_and_answer(cloud: CloudFake, tmp_path: Path) -> None:
    """Nobody has learned the instance's id, and it is not forgotten."""
    file = tmp_path / "plan.yaml"
    file.write_text(plan(cloud))
    argv = [sys.executable, "-m", "ullage", "run", str(file), "--runs", str(tmp_path / "runs")]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as controller:
        cloud.on_launch = controller.kill
        assert controller.wait(400) == -9
    assert cloud.left()
    (record,) = [r for r in user_commands.records() if cloud.endpoint in " ".join(r.listing)]
    listed = subprocess.run(
        [*record.listing[:-1], "--json"], capture_output=True, text=True, check=True
    )
    assert [one["tag"] for one in json.loads(listed.stdout)] == [record.tag]
    remains = leftovers.find(record.tag)
    assert leftovers.remove(remains) == []
    assert cloud.left() == []
    assert leftovers.find(record.tag) == []
