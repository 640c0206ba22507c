"""A cloud that takes a call and never answers, or says how long it wants to be left alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.clouds import openstack
from testing.clouds.fake import Answer
from tests.environments.clouds import cloudkit
from tests.environments.clouds.standing import Cloud, provider, standing_one
from tests.environments.clouds.test_openstack import an_error
from ullage.environments.clouds import ec2, nova
from ullage.environments.clouds.cloudstack import CloudStack, CloudStackDriver
from ullage.environments.clouds.opennebula import OpenNebula, OpenNebulaDriver

ANSWER_S = 2


@pytest.fixture(params=["ec2", "openstack", *sorted(cloudkit.KINDS)])
def standing(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cloud]:
    yield from standing_one(request, tmp_path, monkeypatch)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every driver waits for an answer for two seconds, and not for a minute."""
    for module in (ec2, nova):
        monkeypatch.setattr(module, "_ANSWER_S", ANSWER_S)

    def one(ours: OpenNebula) -> OpenNebulaDriver:
        return OpenNebulaDriver(ours._options, answer_s=ANSWER_S)

    def cloudstack(ours: CloudStack) -> CloudStackDriver:
        return CloudStackDriver(ours._options, answer_s=ANSWER_S)

    monkeypatch.setattr(OpenNebula, "driver", one)
    monkeypatch.setattr(CloudStack, "driver", cloudstack)


def sizes(cloud: Cloud) -> str:
    """The call that tells sizes."""
    return "GET /flavors/detail" if isinstance(cloud, openstack.OpenStackDouble) else cloud.SIZES


def refusal(cloud: Cloud) -> Answer:
    """What no driver asks again after."""
    if isinstance(cloud, openstack.OpenStackDouble):
        return an_error(400)
    return cloud.refusal("refused")


@pytest.mark.usefixtures("impatient")
def test_an_answer_that_never_comes_is_not_waited_for(standing: Cloud) -> None:
    over, calls = threading.Event(), iter([True])

    def trouble(call: str) -> Answer | None:
        if call == sizes(standing) and next(calls, False):
            over.wait(60)  # whoever has waited so long hears what he does not want to
            return refusal(standing)
        return None

    standing.trouble = trouble
    try:
        asyncio.run(provider(standing).check())
    finally:
        over.set()
    assert standing.calls.count(sizes(standing)) >= 2


@pytest.mark.parametrize(("retry_after", "waited_s"), [("7", 7.0), ("99999", 60.0)])
def test_we_wait_as_long_as_we_are_asked_to(
    standing: Cloud, monkeypatch: pytest.MonkeyPatch, retry_after: str, waited_s: float
) -> None:
    answers = iter([(429, {"Retry-After": retry_after, "Content-Length": "0"}, "")])
    standing.trouble = lambda call: next(answers, None) if call == sizes(standing) else None
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("ullage.environments.clouds.calls.asyncio.sleep", sleep)
    asyncio.run(provider(standing).check())
    assert slept == [waited_s]
