"""The networks of a run on several machines, joined: each has a subnet of its own, and reaches the
others by routes over the link that the machines share, or by one Ethernet over UDP (VXLAN).

VXLAN: RFC 7348; its 50 bytes of headers: section 5.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ullage.common.errors import NETWORK_FAILED, UllageError
from ullage.host.network import iproute, routes
from ullage.host.network.bridge import Beyond, Network
from ullage.host.network.links import Between

ETHERNET_MTU: Final = 1500
VXLAN_BYTES: Final = 50
LEAST_MTU: Final = 576
_VXLAN_PORT: Final = 4789


@dataclass(frozen=True)
class Peer:
    """The network of another machine."""

    subnet: ipaddress.IPv4Network
    address: str
    """Of the machine itself, on the link between."""


@dataclass(frozen=True)
class Uplink:
    """Where a machine meets the others."""

    address: str
    device: str
    mtu: int


@dataclass(frozen=True)
class Way:
    """How they are joined."""

    between: Between
    key: int
    """The same on every machine of the run, and on those of no other run."""
    mtu: int


def uplink(address: str) -> Uplink:
    """The device that has the address. NETWORK_FAILED."""
    return Uplink(address, *routes.uplink(address))


def address_towards(other: str) -> str:
    """The address that this machine would use to speak to another. NETWORK_FAILED."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((other, 9))  # nothing is sent
        except OSError as error:
            reason = f"no way to {other}: {error.strerror}"
            raise UllageError(NETWORK_FAILED, reason=reason) from error
        return str(probe.getsockname()[0])


def mtu(between: Between, uplinks: Sequence[int]) -> int:
    """What fits through all of them, and into an Ethernet frame."""
    most = min(uplinks) - (VXLAN_BYTES if between == "vxlan" else 0)
    return min(ETHERNET_MTU, most)


async def join(network: Network, own: Uplink, peers: Sequence[Peer], way: Way) -> None:
    """Have the endpoints that are made from now on reach those of the others. NETWORK_FAILED.

    Programs of this host reach them too, from the gateway's address: the only one of it to which
    the endpoints there know a way back.
    """
    subnets = tuple(peer.subnet for peer in peers)
    network.beyond = Beyond(subnets, way.between == "routes", way.mtu)
    if way.between == "vxlan":
        await _vxlan(network, own, peers, way.key)
        return
    for peer in peers:
        if not await asyncio.to_thread(routes.on_link, peer.address):
            reason = f"{peer.address} is on no link of {own.device}; `network: {{between: vxlan}}`"
            raise UllageError(NETWORK_FAILED, reason=f"{reason} crosses routers")
    ways = tuple(
        f"{peer.subnet} via {peer.address} dev {own.device} src {network.gateway}" for peer in peers
    )
    await asyncio.to_thread(routes.allow, network.bridge)
    await asyncio.to_thread(routes.add, network.tag, own.device, ways)


async def _vxlan(network: Network, own: Uplink, peers: Sequence[Peer], key: int) -> None:
    """A port of the bridge that floods to all of them, and learns who is where."""
    device = f"{network.tag}-vx"
    await iproute.batch(
        f"link add name {device} type vxlan id {key & 0xFFFFFF} local {own.address}"
        f" dev {own.device} dstport {_VXLAN_PORT}",
        f"link set dev {device} addrgenmode none",
    )
    iproute.disable_ipv6(device)
    for peer in peers:
        await iproute.flood(device, peer.address)
    await iproute.batch(
        f"link set dev {device} master {network.bridge} up",
        *(f"route add {p.subnet} dev {network.bridge} src {network.gateway}" for p in peers),
    )
