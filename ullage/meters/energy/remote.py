"""How meters outside of the machine are asked: faults at opening, addresses, secrets, watts, HTTP.

Over HTTP no proxy is used and no redirect followed, so that neither password nor question goes to
anybody else. An exchange has one deadline: a wait that ends with each byte is no limit for who
sends one now and then.
"""

from __future__ import annotations

import math
import re
import socket
import ssl
import time
from abc import abstractmethod
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
from typing import Annotated, ClassVar, Final, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, Field

from ullage.common.quantities import Fraction, format_bytes
from ullage.common.text import clean
from ullage.meters.energy.base import (
    READ_DEADLINE_S,
    EnergyMeter,
    FaultError,
    MeterOptions,
    refusal,
)
from ullage.runs.readings import Channel

MOST_W: Final = 1e6
"""Above it no figure is believed: a megawatt is a hall full of racks."""

_HUNG_UP: Final = (RemoteDisconnected, BrokenPipeError, ConnectionResetError)
_QUOTED: Final = 200
"""Characters of a foreign answer that a message shows."""
_ADDRESS: Final = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?")

Rating = Annotated[float, Field(gt=0, le=MOST_W, allow_inf_nan=False)]
"""W of a UPS at a load of 100 %."""


class OutsideOptions(MeterOptions):
    """What a plan may say of any meter outside of the machine."""

    accuracy: Fraction | None = Field(
        None, description="relative half width that its maker states, `3%`; absent: it is not known"
    )


class OutsideMeter(EnergyMeter):
    """A meter that is asked over a line or a network, and may vanish and come back.

    After a fault the way to it is let go; the next reading looks for a new one. A question that was
    not answered is not asked again within the same reading: every failed attempt is a fault.
    """

    fixes: ClassVar[Mapping[str, str]]
    """Code of a fault → what a person does about it; `gone` stands for those that are missing."""

    def open(self) -> tuple[Channel, ...]:
        """Ask once: ENERGY_METER_ABSENT, ENERGY_METER_DENIED, ENERGY_METER_BAD_ANSWER."""
        try:
            return self.describe()
        except FaultError as fault:
            self.close()
            fix = self.fixes.get(fault.code, self.fixes["gone"])
            raise refusal(self.name, self.where(), fault, fix) from fault

    def read(self) -> Mapping[str, float]:
        try:
            values = self.ask()
        except FaultError:
            self.close()
            raise
        return {name: believable(name, value) for name, value in values.items()}

    def wall(
        self,
        resolution: float,
        source: str,
        *,
        observer: Literal["host", "bmc"] = "host",
        accuracy: float | None = None,
    ) -> tuple[Channel, ...]:
        """The one channel of most of them: what is taken at the wall; accuracy: unless stated."""
        return (
            Channel(
                name="wall",
                kind="power",
                method="measured",
                scope="wall",
                observer=observer,
                resolution=resolution,
                accuracy=self.options.accuracy or accuracy,
                source=source,
            ),
        )

    @abstractmethod
    def where(self) -> str:
        """What messages call the source."""

    @abstractmethod
    def describe(self) -> tuple[Channel, ...]:
        """Find the source and what it has. FaultError."""

    @abstractmethod
    def ask(self) -> Mapping[str, float]:
        """Channel → value now, finding the source anew where it was let go. FaultError."""


def believable(name: str, value: float) -> float:
    """The power or energy as it is; FaultError (nonsense) where no machine can take it."""
    if not math.isfinite(value):
        raise FaultError("nonsense", f"{name} is no number")
    if value < 0:
        raise FaultError("nonsense", f"{name} is negative: {value:g}")
    return value


def watts(text: str, name: str) -> float:
    """A power in W from an answer's words. FaultError (nonsense)."""
    return power(number(text, name), name)


