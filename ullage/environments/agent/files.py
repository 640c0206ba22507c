"""Files that go to an agent and come from it, each proved whole by its SHA-256."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.quantities import exact_bytes
from ullage.environments.agent.channel import (
    AgentChannel,
    AgentError,
    Exchange,
    PendingCall,
    quiet_future,
)
from ullage.environments.agent.frames import Data, FrameError, FrameKind, Message

Piece = bytes | memoryview
T = TypeVar("T")

GET_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of a file that comes from inside, where nobody says how long it may be."""

TRANSFER_S: Final = 60.0
TRANSFER_BYTES_PER_S: Final = 512 * 1024
"""A file has TRANSFER_S and the time that its bytes take at this rate: a port of a busy emulated
guest carries some ten times as much."""
_CHUNK: Final = 128 * 1024


async def put(channel: AgentChannel, data: bytes | Path, path: str, mode: int) -> None:
    """Write a file inside, from bytes or from a file here. AGENT_CORRUPT unless it is whole.

    AGENT_SLOW when it takes longer than a file of its size may.
    """
    if isinstance(data, bytes):
        whole = _put(channel, _slices(data), len(data), path, mode)
        await _in_time(whole, "put", path, len(data), channel)
        return
    with await asyncio.to_thread(data.open, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        whole = _put(channel, _reads(file, size), size, path, mode)
        await _in_time(whole, "put", path, size, channel)


async def get(channel: AgentChannel, path: str, limit: int) -> bytes:
    """Read a file inside. AgentError when it cannot be read or is longer than `limit` bytes.

    AGENT_SLOW when it takes longer than a file of `limit` bytes may.
    """
    exchange = _Get(limit + 1)  # the agent stops there without a word
    channel.request(exchange, path=path, limit=limit + 1)
    whole = channel.answer(exchange, exchange.future)
    await _in_time(whole, "get", path, limit, channel)
    if not exchange.whole:
        raise _corrupt(channel, path)
    if len(exchange.data) > limit:
        reason = f"{path} is longer than {exact_bytes(limit)}"
        raise AgentError(channel.agent, "get", "too-long", reason)
    return bytes(exchange.data)


async def _put(
    channel: AgentChannel, pieces: AsyncIterator[Piece], size: int, path: str, mode: int
) -> None:
    done = PendingCall("put", "done", lambda answer: answer.text("sha256"))
    number = channel.request(done, path=path, mode=mode, size=size)
    digest = hashlib.sha256()
    async for piece in pieces:
        if done.future.done():  # refused: the rest is not wanted
            break
        digest.update(piece)
        await channel.send_data(number, piece)
    written_sha256, _ = await channel.answer(done, done.future)
    if written_sha256 != digest.hexdigest():
        raise _corrupt(channel, path)


async def _in_time(work: Awaitable[T], op: str, path: str, size: int, channel: AgentChannel) -> T:
    """What it comes to: a peer that moves a byte now and then may not hold us for ever."""
    limit_s = TRANSFER_S + size / TRANSFER_BYTES_PER_S
    try:
        async with asyncio.timeout(limit_s):
            return await work
    except TimeoutError:
        raise UllageError(
            errors.AGENT_SLOW,
            op=op,
            path=path,
            agent=channel.agent,
            seconds=limit_s,
            size=exact_bytes(size),
        ) from None


def _corrupt(channel: AgentChannel, path: str) -> UllageError:
    reason = "its SHA-256 is not the sender's"
    return UllageError(errors.AGENT_CORRUPT, path=path, agent=channel.agent, reason=reason)


class _Get(Exchange):
    """A file that comes from inside."""

    def __init__(self, limit: int) -> None:
        super().__init__("get")
        self.data = bytearray()
        self.whole = False
        self.future: asyncio.Future[None] = quiet_future()
        self._limit = limit
        self._digest = hashlib.sha256()

    def on_message(self, message: Message, arrived_ns: int) -> bool:
        """Take `done`."""
        if message.op != "done":
            raise FrameError(f"{message.op} in answer to get")
        size, digest = message.integer("size"), message.text("sha256")
        self.whole = size == len(self.data) and digest == self._digest.hexdigest()
        self.future.set_result(None)
        return True

    def on_data(self, frame: Data) -> None:
        """Take a piece of the file."""
        if frame.kind is not FrameKind.FILE or len(self.data) + len(frame.data) > self._limit:
            raise FrameError("more than was asked for in answer to get")
        self.data += frame.data
        self._digest.update(frame.data)

    def on_fail(self, error: UllageError) -> None:
        """It cannot be read, or the channel is gone."""
        self.future.set_exception(error)


async def _slices(data: bytes) -> AsyncIterator[Piece]:
    view = memoryview(data)
    for start in range(0, len(view), _CHUNK):
        yield view[start : start + _CHUNK]


async def _reads(file: BinaryIO, size: int) -> AsyncIterator[Piece]:
    """Exactly `size` bytes, as they were promised; a file that shrinks meanwhile is an OSError."""
    remaining = size
    while remaining:
        piece = await asyncio.to_thread(file.read, min(remaining, _CHUNK))
        if not piece:
            raise OSError(f"{file.name} shrank while it was read")
        remaining -= len(piece)
        yield piece
