"""Who to synchronise with: addresses and run tokens, and what went wrong with either."""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from ullage import clock
from ullage.clock import Outcome, Rules
from ullage.errors import (
    CLOCK_BAD_ADDRESS,
    CLOCK_BAD_TOKEN,
    CLOCK_CONTRADICTION,
    CLOCK_NO_ANSWER,
    CLOCK_NO_TOKEN,
    CLOCK_REFUSED,
    CLOCK_TURNED_AWAY,
    CLOCK_UNREACHABLE,
    UllageError,
)

PORT: Final = 7463
"""Where a clock is served if nobody says otherwise."""
VARIABLE: Final = "ULLAGE_CLOCK_TOKEN"
_PROBE_S: Final = 0.2
_ADDRESS: Final = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]]*))(?::(?P<port>[0-9]+))?")


class Address(NamedTuple):
    """A resolved address."""

    host: str
    port: int
    v6: bool

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if self.v6 else f"{self.host}:{self.port}"


def resolve(text: str) -> Address:
    """HOST, HOST:PORT or [IPV6]:PORT. CLOCK_BAD_ADDRESS."""
    match = _ADDRESS.fullmatch(text)
    host = (match["v6"] or match["host"]) if match else ""
    if match is None or not host:
        raise _bad(text, "it has no host")
    port = int(match["port"] or PORT)
    if port > 65_535:
        raise _bad(text, "ports end at 65535")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise _bad(text, reason or str(error)) from error
    family, *_, place = found[0]
    return Address(str(place[0]), port, family == socket.AF_INET6)


def _bad(text: str, reason: str) -> UllageError:
    return UllageError(CLOCK_BAD_ADDRESS, found=text or "nothing", reason=reason, port=PORT)


def token(file: Path | None, *, create: bool = False) -> bytes:
    """The run's token from a file, or from the environment. CLOCK_NO_TOKEN, CLOCK_BAD_TOKEN.

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
            text = file.read_text(encoding="ascii", errors="replace")
        except OSError as error:
            reason = f"{file}: {error.strerror}"
            raise UllageError(CLOCK_NO_TOKEN, reason=reason) from error
    text = text.strip()
    if not re.fullmatch(r"[0-9a-fA-F]{32}", text):
        raise UllageError(CLOCK_BAD_TOKEN, where=where)
    return bytes.fromhex(text)


def _create(file: Path) -> None:
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "w", encoding="ascii") as opened:
        opened.write(f"{secrets.token_hex(16)}\n")


def synchronise(server: Address, key: bytes, rules: Rules, *, tcp: bool) -> Outcome:
    """Once. CLOCK_NO_ANSWER, CLOCK_REFUSED, CLOCK_TURNED_AWAY,
    CLOCK_UNREACHABLE, CLOCK_CONTRADICTION.
    """
    with _told(server, rules, tcp=tcp):
        if tcp:
            return clock.synchronise_tcp(str(server), key, rules)
        return clock.synchronise_udp(str(server), key, rules)


@contextmanager
def _told(server: Address, rules: Rules, *, tcp: bool) -> Iterator[None]:
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


def _refuses(server: Address) -> bool:
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
