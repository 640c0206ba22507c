"""The server of the live page: who may read it, and what a reader hears."""

import contextlib
import http.client
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ullage.cli.live.feed import Feed
from ullage.cli.live.server import END, MOST_READERS, MOST_STRANGERS, LiveServer
from ullage.common import errors

SOON_S = 30.0


@pytest.fixture
def feed() -> Feed:
    return Feed()


@pytest.fixture
def server(feed: Feed) -> Iterator[LiveServer]:
    with LiveServer(feed, "a <b>plan</b>") as live_server:
        yield live_server


def ask(
    server: LiveServer, path: str, host: str | None = None, method: str = "GET", **headers: str
) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(server.address, timeout=SOON_S)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", server.address if host is None else host)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    return connection.getresponse()


def event(stream: http.client.HTTPResponse) -> tuple[int, str, str]:
    """Number, part and HTML of the next event."""
    fields: dict[str, str] = {}
    while line := stream.readline().decode().rstrip("\n"):
        name, _, value = line.partition(": ")
        fields[name] = value
    return int(fields["id"]), fields["event"], json.loads(fields["data"])


def test_the_feed_tells_what_is_newer_and_each_part_once(feed: Feed) -> None:
    feed.put({"head": "one", "log": "a"})
    feed.put({"head": "two"})
    parts = feed.since(0)
    assert [(part.name, part.html) for part in parts] == [("log", "a"), ("head", "two")]
    assert feed.since(parts[-1].number) == ()
    feed.put({"head": "two"})
    assert feed.since(parts[-1].number) == ()


def test_the_page_escapes_its_title_and_lets_only_its_script_run(server: LiveServer) -> None:
    answer = ask(server, f"/{server.token}/")
    page = answer.read().decode()
    assert answer.status == 200
    assert "a &lt;b&gt;plan&lt;/b&gt;" in page
    assert "<b>" not in page
    policy = answer.headers["Content-Security-Policy"]
    assert "script-src 'sha256-" in policy
    assert "unsafe-inline" not in policy.split("style-src")[0]


@pytest.mark.parametrize("path", ["/", "/events", "/wrong/", "/wrong/events", "/../etc/passwd"])
def test_without_the_secret_there_is_nothing(server: LiveServer, path: str) -> None:
    assert ask(server, path).status == 404


@pytest.mark.parametrize("host", ["evil.example", "localhost", "127.0.0.1", ""])
def test_another_name_for_this_machine_is_refused(server: LiveServer, host: str) -> None:
    assert ask(server, f"/{server.token}/", host).status == 421
    assert ask(server, f"/{server.token}/events", host).status == 421


@pytest.mark.parametrize("path", ["", "events", "absent"])
def test_a_head_is_that_of_the_page_without_it(server: LiveServer, path: str) -> None:
    with socket.create_connection(("127.0.0.1", int(server.address.partition(":")[2]))) as peer:
        peer.sendall(
            f"HEAD /{server.token}/{path} HTTP/1.0\r\nHost: {server.address}\r\n\r\n".encode()
        )
        head, _, body = b"".join(iter(lambda: peer.recv(65536), b"")).partition(b"\r\n\r\n")
    assert body == b""
    status, *lines = head.decode().split("\r\n")
    answer = ask(server, f"/{server.token}/{path}")
    same = {"Content-Type", "Content-Length", "Cache-Control", "Content-Security-Policy"}
    headers = dict(line.split(": ", 1) for line in lines)
    assert int(status.split()[1]) == answer.status == (404 if path == "absent" else 200)
    assert {n: headers[n] for n in same & set(headers)} == {
        n: v for n, v in answer.headers.items() if n in same
    }


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"])
@pytest.mark.parametrize("path", ["right", "/wrong/"])
def test_nothing_but_reading_is_allowed(server: LiveServer, method: str, path: str) -> None:
    answer = ask(server, f"/{server.token}/" if path == "right" else path, method=method)
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD"


def test_a_reader_hears_the_newest_and_then_what_comes(feed: Feed, server: LiveServer) -> None:
    feed.put({"head": "old"})
    feed.put({"head": "new"})
    stream = ask(server, f"/{server.token}/events")
    number, part, html = event(stream)
    assert (part, html) == ("head", "new")
    feed.put({"log": "line\nline"})
    assert event(stream) == (number + 1, "log", "line\nline")


