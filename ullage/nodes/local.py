"""This machine, in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ullage.environments import Instance, InstanceSpec, Provider, placement
from ullage.environments.base import verify_data
from ullage.host import facts, image, storage
from ullage.host.image import Image
from ullage.host.paths import state_dir
from ullage.meters import Scene, metered
from ullage.nodes.answers import Offer
from ullage.nodes.base import Node, Order
from ullage.nodes.provider import inner
from ullage.runs.records import Metered


class LocalNode(Node):
    """This machine."""

    def __init__(self, name: str, tag: str, agent: Path) -> None:
        """agent: the agent's binary."""
        self.name = name
        self._tag = tag
        self._agent = agent

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

    async def create(self, order: Order) -> Instance:
        """By the provider itself, in directories of the run."""
        provider = inner(order.provider)
        instance = await provider.create(self._spec(order, provider))
        try:
            await verify_data(instance, provider.data_request)
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
        """What was made here is removed by whoever owns the tag."""

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
            network=order.network,
        )
