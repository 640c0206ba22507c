"""One network over all nodes of a run: a subnet for each, chosen so that no machine knows it, and
tried from end to end before anything is measured on it.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from ipaddress import IPv4Network
from typing import Final, TypeVar

from ullage.common.errors import NODE_NETWORK, UllageError
from ullage.host.network import between
from ullage.host.network.bridge import choose_subnet
from ullage.host.network.links import Between, NetworkLink
from ullage.nodes import wire
from ullage.nodes.base import Node
from ullage.nodes.local import LocalNode

T = TypeVar("T")

ALL_PAIRS: Final = 12
"""With more nodes than that each speaks to the next one only."""


async def join(
    nodes: Mapping[str, Node],
    addresses: Mapping[str, str | None],
    tag: str,
    link: NetworkLink | None,
    way: Between,
) -> dict[str, dict[str, str]]:
    """Join them; node → what it is on the network, for the record. NODE_NETWORK, NODE_REFUSED."""
    places = await _places(nodes, addresses)
    size = between.mtu(way, [place.mtu for place in places.values()])
    if size < between.LEAST_MTU:
        narrow = min(places, key=lambda name: places[name].mtu)
        raise _wrong(narrow, f"an MTU of {places[narrow].mtu} is too small for `{way}`")
    members = _members(tag, places)
    key = int.from_bytes(hashlib.sha256(tag.encode()).digest()[:3])
    slowed = link.model_dump() if link is not None and link.slows else None
    for name, node in nodes.items():
        peers = [member for other, member in members.items() if other != name]
        request = wire.Join(
            own=members[name], peers=peers, between=way, key=key, mtu=size, link=slowed
        )
        await _named(name, node.join(request))
    await _try(nodes)
    return {
        name: {
            "network": f"{members[name].subnet} at {members[name].address}",
            "between": f"{way}, MTU {size}",
        }
        for name in nodes
    }


async def _places(
    nodes: Mapping[str, Node], addresses: Mapping[str, str | None]
) -> dict[str, wire.Place]:
    """Others first: our own address is the one that leads to them."""
    places: dict[str, wire.Place] = {}
    for name in sorted(nodes, key=lambda name: isinstance(nodes[name], LocalNode)):
        address = addresses.get(name)
        if address is None and isinstance(nodes[name], LocalNode):
            other = next(iter(places.values())).address
            address = await asyncio.to_thread(between.address_towards, other)
        places[name] = await _named(name, nodes[name].surroundings(address))
    if len({place.address for place in places.values()}) < len(places):
        twice = [place.address for place in places.values()]
        same = next(name for name, place in places.items() if twice.count(place.address) > 1)
        raise _wrong(same, f"{places[same].address} is the address of another of the nodes too")
    return {name: places[name] for name in nodes}


def _members(tag: str, places: Mapping[str, wire.Place]) -> dict[str, wire.Member]:
    """A subnet for each that none of them knows."""
    taken = [IPv4Network(route) for place in places.values() for route in place.routes]
    members = {}
    for name, place in places.items():
        subnet = choose_subnet(tag, taken)
        taken.append(subnet)
        members[name] = wire.Member(subnet=str(subnet), address=place.address)
    return members


async def reach_by_host(here: LocalNode, nodes: Mapping[str, Node]) -> None:
    """See that programs of this machine reach the endpoints on each of these. NODE_NETWORK."""
    for name, node in nodes.items():
        ear = await _named(name, node.listen())
        try:
            far = here.part.reach_by_host(ear.address, ear.port)
            await _named(name, far, " (from the front and the viewers, which are on no endpoint)")
        finally:
            await _named(name, node.hush())


async def _try(nodes: Mapping[str, Node]) -> None:
    """Both ways between each two, or around where they are many."""
    names = list(nodes)
    pairs: Sequence[tuple[str, str]] = list(itertools.combinations(names, 2))
    if len(names) > ALL_PAIRS:
        pairs = list(itertools.pairwise(names))
    ears = dict(zip(names, await _on_all(nodes, lambda node: node.listen()), strict=True))
    try:
        for here, there in pairs:
            await _named(here, nodes[here].reach(ears[there]), f" (to {there})")
    finally:
        await _on_all(nodes, lambda node: node.hush())


async def _on_all(nodes: Mapping[str, Node], do: Callable[[Node], Awaitable[T]]) -> list[T]:
    return list(await asyncio.gather(*(_named(name, do(node)) for name, node in nodes.items())))


async def _named(name: str, work: Awaitable[T], more: str = "") -> T:
    """What goes wrong with the network, with the node's name."""
    try:
        return await work
    except UllageError as error:
        reason = str(error.facts.get("reason", error.message))
        if error.kind.code in {"network-failed", "node-refused"}:
            raise _wrong(name, f"{reason}{more}") from error
        raise


def _wrong(node: str, reason: str) -> UllageError:
    return UllageError(NODE_NETWORK, node=node, reason=reason)
