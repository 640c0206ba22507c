"""Another machine, by ssh: what `ullage-node serve` does there, seen from here."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ullage.common.errors import (
    NODE_ALLOCATION,
    NODE_IMAGE_CORRUPT,
    NODE_LOST,
    NODE_REFUSED,
    UllageError,
)
from ullage.environments import Instance, InstanceSpec, Provider
from ullage.environments.agent.client import AgentClient
from ullage.host.image import Image
from ullage.host.network.sockets import SocketFolder
from ullage.host.paths import state_dir
from ullage.meters import OUTSIDE, Scene, refuse_wrong
from ullage.nodes import link as links
from ullage.nodes import wire
from ullage.nodes.answers import Offer
from ullage.nodes.base import Node, Order
from ullage.nodes.link import CONTROL, NodeLink
from ullage.nodes.reach.openssh import Target
from ullage.nodes.reach.tree import runner
from ullage.nodes.wire import Nothing
from ullage.runs.records import Metered

if TYPE_CHECKING:
    from ullage.nodes.clock import NodeAside, NodeClock

_ATTACH_S: Final = 20.0
_SESSIONS: Final = range(4)
"""So often is a node reached anew in a run, mostly; what later ones leave, `clean --node` finds."""


class SshNode(Node):
    """Another machine."""

    def __init__(
        self,
        name: str,
        target: Target,
        tag: str,
        run: str,
        earlier: Sequence[str],
        *,
        address: str | None = None,
    ) -> None:
        """tag: the run's; earlier: those of its earlier sessions; address: as the plan has it."""
        self.name = name
        self._address = address
        self._clock: NodeClock | None = None
        self.target = target
        self.not_removed: tuple[str, ...] = ()
        """What an earlier session has left there, and stays."""
        self._tag, self._run = tag, run
        self._earlier = [
            of_node(one, name, session) for one in earlier[-200:] for session in _SESSIONS
        ]
        self._session = 0
        self._link: NodeLink | None = None
        self._sockets: SocketFolder | None = None
        self._facts: Mapping[str, Any] = {}
        self._join: wire.Join | None = None
        """Its part of the run's network, once it has joined it."""
        self._turn = asyncio.Lock()

    async def open(self) -> None:
        """Connect. One of the errors of nodes says why not."""
        await self._connected()

    async def facts(self) -> Mapping[str, Any]:
        """As it tells."""
        await self._connected()
        return self._facts

    async def check(self, provider: Provider) -> Offer:
        """There, by the provider of that name."""
        return await (await self._connected()).call("check", wire.Offered, _provided(provider))

    async def room(self) -> wire.RoomLeft:
        """As its kernel tells."""
        link = await self._connected()
        return await link.call("room", wire.RoomLeft, within_s=links.TRIAL_S)

    @property
    def lost(self) -> bool:
        return self._link is not None and self._link.lost is not None

    async def has(self, image: Image) -> bool:
        """As it tells: the first time in a session it reads all of it."""
        link = await self._connected()
        request = wire.Has(digest=image.digest)
        return (await link.call("has", wire.HasAnswer, request)).there

    async def take(self, image: Image) -> None:
        """Send it, unless it is there."""
        if await self.has(image):
            return
        link = await self._connected()
        config = image.config.model_dump(mode="json") if image.config else None
        try:
            await link.send(image.tar, image.digest, config)
        except UllageError as error:
            if error.facts.get("error") == NODE_IMAGE_CORRUPT.code:
                raise UllageError(
                    NODE_IMAGE_CORRUPT,
                    node=self.name,
                    actual=error.facts["reason"],
                    digest=image.digest,
                ) from error
            raise

    async def packages(self, programs: Mapping[str, str]) -> Mapping[str, str]:
        """Of its own userland."""
        link = await self._connected()
        request = wire.Packages(programs=dict(programs))
        return (await link.call("packages", wire.PackagesAnswer, request)).packages

    async def surroundings(self, address: str | None) -> wire.Place:
        """As it tells."""
        link = await self._connected()
        return await link.call("surroundings", wire.Place, wire.Surroundings(address=address))

    async def join(self, request: wire.Join) -> None:
        """There; and again in each later session."""
        await (await self._connected()).call("join", Nothing, request)
        self._join = request

    async def listen(self) -> wire.Ear:
        """There."""
        return await (await self._connected()).call("listen", wire.Ear)

    async def reach(self, ear: wire.Ear) -> None:
        """From there."""
        await (await self._connected()).call("reach", Nothing, ear)

    async def hush(self) -> None:
        """There."""
        await (await self._connected()).call("hush", Nothing)

    async def create(self, order: Order) -> Instance:
        """There; its agent's channel is one of its own over the same connection."""
        link = await self._connected()
        provided, removal_s = _provided(order.provider), order.removal_s or links.LEAVE_S
        created = await link.call(
            "create",
            wire.Created,
            wire.Create(
                provider=provided.provider,
                options=provided.options,
                name=order.name,
                resources=order.resources,
                turn=order.turn,
                image=None if order.image is None else order.image.digest,
                writable=order.image is not None and order.image.writable,
                network=order.joined,
            ),
        )
        try:
            self._require_own(order, created)
            return await self._attached(link, order, created, removal_s)
        except BaseException:
            with contextlib.suppress(UllageError):
                await link.call("destroy", Nothing, wire.Named(name=order.name), within_s=removal_s)
            raise

    def _require_own(self, order: Order, created: wire.Created) -> None:
        """See that its address is one that this machine has to give. NODE_REFUSED.

        We knock there, and viewers are sent there: it could be any service, of us or of others.
        """
        if not order.joined or self._join is None or created.address is None:
            return
        subnet = self._join.own.subnet
        if IPv4Address(created.address) not in IPv4Network(subnet):
            raise UllageError(
                NODE_REFUSED,
                node=self.name,
                op="create",
                reason=f"it tells the address {created.address}, which is not of its {subnet}",
                error="bad-field",
                advice=f"`ullage doctor --node {self.target.address}` looks at it",
            )

    async def _attached(
        self, link: NodeLink, order: Order, created: wire.Created, removal_s: float
    ) -> Instance:
        """The instance, once its agent has said hello over a channel of its own."""
        log = state_dir(self._tag) / order.name
        await asyncio.to_thread(log.mkdir, parents=True, exist_ok=True)
        agent = await AgentClient.launch(
            self.target.further((str(runner()), "attach", created.socket), link.control),
            deadline_s=_ATTACH_S,
            stderr=log / "ssh.log",
            name=order.name,
            aside=self._aside(created),
        )
        spec = InstanceSpec(
            tag=self._tag,
            name=order.name,
            cpu_ids=tuple(created.cpu_ids),
            cpu_quota=created.cpu_quota,
            memory_bytes=order.resources.memory,
            image=order.image,
            agent=Path(str(runner())),
            state_dir=log,
            data_dir=log,
            network=None,
        )
        return RemoteInstance(spec, agent, created, link, removal_s)

    def _aside(self, created: wire.Created) -> NodeAside | None:
        """The node's clock, where the instance shows that."""
        if self._clock is None or created.apart_ns is None:
            return None
        return self._clock.aside(created.apart_ns)

    @asynccontextmanager
    async def metered(self, scene: Scene) -> AsyncIterator[Metered]:
        """Its meters, on and off by a request each."""
        link = await self._connected()
        request = wire.MetersOn(instances=list(scene.instances), ends=list(scene.ends))
        await link.call("meter", Nothing, request, within_s=links.TRIAL_S)
        figures: Metered = {}
        try:
            yield figures
        finally:
            answer = await link.call("metered", wire.Readings, within_s=links.TRIAL_S)
            figures |= answer.readings
        for kind in OUTSIDE:
            refuse_wrong(kind, figures.get(kind.name, {}))

    async def close(self) -> None:
        """Have it remove what is left, and part."""
        if self._link is not None:
            await self._link.close()
        if self._sockets is not None:
            await asyncio.to_thread(self._sockets.remove)
            self._sockets = None

    async def _connected(self) -> NodeLink:
        """The connection; a new one where the last was lost. The errors of nodes."""
        async with self._turn:
            if self._link is not None and self._link.lost is None:
                return self._link
            again = self._link is not None
            try:
                self._link = await self._greet()
            except UllageError as error:
                if again and error.kind not in (NODE_LOST, NODE_ALLOCATION):
                    reason = error.message
                    raise UllageError(NODE_LOST, node=self.name, reason=reason) from error
                raise
            return self._link

    async def _greet(self) -> NodeLink:
        if self._sockets is None:
            self._sockets = await asyncio.to_thread(SocketFolder, self._tag)
        log = state_dir(self._tag) / f"{self.name}.ssh.log"
        link = await NodeLink.open(self.target, self._sockets.socket(CONTROL), log)
        tag = of_node(self._tag, self.name, self._session)
        hello = wire.Hello(protocol=wire.PROTOCOL, tag=tag, run=self._run, earlier=self._earlier)
        try:
            greeting = await link.call("hello", wire.Greeting, hello)
            if self._join is not None:
                await link.call("join", Nothing, self._join)
            way = await self._open_clock(link)
        except BaseException:
            await link.close()
            raise
        self._earlier = [tag, *self._earlier][: wire.MOST_EARLIER]
        self._session += 1
        self._facts = {**greeting.facts, "clock": way}
        self.not_removed = tuple(greeting.not_removed)
        return link

    async def _open_clock(self, link: NodeLink) -> str:
        """The way to its clock, in words."""
        from ullage.nodes.clock import NodeClock  # noqa: PLC0415 - built code: no node, no need

        node, by = NodeClock(), self.target.program
        self._clock = None
        request = wire.ClockRequest(address=self._address, token=node.token.hex())
        try:
            ear = await link.call("clock", wire.Ear, request, within_s=links.TRIAL_S)
        except UllageError as error:
            if error.kind is NODE_LOST:
                raise
            return f"over {by}: {error.facts.get('reason', error.message)}"
        if not await node.open(ear):
            return f"over {by}: no datagram comes back from {ear.address}, UDP port {ear.port}"
        self._clock = node
        return f"datagrams to {ear.address}, UDP port {ear.port}"


