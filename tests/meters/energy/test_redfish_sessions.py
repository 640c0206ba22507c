"""Meter `redfish` over time: sessions, passwords, certificates, and services that go away."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testing.energy.redfish_double import PASSWORD, SESSIONS, USER, RedfishDouble, serving
from testing.energy.tlskit import certificate
from tests.meters.energy.redfishkit import meter, unlocked
from tests.meters.energy.scripted import fault, refused
from ullage.common import errors
from ullage.meters.energy import redfish


@pytest.fixture
def service() -> Iterator[RedfishDouble]:
    with unlocked() as double:
        yield double


@pytest.fixture
def password(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    return file


def test_a_session_is_opened_once_and_closed(password: Path, tmp_path: Path) -> None:
    file = certificate(tmp_path)
    with serving(file) as double:
        bmc = meter(double, username=USER, password_file=password, ca_file=file)
        (channel,) = bmc.open()
        assert bmc.read() == {"wall": 374.0}
        assert bmc.read() == {"wall": 374.0}
        assert len(double.tokens) == 1
        assert PASSWORD not in f"{channel!r} {bmc.options!r} {bmc.options.model_dump_json()}"
        bmc.close()
        bmc.close()
        assert double.tokens == set()
        assert [request for request in double.requests if "Sessions" in request] == [
            f"POST {SESSIONS}",
            f"DELETE {SESSIONS}/2",
        ]
        assert double.connections == 1


def test_a_session_that_expired_is_said_and_renewed(password: Path, tmp_path: Path) -> None:
    file = certificate(tmp_path)
    with serving(file) as double:
        bmc = meter(double, username=USER, password_file=password, ca_file=file)
        bmc.open()
        double.tokens.clear()
        assert fault(bmc).code == "denied"
        assert bmc.read() == {"wall": 374.0}
        bmc.close()


@pytest.mark.parametrize("location", ["https://elsewhere.example/redfish/v1/S/", "/etc/", ""])
def test_a_session_elsewhere_is_not_closed(
    service: RedfishDouble, password: Path, location: str
) -> None:
    service.location = location
    bmc = meter(service, username=USER, password_file=password, insecure=True)
    bmc.open()
    bmc.close()
    assert not [request for request in service.requests if request.startswith("DELETE")]


def test_the_password_each_time(service: RedfishDouble, password: Path) -> None:
    service.locked = True
    bmc = meter(service, username=USER, password_file=password, auth="basic", insecure=True)
    (channel,) = bmc.open()
    assert "INSECURE" in channel.source
    assert bmc.read() == {"wall": 374.0}
    bmc.close()
    assert not [request for request in service.requests if "Sessions" in request]


@pytest.mark.parametrize("auth", ["session", "basic"])
def test_a_wrong_password(service: RedfishDouble, tmp_path: Path, auth: str) -> None:
    service.locked = True
    wrong = tmp_path / "wrong"
    wrong.write_text("battery staple\n")
    options: dict[str, Any] = {"username": USER, "auth": auth, "insecure": True}
    error = refused(meter(service, password_file=wrong, **options))
    assert error.kind is errors.ENERGY_METER_DENIED
    assert "401" in error.message
    assert "staple" not in error.message
    error = refused(meter(service, password_file=tmp_path / "none", **options))
    assert error.kind is errors.ENERGY_METER_DENIED
    assert refused(meter(service)).kind is errors.ENERGY_METER_DENIED, "no user at all"


def test_a_certificate_must_be_trusted(password: Path, tmp_path: Path) -> None:
    file = certificate(tmp_path)
    other_certificate = certificate(tmp_path, "127.0.0.9")
    with serving(file) as double:
        user: dict[str, Any] = {"username": USER, "password_file": password}
        for trusted in (None, other_certificate):
            error = refused(meter(double, **user, ca_file=trusted))
            assert error.kind is errors.ENERGY_METER_DENIED
            assert "certificate is not trusted" in error.message
            assert "ca_file:" in error.hint
        assert double.requests == []
        error = refused(meter(double, **user, ca_file=tmp_path / "none"))
        assert error.kind is errors.ENERGY_METER_DENIED
        bmc = meter(double, **user, insecure=True)
        assert "INSECURE" in bmc.open()[0].source
        assert "its password may be read" in (bmc.caution() or "")
        bmc.close()
        assert meter(double, **user, ca_file=file).caution() is None
    with serving(other_certificate) as double:
        error = refused(meter(double, **user, ca_file=other_certificate))
        assert error.kind is errors.ENERGY_METER_DENIED
        assert "127.0.0.1" in error.message


def test_the_service_hangs_up_between_two_readings(service: RedfishDouble) -> None:
    bmc = meter(service)
    bmc.open()
    assert bmc._service is not None
    connection = bmc._service._server._connection
    assert connection is not None
    assert connection.sock is not None
    connection.sock.shutdown(socket.SHUT_RDWR)
    assert bmc.read() == {"wall": 374.0}
    bmc.close()
    assert service.connections == 2


@pytest.mark.parametrize("drips", [False, True])
def test_a_service_that_hangs(
    service: RedfishDouble, monkeypatch: pytest.MonkeyPatch, drips: bool
) -> None:
    bmc = meter(service)
    bmc.open()
    monkeypatch.setattr(redfish, "READ_DEADLINE_S", 0.3)
    service.drips = drips
    if not drips:
        service.hangs.set()
    assert fault(bmc).code == "silent"
    service.drips = False
    service.hangs.clear()
    monkeypatch.undo()
    assert bmc.read() == {"wall": 374.0}
    bmc.close()


def test_a_service_that_drips_and_says_that_it_will_hang_up(
    service: RedfishDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library then lets go of the connection at once, and reads on."""
    bmc = meter(service)
    bmc.open()
    monkeypatch.setattr(redfish, "READ_DEADLINE_S", 0.3)
    service.status, service.claimed = (200, {"Connection": "close"}), 10_000
    service.drips = True
    assert fault(bmc).code == "silent"
    bmc.close()


def test_a_session_is_closed_after_a_reading_that_was_cut_off(
    password: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = certificate(tmp_path)
    with serving(file) as double:
        bmc = meter(double, username=USER, password_file=password, ca_file=file)
        bmc.open()
        with monkeypatch.context() as patched:
            patched.setattr(redfish, "READ_DEADLINE_S", 0.3)
            double.drips = True  # bodies; the answer to DELETE has none
            assert fault(bmc).code == "silent"
        assert [request for request in double.requests if request.startswith("DELETE")] == [
            f"DELETE {SESSIONS}/2"
        ]
        assert double.tokens == set()
        double.drips = False
        assert bmc.read() == {"wall": 374.0}
        assert len(double.tokens) == 1
        double.hangs.set()
        with monkeypatch.context() as patched:
            patched.setattr(redfish, "READ_DEADLINE_S", 0.3)
            patched.setattr(redfish, "_LEAVES_S", 0.3)
            assert fault(bmc).code == "silent", "nor is the farewell waited for"
        double.hangs.clear()
        assert bmc.read() == {"wall": 374.0}
        bmc.close()


def test_the_service_goes_and_comes_back(service: RedfishDouble) -> None:
    with serving() as double:
        double.locked = False
        bmc = meter(double)
        bmc.open()
        port = double.url.rpartition(":")[2]
    bmc.close()
    assert fault(bmc).code == "gone"
    error = refused(meter(double))
    assert error.kind is errors.ENERGY_METER_ABSENT
    assert port in error.message
