"""CloudStack's interface, as cs speaks it: what is asked, and what is made of answers."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from testing.clouds.cloudstack import CloudStackFake
from testing.clouds.fake import FLAVOR, IMAGE
from tests.environments.clouds import cloudkit
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.clouds.cloudstack import CloudStackDriver, CloudStackOptions
from ullage.environments.clouds.driver import Request


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CloudStackFake]:
    with cloudkit.standing_cloud("cloudstack", tmp_path, monkeypatch) as fake:
        fake.hollow = True
        assert isinstance(fake, CloudStackFake)
        yield fake


def driver(fake: CloudStackFake, **more: Any) -> CloudStackDriver:
    fields = fake.plan(**more)
    del fields["provider"]
    return CloudStackDriver(CloudStackOptions.model_validate(fields))


def request(ours: CloudStackDriver, **more: Any) -> Request:
    fields: dict[str, Any] = {
        "name": "ullage-u1234567-C_0",
        "tag": "u1234567",
        "flavor": FLAVOR,
        "image": ours.find_image(IMAGE),
        "network": "lab-network",
        "zone": None,
        "security_groups": ("ssh", "9b3fc2d0-1a2b-4c3d-8e4f-5a6b7c8d9e0f"),
        "public_key": "ssh-ed25519 AAAA",
        "user_data": "#cloud-config\n{}\n",
        "token": "f" * 32,
    }
    return Request(**fields | more)


def test_what_is_asked_for(cloud: CloudStackFake) -> None:
    ours = driver(cloud)
    wanted = ours._wanted(request(ours))
    assert wanted["name"] == "ullage-u1234567-c-0-ffffffff", "a host's name"
    assert wanted["displayname"] == f"ullage-u1234567-C_0 {'f' * 32}"
    assert wanted["group"] == "u1234567"
    assert wanted["securitygroupnames"] == ["ssh"]
    assert wanted["securitygroupids"] == ["9b3fc2d0-1a2b-4c3d-8e4f-5a6b7c8d9e0f"]
    assert base64.b64decode(wanted["userdata"]) == b"#cloud-config\n{}\n"


def test_from_nothing_to_nothing(cloud: CloudStackFake) -> None:
    ours = driver(cloud)
    wanted = request(ours)
    machine = ours.launch(wanted)
    assert (machine.name, machine.tag, machine.state) == (wanted.name, wanted.tag, "pending")
    while ours.machine(machine.id).state != "running":
        pass
    assert [one.id for one in ours.machines("u1234567")] == [machine.id]
    assert ours.machines("u7654321") == []
    while not ours.remove(wanted.name, wanted.tag):
        pass
    assert cloud.calls.count("destroyVirtualMachine") == 2, "once to expunge, which we may not"
    assert ours.machine(machine.id).state == "gone"
    assert ours.machine("77").state == "gone", "not known"
    assert cloud.left() == []


def test_who_may_expunge_does(cloud: CloudStackFake) -> None:
    cloud.may_expunge = True
    ours = driver(cloud)
    machine = ours.launch(request(ours))
    while not ours.remove(machine.name, machine.tag):
        pass
    assert ours.machine(machine.id).words == "Expunging"
    assert cloud.calls.count("destroyVirtualMachine") == 1


def test_a_failed_job_says_why(cloud: CloudStackFake) -> None:
    cloud.stillborn = True
    ours = driver(cloud)
    machine = ours.launch(request(ours))
    while (machine := ours.machine(machine.id)).state == "pending":
        pass
    assert machine.state == "failed"
    assert machine.words == "Error: Unable to create a deployment for VM"


def test_many_pages(cloud: CloudStackFake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cs.client.PAGE_SIZE", 2)
    ours = driver(cloud)
    for number in range(5):
        name, token = f"ullage-u1234567-c-{number}", f"{number:032x}"
        token = token[::-1]
        ours.launch(request(ours, name=name, token=token))
    assert len(ours.machines()) == 5


def test_names_that_are_not_there(cloud: CloudStackFake) -> None:
    ours = driver(cloud)
    cloud.zones = ("one", "two")
    for ask, name, words in (
        (ours.find_image, "broken-image", "is not ready"),
        (ours.find_image, "none", "no template 'none'"),
        (ours.flavor, "custom", "has no size of its own"),
        (ours.flavor, "none", "no service offering 'none'"),
        (ours._zone, None, "there are 2 zones"),
        (ours._zone, "three", "no zone 'three'"),
    ):
        with pytest.raises(UllageError, match=words) as caught:
            ask(name)  # type: ignore[arg-type]
        assert caught.value.kind is errors.CLOUD_LACKS


def test_who_we_are(cloud: CloudStackFake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    monkeypatch.setenv("CLOUDSTACK_CONFIG", str(bare / "none.ini"))
    monkeypatch.setenv("HOME", str(bare))
    monkeypatch.chdir(bare)
    for more in ({}, {"cloud": "another"}):
        with pytest.raises(UllageError) as caught:
            driver(cloud, **more)
        assert caught.value.kind is errors.CLOUD_CREDENTIALS
    monkeypatch.setenv("CLOUDSTACK_KEY", "k")
    monkeypatch.setenv("CLOUDSTACK_SECRET", "s")
    assert driver(cloud).title == f"CloudStack at {cloud.endpoint}/client/api"


def test_what_cloudstack_has_not() -> None:
    for field in ({"host_key": "console"}, {"region": "r"}):
        with pytest.raises(ValidationError):
            CloudStackOptions.model_validate({"flavor": "f", "boot_image": "i", **field})
