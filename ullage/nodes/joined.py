"""This machine's part of a network between nodes."""

from __future__ import annotations

import asyncio
import os
from ipaddress import IPv4Network

from ullage.common.errors import NETWORK_FAILED, UllageError
from ullage.host.network import between, echo, iproute
from ullage.host.network.bridge import Network
from ullage.host.network.links import NetworkLink
from ullage.nodes import wire


def reached_at() -> str:
    """The address that ssh reached this machine at; NETWORK_FAILED where nobody says."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    if len(words) != 4 or ":" in words[2]:
        reason = "ssh tells no IPv4 address of this machine: give it in the plan, `address:`"
        raise UllageError(NETWORK_FAILED, reason=reason)
    return words[2]


async def surroundings(address: str) -> wire.Place:
    """Of this machine."""
    own = await asyncio.to_thread(between.uplink, address)
    routes = await iproute.routes()
    return wire.Place(address=address, mtu=own.mtu, routes=sorted(map(str, set(routes))))


class Joined:
    """A bridge here, and the way from it to those of the others."""

    def __init__(self, network: Network, mtu: int) -> None:
        self.network = network
        self._mtu = mtu
        self._echo: echo.Echo | None = None

    @classmethod
    async def make(cls, tag: str, request: wire.Join) -> Joined:
        """All of it or nothing."""
        link = None if request.link is None else NetworkLink.model_validate(request.link)
        network = await Network.create(tag, link, IPv4Network(request.own.subnet))
        try:
            await between.join(
                network,
                await asyncio.to_thread(between.uplink, request.own.address),
                [between.Peer(IPv4Network(peer.subnet), peer.address) for peer in request.peers],
                between.Way(request.between, request.key, request.mtu),
            )
        except BaseException:
            await network.destroy()
            raise
        return cls(network, request.mtu)

    async def listen(self) -> wire.Ear:
        """See `Node.listen`."""
        self._echo = await echo.Echo.start(self.network)
        return wire.Ear(address=self._echo.address, port=self._echo.port)

    async def reach(self, ear: wire.Ear) -> None:
        """See `Node.reach`."""
        await echo.reach(self.network, ear.address, ear.port, self._mtu)

    async def hush(self) -> None:
        """See `Node.hush`."""
        listening, self._echo = self._echo, None
        if listening is not None:
            await listening.stop()

    async def leave(self) -> None:
        """Remove it."""
        await self.hush()
        await self.network.destroy()