class RemoteInstance(Instance):
    """An instance on another machine. Its agent speaks over a channel of its own."""

    def __init__(
        self,
        spec: InstanceSpec,
        agent: AgentClient,
        created: wire.Created,
        link: NodeLink,
        removal_s: float,
    ) -> None:
        """removal_s: after so long without an answer to its removal the node counts as lost."""
        self.name = spec.name
        self._removal_s = removal_s
        self.spec = spec
        self.agent = agent
        self.address = created.address
        self.data = created.data
        self.own_kernel = created.own_kernel
        self._link = link
        link.on_lost.append(agent.abandon)

    async def freeze(self) -> None:
        """There, by its provider."""
        await self._ask("freeze", links.TRIAL_S)

    async def thaw(self) -> None:
        """There, by its provider."""
        await self._ask("thaw", links.TRIAL_S)

    async def memory_kills(self) -> int:
        """As its provider counts them there."""
        named = wire.Named(name=self.name)
        answer = await self._link.call("kills", wire.Kills, named, within_s=links.TRIAL_S)
        return answer.kills

    async def destroy(self) -> None:
        """There; a node that is lost removes it by itself, and nobody sees that."""
        lost = self._link.lost
        try:
            if lost is None:
                await self._ask("destroy", self._removal_s)
        except UllageError as error:
            if error.kind is not NODE_LOST:
                raise
            lost = error
        finally:
            await self.agent.close()
            with contextlib.suppress(ValueError):
                self._link.on_lost.remove(self.agent.abandon)
        self.unseen = lost

    @property
    def alive(self) -> bool:
        """False once its channel, or the node's, has closed."""
        return not self.agent.closed and self._link.lost is None

    async def why_gone(self) -> UllageError | None:
        """NODE_LOST where it went with its node, which has to show that it is there."""
        with contextlib.suppress(UllageError):
            await self._link.prove()
        return self._link.lost

    async def _ask(self, op: str, within_s: float) -> None:
        await self._link.call(op, Nothing, wire.Named(name=self.name), within_s=within_s)


def of_node(tag: str, node: str, session: int) -> str:
    """The tag of a run on one of its nodes: machines that share a kernel keep theirs apart."""
    return "u" + hashlib.sha256(f"{tag} {node} {session}".encode()).hexdigest()[:7]


def _provided(provider: Provider) -> wire.Provided:
    options = provider.options.model_dump(mode="json")
    return wire.Provided(provider=provider.name, options=options)
