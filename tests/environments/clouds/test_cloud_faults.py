"""What every driver makes of a cloud that refuses, is busy, or does not really answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testing.clouds import ec2
from testing.clouds.fake import Answer, CloudFake, Refusal
from tests.environments.clouds import cloudkit
from ullage.common import errors
from ullage.common.errors import ErrorKind, UllageError
from ullage.environments.clouds.calls import Calls

pytestmark = pytest.mark.usefixtures("credentials")

Cloud = CloudFake | ec2.Ec2Double


@pytest.fixture(scope="module")
def double() -> Iterator[ec2.Ec2Double]:
    """One for all: moto takes its time to stand."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "AKIANOTONE")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "of nobody")
        with ec2.cloud() as double:
            yield double


@pytest.fixture(params=["ec2", *sorted(cloudkit.KINDS)])
def standing(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cloud]:
    monkeypatch.setattr("ullage.environments.clouds.calls._LONGEST_S", 0.01)
    if request.param == "ec2":
        here: ec2.Ec2Double = request.getfixturevalue("double")
        here.trouble = None
        here.calls.clear()
        yield here
    else:
        with cloudkit.standing_cloud(request.param, tmp_path, monkeypatch) as fake:
            fake.hollow = True
            yield fake


def checked(cloud: Cloud, **more: Any) -> None:
    asyncio.run(cloudkit.provider(cloud, **more).check())


def refused(cloud: Cloud, **more: Any) -> UllageError:
    with pytest.raises(UllageError) as caught:
        checked(cloud, **more)
    return caught.value


def launched(cloud: Cloud) -> None:
    ours = cloudkit.provider(cloud)

    async def launch() -> None:
        await ours.check()
        calls = Calls(ours.driver(), "c-0")
        request = ours._request("ullage-u1234567-c-0", "u1234567", cloudkit.PUBLIC_KEY, "")
        await calls.ask(calls.driver.launch, request)

    asyncio.run(launch())


@pytest.mark.parametrize(
    ("why", "kind"),
    [
        ("credentials", errors.CLOUD_CREDENTIALS),
        ("quota", errors.CLOUD_QUOTA),
        ("lacks", errors.CLOUD_LACKS),
        ("refused", errors.CLOUD_REFUSED),
    ],
)
def test_a_refusal_is_not_asked_again(standing: Cloud, why: Refusal, kind: ErrorKind) -> None:
    answer = standing.refusal(why)
    standing.trouble = lambda action: answer if action == standing.LAUNCH else None
    with pytest.raises(UllageError) as caught:
        launched(standing)
    assert caught.value.kind is kind
    assert standing.calls.count(standing.LAUNCH) == 1


def test_what_is_not_there(standing: Cloud) -> None:
    for field in ("flavor", "boot_image"):
        error = refused(standing, **{field: "ami-00000000"})
        assert error.kind is errors.CLOUD_LACKS, field


HTML = "<html><body>502 Bad Gateway</body></html>"
_PAGE = {"Content-Type": "text/html", "Content-Length": str(len(HTML))}


@pytest.mark.parametrize(
    "answer",
    [
        (429, {"Retry-After": "0", "Content-Length": "0"}, ""),
        (500, {"Content-Length": "0"}, ""),
        (502, _PAGE, HTML),
        (200, _PAGE, HTML),
        (200, {"Content-Type": "text/xml", "Content-Length": "9999"}, "<DescribeInst"),
        (200, {"Content-Type": "application/json", "Content-Length": "9999"}, '{"listserv'),
        (200, {"Content-Type": "application/json", "Content-Length": "2"}, "{}"),
        (200, {"Content-Length": "0"}, ""),
    ],
    ids=["429", "500", "502", "page", "half", "half-json", "other-json", "nothing"],
)
def test_what_is_no_answer_is_asked_again(standing: Cloud, answer: Answer) -> None:
    bad = {standing.SIZES: 2}

    def trouble(action: str) -> Answer | None:
        bad[action] = bad.get(action, 0) - 1
        return answer if bad[action] >= 0 else None

    standing.trouble = trouble
    checked(standing)
    assert standing.calls.count(standing.SIZES) == 3


def test_the_budget_ends(standing: Cloud) -> None:
    standing.trouble = lambda _: (503, {"Content-Length": "0"}, "")
    error = refused(standing)
    assert error.kind is errors.CLOUD_NO_ANSWER
    assert "in 8 tries" in error.message
    assert standing.calls.count(standing.SIZES) == 8


def test_nobody_listens(standing: Cloud) -> None:
    error = refused(standing, endpoint="http://127.0.0.1:9/nowhere")
    assert error.kind is errors.CLOUD_NO_ANSWER


@pytest.mark.parametrize("name", sorted(cloudkit.KINDS))
def test_wrong_credentials(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cloudkit.standing_cloud(name, tmp_path, monkeypatch) as fake:
        for variable, text in cloudkit.KINDS[name].credentials(tmp_path, "no:body").items():
            monkeypatch.setenv(variable, text)
        error = refused(fake)
        assert error.kind is errors.CLOUD_CREDENTIALS
        assert "no:body" not in error.message
        assert fake.calls.count(fake.SIZES) == 1
