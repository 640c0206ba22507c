"""Meter `nut`: the real `upsd` and `dummy-ups`, and answers that no `upsd` gives."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from testing.energy.nut_double import NAME, NutDouble, needs_nut, started
from testing.energy.waiting import until, until_fault, until_value
from tests.meters.energy.scripted import fault, lines, refused
from tests.meters.energy.tcp_double import answering
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.meters.energy import remote
from ullage.meters.energy.base import FaultError
from ullage.meters.energy.nut import Nut, NutOptions
from ullage.meters.energy.recorder import Recorder
from ullage.runs.readings import Fault, Reading

BUSY_W, IDLE_W = 285.4673, 123.37495
"""865 W at 33.002 % and at 14.263 %: the study prints 285.467 and 123.375."""


@pytest.fixture
def upsd(tmp_path: Path) -> Iterator[NutDouble]:
    with started(tmp_path) as double:
        yield double


def meter(double: NutDouble, **options: object) -> Nut:
    return Nut(NutOptions.model_validate({"ups": double.ups, **options}))


@needs_nut
def test_the_load_times_the_rating(upsd: NutDouble) -> None:
    nut = meter(upsd, rating=865)
    (channel,) = nut.open()
    assert (channel.name, channel.kind, channel.method) == ("wall", "power", "measured")
    assert (channel.scope, channel.observer, channel.accuracy) == ("wall", "host", None)
    assert channel.resolution == pytest.approx(0.001 / 100 * 865), "the load has three decimals"
    assert channel.source == f"ups.load × 865 W of {upsd.ups}"
    assert f"{nut.read()['wall']:.3f}" == "285.467"
    upsd.tell(ups_status="OL", ups_load="14.263")
    until_value(nut, IDLE_W)
    assert f"{nut.read()['wall']:.3f}" == "123.375"


@needs_nut
def test_a_script_changes_the_load_over_time(tmp_path: Path) -> None:
    text = "ups.status: OL\nups.load: 33.002\nTIMER 1\nups.load: 14.263\nTIMER 1"
    with started(tmp_path, "office.seq", text) as double:
        nut = meter(double, rating=865)
        nut.open()
        until_value(nut, BUSY_W)
        until_value(nut, IDLE_W)
        until_value(nut, BUSY_W)


def _opens(nut: Nut) -> bool:
    try:
        return bool(nut.open())
    except UllageError:
        return False


@needs_nut
def test_the_real_power_is_preferred_and_the_nominal_known(upsd: NutDouble) -> None:
    upsd.tell(ups_status="OL CHRG", ups_load="33", ups_realpower_nominal="900")
    nut = meter(upsd)
    until(lambda: _opens(nut), "the nominal power is told")
    (channel,) = nut.open()
    assert channel.resolution == pytest.approx(9.0), "the load is in whole per cent"
    until_value(nut, 297.0)
    upsd.tell(ups_status="OL", ups_load="33", ups_realpower_nominal="900", ups_realpower="301.5")
    nut = meter(upsd, accuracy="3%")
    until(lambda: nut.open()[0].source == f"ups.realpower of {upsd.ups}", "a real power")
    (channel,) = nut.open()
    assert channel.resolution == pytest.approx(0.1)
    assert channel.accuracy == 0.03
    assert nut.read() == {"wall": 301.5}


@needs_nut
def test_on_battery_is_no_reading(upsd: NutDouble) -> None:
    nut = meter(upsd, rating=865)
    nut.open()
    upsd.tell(ups_status="OB DISCHRG", ups_load="33.002")
    assert "OB DISCHRG" in str(until_fault(nut, "on-battery"))
    upsd.tell(ups_status="OL", ups_load="33.002")
    until_value(nut, BUSY_W)


@needs_nut
def test_upsd_is_killed_and_comes_back(upsd: NutDouble) -> None:
    nut = meter(upsd, rating=865)
    nut.open()
    upsd.kill()
    assert fault(nut).code == "gone"
    assert fault(nut).code == "gone"
    upsd.start()
    assert nut.read()["wall"] == pytest.approx(BUSY_W)


@needs_nut
def test_a_driver_that_stands_still_or_dies(upsd: NutDouble) -> None:
    nut = meter(upsd, rating=865)
    nut.open()
    upsd.freeze_driver()
    assert "DATA-STALE" in str(until_fault(nut, "silent"))
    upsd.kill_driver()
    assert "DRIVER-NOT-CONNECTED" in str(until_fault(nut, "gone"))
    error = refused(meter(upsd, rating=865))
    assert error.kind is errors.ENERGY_METER_ABSENT
    assert "DRIVER-NOT-CONNECTED" in error.message


@needs_nut
def test_a_driver_that_comes_back_without_the_load_and_then_with_it(
    upsd: NutDouble, tmp_path: Path
) -> None:
    file = tmp_path / "wall.jsonl"
    recorder = Recorder(meter(upsd, rating=865), "wall", "u0000001", file, 0.02)

    def answers_with(words: str) -> bool:
        return any(isinstance(line, Fault) and words in line.message for line in lines(file))

    def read() -> list[float]:
        return [line.values["wall"] for line in lines(file) if isinstance(line, Reading)]

    recorder.start()
    try:
        until(lambda: len(read()) > 2, "it is read")
        upsd.kill_driver()
        until(lambda: answers_with("DRIVER-NOT-CONNECTED"), "the driver is missed")
        upsd.tell(ups_status="OL", battery_charge="100")
        upsd.start_driver()
        until(lambda: answers_with("neither ups.realpower nor ups.load"), "opened without a load")
        before = len(read())
        upsd.tell(ups_status="OL", ups_load="14.263")
        until(lambda: len(read()) > before + 10, "it is read again")
    finally:
        recorder.stop()
    assert list(set(read()[:before])) == [pytest.approx(BUSY_W)]
    assert list(set(read()[before:])) == [pytest.approx(IDLE_W)]


@needs_nut
def test_an_ups_that_upsd_does_not_know(upsd: NutDouble) -> None:
    error = refused(meter(upsd, ups=upsd.ups.replace(NAME, "attic"), rating=865))
    assert error.kind is errors.ENERGY_METER_ABSENT
    assert "UNKNOWN-UPS" in error.message
    assert "upsc" in error.hint


@needs_nut
def test_nothing_that_tells_watts(upsd: NutDouble) -> None:
    error = refused(meter(upsd))
    assert error.kind is errors.ENERGY_METER_BAD_ANSWER
    assert "of how many watts?" in error.message
    assert "rating:" in error.hint


@needs_nut
def test_an_ups_without_a_load(tmp_path: Path) -> None:
    text = "ups.status: OL\nbattery.charge: 100"
    with started(tmp_path, text=text, last="battery.charge") as double:
        error = refused(meter(double, rating=865))
    assert error.kind is errors.ENERGY_METER_BAD_ANSWER
    assert "neither ups.realpower nor ups.load" in error.message


@needs_nut
def test_a_password_is_sent_and_stays_out_of_everything_else(
    upsd: NutDouble, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text("let me\n")
    nut = meter(upsd, rating=865, username="reader", password_file=file)
    (channel,) = nut.open()
    assert nut.read()["wall"] == pytest.approx(BUSY_W)
    assert "let me" not in f"{channel!r} {nut.options!r}"
    file.unlink()
    error = refused(meter(upsd, rating=865, username="reader", password_file=file))
    assert error.kind is errors.ENERGY_METER_DENIED
    assert str(file) in error.message


def test_no_upsd_at_all() -> None:
    with answering(b"") as double:
        address = double.address
    error = refused(Nut(NutOptions(ups=f"{NAME}@{address}", rating=865)))
    assert error.kind is errors.ENERGY_METER_ABSENT
    assert "refused" in error.message


def talk(status: str = "OL", load: str = "33.002") -> dict[str, str]:
    return {
        "ups.realpower": "ERR VAR-NOT-SUPPORTED",
        "ups.load": f'VAR {NAME} ups.load "{load}"',
        "ups.realpower.nominal": f'VAR {NAME} ups.realpower.nominal "865"',
        "ups.status": f'VAR {NAME} ups.status "{status}"',
    }


def opened(answers: dict[str, str], address: str) -> Nut:
    nut = Nut(NutOptions(ups=f"{NAME}@{address}"))
    nut.open()
    return nut


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (b"ERR ACCESS-DENIED\n", "denied", "ACCESS-DENIED"),
        (b"ERR\n", "gone", "without a name"),
        (b"\n", "nonsense", "upsd said"),
        (b'VAR office ups.load "33\n', "nonsense", "upsd said"),
        (b'VAR attic ups.status "OL"\n', "nonsense", "it said"),
        (b'VAR office ups.status "OL" more\n', "nonsense", "it said"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "nonsense", "it said"),
        (b"\x1b[2J\xff\xfe\n", "nonsense", "said"),
        (b"x" * 9000, "nonsense", "no end within"),
        (None, "gone", "closed the connection"),
    ],
)
def test_answers_that_cannot_be_trusted(answer: bytes | None, code: str, words: str) -> None:
    answers = {name: f"{text}\n".encode() for name, text in talk().items()}
    with answering(lambda request: answers[request.decode().split()[-1]]) as double:
        nut = opened({}, double.address)
        assert nut.read()["wall"] == pytest.approx(BUSY_W)
        double.answer = lambda _: answer
        error = fault(nut)
    assert error.code == code
    assert words in str(error)
    assert "\x1b" not in str(error)


def test_per_cent_are_never_watts_after_an_opening_that_failed(tmp_path: Path) -> None:
    """The load is missing in one opening and told again right after it."""
    answers = {name: f"{text}\n".encode() for name, text in talk().items()}
    openings: list[str] = []
    refusals: list[str] = []

    def answer(request: bytes) -> bytes:
        name = request.decode().split()[-1]
        if name == "ups.realpower":
            openings.append(name)
        if len(openings) == 1 and len(lines(file)) > 3 and name == "ups.status":
            return b"ERR DRIVER-NOT-CONNECTED\n"
        if len(openings) == 2 and name == "ups.load" and not refusals:
            refusals.append(name)
            return b"ERR VAR-NOT-SUPPORTED\n"
        return answers[name]

    file = tmp_path / "wall.jsonl"
    with answering(answer) as double:
        nut = Nut(NutOptions(ups=f"{NAME}@{double.address}"))
        recorder = Recorder(nut, "wall", "u0000001", file, 0.01)
        recorder.start()
        try:
            until(lambda: recorder.readings > 10, "it is read again")
        finally:
            recorder.stop()
    faults = [line.message for line in lines(file) if isinstance(line, Fault)]
    assert any("neither ups.realpower nor ups.load" in message for message in faults)
    watts = {line.values["wall"] for line in lines(file) if isinstance(line, Reading)}
    assert list(watts) == [pytest.approx(BUSY_W)]


def test_an_opening_that_failed_changes_nothing() -> None:
    answers = {name: f"{text}\n".encode() for name, text in talk().items()}
    with answering(lambda request: answers[request.decode().split()[-1]]) as double:
        nut = opened({}, double.address)
        answers["ups.load"] = b"ERR VAR-NOT-SUPPORTED\n"
        assert "neither" in refused(nut).message
        answers |= {name: f"{text}\n".encode() for name, text in talk().items()}
        assert nut.read()["wall"] == pytest.approx(BUSY_W)


@pytest.mark.parametrize("load", ["0", "-3", "nan", "1e3", "", "3 3", "999999999", "0x10"])
def test_a_load_that_is_none(load: str) -> None:
    answers = {name: f"{text}\n".encode() for name, text in talk().items()}
    with answering(lambda request: answers[request.decode().split()[-1]]) as double:
        nut = opened({}, double.address)
        answers["ups.load"] = f'VAR {NAME} ups.load "{load}"\n'.encode()
        assert fault(nut).code == "nonsense"


def test_a_wrong_password_is_denied(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text('say "friend" \\ enter\n')
    answers = {"USERNAME": b"OK\n", "PASSWORD": b"ERR INVALID-PASSWORD\n"}
    with answering(lambda request: answers[request.decode().split()[0]]) as double:
        ups = f"{NAME}@{double.address}"
        error = refused(Nut(NutOptions(ups=ups, username="reader", password_file=file)))
        heard = double.heard
    assert error.kind is errors.ENERGY_METER_DENIED
    assert heard.endswith(b'PASSWORD "say \\"friend\\" \\\\ enter"\n')
    assert "friend" not in error.message


@pytest.mark.parametrize("text", ["", "two\nlines\n", "\n", "bell\x07\n"])
def test_a_file_without_a_password(tmp_path: Path, text: str) -> None:
    file = tmp_path / "password"
    file.write_text(text)
    with pytest.raises(FaultError) as caught:
        remote.secret(file)
    assert caught.value.code == "denied"


@pytest.mark.parametrize("drips", [False, True])
def test_a_server_that_never_ends_its_answer(monkeypatch: pytest.MonkeyPatch, drips: bool) -> None:
    monkeypatch.setattr(remote, "READ_DEADLINE_S", 0.3)
    with answering(b"") as double:
        double.drips = drips
        nut = Nut(NutOptions(ups=f"{NAME}@{double.address}", rating=865))
        assert fault(nut).code == "silent"
        assert refused(nut).kind is errors.ENERGY_METER_ABSENT


@pytest.mark.parametrize(
    "options",
    [
        {"ups": "@host"},
        {"ups": "office@host:99999"},
        {"ups": "office@-h"},
        {"ups": "of fice@host"},
        {"ups": "office\nGET@host"},
        {"ups": "office", "rating": 0},
        {"ups": "office", "rating": float("inf")},
        {"ups": "office", "username": "me"},
        {"ups": "office", "username": "me\nLOGOUT", "password_file": "x"},
        {"ups": "office", "password": "secret"},
    ],
)
def test_options_that_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        NutOptions.model_validate(options)


@given(load=st.decimals("0.001", 120, places=3), rating=st.integers(1, 5000))
def test_load_times_rating_of_any(load: object, rating: int) -> None:
    answers = {name: f"{text}\n".encode() for name, text in talk(load=str(load)).items()}
    with answering(lambda request: answers[request.decode().split()[-1]]) as double:
        nut = Nut(NutOptions(ups=f"{NAME}@{double.address}", rating=rating))
        (channel,) = nut.open()
        assert nut.read()["wall"] == pytest.approx(float(str(load)) / 100 * rating)
        assert channel.resolution == pytest.approx(1e-5 * rating)
