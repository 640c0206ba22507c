"""A node's clock by RGAP over UDP, beside ssh: a datagram takes less time, and waits for no stream.

An instance on the node's kernel shows the node's time, so one look at that is a look at all of
them. Where datagrams do not come through, the instances' own channels tell the time.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from functools import cache
from typing import Final

from ullage.environments.agent.clock import WORST_PPB
from ullage.host import clock
from ullage.host.clock import ContradictionError, NoAnswerError, Outcome, Synced, UdpServer
from ullage.nodes import wire

FIRST_NS: Final = 1_000_000_000
"""So long is the first answer waited for; a filter answers nothing."""
TIME_NS: Final = 20_000_000
"""A trial has two looks, so a network of 10 ms gets two exchanges for each, one of 0.1 ms all."""


def listen(address: str, token: str) -> UdpServer:
    """On the node: tell who has the token the time. OSError."""
    Synced().lead()
    return UdpServer(f"{address}:0", bytes.fromhex(token))


def where(server: UdpServer) -> wire.Ear:
    """Its address and port."""
    address, _, port = server.address.rpartition(":")
    return wire.Ear(address=address, port=int(port))


@cache
def rules() -> clock.Rules:
    """As published, but for the cap on time, and for a channel that may be slow at first."""
    return clock.Rules(messages=240, time_ns=TIME_NS, patience_ns=FIRST_NS, worst_ppb=WORST_PPB)


class NodeClock:
    """The same from here. Looks that are asked for meanwhile are one."""

    def __init__(self) -> None:
        self.token = secrets.token_bytes(16)
        self._ear: wire.Ear | None = None
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[Outcome | None] | None = None

    async def open(self, ear: wire.Ear) -> bool:
        """See whether a datagram comes back, and can be true."""
        self._ear = ear
        try:
            return await self.look() is not None
        except ContradictionError:
            return False

    def aside(self, apart_ns: int) -> NodeAside:
        """As that of an instance, which shows it give or take this."""
        return NodeAside(self, apart_ns)

    async def look(self) -> Outcome | None:
        """Exchange clocks, from now on; None where nothing comes back any more.

        ContradictionError.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._after_this(), name="clock of a node")
        return await asyncio.shield(self._next)

    async def _after_this(self) -> Outcome | None:
        async with self._turn:
            self._next = None
            if self._ear is None:
                return None
            server = f"{self._ear.address}:{self._ear.port}"
            try:
                return await asyncio.to_thread(clock.synchronise_udp, server, self.token, rules())
            except (NoAnswerError, OSError):
                self._ear = None
                return None


@dataclass(frozen=True)
class NodeAside:
    """A node's clock, as that of one of its instances."""

    node: NodeClock
    apart_ns: int

    async def exchange(self) -> Outcome | None:
        """Exchange clocks with the node."""
        return await self.node.look()
