"""A Redfish service: JSON from one web server, with limits and without leaving it."""

from __future__ import annotations

import base64
import json
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    RemoteDisconnected,
)
from pathlib import Path
from threading import Timer
from typing import Any, Final, Literal, NoReturn
from urllib.parse import urlsplit

from ullage.energy.base import READ_DEADLINE_S, FaultError
from ullage.energy.outside import faults, quoted, secret

ROOT: Final = "/redfish/v1/"
MOST_BYTES: Final = 1 << 22
"""A resource is some kilobytes; what is longer is none."""

_PATH: Final = re.compile(r"/redfish/v1(/[A-Za-z0-9._~%!$&'()*+,;=:@-]*)*")
_LEAVES_S: Final = 2.0
_CODES: Final = {401: "denied", 403: "denied", 429: "silent", 503: "silent"}
"""HTTP status → code of the fault; any other is `nonsense`."""
_HUNG_UP: Final = (RemoteDisconnected, BrokenPipeError, ConnectionResetError)


class NotFoundError(FaultError):
    """The service has no such resource, though it may have linked to it."""


@dataclass(frozen=True)
class Access:
    """How one comes in."""

    auth: Literal["session", "basic"]
    username: str
    password_file: Path


class Service:
    """Asks one service over one connection, which stays (a handshake costs a BMC much).

    No proxy is used and no redirect followed, so that neither password nor question goes to anybody
    else.
    """

    def __init__(
        self, url: str, access: Access | None, trust: ssl.SSLContext | None = None
    ) -> None:
        """`trust` is what HTTPS certificates must fit; None for HTTP."""
        parts = urlsplit(url)
        self._host, self._port, self._trust = parts.hostname or "", parts.port, trust
        self._access = access
        self._headers: dict[str, str] = {}
        self._session = ""
        self._connection: HTTPConnection | None = None
        self._used = False
        self._whole = True
        self._late = False
        self._limit_s = READ_DEADLINE_S

    def get(self, path: str) -> dict[str, Any]:
        """A resource; numbers with a point are `Decimal`. FaultError."""
        with self._in_time(READ_DEADLINE_S):
            if self._access is not None and not self._headers:
                self._log_in(self._access)
            with self._ask("GET", path) as response:
                return _object(response)

    def close(self) -> None:
        """Log out, as far as the service still answers; BMCs have few sessions to give."""
        if not self._whole:
            self._hang_up()  # an answer is still due on that connection: ask on a new one
        if self._session:
            with suppress(FaultError), self._in_time(_LEAVES_S):
                _read(self._ask("DELETE", self._session))
        self._hang_up()
        self._headers, self._session = {}, ""

    @contextmanager
    def _in_time(self, limit_s: float) -> Iterator[None]:
        """A wait that ends with each byte is no limit for who sends one now and then."""
        self._late, self._limit_s = False, limit_s
        timer = Timer(limit_s, self._cut)
        timer.start()
        try:
            yield
        except FaultError as fault:
            if self._late:
                raise FaultError("silent", f"no answer within {limit_s:g} s") from fault
            raise
        finally:
            timer.cancel()

    def _cut(self) -> None:
        self._late, self._whole = True, False
        connection = self._connection
        if connection is not None and isinstance(connection.sock, socket.socket):
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def _log_in(self, access: Access) -> None:
        password = secret(access.password_file)
        if access.auth == "basic":
            pair = base64.b64encode(f"{access.username}:{password}".encode()).decode()
            self._headers = {"Authorization": f"Basic {pair}"}
            return
        with self._ask("GET", ROOT) as response:
            sessions = link(_object(response).get("Links"), "Sessions")
        body = json.dumps({"UserName": access.username, "Password": password})
        with self._ask("POST", sessions, body) as response:
            token = response.headers.get("X-Auth-Token", "")
            location = urlsplit(response.headers.get("Location", ""))
            _read(response)
        if not token:
            raise FaultError("denied", "the service opened a session without a token")
        self._headers = {"X-Auth-Token": token}
        elsewhere = location.netloc and location.hostname != self._host
        self._session = location.path if _PATH.fullmatch(location.path) and not elsewhere else ""

    def _ask(self, method: str, path: str, body: str | None = None) -> HTTPResponse:
        """The response with a status of success. FaultError."""
        self._whole = False
        try:
            with faults():
                response = self._respond(method, path, body)
        except HTTPException as error:
            raise FaultError("nonsense", f"no answer of HTTP ({type(error).__name__})") from error
        self._whole = True
        if not 200 <= response.status < 300:
            _read(response)
            raise _refused(path, response)
        return response

    def _respond(self, method: str, path: str, body: str | None) -> HTTPResponse:
        try:
            return self._exchange(method, path, body)
        except _HUNG_UP:
            if not self._used or self._late:
                raise
        # It had closed the connection while nobody asked anything.
        self._hang_up()
        return self._exchange(method, path, body)

    def _exchange(self, method: str, path: str, body: str | None) -> HTTPResponse:
        if self._connection is None:
            self._connection = self._connect()
        if self._connection.sock is None:
            self._connection.timeout = self._limit_s
            self._connection.connect()
            if self._late:  # the timer found nothing to cut
                raise TimeoutError
        headers = {"Accept": "application/json", "OData-Version": "4.0", "User-Agent": "ullage"}
        headers |= {"Content-Type": "application/json"} if body is not None else {}
        self._connection.request(method, path, body, headers | self._headers)
        response = self._connection.getresponse()
        self._used = True
        return response

    def _connect(self) -> HTTPConnection:
        if self._trust is None:
            return HTTPConnection(self._host, self._port)
        return HTTPSConnection(self._host, self._port, context=self._trust)

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self._used = None, False


def link(resource: object, name: str) -> str:
    """The path of a linked resource, on this service. FaultError (nonsense)."""
    target = resource.get(name) if isinstance(resource, dict) else None
    path = target.get("@odata.id") if isinstance(target, dict) else None
    if not isinstance(path, str) or not _PATH.fullmatch(path) or "/.." in path:
        raise FaultError("nonsense", f"the service links {name} to {quoted(str(path))}")
    return path


def _refused(path: str, response: HTTPResponse) -> FaultError:
    said = f"{response.status} {response.reason}"
    if 300 <= response.status < 400:
        said += f" to {response.headers['Location']}, which is not followed"
    if response.status == 404:
        return NotFoundError("gone", f"{path}: {quoted(said)}")
    return FaultError(_CODES.get(response.status, "nonsense"), f"{path}: {quoted(said)}")


def _read(response: HTTPResponse) -> bytes:
    try:
        with faults():
            body = response.read(MOST_BYTES + 1)
    except HTTPException as error:
        raise FaultError("nonsense", f"no whole answer ({type(error).__name__})") from error
    if len(body) > MOST_BYTES:
        raise FaultError("nonsense", f"an answer over {MOST_BYTES >> 20} MiB")
    if response.length:
        raise FaultError("nonsense", f"{response.length} bytes of the answer did not come")
    return body


def _object(response: HTTPResponse) -> dict[str, Any]:
    body = _read(response)
    try:
        found = json.loads(body, parse_float=Decimal, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise FaultError("nonsense", f"its answer is no JSON: {quoted(str(error))}") from error
    if not isinstance(found, dict):
        raise FaultError("nonsense", "its answer is no JSON object")
    return found


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
