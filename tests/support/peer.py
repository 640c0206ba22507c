"""A peer that says whatever a test wants: a deterministic double of an agent gone wrong."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.agent.client import AgentClient
from ullage.environments.agent.frames import FrameKind, encode_clock, encode_data, encode_message
from ullage.host import clock

MAGIC = b"ULLAGE-AGENT 2\n"
FLOOD = """
kill -STOP $PPID
for end in /proc/$PPID/fd/*; do
    case $(readlink $end) in pipe:*) cat /dev/zero >$end & ;; esac
done 2>/dev/null
wait
"""
"""For `sh`, as root in an instance: the agent stands still, and its pipes are full."""
CLOCK = {"ns": 1, "source": "counter", "ordered_ns": 0, "reasons": [], "shared": True}
RUSAGE = {
    "user_ns": 1,
    "system_ns": 2,
    "max_rss_bytes": 3,
    "minor_faults": 4,
    "major_faults": 5,
    "voluntary_switches": 6,
    "involuntary_switches": 7,
}


class Peer:
    """The far end of a channel."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, op: str, **fields: object) -> None:
        self.writer.write(encode_message(op, **fields))

    def data(self, kind: FrameKind, number: int, data: bytes) -> None:
        self.writer.write(encode_data(kind, number, data))

    async def take(self) -> tuple[int, Any]:
        """The next frame: kind and what it holds."""
        header = await self.reader.readexactly(8)
        _, kind, _, length = struct.unpack(">2sBBI", header)
        body = await self.reader.readexactly(length)
        return kind, json.loads(body) if kind == 0 else body

    async def request(self, op: str) -> int:
        """The next frame must be this request; its id."""
        kind, message = await self.take()
        assert (kind, message["op"]) == (0, op)
        if op == "hello":
            self.server = clock.Server(bytes.fromhex(message["token"]))
        return int(message["id"])

    async def hello(self, **clock_fields: object) -> None:
        """Say hello; with a clock that is shared, unless told otherwise."""
        self.writer.write(MAGIC)
        number = await self.request("hello")
        self.send("hello", id=number, version=2, facts={"uid": 0}, clock={**CLOCK, **clock_fields})

    async def tell_time(self, ahead_ns: int = 0, *, fast_ppb: int = 0) -> bytes:
        """Answer a request for the time: this process's own, so much ahead of its own."""
        kind, message = await self.take()
        assert kind == FrameKind.CLOCK
        ns = clock.ordered_ns() + ahead_ns
        ns += ns * fast_ppb // 1_000_000_000
        pending = self.server.receive(message, ns)
        assert pending is not None
        answer = pending.answer(ns + 1, clock.Standing(awake=False))
        self.writer.write(encode_clock(answer))
        return answer

    async def greet(self) -> None:
        """Be a good agent until the client is connected."""
        await self.hello()
        await self.tell_time()

    async def spawned(self) -> int:
        """Take a spawn and say that it started."""
        number = await self.request("spawn")
        self.send("started", id=number, pid=1, start_ns=10, late_ns=1)
        return number

    def exit(self, number: int, **fields: object) -> None:
        usual = {
            "reasons": [],
            "status": 0,
            "signal": None,
            "start_ns": 10,
            "end_ns": 20,
            "rusage": RUSAGE,
        }
        self.send("exit", id=number, **{**usual, **fields})


def play(
    script: Callable[[Peer], Awaitable[None]],
    use: Callable[[AgentClient], Awaitable[None]],
    *,
    deadline_s: float = 5,
) -> None:
    """Connect a client to the script and use it; the script's own failures count."""

    async def both() -> None:
        near, far = socket.socketpair()
        peer = Peer(*await asyncio.open_connection(sock=far))
        scripted = asyncio.ensure_future(script(peer))
        streams = await asyncio.open_connection(sock=near)
        try:
            client = await AgentClient.connect(*streams, deadline_s=deadline_s, name="vm-0")
            try:
                await use(client)
            finally:
                await client.close()
            await asyncio.wait_for(scripted, 5)
        finally:
            scripted.cancel()
            peer.writer.close()

    asyncio.run(asyncio.wait_for(both(), 60))


def lost(error: UllageError, reason: str) -> None:
    """The channel is lost, and the message says why and whose it was."""
    assert error.kind is errors.AGENT_LOST
    assert reason in error.message
    assert "vm-0" in error.message
