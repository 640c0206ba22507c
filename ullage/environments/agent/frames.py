"""Frames of the agent's protocol: bytes in, frames out, no waiting.

The protocol stands in docs/internals/agent-protocol.md. The peer may be a hostile guest: all that
it sends is bounded, checked and refused in one way, `FrameError`.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

VERSION: Final = 2
MAX_BANNER: Final = 64 * 1024
MAX_BODY: Final = 1024 * 1024
MAX_JSON: Final = 64 * 1024
CLOCK_LENGTH: Final = 80
CREDIT: Final = 1024 * 1024
"""Bytes of bodies of kind 1 to 3 that either side may send at the start."""

MAGIC: Final = b"ULLAGE-AGENT"
"""The word that an agent begins with; after it comes the version."""
_MARK: Final = b"\xa1\x55"
_HEADER: Final = struct.Struct(">2sBBI")
_ID: Final = struct.Struct(">I")
_MIN_INT: Final = -(2**63)
_MAX_INT: Final = 2**64 - 1


class FrameKind(IntEnum):
    """What a body holds."""

    JSON = 0
    STDOUT = 1
    STDERR = 2
    FILE = 3
    CLOCK = 4


_MOST: Final = {FrameKind.JSON: MAX_JSON, FrameKind.CLOCK: CLOCK_LENGTH}
_WITH_ID: Final = (FrameKind.STDOUT, FrameKind.STDERR, FrameKind.FILE)


class FrameError(Exception):
    """The peer does not speak the protocol. The text says what was wrong."""


@dataclass(frozen=True)
class Message:
    op: str
    fields: dict[str, Any]

    def integer(self, name: str, low: int = 0, high: int = 2**63 - 1) -> int:
        """The field as an integer within the limits, or FrameError."""
        value = self.fields.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise FrameError(f"{self.op}: {name} is not an integer from {low} to {high}")
        return value

    def optional_integer(self, name: str, low: int = 0, high: int = 2**63 - 1) -> int | None:
        """As `integer`, or None for null or nothing."""
        return None if self.fields.get(name) is None else self.integer(name, low, high)

    def text(self, name: str) -> str:
        """The field as text, or FrameError."""
        value = self.fields.get(name)
        if not isinstance(value, str):
            raise FrameError(f"{self.op}: {name} is not text")
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        """The field as an object, or FrameError."""
        value = self.fields.get(name)
        if not isinstance(value, dict):
            raise FrameError(f"{self.op}: {name} is not an object")
        return value


@dataclass(frozen=True)
class Data:
    """A frame of raw bytes that belongs to a request."""

    kind: FrameKind
    id: int
    data: bytes

    @property
    def cost(self) -> int:
        """Credit that the frame used."""
        return _ID.size + len(self.data)


@dataclass(frozen=True)
class Clock:
    """A frame with a message of RGAP; the protocol of the clocks checks what is in it."""

    data: bytes


Frame = Message | Data | Clock


def encode_message(op: str, **fields: object) -> bytes:
    """A JSON frame. ValueError when it is longer than the protocol allows."""
    body = json.dumps({"op": op, **fields}, separators=(",", ":")).encode()
    if len(body) > MAX_JSON:
        raise ValueError(f"{op}: a request of {len(body)} bytes; at most {MAX_JSON} are allowed")
    return _HEADER.pack(_MARK, FrameKind.JSON, 0, len(body)) + body


def encode_data(kind: FrameKind, request: int, data: bytes | memoryview) -> bytes:
    """A frame of raw bytes."""
    return b"".join((_HEADER.pack(_MARK, kind, 0, _ID.size + len(data)), _ID.pack(request), data))


def encode_clock(message: bytes) -> bytes:
    """A frame with a message of RGAP."""
    return _HEADER.pack(_MARK, FrameKind.CLOCK, 0, len(message)) + message


class FrameReader:
    """Takes bytes as they come and yields whole frames.

    Skips a transport's banner up to the magic line, and repeated magic lines before a first frame.
    Holds at most one frame beyond what was fed last.
    """

    def __init__(self, magic: bytes | None = MAGIC, version: int = VERSION) -> None:
        """magic: the word that the peer begins with; None: it begins with a frame."""
        self._magic = re.compile((magic or b"") + rb" (\d{1,4})\n")
        self._magic_line = (magic or b"") + b" %d\n" % version
        self._version = version
        self._buffer = bytearray()
        self._greeted = magic is None
        self._answered = False

    @property
    def greeted(self) -> bool:
        """True once the magic line was seen."""
        return self._greeted

    @property
    def banner(self) -> bytes:
        """What came before the magic line so far, for an error message."""
        return b"" if self._greeted else bytes(self._buffer)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete now. FrameError ends the stream for good."""
        self._buffer += data
        if not self._greeted:
            self._skip_banner()
        while self._greeted and (frame := self._next()) is not None:
            yield frame

    def _skip_banner(self) -> None:
        start = self._magic.search(self._buffer)
        if start is None:
            if len(self._buffer) > MAX_BANNER:
                raise FrameError(f"no magic line in the first {MAX_BANNER} bytes")
            return
        if int(start[1]) != self._version:
            raise FrameError(f"the agent speaks version {int(start[1])}, not {self._version}")
        del self._buffer[: start.end()]
        self._greeted = True

    def _next(self) -> Frame | None:
        if not self._answered:
            while self._buffer.startswith(self._magic_line):
                del self._buffer[: len(self._magic_line)]
            if self._magic_line.startswith(self._buffer):
                return None
        if len(self._buffer) < _HEADER.size:
            return None
        kind, length = _check_header(self._buffer)
        end = _HEADER.size + length
        if len(self._buffer) < end:
            return None
        with memoryview(self._buffer) as view:
            body = bytes(view[_HEADER.size : end])
        del self._buffer[:end]
        self._answered = True
        if kind is FrameKind.JSON:
            return _decode_message(body)
        if kind is FrameKind.CLOCK:
            return Clock(body)
        return Data(kind, _ID.unpack_from(body)[0], body[_ID.size :])


def _check_header(buffer: bytearray) -> tuple[FrameKind, int]:
    mark, number, reserved, length = _HEADER.unpack_from(buffer)
    if mark != _MARK:
        raise FrameError(f"a frame that begins with {bytes(mark).hex()}")
    if number not in FrameKind.__members__.values() or reserved:
        raise FrameError(f"a frame of unknown kind {number}.{reserved}")
    kind = FrameKind(number)
    if length > _MOST.get(kind, MAX_BODY):
        raise FrameError(f"a frame of {length} bytes")
    if kind is FrameKind.CLOCK and length != CLOCK_LENGTH:
        raise FrameError(f"a clock frame of {length} bytes, not {CLOCK_LENGTH}")
    if kind in _WITH_ID and length < _ID.size:
        raise FrameError("a data frame without an id")
    return kind, length


def _decode_message(body: bytes) -> Message:
    try:
        text = body.decode("utf-8")
        fields = json.loads(
            text, parse_constant=_refuse, parse_float=_finite, parse_int=_bounded_integer
        )
        if "\\ud" in text or "\\uD" in text:
            # Half a surrogate pair is valid JSON and can be stored nowhere.
            json.dumps(fields, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise FrameError(f"bad JSON: {type(error).__name__}") from error
    op = fields.get("op") if isinstance(fields, dict) else None
    if not isinstance(op, str):
        raise FrameError("a JSON frame without an op")
    return Message(op, fields)


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _bounded_integer(text: str) -> int:
    value = int(text)
    if not _MIN_INT <= value <= _MAX_INT:
        raise ValueError(text)
    return value
