"""Another host's run that has drawn the same tag: what it has in the cloud is not ours to touch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testing.clouds import ec2, openstack
from tests.environments import containerkit as kit
from tests.environments.clouds import cloudkit
from tests.environments.clouds.standing import Cloud, provider, standing_one
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.quantities import memory_bytes
from ullage.environments.base import InstanceSpec
from ullage.environments.clouds.driver import Request
from ullage.environments.clouds.provider import CloudProvider
from ullage.environments.clouds.tags import check_key
from ullage.host import user_commands

pytestmark = pytest.mark.root

THEIR_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG3Dpzr0e4bKqOWPl8TbCPn7i5xCnMQ0ygZo0vlbQ8Xa"


@pytest.fixture(params=["ec2", "openstack", *sorted(cloudkit.KINDS)])
def standing(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cloud]:
    yield from standing_one(request, tmp_path, monkeypatch)


def spec(run: kit.Run, cloud: Cloud, name: str = "c-0") -> InstanceSpec:
    cpu_ids = tuple(range(cloud.cpus))
    return replace(run.spec(name), cpu_ids=cpu_ids, memory_bytes=memory_bytes(), network=None)


async def refused_beside(
    cloud: Cloud, ours: CloudProvider, make: Callable[[Request], Awaitable[object]]
) -> str:
    """What we say when the other run has made that; it is there as before."""
    async with kit.running(ours) as run:
        name = f"ullage-{run.tag}-c-0"
        theirs = provider(cloud)
        await theirs.check()
        await make(theirs._request(name, run.tag, THEIR_KEY, ""))
        before = cloud.left()
        assert before
        try:
            for _ in range(2):
                with pytest.raises(UllageError) as caught:
                    await run.create(spec(run, cloud))
                assert caught.value.kind is errors.CLOUD_TAG_TAKEN
                assert name in caught.value.message
                assert cloud.left() == before
                assert [r for r in user_commands.records() if r.tag == run.tag] == []
        finally:
            driver = theirs.driver()
            while not driver.remove(name, run.tag):
                await asyncio.sleep(0.05)
    return caught.value.message


@kit.in_a_loop
async def test_its_instance_is_not_removed(standing: Cloud) -> None:
    async def make(request: Request) -> None:
        provider(standing).driver().launch(request)

    await refused_beside(standing, provider(standing), make)
    assert standing.left() == []


@pytest.mark.parametrize("more", [{}, {"api": "plain"}], ids=["", "plain"])
@kit.in_a_loop
async def test_its_key_is_not_taken_for_ours(standing: Cloud, more: dict[str, str]) -> None:
    """Both may look at the same time, and see no instance of the other's yet."""
    driver: Any = provider(standing).driver()
    if not hasattr(driver, "_import_key"):
        pytest.skip("OpenNebula has no key pairs")
    if more and not isinstance(standing, ec2.Ec2Double):
        pytest.skip("one way only")

    async def make(request: Request) -> None:
        driver._import_key(request)

    message = await refused_beside(standing, provider(standing, **more), make)
    assert "another key pair" in message


def test_the_key_of_an_earlier_try_is_ours(standing: Cloud) -> None:
    driver: Any = provider(standing).driver()
    if not hasattr(driver, "_import_key"):
        pytest.skip("OpenNebula has no key pairs")
    request = provider(standing)._request("ullage-u1234567-c-0", "u1234567", THEIR_KEY, "")
    for _ in range(2):
        driver._import_key(request)
    assert driver.remove(request.name, request.tag)
    assert standing.left() == []


@pytest.mark.usefixtures("agent_binary")
@kit.in_a_loop
async def test_another_environment_of_the_same_run_is_ours(
    stack: openstack.OpenStackDouble,
) -> None:
    async with kit.running(provider(stack)) as run:
        await run.create(spec(run, stack))
        second = await provider(stack, idle="runs").create(spec(run, stack, "c-1"))
        await second.destroy()
    assert stack.left() == []


@pytest.mark.parametrize(
    ("known", "same"),
    [
        (f"{THEIR_KEY} ullage", True),
        ("28:1b:1a:d3:25:e3:1a:58:4e:4c:0f:c2:f7:0c:ca:56", True),
        (cloudkit.PUBLIC_KEY, False),
        ("00", False),
        (None, False),
    ],
)
def test_whose_key_it_is(stack: openstack.OpenStackDouble, known: str | None, same: bool) -> None:
    """The fingerprint is that of `ssh-keygen -l -E md5`."""
    request = provider(stack)._request("ullage-u1234567-c-0", "u1234567", THEIR_KEY, "")
    if same:
        check_key("a cloud", request, known)
        return
    with pytest.raises(UllageError, match="another key pair ullage-u1234567-c-0") as caught:
        check_key("a cloud", request, known)
    assert caught.value.kind is errors.CLOUD_TAG_TAKEN
