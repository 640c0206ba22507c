"""Meter `apcupsd`: the real daemon with a simulated Smart-UPS, and answers that none gives."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from testing.energy.apcupsd_double import (
    ON_BATTERY,
    ONLINE,
    ApcupsdDouble,
    frames,
    needs_apcupsd,
    running,
    status,
)
from testing.energy.waiting import until, until_fault, until_value
from tests.meters.energy.scripted import fault, refused
from tests.meters.energy.tcp_double import answering
from ullage.common import errors
from ullage.meters.energy import remote
from ullage.meters.energy.apcupsd import Apcupsd, ApcupsdOptions


@pytest.fixture
def apcupsd(tmp_path: Path) -> Iterator[ApcupsdDouble]:
    with running(tmp_path) as double:
        yield double


def meter(server: str, **options: object) -> Apcupsd:
    return Apcupsd(ApcupsdOptions.model_validate({"server": server, **options}))


@needs_apcupsd
def test_the_load_times_the_rating(apcupsd: ApcupsdDouble) -> None:
    ups = meter(apcupsd.server, rating=865)
    (channel,) = ups.open()
    assert (channel.name, channel.kind, channel.method) == ("wall", "power", "measured")
    assert (channel.scope, channel.observer, channel.accuracy) == ("wall", "host", None)
    assert channel.resolution == pytest.approx(0.865)
    assert channel.source == f"LOADPCT × 865 W of apcupsd at {apcupsd.server}"
    assert ups.read()["wall"] == pytest.approx(0.33 * 865)
    apcupsd.ups.load = "014.3"
    until_value(ups, 0.143 * 865)


@needs_apcupsd
def test_the_daemon_writes_only_in_its_folder(apcupsd: ApcupsdDouble, tmp_path: Path) -> None:
    until((tmp_path / "pid").exists, "apcupsd writes its number")


@needs_apcupsd
def test_on_battery_is_no_reading(apcupsd: ApcupsdDouble) -> None:
    ups = meter(apcupsd.server, rating=865)
    ups.open()
    apcupsd.ups.state = ON_BATTERY
    assert "ONBATT" in str(until_fault(ups, "on-battery"))
    apcupsd.ups.state = ONLINE
    until_value(ups, 0.33 * 865)


@needs_apcupsd
def test_a_ups_that_is_unplugged_and_a_daemon_that_is_killed(apcupsd: ApcupsdDouble) -> None:
    ups = meter(apcupsd.server, rating=865)
    ups.open()
    impatient = meter(apcupsd.server, rating=865, oldest="4s")
    apcupsd.ups.unplug()
    assert "s ago" in str(until_fault(impatient, "silent"))
    assert "COMMLOST" in str(until_fault(ups, "gone"))
    error = refused(meter(apcupsd.server, rating=865))
    assert error.kind is errors.ENERGY_METER_ABSENT
    apcupsd.kill()
    assert "refused" in str(fault(ups))


@needs_apcupsd
def test_a_smart_ups_does_not_tell_its_rating(apcupsd: ApcupsdDouble) -> None:
    error = refused(meter(apcupsd.server))
    assert error.kind is errors.ENERGY_METER_BAD_ANSWER
    assert "NOMPOWER" in error.message
    assert "rating:" in error.hint


@pytest.mark.parametrize(("load", "watts"), [("33.002", "285.467"), ("14.263", "123.375")])
def test_the_rating_that_the_ups_tells(load: str, watts: str) -> None:
    with answering(status(LOADPCT=f"{load} Percent Load Capacity")) as double:
        ups = meter(double.address, accuracy="3%")
        (channel,) = ups.open()
        assert channel.resolution == pytest.approx(0.00865)
        assert channel.accuracy == 0.03
        assert f"{ups.read()['wall']:.3f}" == watts
        assert double.heard == b"\x00\x06status" * 2


def test_a_figure_that_is_too_old() -> None:
    """apcupsd tells the last one for some time after its UPS fell silent."""
    with answering(status(DATE="2026-11-22 17:28:36 +0000")) as double:
        ups = meter(double.address)
        ups.open()
        error = fault(ups)
        assert (error.code, str(error)) == ("silent", "apcupsd got its figures 67 s ago")
        assert meter(double.address, oldest="2m").read()["wall"] == pytest.approx(285.45)


def test_nobody_there() -> None:
    with answering(b"") as double:
        address = double.address
    error = refused(meter(address))
    assert error.kind is errors.ENERGY_METER_ABSENT
    assert "apcaccess" in error.hint


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (frames(), "nonsense", "no STATUS"),
        (status(STATUS="COMMLOST"), "gone", "COMMLOST"),
        (status(STATUS="ONBATT"), "on-battery", "ONBATT"),
        (status(STATUS=""), "nonsense", "no STATUS"),
        (status(LOADPCT=None), "nonsense", "LOADPCT"),
        (status(LOADPCT="N/A"), "nonsense", "LOADPCT"),
        (status(LOADPCT="33.0 Volts"), "nonsense", "LOADPCT"),
        (status(LOADPCT="-1.0 Percent"), "nonsense", "negative"),
        (status(LOADPCT="0.0 Percent"), "nonsense", "is 0"),
        (status(LOADPCT="1e9 Percent"), "nonsense", "no number"),
        (status(NOMPOWER=None), "nonsense", "NOMPOWER"),
        (status(NOMPOWER="nan Watts"), "nonsense", "NOMPOWER"),
        (status(NOMPOWER="99999999 Watts"), "nonsense", "more than any machine"),
        (frames(b"STATUS ONLINE\n"), "nonsense", "apcupsd said"),
        (frames(b"\x1b[2J\xff"), "nonsense", "apcupsd said"),
        (frames(*[b"a : b"] * 501), "nonsense", "not how apcupsd answers"),
        (b"\xff\xff", "nonsense", "not how apcupsd answers"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "nonsense", "not how apcupsd answers"),
        (None, "gone", "closed the connection"),
    ],
)
def test_answers_that_cannot_be_trusted(answer: bytes | None, code: str, words: str) -> None:
    with answering(status()) as double:
        ups = meter(double.address)
        ups.open()
        double.answer = lambda _: answer
        error = fault(ups)
        assert error.code == code
        assert words in str(error)
        assert "\x1b" not in str(error)
        double.answer = lambda _: status()
        assert ups.read()["wall"] == pytest.approx(285.45)


@pytest.mark.parametrize("drips", [False, True])
def test_a_server_that_never_ends_its_answer(monkeypatch: pytest.MonkeyPatch, drips: bool) -> None:
    with answering(b"") as double:
        double.answer = lambda _: b"\x01\x00"
        double.drips = drips
        monkeypatch.setattr(remote, "READ_DEADLINE_S", 0.3)
        error = fault(meter(double.address))
    assert error.code == ("nonsense" if drips else "silent"), "the drip claims 30,840 bytes"


@given(answer=st.binary(max_size=64))
def test_any_bytes_are_a_fault(answer: bytes) -> None:
    answers = [answer, None]
    with answering(lambda _: answers.pop(0) if answers else None) as double:
        ups = meter(double.address)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(remote, "READ_DEADLINE_S", 0.05)
            assert fault(ups).code in {"gone", "silent", "nonsense"}


@pytest.mark.parametrize(
    "options", [{"server": ""}, {"server": "a b"}, {"server": "h:0"}, {"rating": -1}, {"ups": "x"}]
)
def test_options_that_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ApcupsdOptions.model_validate(options)
