"""The machines of an elastic run: reached before anything is made, joined, and left in order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ullage.common.errors import UllageError
from ullage.environments.agent import client
from ullage.environments.provisioning.node import Site
from ullage.experiments.elastic.plan import machines
from ullage.experiments.elastic.plan.machines import PoolPlace
from ullage.experiments.elastic.plan.schema import ElasticPlan, NodeEnvironment
from ullage.experiments.elastic.run.machines import FarSite, Pool, PoolMachine, PoolSite
from ullage.host.image import Image
from ullage.host.network.bridge import Network
from ullage.nodes.provider import inner
from ullage.nodes.roster import Roster
from ullage.nodes.ssh import SshNode
from ullage.runs.events import Started
from ullage.runs.records import NodeRecord


class PoolRoster:
    """Those that the plan names, over the whole run."""

    def __init__(
        self, plan: ElasticPlan, tag: str, folder: Path, earlier: Sequence[Started]
    ) -> None:
        """earlier: sessions of the run; what they have left on the machines is removed."""
        tags = [session.tag for session in earlier]
        self._plan = plan
        self._roster = Roster(plan.machines, tag, folder.name, tags, client.binary())
        self._machines = [PoolMachine(node) for node in self._roster.nodes.values()]
        self._pools: list[Pool] = []
        self._image: Image

    async def open(self, environments: Iterable[NodeEnvironment]) -> list[str]:
        """Reach all, and see that each can make nodes; what could not be removed there.

        One of the errors of nodes.
        """
        await self._roster.open()
        for environment in environments:
            await self._roster.check(environment.provider, list(self._roster.nodes))
        return [f"{node.name}: {text}" for node in self._roster.away for text in node.not_removed]

    def records(self) -> dict[str, NodeRecord]:
        """Machine → what it is."""
        addresses = {node.name: node.target.address for node in self._roster.away}
        return {
            name: NodeRecord(address=addresses.get(name), facts=dict(facts))
            for name, facts in self._roster.facts.items()
        }

    async def join(self, image: Image) -> Network:
        """Join their networks, and ask who has the image; this machine's part. NODE_NETWORK."""
        way = machines.between(self._plan)
        assert way is not None
        network = await self._roster.join_with_host(way)
        await asyncio.gather(*(machine.look(image) for machine in self._machines))
        self._image = image
        return network

    def pool(self, here: Site, place: PoolPlace) -> Pool:
        """Those machines, for nodes as they would be made here."""
        sites = (PoolSite(machine, _site(machine, here)) for machine in self._machines)
        pool = Pool(tuple(sites), place)
        self._pools.append(pool)
        return pool

    async def reach_anew(self) -> list[str]:
        """Try those that were lost again; what is to be said of those that stay so.

        All others are as good as any, whatever has failed on them before.
        """
        for pool in self._pools:
            pool.begin()
        lost = [machine for machine in self._machines if machine.node.lost]
        reasons = await asyncio.gather(*(_anew(machine, self._image) for machine in lost))
        return [reason for reason in reasons if reason]

    async def close(self) -> None:
        """Have every machine remove what is left there."""
        await asyncio.gather(*(machine.close() for machine in self._machines))
        await self._roster.close()


def _site(machine: PoolMachine, here: Site) -> Site:
    if not isinstance(machine.node, SshNode):
        return replace(here, provider=inner(here.provider))
    return FarSite(
        tag=here.tag,
        provider=here.provider,
        resources=here.resources,
        image=here.image,
        agent=here.agent,
        network=None,
        far=machine,
    )


async def _anew(machine: PoolMachine, image: Image) -> str:
    try:
        await machine.node.open()
        await machine.look(image)
    except UllageError as error:
        return f"no node is made on {machine.name} in the next repetition: {error.message}"
    return ""
