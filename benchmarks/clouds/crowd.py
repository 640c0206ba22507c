"""200 instances made and removed at once on each fake cloud, whose calls fail.

Of all calls 5 % fail (a proxy's page, half of them after the work has been done) and 2 % are never
answered (half of them likewise). Nothing may be left, nothing may be made twice, and no call may
be asked more often than its budget allows. Then, in peace: from the request until it runs, by us,
beside the client's own calls by hand. The clouds are fakes: no time here is one of a real cloud.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest import mock

import cs
import pyone

from benchmarks.figures import Figure, main
from testing.clouds.cloudstack import KEY, SECRET, CloudStackFake
from testing.clouds.fake import FLAVOR, IMAGE, SILENCE, Answer, CloudFake, standing
from testing.clouds.opennebula import SESSION, OneFake
from ullage.common.errors import UllageError
from ullage.environments.clouds.calls import POLL_S, Calls
from ullage.environments.clouds.cloudstack import CloudStackDriver, CloudStackOptions
from ullage.environments.clouds.driver import Driver, Request
from ullage.environments.clouds.opennebula import OpenNebulaDriver, OpenNebulaOptions

_FAILING, _SILENT = 0.05, 0.02
_ANSWER_S: Final = 20
_BUDGET: Final = 8
_PAGE: Final[Answer] = (502, {"Content-Type": "text/html"}, "<html>502 Bad Gateway</html>")
_TAG: Final = "u7654321"
_KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGIlc0TGf5Gr4h9F2mrCjbFqBHnnwuySMvFeOJBZdBZL"


@dataclass
class _Crowd:
    """What came of all of them."""

    failed: list[str] = field(default_factory=list)
    retried: int = 0
    seconds: float = 0.0


@contextmanager
def _opennebula() -> Iterator[tuple[CloudFake, Driver]]:
    with tempfile.TemporaryDirectory() as place, standing(OneFake()) as fake:
        file = Path(place) / "one_auth"
        file.write_text(SESSION, encoding="ascii")
        with mock.patch.dict(os.environ, {"ONE_AUTH": str(file)}):
            options = OpenNebulaOptions.model_validate(_fields(fake))
            yield fake, OpenNebulaDriver(options, answer_s=_ANSWER_S)


@contextmanager
def _cloudstack() -> Iterator[tuple[CloudFake, Driver]]:
    known = {"CLOUDSTACK_KEY": KEY, "CLOUDSTACK_SECRET": SECRET}
    with standing(CloudStackFake()) as fake, mock.patch.dict(os.environ, known):
        options = CloudStackOptions.model_validate(_fields(fake))
        yield fake, CloudStackDriver(options, answer_s=_ANSWER_S)


def _fields(fake: CloudFake) -> dict[str, Any]:
    return {name: text for name, text in fake.plan().items() if name != "provider"}


def measure(quick: bool) -> Iterator[Figure]:
    """The rows of each fake."""
    for name, cloud, by_hand in (
        ("opennebula", _opennebula, _one_by_hand),
        ("cloudstack", _cloudstack, _cloudstack_by_hand),
    ):
        with cloud() as (fake, driver):
            fake.hollow = True
            yield from _crowd(name, fake, driver, 20 if quick else 200)
        with cloud() as (fake, driver):
            fake.hollow = True
            yield _added(name, driver, by_hand(fake), 3 if quick else 15)


def _crowd(name: str, fake: CloudFake, driver: Driver, number: int) -> Iterator[Figure]:
    chance = random.Random(number)

    def trouble(_: str) -> Answer | None:
        drawn = chance.random()
        return (
            SILENCE if drawn < _SILENT / 2 else _PAGE if drawn < (_SILENT + _FAILING) / 2 else None
        )

    fake.trouble = fake.after = trouble
    crowd = asyncio.run(_all(driver, number))
    fake.trouble = fake.after = None
    launched = fake.calls.count(fake.LAUNCH)
    left = fake.left()
    what = f"{name} (a fake): {number} at once"
    note = f"{crowd.seconds:.0f} s, {len(fake.calls)} calls, {crowd.retried} asked again"
    yield Figure(f"{what}: left", len(left), "1", reach="none", holds=not left, note=note)
    doubled = len(fake.requests) - len(set(fake.requests))
    yield Figure(
        f"{what}: made twice",
        doubled,
        "1",
        reach="none",
        holds=doubled == 0,
        note=f"{launched} requests for {number}; a double would be removed with its instance",
    )
    reach = f"none: at most {_BUDGET} tries of a call"
    yield Figure(
        f"{what}: beyond the budget",
        len(crowd.failed),
        "1",
        reach=reach,
        holds=not crowd.failed,
        note="; ".join(sorted(set(crowd.failed)))[:200],
    )


async def _all(driver: Driver, number: int) -> _Crowd:
    crowd, began = _Crowd(), time.monotonic()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(64))
    image = await Calls(driver, "the crowd", tries=_BUDGET).ask(driver.find_image, IMAGE)
    await asyncio.gather(*(_one(driver, image, index, crowd) for index in range(number)))
    crowd.seconds = time.monotonic() - began
    return crowd


async def _one(driver: Driver, image: str, index: int, crowd: _Crowd) -> None:
    request = _request(image, index)
    calls = Calls(driver, request.name, tries=_BUDGET)
    try:
        try:
            machine = await calls.ask(driver.launch, request)
            while machine.state == "pending":
                await asyncio.sleep(10 * POLL_S)
                machine = await calls.ask(driver.machine, machine.id)
            if machine.state != "running":
                crowd.failed.append(machine.words)
        finally:  # as the provider does, whatever came
            gone = False
            while not gone:
                gone = await calls.ask(driver.remove, request.name, request.tag)
                await asyncio.sleep(10 * POLL_S)
    except UllageError as error:
        crowd.failed.append(error.message)
    crowd.retried += calls.retried


def _request(image: str, index: int) -> Request:
    return Request(
        name=f"ullage-{_TAG}-c-{index}",
        tag=_TAG,
        flavor=FLAVOR,
        image=image,
        network="lab-network",
        zone=None,
        security_groups=(),
        public_key=_KEY,
        user_data="",
        token=secrets.token_hex(16),
    )


def _added(name: str, driver: Driver, by_hand: Callable[[], None], times: int) -> Figure:
    """What we take from the request until it runs, beside the client's own calls; in turns."""
    image = driver.find_image(IMAGE)
    ours: list[float] = []
    theirs: list[float] = []
    for index in range(times):
        began = time.monotonic()
        asyncio.run(_up(driver, _request(image, index)))
        ours.append(time.monotonic() - began)
        began = time.monotonic()
        by_hand()
        theirs.append(time.monotonic() - began)
    mine, peer = statistics.median(ours), statistics.median(theirs)
    return Figure(
        f"{name} (a fake): request to running, ours ÷ by hand",
        mine / peer,
        "1",
        peer="the client's own calls",
        peer_value=1.0,
        note=f"{mine:.3f} s ÷ {peer:.3f} s, medians of {times}; a real cloud takes far longer",
    )


