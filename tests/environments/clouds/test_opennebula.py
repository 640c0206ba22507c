"""OpenNebula's interface, as pyone speaks it: what is asked, and what is made of answers."""

from __future__ import annotations

import base64
import shlex
import stat
import subprocess
import xmlrpc.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from pydantic import ValidationError

from testing.clouds.fake import FLAVOR, IMAGE
from testing.clouds.opennebula import OneFake
from tests.environments.clouds import cloudkit
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.clouds import keys
from ullage.environments.clouds.driver import Request
from ullage.environments.clouds.opennebula import OpenNebulaDriver, OpenNebulaOptions


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OneFake]:
    with cloudkit.standing_cloud("opennebula", tmp_path, monkeypatch) as fake:
        fake.hollow = True
        assert isinstance(fake, OneFake)
        yield fake


def driver(cloud: OneFake, **more: Any) -> OpenNebulaDriver:
    fields = cloud.plan(**more)
    del fields["provider"]
    return OpenNebulaDriver(OpenNebulaOptions.model_validate(fields))


def request(**more: Any) -> Request:
    fields: dict[str, Any] = {
        "name": "ullage-u1234567-c-0",
        "tag": "u1234567",
        "flavor": FLAVOR,
        "image": "0",
        "network": "lab-network",
        "zone": None,
        "security_groups": ("100", "101"),
        "public_key": "ssh-ed25519 AAAA",
        "user_data": "",
        "token": "f" * 32,
    }
    return Request(**fields | more)


def test_all_that_the_fake_says_stands_in_the_published_schemas(cloud: OneFake) -> None:
    """pyone's classes are made from them: each element has its place there."""
    from pyone import bindings

    driver(cloud).launch(request())
    pools = (
        cloud._templatepool_info(-2, -1, -1),
        cloud._imagepool_info(-2, -1, -1),
        cloud._vnpool_info(-2, -1, -1),
    )
    for text in (cloud._vm_info(1), *pools):
        root, parsed = ElementTree.fromstring(text), bindings.parseString(text.encode())
        if text in pools:
            root, parsed = root[0], getattr(parsed, root[0].tag)[0]
        assert {element.tag for element in root} <= set(vars(parsed))


def test_what_is_laid_over_the_template(cloud: OneFake) -> None:
    ours = driver(cloud)
    cloud_config = (
        '#cloud-config\n{"ssh_keys": {"ed25519_private": "P\'\\nQ", "ed25519_public": "U"}}\n'
    )
    wanted = ElementTree.fromstring(ours._wanted(request(user_data=cloud_config, zone="rack 1")))
    assert wanted.findtext("NIC/NETWORK_ID") == "0"
    assert wanted.findtext("NIC/SECURITY_GROUPS") == "100,101"
    assert wanted.findtext("SCHED_REQUIREMENTS") == 'CLUSTER = "rack 1"'
    assert wanted.findtext("CONTEXT/SSH_PUBLIC_KEY") == "ssh-ed25519 AAAA"
    sent = base64.b64decode(wanted.findtext("CONTEXT/USER_DATA", "")).decode()
    assert sent == cloud_config
    script = base64.b64decode(wanted.findtext("CONTEXT/START_SCRIPT_BASE64", "")).decode()
    assert script == keys.boot_script(cloud_config)
    assert "CONTEXT/USER_DATA" not in ours._wanted(request())


def test_the_start_script_puts_the_key_where_sshd_reads_it(tmp_path: Path) -> None:
    host = tmp_path / "pair"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", host], check=True)
    pair = keys.KeyPair(host)
    script = keys.boot_script(keys.cloud_init(pair))
    lines = script.partition("systemctl")[0].replace("/etc/ssh", shlex.quote(str(tmp_path)))
    (tmp_path / "ssh_host_rsa_key").write_text("the image's own")
    subprocess.run(["sh", "-ec", lines], check=True)
    written = tmp_path / "ssh_host_ed25519_key"
    assert written.read_text() == pair.secret
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert written.with_suffix(".pub").read_text().strip() == pair.public
    assert not (tmp_path / "ssh_host_rsa_key").exists()
    assert keys.boot_script("") == ""