def power(value: float, name: str) -> float:
    """A power in W, or a load in %, that a running machine may take. FaultError (nonsense).

    0 is what meters tell that have not looked yet, or that look at nothing.
    """
    if value == 0:
        raise FaultError("nonsense", f"{name} is 0: it sees nothing of a running machine")
    if believable(name, value) > MOST_W:
        raise FaultError("nonsense", f"{name} is {value:g} W, more than any machine takes")
    return value


def number(text: str, name: str) -> float:
    """A plain decimal number from an answer's words. FaultError (nonsense)."""
    if not re.fullmatch(r"[+-]?\d{1,15}(\.\d{1,15})?", text.strip(" "), re.ASCII):
        raise FaultError("nonsense", f"{name} is no number: {quoted(text)}")
    return float(text)


def step(text: str) -> float:
    """The smallest step that a number written so can make: 0.01 of `14.30`, 1 of `14`."""
    return 10.0 ** -len(text.strip().partition(".")[2])


def quoted(answer: str) -> str:
    """A foreign answer, short and harmless."""
    return clean(repr(answer), _QUOTED)


def address(text: str, port: int) -> tuple[str, int]:
    """`HOST`, `HOST:PORT` or `[IPv6]:PORT` in its parts; ValueError when it is none of them."""
    match = _ADDRESS.fullmatch(text)
    if match is None or text.startswith("-") or int(match["port"] or port) not in range(1, 65536):
        raise ValueError("a host or address, with a port where it is not the usual one: `ups:3493`")
    return match["host"].strip("[]"), int(match["port"] or port)


def _an_address(text: str) -> str:
    address(text, 1)
    return text


Address = Annotated[str, AfterValidator(_an_address)]
"""`HOST`, `HOST:PORT` or `[IPv6]:PORT`, as a plan writes it."""


def secret(file: Path) -> str:
    """The one line of a file that holds a password. FaultError (denied)."""
    try:
        with file.open("rb") as stream:
            line = stream.read(1024).decode()
    except OSError as error:
        raise FaultError("denied", f"password file {file}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise FaultError("denied", f"password file {file} is no text") from None
    line = line.removesuffix("\n").removesuffix("\r")
    if not line or not line.isprintable():
        raise FaultError("denied", f"password file {file} is not one line with a password")
    return line


class Dialogue:
    """A TCP connection with one deadline for all that is said on it."""

    def __init__(self, host: str, port: int) -> None:
        self._until_s = time.monotonic() + READ_DEADLINE_S
        self._received = b""
        with faults():
            self._socket = socket.create_connection((host, port), READ_DEADLINE_S)

    def __enter__(self) -> Dialogue:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        with faults():
            self._wait()
            self._socket.sendall(data)

    def exactly(self, size: int) -> bytes:
        """So many bytes. FaultError."""
        while len(self._received) < size:
            self._receive()
        data, self._received = self._received[:size], self._received[size:]
        return data

    def until(self, mark: bytes, most: int) -> bytes:
        """What comes before the mark, `most` bytes at most. FaultError."""
        while mark not in self._received:
            if len(self._received) > most:
                raise FaultError("nonsense", f"no end within {most} bytes")
            self._receive()
        data, _, self._received = self._received.partition(mark)
        return data

    def _receive(self) -> None:
        with faults():
            self._wait()
            more = self._socket.recv(4096)
        if not more:
            raise FaultError("gone", "it closed the connection in the middle of its answer")
        self._received += more

    def _wait(self) -> None:
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)


@contextmanager
def faults() -> Iterator[None]:
    """Failures of a line or a connection as faults: `silent`, `denied`, `gone`."""
    try:
        yield
    except TimeoutError as error:
        raise FaultError("silent", f"no answer within {READ_DEADLINE_S:g} s") from error
    except ssl.SSLCertVerificationError as error:
        reason = f"its certificate is not trusted: {error.verify_message}"
        raise FaultError("denied", reason) from error
    except PermissionError as error:
        raise FaultError("denied", error.strerror or "permission denied") from error
    except OSError as error:
        raise FaultError("gone", error.strerror or str(error)) from error


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
        raise FaultError("nonsense", f"an answer over {format_bytes(most_bytes)}")
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
