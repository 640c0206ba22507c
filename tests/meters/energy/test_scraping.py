"""Meter `prometheus` and servers that answer badly, slowly or not at all."""

import socket
from http.client import HTTPConnection
from threading import Thread

import pytest

from testing.energy.exporterkit import TEXT, closed_port, exporter
from tests.meters.energy.prometheuskit import OWN, meter, refused
from tests.meters.energy.scripted import eventually
from ullage.common import errors
from ullage.meters.energy.base import FaultError
from ullage.meters.energy.recorder import Caller


def test_nobody_listens() -> None:
    error = refused(f"http://127.0.0.1:{closed_port()}/metrics")
    assert error.kind is errors.ENERGY_METER_ABSENT
    assert "Connection refused" in error.message


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (500, "ENERGY_METER_BAD_ANSWER", "status 500"),
        (404, "ENERGY_METER_BAD_ANSWER", "status 404"),
        (401, "ENERGY_METER_DENIED", "status 401"),
        (302, "ENERGY_METER_BAD_ANSWER", "to http://169.254.169.254/"),
    ],
)
def test_a_status_that_is_no_answer(status: int, kind: str, words: str) -> None:
    with exporter("plug_watts 100\n") as served:
        served.status = status
        served.headers["Location"] = "http://169.254.169.254/"
        error = refused(served.url)
        assert error.kind is getattr(errors, kind)
        assert words in error.message
        assert served.requests == ["/metrics"], "no redirect is followed, and nothing asked again"


def test_a_page_for_people() -> None:
    with exporter("<html>plug_watts 100\n</html>\n") as served:
        served.headers["Content-Type"] = "text/html"
        error = refused(served.url)
        assert error.kind is errors.ENERGY_METER_BAD_ANSWER
        assert "text/html" in error.message


def test_a_page_cut_short() -> None:
    with exporter("plug_watts 100\n") as served:
        served.declared = 5000
        assert "4985 bytes of the answer did not come" in refused(served.url).message
        served.declared = 0
        assert len(meter(served.url, **OWN).open()) == 1, "HTTP 1.0 ends by hanging up"
        served.headers = {"Transfer-Encoding": "chunked", "Content-Type": TEXT}
        served.page = "ff\r\nplug_watts 100\n"
        assert "no whole answer" in refused(served.url).message


def test_a_page_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ullage.meters.energy.prometheus.MOST_BYTES", 1 << 20)
    with exporter("plug_watts 100\n" + "#\n" * (1 << 19)) as served:
        assert "an answer over 1MiB" in refused(served.url).message


def test_a_server_that_only_drips_is_left_at_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with exporter("plug_watts 100\n") as served:
        plug = meter(served.url, **OWN)
        plug.open()
        monkeypatch.setattr("ullage.meters.energy.prometheus.READ_DEADLINE_S", 0.3)
        served.drip_s = 0.02
        for declared in (0, 10_000):
            served.declared = declared
            with pytest.raises(FaultError, match=r"no answer within 0.3 s") as caught:
                plug.read()
            assert caught.value.code == "silent"
        monkeypatch.setattr("ullage.meters.energy.prometheus.READ_DEADLINE_S", 60)
        served.drip_s, served.declared = None, None
        assert plug.read() == {"wall": 100.0}
        plug.close()
        plug.close()


def test_a_server_that_never_answers_is_left_at_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ullage.meters.energy.prometheus.READ_DEADLINE_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        error = refused(f"http://127.0.0.1:{listening.getsockname()[1]}/metrics")
    assert error.kind is errors.ENERGY_METER_ABSENT
    assert "no answer within 0.3 s" in error.message


def test_a_connection_that_is_made_after_the_deadline_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ullage.meters.energy.prometheus.READ_DEADLINE_S", 0.3)
    with exporter("plug_watts 100\n") as served:
        served.drip_s, served.declared = 0.02, 0
        plug = meter(served.url, **OWN)
        connect = HTTPConnection.connect

        def late(connection: HTTPConnection) -> None:
            eventually(lambda: plug._server._late)
            connect(connection)

        monkeypatch.setattr(HTTPConnection, "connect", late)
        caller = Caller("plug")
        with pytest.raises(FaultError, match=r"no answer within 0.3 s"):
            caller.call(plug.describe, 60)
        caller.end(lambda: None, 60)


def test_a_server_of_another_kind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            peer, _ = listening.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        thread = Thread(target=answer)
        thread.start()
        error = refused(f"http://127.0.0.1:{listening.getsockname()[1]}/metrics")
        thread.join(60)
    assert error.kind is errors.ENERGY_METER_BAD_ANSWER
    assert "no whole answer of HTTP" in error.message