async def _up(driver: Driver, request: Request) -> None:
    calls = Calls(driver, request.name)
    machine = await calls.ask(driver.launch, request)
    while machine.state == "pending":
        await asyncio.sleep(POLL_S)
        machine = await calls.ask(driver.machine, machine.id)


def _one_by_hand(fake: CloudFake) -> Callable[[], None]:
    one: Any = pyone.OneServer(fake.plan()["endpoint"], SESSION)
    inner = f"<DISK><IMAGE_ID>0</IMAGE_ID></DISK><CONTEXT><SSH_PUBLIC_KEY>{_KEY}</SSH_PUBLIC_KEY>"
    extra = f"<TEMPLATE>{inner}</CONTEXT></TEMPLATE>"

    def up() -> None:
        identifier = one.template.instantiate(0, "by-hand", False, extra, False)
        while one.vm.info(identifier).LCM_STATE != pyone.LCM_STATE.RUNNING:
            time.sleep(POLL_S)

    return up


def _cloudstack_by_hand(fake: CloudFake) -> Callable[[], None]:
    client = cs.CloudStack(
        fake.plan()["endpoint"], KEY, SECRET, method="post", poll_interval=POLL_S
    )
    client.registerSSHKeyPair(name="by-hand", publickey=_KEY)
    offering = client.listServiceOfferings()["serviceoffering"][0]["id"]
    template = client.listTemplates(templatefilter="executable")["template"][0]["id"]
    zone = client.listZones()["zone"][0]["id"]

    def up() -> None:
        client.deployVirtualMachine(
            serviceofferingid=offering,
            templateid=template,
            zoneid=zone,
            name=f"h-{secrets.token_hex(4)}",
            displayname="by-hand",
            keypair="by-hand",
            fetch_result=True,
        )

    return up


if __name__ == "__main__":
    main(measure, __doc__ or "")
