"""Clouds whose answers have the right form and other values: every driver ends in words."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from testing.clouds.fake import Answer, CloudFake
from tests.environments.clouds import cloudkit
from tests.lab.chaos.folders import changed
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.clouds import cloudstack, provider
from ullage.environments.clouds.calls import Calls

pytestmark = pytest.mark.usefixtures("credentials")
_TEXT = re.compile(r"(?<=>)[^<>\s][^<>]*(?=<)")
_ESCAPED = re.compile(r"(?<=&gt;)[^&<>\s][^&<>]*(?=&lt;)")
_WORDS = ("", "-1", "1e999", "nan", "99999999999999999999", "x", "\u202e", "None", "1.5")


@pytest.fixture(params=sorted(cloudkit.KINDS))
def fake(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CloudFake]:
    monkeypatch.setattr("ullage.environments.clouds.calls._LONGEST_S", 0.001)
    with cloudkit.standing_cloud(request.param, tmp_path, monkeypatch) as fake:
        fake.hollow = True
        yield fake


def another(text: str, draw: random.Random) -> str:
    """The answer with one value changed, in JSON or XML."""
    if text[:1] in {"{", "["}:
        return json.dumps(changed(json.loads(text), draw)[0])
    places = [*_TEXT.finditer(text), *_ESCAPED.finditer(text)]
    if not places:
        return text
    place = draw.choice(places)
    return text[: place.start()] + draw.choice(_WORDS) + text[place.end() :]


async def everything(cloud: CloudFake) -> None:
    """All calls that a run makes."""
    ours = cloudkit.provider(cloud)
    calls = Calls(ours.driver(), "c-0", tries=2)
    driver: Any = calls.driver
    request = ours._request("ullage-u1234567-c-0", "u1234567", cloudkit.PUBLIC_KEY, "")
    identifier = "1"
    with suppress(UllageError):
        await ours.check()
    with suppress(UllageError):
        identifier = (await calls.ask(driver.launch, request)).id
    for call, arguments in (
        (driver.limits, ()),
        (driver.machine, (identifier,)),
        (driver.machines, (request.tag,)),
        (driver.console, (identifier,)),
        (driver.stands_on, (identifier,)),
        (driver.remove, (request.name, request.tag)),
    ):
        with suppress(UllageError):
            await calls.ask(call, *arguments)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_it_answers(fake: CloudFake, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    draw = random.Random(seed)
    honest = fake.answer

    def lying(path: str, body: bytes) -> Answer:
        status, headers, text = honest(path, body)
        return status, headers, another(text, draw) if draw.random() < 0.5 else text

    monkeypatch.setattr(fake, "answer", lying)
    asyncio.run(everything(fake))


@pytest.mark.parametrize(
    "text", [None, "", "cloud.example", "-oProxyCommand=x", "10.0.0.1\n*", 7.5]
)
def test_what_is_no_address_is_written_nowhere(text: object) -> None:
    assert provider._ip(text) is None
    assert provider._ip("10.0.0.1") == "10.0.0.1"


def test_a_list_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, credentials: None
) -> None:
    """Each page has one more, and more are said to come."""
    monkeypatch.setattr("ullage.environments.clouds.calls._LONGEST_S", 0.001)
    monkeypatch.setattr(cloudstack, "_MOST_PAGES", 3)
    with cloudkit.standing_cloud("cloudstack", tmp_path, monkeypatch) as fake:
        page = {"listvirtualmachinesresponse": {"count": 10**9, "virtualmachine": [{"id": "1"}]}}
        headers = {"Content-Type": "application/json"}
        fake.trouble = lambda action: (200, headers, json.dumps(page))
        calls = Calls(cloudkit.provider(fake).driver(), "c-0", tries=2)
        with pytest.raises(UllageError) as caught:
            asyncio.run(calls.ask(calls.driver.machines))
        assert caught.value.kind is errors.CLOUD_NO_ANSWER
        assert "without" in caught.value.message
        assert len(fake.calls) == 6