def test_one_that_was_only_slow_makes_no_double(
    cloud: OneFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier try is done while a later one is under way: the older is kept."""
    monkeypatch.setattr("testing.clouds.opennebula._UP", (("PENDING", 600.0),))
    ours = driver(cloud)
    first = ours._wanted(request())

    def again() -> None:
        cloud.on_launch = None
        cloud._template_instantiate(0, request().name, False, first, False)

    ours._tokens.add(request().token)  # an earlier try, whose answer did not come
    cloud.on_launch = again
    assert ours.launch(request()).id == "1"
    assert cloud.left() == [request().name]


def test_on_its_way_up_it_cannot_be_ended(cloud: OneFake, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenNebula refuses that of a VM in PROLOG: it is asked until it can."""
    slowly = (("PENDING", 0.05), ("PROLOG", 600.0), ("BOOT", 0.1))
    monkeypatch.setattr("testing.clouds.opennebula._UP", slowly)
    ours = driver(cloud)
    machine = ours.launch(request())
    cloud.vms[1].stages._began -= 0.1
    copying = ours.machine(machine.id)
    assert "PROLOG" in copying.words
    assert (copying.placed, copying.image_there) == (True, False)
    assert not ours.remove(machine.name, machine.tag)
    assert cloud.left()
    cloud.vms[1].stages._began -= 601
    running = ours.machine(machine.id)
    assert (running.state, running.placed, running.image_there) == ("running", True, True)
    while not ours.remove(machine.name, machine.tag):
        pass
    assert ours.machine(machine.id).state == "gone"
    assert ours.machine("77").state == "gone", "not known"


def test_of_others_nothing_is_listed(cloud: OneFake) -> None:
    ours = driver(cloud)
    ours.launch(request())
    cloud._template_instantiate(0, "theirs", False, _bare(), False)
    assert [one.name for one in ours.machines()] == [request().name]
    assert ours.machines("u7654321") == []


def _bare() -> str:
    inner = "<DISK><IMAGE_ID>0</IMAGE_ID></DISK><CONTEXT><SSH_PUBLIC_KEY/></CONTEXT>"
    return f"<TEMPLATE>{inner}</TEMPLATE>"


def test_numbers_and_names(cloud: OneFake) -> None:
    ours = driver(cloud)
    assert ours.find_image(IMAGE) == ours.find_image("0") == "0"
    assert ours.flavor("0") == ours.flavor(FLAVOR)
    for ask, name, words in (
        (ours.find_image, "broken-image", "is ERROR"),
        (ours.find_image, "none", "no image 'none'"),
        (ours.flavor, "none", "no VM template 'none'"),
    ):
        with pytest.raises(UllageError, match=words) as caught:
            ask(name)
        assert caught.value.kind is errors.CLOUD_LACKS


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (xmlrpc.client.ProtocolError("u", 503, "busy", {"Retry-After": "7"}), "again"),
        (xmlrpc.client.ProtocolError("u", 401, "who", {}), "credentials"),
        (xmlrpc.client.ProtocolError("u", 404, "no such page", {}), "refused"),
        (xmlrpc.client.ResponseError(), "again"),
    ],
)
def test_what_an_error_means(cloud: OneFake, error: Exception, trouble: str) -> None:
    fault = driver(cloud).fault(error)
    assert fault is not None
    assert fault.trouble == trouble
    assert driver(cloud).fault(OSError("of nobody")) is None


def test_words_of_errors(cloud: OneFake) -> None:
    import pyone

    ours = driver(cloud)
    locked = pyone.OneException("[one.vm.action] The resource virtual machine is locked. [3].")
    assert ours._trouble(locked) == "again"
    assert ours._trouble(pyone.OneInternalException("x")) == "again"
    assert ours._trouble(pyone.OneException("Error allocating a new virtual machine.")) == "refused"


def test_who_we_are(cloud: OneFake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("nobody", "a:b\nc:d", None):
        file = tmp_path / "another"
        if text is not None:
            file.write_text(text)
        monkeypatch.setenv("ONE_AUTH", str(file if text is not None else tmp_path / "none"))
        with pytest.raises(UllageError) as caught:
            driver(cloud)
        assert caught.value.kind is errors.CLOUD_CREDENTIALS


def test_what_opennebula_has_not() -> None:
    for field in ({"host_key": "console"}, {"region": "r"}, {"cloud": "c"}):
        with pytest.raises(ValidationError):
            OpenNebulaOptions.model_validate({"flavor": "f", "boot_image": "i", **field})
