"""`ullage-front` under clients, controllers and hosts that do not behave."""

import json
import os
import resource
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tests.experiments.elastic.frontkit import (
    PATIENCE_S,
    Front,
    fronting,
    launch,
    refused,
    settings,
    url,
)
from ullage.experiments.elastic.run.front import _heard, _state


def refuses_a_crowd(front: Front) -> bool:
    """It has room for one more connection, and said before that it had none."""
    with suppress(OSError, EOFError, AssertionError):
        return front.metrics()['refused_total{why="crowded"}'] >= 1
    return False


def serves(front: Front, client: int = 1_000_000) -> None:
    """It still does what it is for."""
    viewer = front.watch(client, 0)
    assert viewer.answer().status in (302, 503)
    viewer.close()


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        ("nonsense\r\n\r\n", 400),
        ("GET /watch/1 HTTP/3.0\r\n\r\n", 400),
        ("GET /watch/x HTTP/1.1\r\n\r\n", 400),
        ("GET /watch/1?patience_ms=-1 HTTP/1.1\r\n\r\n", 400),
        ("GET /watch/1 HTTP/1.1\r\nbad header\r\n\r\n", 400),
        ("GET /watch/1 HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        ("GET /nothing HTTP/1.1\r\n\r\n", 404),
        ("POST /watch/1 HTTP/1.1\r\n\r\n", 405),
        ("GET /finished/1 HTTP/1.1\r\n\r\n", 405),
        ("POST /finished/1 HTTP/1.1\r\nContent-Length: 5000\r\n\r\n", 413),
        ("POST /finished/1 HTTP/1.1\r\nExpect: 100-continue\r\n\r\n", 417),
        ("GET /watch/1 HTTP/1.1\r\n" + "a: b\r\n" * 65 + "\r\n", 431),
        ("GET /watch/1 HTTP/1.1\r\na: " + "b" * 100_000, 431),
        ("GET /" + "x" * 100_000, 431),
        ("POST /finished/1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
    ],
)
def test_what_is_no_request_is_refused(tmp_path: Path, request_text: str, status: int) -> None:
    with fronting(tmp_path) as front:
        client = front.connect()
        client.send(request_text)
        assert client.answer().status == status
        serves(front)
        assert front.metrics()['refused_total{why="faulty"}'] == 1


def test_no_bytes_break_it(tmp_path: Path) -> None:
    with fronting(tmp_path) as front:

        @examples(max_examples=50)
        @given(st.binary(max_size=300), st.booleans())
        def send(data: bytes, reset: bool) -> None:
            client = front.connect()
            client.send(data)
            (client.reset if reset else client.close)()
            serves(front)

        send()
        front.until("connections", 1)


def test_a_slow_client_is_ended_and_delays_nobody(tmp_path: Path) -> None:
    with fronting(tmp_path, request_ms=100) as front:
        slow = front.connect()
        slow.send("GET /watch/1 HT")
        serves(front)
        answer = slow.answer()
        assert (answer.status, answer.word) == (408, "slow")
        assert slow.ended()


def test_a_silent_client_is_ended_and_one_that_waits_is_not(tmp_path: Path) -> None:
    with fronting(tmp_path, idle_ms=1500) as front:
        waiting = front.watch(7)
        assert front.connect().ended()
        assert front.order()["allocate"] == 0
        front.ready(0)
        assert waiting.answer().status == 302


def test_a_client_that_does_not_take_its_answers_is_ended(tmp_path: Path) -> None:
    with fronting(tmp_path, request_ms=100) as front:
        greedy = front.connect()
        greedy.socket.settimeout(PATIENCE_S)
        # Until it is ended the front reads no more of these than it can answer.
        with pytest.raises(ConnectionError):
            while True:
                greedy.send("GET /metrics HTTP/1.1\r\n\r\n" * 1000)
        serves(front)


def test_a_request_may_come_byte_by_byte(tmp_path: Path) -> None:
    with fronting(tmp_path) as front:
        client = front.connect()
        for character in "GET /watch/7?patience_ms=0 HTTP/1.1\r\nHost: x\r\n\r\n":
            client.send(character)
        assert client.answer().word == "blocked"


def test_more_connections_than_may_be_are_told_so(tmp_path: Path) -> None:
    with fronting(tmp_path, max_connections=3) as front:
        waiting = [front.watch(client) for client in range(3)]
        assert front.order()["allocate"] == 0
        front.until('viewers{state="waiting"}', 3)
        crowded = front.watch(3)
        answer = crowded.answer()
        assert (answer.status, answer.word) == (503, "crowded")
        assert crowded.ended()
        assert front.metrics()['refused_total{why="crowded"}'] == 1
        front.ready(0)
        assert waiting[0].answer().status == 302
        for viewer in waiting:
            viewer.close()
        deadline = time.monotonic() + PATIENCE_S
        while not refuses_a_crowd(front):
            assert time.monotonic() < deadline


