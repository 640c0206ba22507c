"""Meter `ipmi`: the real ipmitool, and a BMC that speaks RMCP+ with it."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from testing.energy.ipmi_double import PASSWORD, USER, BmcDouble, serving
from testing.energy.waiting import until_value
from tests.meters.energy.scripted import fault, refused
from ullage.common import errors
from ullage.meters.energy import ipmi
from ullage.meters.energy.ipmi import Ipmi, IpmiOptions

needs_ipmitool = pytest.mark.skipif(
    shutil.which("ipmitool") is None, reason="needs the package ipmitool"
)


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[BmcDouble]:
    with serving(tmp_path) as double:
        yield double


def meter(double: BmcDouble, **options: object) -> Ipmi:
    named = {"bmc": double.address, "username": USER, "password_file": double.password_file}
    return Ipmi(IpmiOptions.model_validate({**named, **options}))


@needs_ipmitool
def test_the_power_that_the_board_measures(bmc: BmcDouble) -> None:
    ipmi = meter(bmc)
    (channel,) = ipmi.open()
    assert (channel.name, channel.kind, channel.method) == ("wall", "power", "measured")
    assert (channel.scope, channel.observer) == ("wall", "bmc")
    assert (channel.resolution, channel.accuracy) == (1.0, None)
    assert channel.source == f"ipmitool dcmi power reading of {bmc.address}"
    assert ipmi.read() == {"wall": 217.0}
    bmc.tell(304)
    assert ipmi.read() == {"wall": 304.0}
    ipmi.close()
    ipmi.close()


@needs_ipmitool
def test_one_session_of_the_least_privilege_for_all_readings(bmc: BmcDouble) -> None:
    ipmi = meter(bmc)
    ipmi.open()
    for _ in range(5):
        ipmi.read()
    ipmi.close()
    questions = bmc.questions()
    assert questions.count("44 2 2") == 6, "DCMI readings, with the privilege of a user"
    assert sum(line.startswith("6 1 ") for line in questions) == 1, "one session began"


@needs_ipmitool
def test_the_password_is_nowhere_to_be_seen(bmc: BmcDouble, tmp_path: Path) -> None:
    ipmi = meter(bmc)
    (channel,) = ipmi.open()
    shell = ipmi._shell
    assert shell is not None
    process = Path(f"/proc/{shell._process.pid}")
    visible = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
    assert str(bmc.password_file).encode() in visible
    assert PASSWORD.encode() not in visible
    assert PASSWORD not in f"{channel!r} {ipmi.options!r} {ipmi.options.model_dump_json()}"
    ipmi.close()
    assert not process.exists()


@needs_ipmitool
def test_a_wrong_password(bmc: BmcDouble, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("battery staple\n")
    error = refused(meter(bmc, password_file=wrong))
    assert error.kind is errors.ENERGY_METER_DENIED
    assert "HMAC is invalid" in error.message
    assert "staple" not in error.message
    error = refused(meter(bmc, password_file=tmp_path / "none"))
    assert error.kind is errors.ENERGY_METER_DENIED
    assert "No such file" in error.message
    wrong.write_text("x" * 40)
    assert refused(meter(bmc, password_file=wrong)).kind is errors.ENERGY_METER_DENIED


@needs_ipmitool
@pytest.mark.parametrize(
    ("readings", "words"),
    [
        ({"watts": 0}, "is 0"),
        ({"active": False}, "deactivated"),
        ({"code": 0xC1}, "nvalid command"),
        ({"code": 0xD5}, "no power reading"),
    ],
)
def test_a_board_that_does_not_measure(
    tmp_path: Path, readings: dict[str, Any], words: str
) -> None:
    with serving(tmp_path, **readings) as double:
        error = refused(meter(double))
        assert error.kind is errors.ENERGY_METER_BAD_ANSWER
        assert words in error.message
        assert "ipmitool dcmi power reading" in error.hint
        double.tell(217)
        ipmi = meter(double)
        ipmi.open()
        double.tell(**readings)
        assert fault(ipmi).code == "nonsense"
        double.tell(218)
        assert ipmi.read() == {"wall": 218.0}
        ipmi.close()


@needs_ipmitool
def test_a_board_that_is_not_allowed_to_tell(tmp_path: Path) -> None:
    with serving(tmp_path, code=0xD4) as double:
        error = refused(meter(double))
    assert error.kind is errors.ENERGY_METER_DENIED
    assert "privilege" in error.message


@needs_ipmitool
def test_a_board_that_restarts(bmc: BmcDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    board = meter(bmc)
    board.open()
    monkeypatch.setattr(ipmi, "READ_DEADLINE_S", 0.5)
    bmc.pause()
    assert fault(board).code == "silent"
    bmc.kill()
    assert fault(board).code in {"silent", "gone"}
    monkeypatch.undo()
    bmc.start()
    until_value(board, 217.0)
    board.close()


@needs_ipmitool
def test_ipmitool_is_killed(bmc: BmcDouble) -> None:
    ipmi = meter(bmc)
    ipmi.open()
    assert ipmi._shell is not None
    ipmi._shell._process.kill()
    assert fault(ipmi).code == "gone"
    assert ipmi.read() == {"wall": 217.0}
    ipmi.close()


@needs_ipmitool
def test_nobody_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    double = BmcDouble(tmp_path)
    monkeypatch.setattr(ipmi, "READ_DEADLINE_S", 0.5)
    error = refused(meter(double))
    assert error.kind is errors.ENERGY_METER_ABSENT
    assert "port 623" in error.hint


@needs_ipmitool
@pytest.mark.skipif(Path("/dev/ipmi0").exists(), reason="this machine has a BMC")
def test_a_machine_without_a_bmc() -> None:
    error = refused(Ipmi(IpmiOptions()))
    assert error.kind is errors.ENERGY_METER_ABSENT
    assert "/dev/ipmi0" in error.message


def test_without_ipmitool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    error = refused(Ipmi(IpmiOptions()))
    assert error.kind is errors.HOST_MISSING
    assert "ipmitool" in error.hint


def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Ipmi:
    """The meter of this machine's own BMC, with an ipmitool that is a script."""
    file = tmp_path / "ipmitool"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return Ipmi(IpmiOptions())


