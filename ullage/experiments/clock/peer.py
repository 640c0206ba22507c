"""Who to synchronise with: addresses and run tokens, and what went wrong with either."""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import shlex
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from ullage.common.errors import (
    CLOCK_BAD_ADDRESS,
    CLOCK_BAD_TOKEN,
    CLOCK_CONTRADICTION,
    CLOCK_NO_ANSWER,
    CLOCK_NO_TOKEN,
    CLOCK_REFUSED,
    CLOCK_TOKEN_EXPOSED,
    CLOCK_TURNED_AWAY,
    CLOCK_UNREACHABLE,
    UllageError,
)
from ullage.host import clock
from ullage.host.clock import Outcome, Rules

PORT: Final = 7463
"""Where a clock is served if nobody says otherwise."""
VARIABLE: Final = "ULLAGE_CLOCK_TOKEN"
_PROBE_S: Final = 0.2
_ADDRESS: Final = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]]*))(?::(?P<port>[^:\[\]]*))?")
_LONGEST_TOKEN: Final = 1024
"""Of a token file; with room for white space."""


class ServerAddress(NamedTuple):
    host: str
    port: int
    v6: bool

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if self.v6 else f"{self.host}:{self.port}"


def resolve(text: str) -> ServerAddress:
    """HOST, HOST:PORT or [IPV6]:PORT. CLOCK_BAD_ADDRESS."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise _bad(text, _not_understood(text))
    host = match["v6"] or match["host"]
    if not host:
        raise _bad(text, "it has no host")
    port = _port(text, match["port"])
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise _bad(text, reason or str(error)) from error
    family, *_, place = addresses[0]
    return ServerAddress(str(place[0]), port, family == socket.AF_INET6)


def _not_understood(text: str) -> str:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return "it has more than a host and a port"
    return f"an IPv6 address needs brackets: write [{text}]"


def _port(text: str, port: str | None) -> int:
    if port is None:
        return PORT
    if not re.fullmatch("[0-9]+", port):
        raise _bad(text, "port is not a number")
    if len(port) > 5 or int(port) > 65_535:
        raise _bad(text, "ports end at 65535")
    return int(port)


def _bad(text: str, reason: str) -> UllageError:
    return UllageError(CLOCK_BAD_ADDRESS, found=text or "nothing", reason=reason, port=PORT)


def token(file: Path | None, *, create: bool = False) -> bytes:
    """The run's token from a file, or from the environment.

    CLOCK_NO_TOKEN, CLOCK_BAD_TOKEN, CLOCK_TOKEN_EXPOSED.

    create: write one, that only its owner may read, if there is no such file.
    """
    if file is None:
        text, where = os.environ.get(VARIABLE), f"${VARIABLE}"
        if text is None:
            raise UllageError(CLOCK_NO_TOKEN, reason=f"no --token-file, and no {where}")
    else:
        where = str(file)
        if create:
            _create(file)
        try:
            text = _read(file)
        except OSError as error:
            reason = f"{file}: {error.strerror}"
            raise UllageError(CLOCK_NO_TOKEN, reason=reason) from error
    text = text.strip()
    if not re.fullmatch(r"[0-9a-fA-F]{32}", text):
        raise UllageError(CLOCK_BAD_TOKEN, where=where)
    return bytes.fromhex(text)


def _read(file: Path) -> str:
    """Never more than a token's worth, and without waiting, whatever stands there. OSError."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UllageError(CLOCK_NO_TOKEN, reason=f"{file}: not a regular file")
        if status.st_mode & 0o077:
            raise UllageError(CLOCK_TOKEN_EXPOSED, file=file, typed=shlex.quote(str(file)))
        data = opened.read(_LONGEST_TOKEN + 1)
    return "" if len(data) > _LONGEST_TOKEN else data.decode("ascii", errors="replace")


def _create(file: Path) -> None:
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "w", encoding="ascii") as opened:
        opened.write(f"{secrets.token_hex(16)}\n")


def synchronise(server: ServerAddress, key: bytes, rules: Rules, *, tcp: bool) -> Outcome:
    """Once. CLOCK_NO_ANSWER, CLOCK_REFUSED, CLOCK_TURNED_AWAY,
    CLOCK_UNREACHABLE, CLOCK_CONTRADICTION.
    """
    with _as_our_errors(server, rules, tcp=tcp):
        if tcp:
            return clock.synchronise_tcp(str(server), key, rules)
        return clock.synchronise_udp(str(server), key, rules)


@contextmanager
def _as_our_errors(server: ServerAddress, rules: Rules, *, tcp: bool) -> Iterator[None]:
    try:
        yield
    except clock.NoAnswerError as error:
        if not tcp and _refuses(server):
            raise UllageError(CLOCK_REFUSED, address=server) from error
        protocol = "TCP" if tcp else "UDP"
        seconds = rules.patience_ns / 1e9
        raise UllageError(
            CLOCK_NO_ANSWER, address=server, seconds=seconds, protocol=protocol
        ) from error
    except clock.ContradictionError as error:
        raise UllageError(CLOCK_CONTRADICTION, address=server, reason=error) from error
    except ConnectionRefusedError as error:
        raise UllageError(CLOCK_REFUSED, address=server) from error
    except TimeoutError as error:
        raise UllageError(CLOCK_UNREACHABLE, address=server, reason="no connection") from error
    except (ConnectionError, EOFError) as error:
        raise UllageError(CLOCK_TURNED_AWAY, address=server) from error
    except OSError as error:
        reason = error.strerror or error
        raise UllageError(CLOCK_UNREACHABLE, address=server, reason=reason) from error


def _refuses(server: ServerAddress) -> bool:
    """Whether the kernel over there says that nobody has this UDP port.

    The synchronisation itself does not hear of it: its socket is not connected.
    """
    family = socket.AF_INET6 if server.v6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.settimeout(_PROBE_S)
        try:
            probe.connect((server.host, server.port))
            probe.send(b"")
            probe.recv(1)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