def test_who_is_gone_can_say_so_where_all_places_are_taken(tmp_path: Path) -> None:
    """And pages are read: else nobody would see why, or end it."""
    with fronting(tmp_path, config={"room": 1}, max_connections=2) as front:
        served = front.watch(0)
        assert front.order()["allocate"] == 0
        front.ready(0)
        assert served.answer().status == 302
        served.close()
        front.until("connections", 1)  # the one that asks for this
        for client in (1, 2):
            front.watch(client)
        front.until('viewers{state="waiting"}', 2)
        assert front.watch(3).answer().word == "crowded"
        assert front.finish(0).status == 204
        front.until('viewers{state="waiting"}', 1)


def test_a_front_with_all_its_connections_in_use_is_not_silent(tmp_path: Path) -> None:
    with fronting(tmp_path, max_connections=3) as front:
        address = front.start["listening"]
        assert _heard(address, PATIENCE_S)
        for client in range(3):
            front.watch(client)
        front.until('viewers{state="waiting"}', 3)
        silent = [front.connect() for _ in range(8)]  # places that are kept for pages
        beyond = front.connect()
        answer = beyond.answer()
        assert (answer.status, answer.word) == (503, "crowded") and beyond.ended()
        assert _state(address) is None
        assert _heard(address, PATIENCE_S)
        for connection in silent:
            connection.close()
        front.until("connections", 4)
        os.kill(front.process.pid, signal.SIGSTOP)
        assert not _heard(address, 0.2)
        os.kill(front.process.pid, signal.SIGCONT)
        serves(front)


def test_a_limit_that_does_not_do_is_said_before_the_start(tmp_path: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    given_settings = settings(tmp_path, max_connections=hard)
    status, words = refused(tmp_path, given_settings)
    assert status == 3 and "RLIMIT_NOFILE" in words and f"{hard} connections" in words
    assert not (tmp_path / "front.jsonl").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"listen": "nowhere"}, "socket address"),
        ({"config": {"room": 2, "min_nodes": 3, "max_nodes": 2}}, "min_nodes"),
        ({"policy": {"name": "none"}}, "none"),
        ({"patience": 1}, "unknown field `patience`"),
        ({"idle_ms": 0}, "idle_ms is 0"),
    ],
)
def test_settings_that_make_no_sense_are_said(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    status, words = refused(tmp_path, settings(tmp_path, **change))
    assert status == 2 and message in words, words


def test_a_port_that_somebody_has_is_said(tmp_path: Path) -> None:
    with fronting(tmp_path) as front:
        other = settings(tmp_path, listen=front.start["listening"], log=str(tmp_path / "other"))
        status, words = refused(tmp_path, other)
        assert status == 1 and str(front.port) in words


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        '{"ready":0}',
        '{"ready":7,"address":"x:1","url":"http://x/"}',
        '{"ready":0,"address":"x:1","url":"http://x/\\r\\nSet-Cookie: a"}',
        '{"released":0}',
        '{"failed":7}',
        '{"quit":false}',
        json.dumps({"failed": 0, "why": "x" * 100_000}),
    ],
)
def test_a_controller_that_talks_nonsense_is_told_so(tmp_path: Path, line: str) -> None:
    with fronting(tmp_path) as front:
        viewer = front.watch(1)
        assert front.order()["allocate"] == 0
        front.tell_text(line + "\n")
        assert front.order()["refused"]
        front.ready(0)
        assert viewer.answer().headers["location"] == url(0)


def test_without_its_controller_it_goes_on_with_what_it_has(tmp_path: Path) -> None:
    with fronting(tmp_path) as front:
        viewer = front.watch(1)
        front.order()
        front.ready(0)
        assert viewer.answer().status == 302
        front.hang_up()
        front.until("controller", 0)
        assert "the controller is gone" in front.last_words()
        assert front.watch(2).answer().status == 302
        assert front.watch(3, 0).answer().word == "blocked"
        front.process.send_signal(signal.SIGTERM)
        assert front.process.wait(PATIENCE_S) == 0


def test_alone_for_long_enough_it_ends(tmp_path: Path) -> None:
    with fronting(tmp_path, alone_ms=20) as front:
        front.hang_up()
        assert front.process.wait(PATIENCE_S) == 0
        assert "ending" in front.last_words()


def test_a_controller_that_does_not_read_delays_nobody(tmp_path: Path) -> None:
    process = launch(tmp_path, settings(tmp_path, config={"room": 1}))
    try:
        assert process.stdout is not None and process.stdin is not None
        start = json.loads(process.stdout.readline())
        front = Front(process, start, tmp_path / "front.jsonl", tmp_path / "front.err", None)  # type: ignore[arg-type]
        viewer = front.watch(1)
        front.until('viewers{state="waiting"}', 1)
        nonsense = json.dumps({"released": 1}) + "\n"
        # Each is answered by a line that nobody reads: more than a pipe holds.
        for _ in range(200):
            front.tell_text(nonsense * 20)
        front.ready(0)
        assert viewer.answer().status == 302
        serves(front)
    finally:
        for connection in front.open:
            connection.close()
        process.kill()
        process.communicate()