@pytest.mark.parametrize(
    ("last", "part"), [("1", "log"), ("x", "head"), ("-1", "head"), ("²", "head")]
)
def test_who_comes_back_hears_only_what_was_missed(
    feed: Feed, server: LiveServer, last: str, part: str
) -> None:
    feed.put({"head": "one"})
    feed.put({"log": "two"})
    stream = ask(server, f"/{server.token}/events", Last_Event_ID=last)
    assert event(stream)[1] == part


def test_the_end_is_told_and_the_stream_closed(feed: Feed) -> None:
    heard: list[str] = []

    def listen(server: LiveServer, started: threading.Event) -> None:
        stream = ask(server, f"/{server.token}/events")
        heard.append(event(stream)[1])
        started.set()
        heard.append(event(stream)[1])
        heard.append(stream.read().decode())

    started = threading.Event()
    with LiveServer(feed, "plan") as server:
        feed.put({"head": "there"})
        reader = threading.Thread(target=listen, args=(server, started))
        reader.start()
        assert started.wait(SOON_S)
    reader.join(SOON_S)
    assert heard == ["head", END, ""]


def test_too_many_readers_are_sent_away(feed: Feed, server: LiveServer) -> None:
    feed.put({"head": "there"})
    streams = [ask(server, f"/{server.token}/events") for _ in range(MOST_READERS)]
    assert {event(stream)[1] for stream in streams} == {"head"}
    assert ask(server, f"/{server.token}/events").status == 503


def test_a_port_that_is_taken_is_said(server: LiveServer) -> None:
    port = int(server.address.rpartition(":")[2])
    with pytest.raises(errors.UllageError) as caught:
        LiveServer(Feed(), "plan", port)
    assert caught.value.kind is errors.LIVE_NO_PORT


def test_who_has_no_secret_takes_neither_threads_nor_descriptors_nor_the_page(
    feed: Feed, server: LiveServer
) -> None:
    """A local user opens more connections than the process may have files, and says nothing."""
    port = int(server.address.rpartition(":")[2])
    threads, files = threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))
    silent = "import socket, sys; s = [socket.socket() for _ in range(900)]\n"
    silent += "[one.setblocking(False) for one in s]\n"
    silent += f"[one.connect_ex(('127.0.0.1', {port})) for one in s]\n"
    silent += "print(flush=True); sys.stdin.read()"
    argv = [sys.executable, "-c", silent]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as flood:
        assert flood.stdout is not None
        assert flood.stdout.readline() == b"\n"
        feed.put({"head": "there"})
        assert event(ask(server, f"/{server.token}/events")) == (1, "head", "there")
        assert threading.active_count() <= threads
        assert len(list(Path("/proc/self/fd").iterdir())) <= files + MOST_STRANGERS + 4


def test_a_head_without_end_is_cut_off(server: LiveServer) -> None:
    port = int(server.address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=SOON_S) as peer:
        with contextlib.suppress(OSError):
            for _ in range(64):
                peer.sendall(b"GET /" + b"x" * 4096)
        with contextlib.suppress(ConnectionResetError):
            assert peer.recv(65536)[:12] in (b"", b"HTTP/1.1 431")


@pytest.mark.parametrize(
    "head", [b"\r\n\r\n", b"GET\r\n\r\n", b"\xff\x00 / HTTP/1.1\r\n\r\n", b"GET / HTTP/2\r\n\r\n"]
)
def test_what_is_no_request_is_refused(server: LiveServer, head: bytes) -> None:
    port = int(server.address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=SOON_S) as peer:
        peer.sendall(head)
        assert peer.recv(65536).startswith(b"HTTP/1.1 400 ")
    assert ask(server, f"/{server.token}/").status == 200


def test_a_reader_that_does_not_read_holds_up_nobody(feed: Feed, server: LiveServer) -> None:
    deaf = ask(server, f"/{server.token}/events")
    reader = ask(server, f"/{server.token}/events")
    for number in range(1, 40):
        feed.put({"head": f"{number}" * 500_000})
        assert event(reader)[0] == number
    deaf.close()
