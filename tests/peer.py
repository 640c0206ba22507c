"""A peer that says whatever a test wants: a deterministic double of an agent gone wrong."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

from ullage.agent import AgentClient
from ullage.agentframes import Kind, encode_data, encode_message

MAGIC = b"ULLAGE-AGENT 1\n"
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

    def data(self, kind: Kind, number: int, data: bytes) -> None:
        self.writer.write(encode_data(kind, number, data))

    async def take(self) -> tuple[int, Any]:
        """The next frame: kind and what it holds."""
        header = await self.reader.readexactly(8)
        _, kind, _, length = struct.unpack(">2sBBI", header)
        body = await self.reader.readexactly(length)
        return kind, json.loads(body) if kind == 0 else body

    async def request(self, op: str) -> int:
        """The next frame must be this request; its id."""
        kind, found = await self.take()
        assert (kind, found["op"]) == (0, op)
        return int(found["id"])

    async def greet(self) -> None:
        """Be a good agent until the client is connected."""
        self.writer.write(MAGIC)
        self.send("hello", id=await self.request("hello"), version=1, facts={"uid": 0})
        for mono_ns in range(8):
            self.send("sync", id=await self.request("sync"), mono_ns=mono_ns)

    async def spawned(self) -> int:
        """Take a spawn and say that it started."""
        number = await self.request("spawn")
        self.send("started", id=number, pid=1, start_ns=10, late_ns=1)
        return number

    def exit(self, number: int, **fields: object) -> None:
        given = {"status": 0, "signal": None, "start_ns": 10, "end_ns": 20, "rusage": RUSAGE}
        self.send("exit", id=number, **{**given, **fields})


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