ANSWER = """
    Instantaneous power reading:                   {power} Watts
    IPMI timestamp:                           11/22/26 17:16:53 UTC
    Power reading state is:                   activated
"""


@pytest.mark.parametrize(
    ("power", "kind"),
    [
        ("-7", errors.ENERGY_METER_BAD_ANSWER),
        ("nan", errors.ENERGY_METER_BAD_ANSWER),
        ("4294967295", errors.ENERGY_METER_BAD_ANSWER),
    ],
)
def test_figures_that_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, power: str, kind: errors.ErrorKind
) -> None:
    (tmp_path / "answer").write_text(ANSWER.format(power=power))
    prompt = f"printf 'ipmitool> '; while read line; do cat {tmp_path}/answer; "
    ipmi = program(tmp_path, monkeypatch, f"{prompt} printf 'ipmitool> '; done")
    assert refused(ipmi).kind is kind


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("echo Could not open device: Permission denied", errors.ENERGY_METER_DENIED),
        ("yes", errors.ENERGY_METER_BAD_ANSWER),
        ("printf 'ipmitool> '", errors.ENERGY_METER_ABSENT),
        ("exec sleep 600", errors.ENERGY_METER_ABSENT),
    ],
)
def test_an_ipmitool_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, kind: errors.ErrorKind
) -> None:
    monkeypatch.setattr(ipmi, "READ_DEADLINE_S", 0.5 if "sleep" in script else 60.0)
    stub = program(tmp_path, monkeypatch, script)
    assert refused(stub).kind is kind


@pytest.mark.parametrize(
    "options",
    [
        {"bmc": "host"},
        {"bmc": "-I", "username": "u", "password_file": "f"},
        {"bmc": "host", "username": "u"},
        {"username": "u", "password_file": "f"},
        {"bmc": "host", "username": "u u", "password_file": "f"},
        {"bmc": "host", "username": "u" * 17, "password_file": "f"},
        {"bmc": "host", "username": "u", "password_file": "f", "privilege": "root"},
        {"password": "secret"},
    ],
)
def test_options_that_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        IpmiOptions.model_validate(options)
