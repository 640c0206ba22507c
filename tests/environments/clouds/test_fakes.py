"""Instances of clouds that can be had as fakes only: their protocol, and a real machine behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.clouds.fake import CloudFake
from tests.environments import containerkit as kit
from tests.environments.clouds import cloudkit
from ullage.host import paths, user_commands

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("agent_binary")]


@pytest.fixture(params=sorted(cloudkit.KINDS))
def cloud(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CloudFake]:
    with cloudkit.standing_cloud(request.param, tmp_path, monkeypatch) as fake:
        yield fake


@pytest.mark.lab
def test_made_used_and_removed(cloud: CloudFake) -> None:
    async def work() -> None:
        async with cloudkit.running(cloud) as (run, instance):
            assert len(cloud.machines) == 1
            seen = (await kit.sh(instance, "hostname; cat /etc/debian_version"))[1]
            assert seen.startswith("c-0\n12")
            assert (await kit.sh(instance, "touch /here"))[0].status != 0, "read-only"
            (record,) = [r for r in user_commands.records() if r.tag == run.tag]
            assert not any(secret in record.model_dump_json() for secret in cloud.SIGNED)
            await instance.destroy()
            assert cloud.left() == []

    cloudkit.done(work())


def test_clean_asks_the_cloud(cloud: CloudFake) -> None:
    """The controller is gone: the cloud is asked by what it wrote down before it asked."""

    async def abandoned() -> user_commands.Removal:
        ours = cloudkit.provider(cloud)
        await ours.check()
        bare = kit.bare_spec(tag=paths.new_tag())
        record = ours._removal(bare)
        user_commands.keep(record)
        key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGIlc0TGf5Gr4h9F2mrCjbFqBHnnwuySMvFeOJBZdBZL"
        ours.driver().launch(ours._request(record.name, bare.tag, key, ""))
        return record

    cloud.hollow = True
    record = asyncio.run(abandoned())
    assert cloud.left()
    assert user_commands.names(record.listing, 120) == {record.name}
    user_commands.remove(record)
    assert cloud.left() == []
