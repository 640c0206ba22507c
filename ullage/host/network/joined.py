"""This machine's part of a network that several machines join."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from ullage.common.errors import NETWORK_FAILED, UllageError
from ullage.host.network import between, echo
from ullage.host.network.bridge import Network
from ullage.host.network.links import NetworkLink


def reached_at() -> str:
    """The address that ssh reached this machine at; NETWORK_FAILED where nobody says."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    if len(words) != 4 or ":" in words[2]:
        reason = "nobody tells the IPv4 address of this machine: give it in the plan, `address:`"
        raise UllageError(NETWORK_FAILED, reason=reason)
    return words[2]


class Joined:
    """A bridge here, and the way from it to those of the others."""

    def __init__(self, network: Network, mtu: int) -> None:
        self.network = network
        self._mtu = mtu
        self._echo: echo.Echo | None = None

    @classmethod
    async def make(
        cls,
        tag: str,
        own: between.Peer,
        peers: Sequence[between.Peer],
        way: between.Way,
        link: NetworkLink | None,
    ) -> Joined:
        """All of it or nothing."""
        network = await Network.create(tag, link, own.subnet)
        try:
            uplink = await asyncio.to_thread(between.uplink, own.address)
            await between.join(network, uplink, peers, way)
        except BaseException:
            await network.destroy()
            raise
        return cls(network, way.mtu)

    async def listen(self) -> tuple[str, int]:
        """Have an endpoint here send back what comes; its address and port."""
        self._echo = await echo.Echo.start(self.network)
        return self._echo.address, self._echo.port

    async def reach(self, address: str, port: int) -> None:
        """Have an endpoint here speak to one that listens. NETWORK_FAILED."""
        await echo.reach(self.network, address, port, self._mtu)

    async def reach_by_host(self, address: str, port: int) -> None:
        """Have this machine's own programs speak to it. NETWORK_FAILED."""
        await echo.reach_by_host(address, port, self._mtu)

    async def hush(self) -> None:
        """Have nobody listen here any more."""
        listening, self._echo = self._echo, None
        if listening is not None:
            await listening.stop()

    async def leave(self) -> None:
        """Remove it."""
        await self.hush()
        await self.network.destroy()
