"""HTTP to one server, as meters ask it: with limits, and without leaving it.

No proxy is used and no redirect followed, so that neither password nor question goes to anybody
else. An exchange has one deadline: a wait that ends with each byte is no limit for who sends one
now and then.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    RemoteDisconnected,
)
from pathlib import Path
from threading import Timer
from typing import Final
from urllib.parse import SplitResult, urlsplit

from ullage.meters.energy.base import READ_DEADLINE_S, FaultError
from ullage.meters.energy.remote import faults

_HUNG_UP: Final = (RemoteDisconnected, BrokenPipeError, ConnectionResetError)


def checked_url(url: str, example: str, instead: str) -> SplitResult:
    """The parts of a web address without a user; ValueError when it is none.

    instead: what there is for who wants to name a user.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
        raise ValueError(f"an address such as {example}")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("an address without spaces and other signs")
    if "@" in parts.netloc:
        raise ValueError(f"no user and password in it: {instead}")
    return parts


class WebServer:
    """Asks one server over one connection, which stays until `hang_up` (a handshake costs much)."""

    def __init__(self, url: str, ca_file: Path | None = None, *, insecure: bool = False) -> None:
        """ca_file: certificates to trust over HTTPS, else the system's; insecure: any will do."""
        parts = urlsplit(url)
        self.host, self._port = parts.hostname or "", parts.port
        self._https, self._ca_file, self._insecure = parts.scheme == "https", ca_file, insecure
        self._certificates: ssl.SSLContext | None = None
        self._connection: HTTPConnection | None = None
        self._socket: socket.socket | None = None
        """Also while the connection itself has let go of it: at an answer that ends by closing."""
        self._used = False
        self.cut = False
        """An answer is still due on the connection: only a new one can be asked."""
        self._late = False
        self._limit_s = READ_DEADLINE_S

    @contextmanager
    def deadline(self, limit_s: float) -> Iterator[None]:
        """For all that is asked and read within. FaultError (silent)."""
        self._late, self._limit_s = False, limit_s
        timer = Timer(limit_s, self._cut)
        timer.start()
        try:
            yield
        except FaultError:
            if not self._late:
                raise
        finally:
            timer.cancel()
        if self._late:  # whatever else it looked like, when the connection was cut
            raise FaultError("silent", f"no answer within {limit_s:g} s")

    def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: str | None = None
    ) -> HTTPResponse:
        """The head of the answer, whatever its status. FaultError."""
        self.cut = True
        with web_faults():
            try:
                response = self._exchange(method, path, headers, body)
            except _HUNG_UP:
                if not self._used or self._late:
                    raise
                # It had closed the connection while nobody asked anything.
                self.hang_up()
                response = self._exchange(method, path, headers, body)
        self.cut = False
        return response

    def hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self._socket, self._used, self.cut = None, None, False, False

    def _cut(self) -> None:
        self._late, self.cut = True, True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: str | None
    ) -> HTTPResponse:
        if self._connection is None:
            self._connection = self._new_connection()
        if self._connection.sock is None:
            self._connect(self._connection)
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        self._used = True
        return response

    def _connect(self, connection: HTTPConnection) -> None:
        connection.timeout = self._limit_s
        connection.connect()
        self._socket = connection.sock
        self._socket.settimeout(2 * self._limit_s)  # the timer ends it before that
        if self._late:  # the timer found nothing to cut
            raise TimeoutError

    def _new_connection(self) -> HTTPConnection:
        if not self._https:
            return HTTPConnection(self.host, self._port)
        if self._certificates is None:
            self._certificates = trust(self._ca_file, insecure=self._insecure)
        return HTTPSConnection(self.host, self._port, context=self._certificates)


def trust(ca_file: Path | None, *, insecure: bool = False) -> ssl.SSLContext:
    """Certificates of the file, else of the system; `insecure`: any. FaultError (denied)."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise FaultError("denied", f"ca_file {ca_file}: {error}") from error
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def body(response: HTTPResponse, most_bytes: int) -> bytes:
    """All of an answer. FaultError: also when it is longer, or ends early."""
    with web_faults():
        content = response.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise FaultError("nonsense", f"an answer over {most_bytes >> 20} MiB")
    if response.length:
        raise FaultError("nonsense", f"{response.length} bytes of the answer did not come")
    return content


@contextmanager
def web_faults() -> Iterator[None]:
    """As `faults`, and what is no HTTP as `nonsense`."""
    try:
        with faults():
            yield
    except HTTPException as error:
        reason = f"no whole answer of HTTP ({type(error).__name__})"
        raise FaultError("nonsense", reason) from error
