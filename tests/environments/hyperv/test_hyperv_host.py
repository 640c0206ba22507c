"""A Hyper-V host that answers something else, or nobody."""

from __future__ import annotations

import asyncio
import base64
import secrets
from pathlib import Path

import pytest
from pydantic import ValidationError

from testing.hyperv.host import HypervDouble
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.hyperv.answers import Facts, Names, VmState
from ullage.environments.hyperv.host import HypervHost, _last_words
from ullage.environments.hyperv.options import HypervOptions
from ullage.environments.hyperv.provider import Hyperv

pytestmark = pytest.mark.root


def ask(hyperv: HypervDouble, address: str = "hv1") -> Names:
    host = HypervHost(address, hyperv.folder / "ssh_config")
    fields = {"name": "n", "place": "C:\\u\\n", "folder": "C:\\u", "pattern": "ullage-*"}
    return asyncio.run(host.ask("names", Names, 30.0, **fields))


def refused(hyperv: HypervDouble, address: str = "hv1") -> UllageError:
    with pytest.raises(UllageError) as caught:
        ask(hyperv, address)
    return caught.value


def test_a_banner_and_a_profile_do_no_harm(hyperv: HypervDouble) -> None:
    hyperv.say("banner", "Willkommen!\r\nullage-00:e30=\r\n#< CLIXML\r\n")
    assert ask(hyperv).names == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it said nothing"),
        ("Enter password:\x1b[2J", "it said 'Enter password:?[2J'"),
        ("ullage-0123456789abcdef:e30=", "it said"),
    ],
)
def test_no_answer(hyperv: HypervDouble, text: str, says: str) -> None:
    hyperv.say("instead", text)
    error = refused(hyperv)
    assert error.kind is errors.HYPERV_NO_ANSWER
    assert says in error.message


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\xff\xfe{",
        b'{"result": {"names": [1]}}',
        b'{"result": {"names": ["a"], "more": 1}}',
        b'{"result": null}',
        b"{}",
        b"[1]",
        b'{"result": {"names": ["' + b"a" * 5000 + b'"]}}',
    ],
)
def test_an_answer_of_another_form(
    hyperv: HypervDouble, answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda _: "00")
    hyperv.say("instead", f"ullage-00:{base64.b64encode(answer).decode()}\r\n")
    assert refused(hyperv).kind is errors.HYPERV_NO_ANSWER


def test_an_answer_without_end(hyperv: HypervDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda _: "00")
    hyperv.say("instead", "ullage-00:" + "A" * (2 << 20))
    assert "more than 1 MiB" in refused(hyperv).message


def test_a_host_that_asks_for_credentials(hyperv: HypervDouble) -> None:
    (hyperv.folder / "user.pub").write_text("")
    error = refused(hyperv)
    assert error.kind is errors.HYPERV_CREDENTIALS
    assert "Permission denied" in error.message


def test_a_host_that_nobody_knows(hyperv: HypervDouble) -> None:
    config = hyperv.folder / "ssh_config"
    config.write_text(f"{config.read_text()}\nHost gone\n HostName 127.0.0.1\n Port 1\n")
    error = refused(hyperv, "gone")
    assert error.kind is errors.HYPERV_UNREACHABLE
    assert "Connection refused" in error.message
    (hyperv.folder / "known").write_text("")
    assert refused(hyperv).kind is errors.HYPERV_UNREACHABLE


def test_its_facts(hyperv: HypervDouble) -> None:
    host = HypervHost("hv1", hyperv.folder / "ssh_config")
    facts = asyncio.run(host.ask("facts", Facts, 30.0, parent="C:\\images\\debian.vhdx"))
    assert facts.parent is not None and facts.parent.kind == "Dynamic"
    assert facts.cpus == hyperv.state["cpus"]


def test_nothing_of_a_plan_is_in_the_command(tmp_path: Path) -> None:
    """What comes after the address is the same for all, and fits into cmd.exe's command line."""
    one, other = HypervHost("a").argv(), HypervHost("b", tmp_path).argv()
    assert one[-1] == other[-1]
    assert len(one[-1]) < 8191


@pytest.mark.parametrize(
    "change",
    [
        {"host": "-oProxyCommand=x"},
        {"host": "a b"},
        {"parent": "images\\a.vhdx"},
        {"parent": "C:\\a\\..\\b\n"},
        {"parent": "C:\\a|b"},
        {"folder": "C:"},
        {"switch": "a\nb"},
        {"user": "-l"},
        {"generation": 1, "secure_boot": "windows"},
        {"host_key": "ssh-ed25519 short"},
        {"host_key": "ssh-ed25519 " + "A" * 68 + "\nother"},
    ],
)
def test_fields_that_are_none(change: dict[str, str | int]) -> None:
    good = {
        "host": "hv1",
        "parent": "C:\\a.vhdx",
        "switch": "lab",
        "key": "/k",
        "host_key": "ssh-ed25519 " + "A" * 68,
    }
    HypervOptions.model_validate(good)
    with pytest.raises(ValidationError):
        HypervOptions.model_validate({**good, **change})


def test_what_it_says_before_anybody_has_asked_the_host() -> None:
    fields = {"host": "hv1", "parent": "C:\\a.vhdx", "switch": "lab", "key": "/k"}
    options = HypervOptions.model_validate({**fields, "host_key": "ssh-ed25519 " + "A" * 68})
    provider = Hyperv(options)
    assert provider.label() == "hyperv"
    assert provider.pinning() == "by Hyper-V"
    assert provider.treatments()["hypervisor"] == "Hyper-V"


def test_the_address_that_a_machine_elsewhere_can_have() -> None:
    fields = {"state": "Running", "heartbeat": "OkApplicationsHealthy", "cpus": 1}
    addresses = (None, "fe80::1", "169.254.1.1", "0.0.0.0", "10.0.0.5")
    state = VmState(**fields, memory_bytes=1, addresses=addresses)
    assert state.address == "10.0.0.5"
    assert state.beats


def test_powershells_errors_are_read_out_of_its_xml() -> None:
    """As Windows PowerShell 5.1 writes them where its output is no console."""
    words = '<S S="Error">New-VM : it &lt;is&gt; full_x000D__x000A_</S>'
    progress = '<Obj S="progress"><MS><AV>Preparing modules</AV></MS></Obj>'
    printed = f'#< CLIXML\r\n<Objs Version="1.1.0.1">{progress}{words}</Objs>\r\n'
    assert _last_words(printed) == "New-VM : it <is> full"
    assert _last_words("one\ntwo") == "one two"
