"""This machine, in this process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ullage.common.errors import SWAP_UNUSABLE, UllageError
from ullage.common.quantities import exact_bytes
from ullage.environments import Instance, InstanceSpec, Provider, placement
from ullage.environments.base import verify_data
from ullage.environments.provisioning.node import available_bytes
from ullage.host import facts, image, storage
from ullage.host.cgroups import Group
from ullage.host.image import Image
from ullage.host.paths import state_dir
from ullage.host.swap import area
from ullage.host.swap.request import SwapRequest, allow, verify
from ullage.meters import Scene, metered
from ullage.nodes import wire
from ullage.nodes.answers import Offer
from ullage.nodes.base import Node, Order
from ullage.nodes.provider import inner
from ullage.runs.records import Metered

if TYPE_CHECKING:
    from ullage.host.network import between
    from ullage.host.network.joined import Joined

_LONGEST_SWAPS: Final = 1 << 16
_SWAPPING_S: Final = 600.0
"""A VM has gigabytes to be swapped before its limit holds."""


class LocalNode(Node):
    """This machine."""

    def __init__(self, name: str, tag: str, agent: Path) -> None:
        """agent: the agent's binary."""
        self.name = name
        self._tag = tag
        self._agent = agent
        self._joined: Joined | None = None

    async def open(self) -> None:
        """It is here."""

    async def facts(self) -> Mapping[str, Any]:
        """Of this host."""
        return facts.facts()

    async def check(self, provider: Provider) -> Offer:
        """By the provider itself."""
        own = inner(provider)
        await own.check()
        return Offer(
            label=own.label(),
            emulated=own.emulated,
            treatments={**own.treatments(), **own.data_treatments()},
            writable_root=own.writable_root(),
        )

    async def take(self, image: Image) -> None:
        """It is here."""

    async def packages(self, programs: Mapping[str, str]) -> Mapping[str, str]:
        """Of this host."""
        image.require_on_host(programs)
        return image.host_image(programs).packages

    async def surroundings(self, address: str | None) -> wire.Place:
        """Of this machine."""
        from ullage.host.network import between, iproute  # noqa: PLC0415
        from ullage.host.network.joined import reached_at  # noqa: PLC0415

        own = await asyncio.to_thread(between.uplink, address or reached_at())
        routes = await iproute.routes()
        return wire.Place(address=own.address, mtu=own.mtu, routes=sorted(map(str, set(routes))))

    async def join(self, request: wire.Join) -> None:
        """By a bridge of the run's tag."""
        from ullage.host.network import between  # noqa: PLC0415
        from ullage.host.network.joined import Joined  # noqa: PLC0415
        from ullage.host.network.links import NetworkLink  # noqa: PLC0415

        self._joined = await Joined.make(
            self._tag,
            _peer(request.own),
            [_peer(peer) for peer in request.peers],
            between.Way(request.between, request.key, request.mtu),
            None if request.link is None else NetworkLink.model_validate(request.link),
        )

    async def listen(self) -> wire.Ear:
        """Here."""
        address, port = await self.part.listen()
        return wire.Ear(address=address, port=port)

    async def reach(self, ear: wire.Ear) -> None:
        """From here."""
        await self.part.reach(ear.address, ear.port)

    async def hush(self) -> None:
        """Here."""
        await self.part.hush()

    @property
    def joined(self) -> bool:
        """Has it a part of the run's network?"""
        return self._joined is not None

    @property
    def part(self) -> Joined:
        """Its part of the run's network, once it has joined it."""
        assert self._joined is not None
        return self._joined

    async def room(self) -> wire.RoomLeft:
        """By this kernel."""
        return wire.RoomLeft(available_bytes=available_bytes(), cpus=len(os.sched_getaffinity(0)))

    async def has(self, image: Image) -> bool:
        """It is here."""
        return True

    @property
    def lost(self) -> bool:
        return False

    async def create(self, order: Order) -> Instance:
        """By the provider itself, in directories of the run."""
        provider = inner(order.provider)
        instance = await provider.create(self._spec(order, provider))
        try:
            await verify_data(instance, provider.data_request)
            if provider.swap_request is not None:
                await _give_swap(instance, provider.swap_request)
        except BaseException:
            await instance.destroy()
            raise
        return instance

    @asynccontextmanager
    async def metered(self, scene: Scene) -> AsyncIterator[Metered]:
        """Every meter of this host."""
        with metered(scene=scene) as readings:
            yield readings

    async def close(self) -> None:
        """What else was made here is removed by whoever owns the tag."""
        if self._joined is not None:
            await self._joined.leave()
            self._joined = None

    def _spec(self, order: Order, provider: Provider) -> InstanceSpec:
        cpu_ids, quota = order.place or placement.place(order.resources, order.turn)
        data = storage.place(self._tag, order.name, provider.data_request.path)
        state = state_dir(self._tag) / order.name
        for directory in (state, data):
            directory.mkdir(parents=True, exist_ok=True)
        return InstanceSpec(
            tag=self._tag,
            name=order.name,
            cpu_ids=cpu_ids,
            cpu_quota=quota,
            memory_bytes=order.resources.memory,
            image=order.image,
            agent=self._agent,
            state_dir=state,
            data_dir=data,
            network=self.part.network if order.joined else order.network,
        )


def _peer(member: wire.Member) -> between.Peer:
    from ullage.host.network import between  # noqa: PLC0415

    return between.Peer(IPv4Network(member.subnet), member.address)


async def _give_swap(instance: Instance, request: SwapRequest) -> None:
    """Let it swap, and see that it can. LIMIT_NOT_APPLIED, SWAP_UNUSABLE."""
    spec = instance.spec
    group = Group.find(spec.tag, spec.name)
    kept = request.kept_bytes(spec.memory_bytes)
    try:
        # The kernel is not done before it has swapped the rest, or the VM is gone.
        async with asyncio.timeout(_SWAPPING_S):
            await asyncio.to_thread(allow, group, spec.name, kept, request.size)
    except TimeoutError:
        reason = f"{spec.name} is not down to {exact_bytes(kept)} after {_SWAPPING_S:g} s"
        raise UllageError(SWAP_UNUSABLE, on=request.on, reason=reason) from None
    if instance.own_kernel:
        return  # what it sees inside is its own swap
    inside = await instance.agent.get("/proc/swaps", _LONGEST_SWAPS)
    verify(inside.decode("utf-8", "replace"), spec.name, request.size, area.noted(spec.tag))
