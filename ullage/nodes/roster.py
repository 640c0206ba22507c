"""The nodes of a run: all reached before anything is made, each asked what it is, all left in
order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from ullage.common.errors import UllageError
from ullage.environments import Provider
from ullage.host.image import Image
from ullage.host.network.bridge import Network
from ullage.host.network.links import Between, NetworkLink
from ullage.nodes.base import Node
from ullage.nodes.local import LocalNode
from ullage.nodes.options import NodePlan
from ullage.nodes.provider import OnNodes
from ullage.nodes.reach import slurm
from ullage.nodes.reach.openssh import Target
from ullage.nodes.ssh import SshNode

T = TypeVar("T")

HERE: Final = "this machine"
"""What errors call it where the plan has no name for it."""


class Roster:
    """Name → node; and this machine, for what a plan places nowhere."""

    def __init__(
        self,
        plans: Mapping[str, NodePlan],
        tag: str,
        run: str,
        earlier: Sequence[str],
        agent: Path,
    ) -> None:
        """run: its folder; earlier: tags of its earlier sessions; agent: the binary here."""
        self._tag = tag
        plans = _by_host(plans)
        self._addresses = {name: plan.address for name, plan in plans.items()}
        self.here = LocalNode("", tag, agent)
        self.nodes: dict[str, Node] = {
            name: LocalNode(name, tag, agent)
            if plan.local
            else SshNode(
                name, _target(name, plan), tag, run, earlier, address=self._addresses[name]
            )
            for name, plan in plans.items()
        }
        self.facts: dict[str, Mapping[str, Any]] = {}
        """Node → what it is; filled by `open`."""

    @property
    def away(self) -> list[SshNode]:
        """Those that are other machines."""
        return [node for node in self.nodes.values() if isinstance(node, SshNode)]

    def node(self, name: str | None) -> Node:
        """The node of that name; None: this machine."""
        return self.here if name is None else self.nodes[name]

    async def open(self) -> None:
        """Reach all of them. One of the errors of nodes."""
        await _all(self.nodes.values(), lambda node: node.open())
        facts = await _all(self.nodes.values(), lambda node: node.facts())
        self.facts = dict(zip(self.nodes, facts, strict=True))

    async def check(self, provider: Provider, names: Sequence[str]) -> None:
        """Can that provider work on these nodes? Here, where there are none."""
        if isinstance(provider, OnNodes):
            places = [self.nodes[name] for name in dict.fromkeys(names)]
            offers = await _all(places, lambda node: node.check(provider))
            provider.offers = {node.name: o for node, o in zip(places, offers, strict=True)}
        else:
            await provider.check()

    async def take(self, image: Image, names: Iterable[str]) -> None:
        """See that these nodes have the image."""
        places = [self.nodes[name] for name in dict.fromkeys(names)]
        await _all(places, lambda node: node.take(image))

    async def packages(self, programs: Mapping[str, str]) -> dict[str, Mapping[str, str]]:
        """Node → the packages of these programs in its own userland, for `image: host`."""
        packages = await _all(self.nodes.values(), lambda node: node.packages(programs))
        return dict(zip(self.nodes, packages, strict=True))

    async def join(self, link: NetworkLink | None, way: Between) -> None:
        """Join their networks, and see that what is sent arrives. NODE_NETWORK."""
        from ullage.nodes import network  # noqa: PLC0415

        words = await network.join(self.nodes, self._addresses, self._tag, link, way)
        self.facts = {name: {**self.facts[name], **words[name]} for name in self.facts}

    async def join_with_host(self, way: Between) -> Network:
        """The same with this machine, its own programs too: its part. NODE_NETWORK."""
        from ullage.nodes import network  # noqa: PLC0415

        nodes = dict(self.nodes)
        if self.local is self.here:
            nodes[HERE] = self.here
        words = await network.join(nodes, self._addresses, self._tag, None, way)
        self.facts = {name: {**self.facts[name], **words[name]} for name in self.facts}
        await network.reach_by_host(self.local, {node.name: node for node in self.away})
        return self.local.part.network

    @property
    def local(self) -> LocalNode:
        """This machine, as the plan names it or not."""
        return next((n for n in self.nodes.values() if isinstance(n, LocalNode)), self.here)

    async def close(self) -> None:
        """Have every node remove what is left there."""
        await _all([*self.nodes.values(), self.here], lambda node: node.close())


def _by_host(plans: Mapping[str, NodePlan]) -> dict[str, NodePlan]:
    """With the host of each machine of the allocation, in place of its turn. NODE_ALLOCATION."""
    turns = {name: plan.turn for name, plan in plans.items() if plan.slurm is not None}
    names = slurm.hosts(next(iter(turns)), len(turns)) if turns else ()
    known, addresses = {}, slurm.addresses_of(names)
    for name, turn in turns.items():
        address = plans[name].address or addresses[turn]
        update = {"ssh": f"{slurm.PREFIX}{names[turn]}", "address": address}
        known[name] = plans[name].model_copy(update=update)
    return {**plans, **known}


def _target(name: str, plan: NodePlan) -> Target:
    assert plan.ssh is not None
    kind = Target if plan.slurm is None else slurm.SlurmTarget
    return kind(name, plan.ssh, plan.config, plan.sudo)


async def _all(nodes: Iterable[Node], do: Callable[[Node], Awaitable[T]]) -> list[T]:
    """Do it on all at once; the first error, once nobody is at work any more."""
    results = await asyncio.gather(*(do(node) for node in nodes), return_exceptions=True)
    errors = [result for result in results if isinstance(result, BaseException)]
    for error in sorted(errors, key=lambda error: isinstance(error, UllageError)):
        raise error
    return [result for result in results if not isinstance(result, BaseException)]
