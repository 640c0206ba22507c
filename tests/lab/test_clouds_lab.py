"""Each cloud that is a fake: a whole plan, its folder and what it has left; instances that fail."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.clouds.fake import SMALL, CloudFake
from tests.environments.clouds import cloudkit
from tests.lab.runkit import finished
from ullage.common import errors
from ullage.host import leftovers, user_commands

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.usefixtures("agent_binary")]


@pytest.fixture(params=sorted(cloudkit.KINDS))
def cloud(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CloudFake]:
    with cloudkit.standing_cloud(request.param, tmp_path, monkeypatch) as fake:
        yield fake


def plan(cloud: CloudFake) -> str:
    return cloudkit.PLAN.format(cpus=cloud.cpus, cloud=json.dumps(cloud.plan()))


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
    ((late, words),) = leftovers.remove(remains)
    assert late.kind == "command" and "may still make it" in words, "nobody has its answer"
    assert cloud.left() == []
    cloudkit.nothing_comes_any_more(record.tag)
    assert leftovers.remove(leftovers.find(record.tag)) == []
    assert leftovers.find(record.tag) == []


def test_a_lost_answer_makes_no_second_instance(cloud: CloudFake) -> None:
    async def work() -> None:
        cloud.lost = 2
        async with cloudkit.running(cloud):
            assert len(cloud.machines) == 1
        assert cloud.calls.count(cloud.LAUNCH) == 1, "it was found by its token"

    cloudkit.done(work())


def test_one_that_vanishes(cloud: CloudFake) -> None:
    async def work() -> None:
        async with cloudkit.running(cloud) as (_, instance):
            cloud.vanish()
            async with asyncio.timeout(60):
                while instance.alive:
                    await asyncio.sleep(0.05)
            error = await instance.why_gone()
            assert error is not None
            assert error.kind is errors.CLOUD_VANISHED

    cloudkit.done(work())


def test_one_that_never_boots(cloud: CloudFake) -> None:
    cloud.dead = True
    error = cloudkit.refused(cloud, deadline_s=10)
    assert error.kind is errors.CLOUD_NOT_UP
    assert "Connection refused" in error.message


def test_somebody_else_answers(cloud: CloudFake) -> None:
    cloud.impostor = True
    assert cloudkit.refused(cloud).kind is errors.CLOUD_HOST_KEY


def test_an_instance_that_fails(cloud: CloudFake) -> None:
    cloud.stillborn = True
    error = cloudkit.refused(cloud)
    assert error.kind is errors.CLOUD_INSTANCE_FAILED
    words = {"opennebula": "BOOT_FAILURE: Error booting VM", "cloudstack": "Unable to create"}
    assert words[cloud.plan()["provider"]] in error.message


def test_no_room_for_one_more(cloud: CloudFake) -> None:
    cloud.room = 0
    assert cloudkit.refused(cloud).kind is errors.CLOUD_QUOTA
    assert cloud.calls.count(cloud.LAUNCH) == 1, "it is not asked again"


def test_a_flavor_of_another_size(cloud: CloudFake) -> None:
    assert cloudkit.refused(cloud, flavor=SMALL).kind is errors.CLOUD_FLAVOR
    assert cloud.LAUNCH not in cloud.calls
