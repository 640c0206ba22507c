"""Serves the page and its stream of events to this machine, and to nobody else.

Only the loopback device is listened on, the path holds a secret, and a `Host` that is not
ours is refused, so that no page from elsewhere reads it by a name of its own (DNS rebinding).
A reader sleeps until a trial has ended: while one is measured, only the listener wakes every few
seconds, and a page that is opened then is sent.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Final

from ullage.cli.live import page
from ullage.common.errors import LIVE_NO_PORT, UllageError

END: Final = "end"
"""The part after which nothing follows."""


@dataclass(frozen=True)
class Part:
    """One part of the page, as it was put in last."""

    number: int
    """Counts up over all parts."""
    name: str
    html: str


class Feed:
    """Parts are put in by the run; each reader takes those newer than the last that it has."""

    def __init__(self) -> None:
        self._bell = threading.Condition()
        self._parts: dict[str, Part] = {}
        self._number = 0

    def put(self, parts: Mapping[str, str]) -> None:
        """Set parts anew; a text that is what it was says nothing new."""
        with self._bell:
            for name, html in parts.items():
                if name not in self._parts or self._parts[name].html != html:
                    self._number += 1
                    self._parts[name] = Part(self._number, name, html)
            self._bell.notify_all()

    def since(self, number: int, timeout_s: float) -> tuple[Part, ...]:
        """What is newer, in the order in which it came; empty when there was nothing in time."""
        with self._bell:
            self._bell.wait_for(lambda: self._number > number, timeout_s)
            newer = [part for part in self._parts.values() if part.number > number]
        return tuple(sorted(newer, key=lambda part: part.number))


HOST: Final = "127.0.0.1"
KEEPALIVE_S: Final = 20.0
"""So often a silent reader is tried, to learn of one that has gone."""
LAST_S: Final = 2.0
"""Readers have so long to hear the end of the run."""
POLL_S: Final = 3.0
"""So often the listener looks whether it is to end."""
MOST_READERS: Final = 16
METHODS: Final = ("GET", "HEAD")


class LiveServer:
    """The page of one run at `url`, from entering to leaving the context.

    LIVE_NO_PORT when the port cannot be had.
    """

    def __init__(self, feed: Feed, title: str, port: int = 0) -> None:
        self.feed = feed
        self.token = secrets.token_urlsafe(16)
        self.page = page.render(title).encode()
        self.readers = threading.BoundedSemaphore(MOST_READERS)
        handler = type("Handler", (_Handler,), {"live": self})
        try:
            self._http = ThreadingHTTPServer((HOST, port), handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UllageError(LIVE_NO_PORT, host=HOST, port=port, reason=reason) from error
        self._http.daemon_threads = True
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(POLL_S,), name="live", daemon=True
        )

    @property
    def address(self) -> str:
        """Host and port, as a browser names them."""
        return f"{HOST}:{self._http.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.address}/{self.token}/"

    def __enter__(self) -> LiveServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Tell the readers that it is over, and close."""
        self.feed.put({END: "over"})
        for _ in range(MOST_READERS):
            if not self.readers.acquire(timeout=LAST_S):
                break
        closing = threading.Thread(target=self._http.shutdown, name="live-end", daemon=True)
        closing.start()
        while closing.is_alive():
            self._wake()
            closing.join(0.05)
        self._http.server_close()

    def _wake(self) -> None:
        """Have the listener look now whether it is to end."""
        with contextlib.suppress(OSError):
            socket.create_connection((HOST, self._http.server_port), timeout=1).close()


class _Handler(BaseHTTPRequestHandler):
    live: LiveServer
    server_version = "ullage"
    sys_version = ""
    timeout = 60

    def parse_request(self) -> bool:
        """Only what reads is answered: a request of another method is refused here.

        The base would say of each method without a function of its own that nobody knows it (501).
        """
        if not super().parse_request():
            return False
        if self.command in METHODS:
            return True
        self.close_connection = True
        self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)
        return False

    def send_response(self, code: int, message: str | None = None) -> None:
        """Names the methods that are allowed where another one came."""
        super().send_response(code, message)
        if code == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", ", ".join(METHODS))

    def do_HEAD(self) -> None:
        """What GET would say, without a body."""
        self.do_GET()

    def do_GET(self) -> None:
        """The page, or the stream of its parts."""
        if self.headers.get("Host") != self.live.address:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
        elif self.path == f"/{self.live.token}/":
            self._page()
        elif self.path == f"/{self.live.token}/events":
            self._events()
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base's name
        """Requests are nobody's business."""

    def _page(self) -> None:
        self._head("text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(self.live.page)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(self.live.page)

    def _head(self, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Content-Security-Policy", page.POLICY)

    def _events(self) -> None:
        if self.command == "HEAD":  # takes no reader's place, and waits for nothing
            self._head("text/event-stream")
            self.end_headers()
            return
        if not self.live.readers.acquire(blocking=False):
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        try:
            self._head("text/event-stream")
            self.end_headers()
            self._stream()
        except OSError:
            pass  # the reader has gone
        finally:
            self.close_connection = True
            self.live.readers.release()

    def _stream(self) -> None:
        last = self.headers.get("Last-Event-ID", "")
        number = int(last) if last.isascii() and last.isdigit() and len(last) < 10 else 0
        while True:
            parts = self.live.feed.since(number, KEEPALIVE_S)
            for part in parts:
                text = json.dumps(part.html)
                event = f"id: {part.number}\nevent: {part.name}\ndata: {text}\n\n"
                self.wfile.write(event.encode())
                number = part.number
            if not parts:
                self.wfile.write(b": still here\n\n")
            if any(part.name == END for part in parts):
                return
