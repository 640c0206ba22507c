"""Each cloud that is a fake: answers that get lost, instances that fail or vanish, no room."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.clouds.fake import SMALL, CloudFake
from tests.environments.clouds import cloudkit
from ullage.common import errors

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.usefixtures("agent_binary")]


@pytest.fixture(params=sorted(cloudkit.KINDS))
def cloud(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CloudFake]:
    with cloudkit.standing_cloud(request.param, tmp_path, monkeypatch) as fake:
        yield fake


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
