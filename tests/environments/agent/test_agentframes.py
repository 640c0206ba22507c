from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.environments.agent.frames import (
    CLOCK_LENGTH,
    MAX_BANNER,
    MAX_BODY,
    MAX_JSON,
    Clock,
    Data,
    Frame,
    FrameError,
    FrameKind,
    FrameReader,
    Message,
    encode_clock,
    encode_data,
    encode_message,
)

MAGIC = b"ULLAGE-AGENT 2\n"

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
messages = st.builds(
    lambda op, fields: Message(op, {"op": op, **fields}),
    st.text(max_size=10),
    st.dictionaries(st.text(max_size=5).filter(lambda name: name != "op"), values, max_size=4),
)
pieces = st.builds(
    Data,
    st.sampled_from([FrameKind.STDOUT, FrameKind.STDERR, FrameKind.FILE]),
    st.integers(0, 2**32 - 1),
    st.binary(),
)


clocks = st.builds(Clock, st.binary(min_size=CLOCK_LENGTH, max_size=CLOCK_LENGTH))


def encode(frame: Frame) -> bytes:
    if isinstance(frame, Clock):
        return encode_clock(frame.data)
    if isinstance(frame, Data):
        return encode_data(frame.kind, frame.id, frame.data)
    fields = {name: value for name, value in frame.fields.items() if name != "op"}
    return encode_message(frame.op, **{str(name): value for name, value in fields.items()})


def header(kind: int, length: int, *, mark: bytes = b"\xa1\x55", reserved: int = 0) -> bytes:
    return struct.pack(">2sBBI", mark, kind, reserved, length)


def read(data: bytes) -> list[Frame]:
    return list(FrameReader().feed(MAGIC + data))


@given(st.lists(messages | pieces | clocks, max_size=5), st.data())
def test_frames_survive_any_way_of_cutting(frames: list[Frame], draw: st.DataObject) -> None:
    stream = b"banner\n" + MAGIC + MAGIC + b"".join(map(encode, frames))
    cuts = draw.draw(st.lists(st.integers(0, len(stream)), max_size=8).map(sorted))
    reader = FrameReader()
    read_back: list[Frame] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        read_back += reader.feed(stream[start:end])
    assert read_back == frames
    assert reader.greeted


@given(st.binary(max_size=300))
def test_garbage_is_refused_or_awaited(garbage: bytes) -> None:
    try:
        frames = read(garbage)
    except FrameError:
        return
    assert all(isinstance(frame, Message | Data | Clock) for frame in frames)


@given(st.binary(max_size=100))
def test_garbage_in_json_is_refused(garbage: bytes) -> None:
    try:
        (frame,) = read(header(0, len(garbage)) + garbage)
    except FrameError:
        return
    assert isinstance(frame, Message)


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (header(0, 2, mark=b"\xa1\x56"), "begins with a156"),
        (header(5, 2), "unknown kind 5"),
        (header(4, 79), "a clock frame of 79 bytes, not 80"),
        (header(4, 81), "a frame of 81 bytes"),
        (header(0, 2, reserved=1), "unknown kind 0.1"),
        (header(0, MAX_JSON + 1), "a frame of 65537 bytes"),
        (header(1, MAX_BODY + 1), "a frame of 1048577 bytes"),
        (header(1, 3), "without an id"),
    ],
)
def test_bad_headers_are_named(stream: bytes, reason: str) -> None:
    with pytest.raises(FrameError, match=reason):
        read(stream)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"op":1}',
        b"[" * 60_000,
        b'{"op":"a","x":NaN}',
        b'{"op":"a","x":1e999}',
        b'{"op":"a","x":1' + b"0" * 20 + b"}",
        b'{"op":"a","x":1' + b"0" * 5000 + b"}",
        b'{"op":"a","x":"\\ud800"}',
        b'{"op":"a\xff"}',
    ],
)
def test_bad_json_is_refused(body: bytes) -> None:
    with pytest.raises(FrameError, match="JSON"):
        read(header(0, len(body)) + body)


def test_a_surrogate_pair_is_fine() -> None:
    body = json.dumps({"op": "a", "x": "🛢"}).encode()
    assert b"\\ud83d" in body
    assert read(header(0, len(body)) + body) == [Message("a", {"op": "a", "x": "🛢"})]


def test_a_banner_has_an_end() -> None:
    reader = FrameReader()
    with pytest.raises(FrameError, match="no magic line"):
        for _ in range(MAX_BANNER // 1000 + 1):
            list(reader.feed(b"Welcome! " * 112))


def test_another_version_is_refused() -> None:
    with pytest.raises(FrameError, match="version 1, not 2"):
        list(FrameReader().feed(b"ULLAGE-AGENT 1\n"))


def test_a_request_must_fit_a_frame() -> None:
    with pytest.raises(ValueError, match="at most 65536"):
        encode_message("spawn", argv=["x" * MAX_JSON])


@pytest.mark.parametrize("value", [True, -1, 1.0, "1", None, 2**63])
def test_an_integer_is_an_integer(value: object) -> None:
    with pytest.raises(FrameError, match="n is not an integer"):
        Message("x", {"n": value}).integer("n")
