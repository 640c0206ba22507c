"""One page from a web server, with limits."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from threading import Timer
from typing import Final
from urllib.parse import urlsplit

from ullage.energy.base import READ_DEADLINE_S, FaultError
from ullage.energy.outside import faults
from ullage.energy.trust import trust
from ullage.printable import clean

MOST_BYTES: Final = 1 << 24
_HEADERS: Final = {
    "Accept": "text/plain;version=0.0.4",
    "Accept-Encoding": "identity",
    "Connection": "close",
    "User-Agent": "ullage",
}
_DENIED: Final = {401, 403, 407}


class Scrape:
    """Gets the page anew each time, by a connection of its own, with no proxy and no redirect."""

    def __init__(self, url: str, ca_file: Path | None = None) -> None:
        """`ca_file`: whose certificates are trusted over HTTPS; else those of the system."""
        self._parts = urlsplit(url)
        self._ca_file = ca_file
        self._trust: ssl.SSLContext | None = None
        self._socket: socket.socket | None = None
        self._late = False

    def text(self) -> str:
        """The page. FaultError: `gone`, `silent`, `denied`, `nonsense`."""
        self._late = False
        # A wait that ends with each byte is no limit for a server that sends one now and then.
        timer = Timer(READ_DEADLINE_S, self._hang_up)
        timer.start()
        try:
            with faults():
                return self._text()
        except (HTTPException, UnicodeDecodeError) as error:
            reason = f"no whole answer of HTTP ({type(error).__name__})"
            raise FaultError("nonsense", reason) from error
        finally:
            timer.cancel()
            if self._late:  # whatever else it looked like, when the connection was cut
                raise FaultError("silent", f"no answer within {READ_DEADLINE_S:g} s")

    def _hang_up(self) -> None:
        self._late = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _text(self) -> str:
        connection = self._connection()
        try:
            connection.connect()
            connection.sock.settimeout(2 * READ_DEADLINE_S)  # the timer ends it before that
            self._socket = connection.sock
            if self._late:  # the timer found nothing to hang up
                raise TimeoutError
            target = self._parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
            connection.request("GET", target, headers=_HEADERS)
            with connection.getresponse() as response:
                return _body(response)
        finally:
            self._socket = None
            connection.close()

    def _connection(self) -> HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "http":
            return HTTPConnection(host, port, timeout=READ_DEADLINE_S)
        if self._trust is None:
            self._trust = trust(self._ca_file)
        return HTTPSConnection(host, port, timeout=READ_DEADLINE_S, context=self._trust)


def _body(response: HTTPResponse) -> str:
    if response.status != 200:
        code = "denied" if response.status in _DENIED else "nonsense"
        to = f" to {response.headers['Location']}" if 300 <= response.status < 400 else ""
        raise FaultError(code, clean(f"status {response.status} {response.reason}{to}", 200))
    kind = response.headers.get_content_type()
    if response.headers.get("Content-Type") and kind != "text/plain":
        raise FaultError("nonsense", clean(f"a page of {kind}, not of metrics", 200))
    body = response.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        raise FaultError("nonsense", f"a page over {MOST_BYTES >> 20} MiB")
    if response.length:
        raise FaultError("nonsense", f"{response.length} bytes of the page did not come")
    return body.decode("utf-8")
