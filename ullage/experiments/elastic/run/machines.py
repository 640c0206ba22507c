"""The machines on which nodes of the pool are made: which one, the image there, and who was lost.

Each allocation asks all machines that answer what they have left, and takes one by the plan's
`place` (the time to find: TeF). The image is sent to a machine that has not got it (TcI), once for
all allocations that wait for it. A machine that is lost is left out until the next repetition.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ullage.common.cleanup import Undo
from ullage.common.errors import ELASTIC_NO_MACHINE, NODE_LOST, UllageError
from ullage.common.quantities import format_bytes
from ullage.environments import Instance, InstanceSpec, placement
from ullage.environments.provisioning.node import Site
from ullage.experiments.elastic.plan.machines import PoolPlace
from ullage.experiments.elastic.run.nodes import StreamingNode, StreamingNodes
from ullage.host import storage
from ullage.host.image import Image
from ullage.nodes import wire
from ullage.nodes.base import Node, Order

REMOVAL_S: Final = 900.0
"""A node that is removed later than its budget allows is late, and its machine not yet lost."""
_LONGEST_REASON: Final = 200
_WORDS_S: Final = 1.0
"""So long is a machine asked whether it is there, when a node on it could not be made."""
_TELLS_S: Final = 2.0
"""Who has not told by then what it has left is left out of this choice, and not yet lost: the
link's own pings tell that."""
_RESTS: Final = 3
"""Where a node could not be made, so many are made elsewhere before it has its turn again."""


@dataclass
class PoolMachine:
    """One of them, over all environments and repetitions."""

    node: Node
    has_image: bool = False
    """As it told when it was asked last, or because it was sent."""
    _sending: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """In the plan."""
        return self.node.name

    async def look(self, image: Image) -> None:
        """Ask it for the image; it is read there now, and not in the first node's time."""
        self.has_image = await self.node.has(image)

    async def take(self, image: Image) -> None:
        """See that the image is there. One that is on its way is waited for.

        Whoever gives up waiting does not end what others may wait for.
        """
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self.node.take(image))
        await asyncio.shield(self._sending)
        self.has_image = True

    async def close(self) -> None:
        """Nothing is on its way any more."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)


@dataclass(kw_only=True)
class FarSite(Site):
    """Another machine, as a site of one environment."""

    far: PoolMachine
    room: wire.RoomLeft | None = None
    """As it told last."""

    @property
    def cpus(self) -> int:
        return self.room.cpus if self.room is not None else 1

    @property
    def reachable(self) -> bool:
        """Over the networks that were joined."""
        return True

    def check_room(self, count: int) -> None:
        """It was asked before it was chosen."""

    def _cpus(self, place: int) -> placement.Placed:
        return placement.elsewhere(self.resources)

    def _data(self, name: str) -> Path:
        """Here it has none: the disk that the plan chose is that machine's."""
        return storage.place(self.tag, name, None)

    async def fetch(self) -> None:
        """A machine has the image once, and its instances are made of that. NODE_LOST."""
        assert self.image is not None
        self._check_there()
        await self.far.take(self.image)

    @property
    def removal_s(self) -> float:
        return REMOVAL_S

    async def create(self, spec: InstanceSpec, undo: Undo) -> Instance:
        """There, on the CPUs whose turn it is. NODE_LOST."""
        self._check_there()
        order = Order(
            self.provider,
            spec.name,
            self.resources,
            self.turn(spec.name),
            spec.image,
            joined=True,
            removal_s=REMOVAL_S,
        )
        making = asyncio.create_task(self.far.node.create(order))
        # That machine goes on whoever waits for it: what it makes is taken away again.
        undo.push_within(REMOVAL_S, _remove_there, making)
        return await asyncio.shield(making)

    def _check_there(self) -> None:
        """A node that is lost would be reached anew by whatever is asked of it: not before the next
        repetition, which says so."""
        if self.far.node.lost:
            reason = "it was lost, and is reached anew before the next repetition"
            raise UllageError(NODE_LOST, node=self.far.name, reason=reason)


@dataclass
class PoolSite:
    """A machine, and the site that one environment has there."""

    machine: PoolMachine
    site: Site
    rests: int = 0
    """A node could not be made there: so many are made elsewhere first, where they can be."""

    def rank(self, room: wire.RoomLeft, place: PoolPlace, turn: int) -> tuple[float, ...]:
        """The machine of the lowest rank gets the next node. turn: its place in the plan."""
        whole, used = max(1, -(-self.site.resources.cpus // 1)), self.site.used
        share = used * whole / room.cpus
        lacks_image = 0.0 if self.machine.has_image else 1.0
        if place == "spread":
            return (self.rests > 0, share, lacks_image, turn)
        # How often each CPU has an instance already; then the machine that has most of them.
        return (self.rests > 0, share // 1, -used, lacks_image, turn)


@dataclass
class Pool:
    """All machines, for one environment."""

    sites: Sequence[PoolSite]
    """In the order of the plan."""
    how: PoolPlace
    chosen: dict[str, str] = field(default_factory=dict)
    """Instance → the machine that was chosen for it."""

    async def place(self, name: str) -> tuple[Site, InstanceSpec]:
        """The machine that comes next, of those with room. ELASTIC_NO_MACHINE."""
        ranked: list[tuple[tuple[float, ...], PoolSite]] = []
        reasons = []
        answers = await asyncio.gather(*map(_room_of, self.sites))
        for turn, (one, answer) in enumerate(zip(self.sites, answers, strict=True)):
            needed = one.site.resources.memory
            if one.machine.node.lost:  # perhaps since it has answered
                reasons.append(f"{one.machine.name} is lost")
            elif isinstance(answer, str):
                reasons.append(answer)
            elif answer.available_bytes < needed:
                has = f"{format_bytes(answer.available_bytes)} of memory left"
                reasons.append(f"{one.machine.name} has {has}, and a node {format_bytes(needed)}")
            else:
                if isinstance(one.site, FarSite):
                    one.site.room = answer
                ranked.append((one.rank(answer, self.how, turn), one))
        if not ranked:
            raise UllageError(ELASTIC_NO_MACHINE, reasons="; ".join(reasons)[:_LONGEST_REASON])
        _, best = min(ranked, key=lambda pair: pair[0])
        self.chosen[name] = best.machine.name
        return best.site, best.site.choose(name)

    def note(self, name: str, *, failed: bool) -> None:
        """What became of the making of it: a machine that fails comes after the others."""
        one = self._chosen(name)
        if one is None:
            return
        if failed:
            one.rests = _RESTS
            return
        one.rests = 0
        for other in self.sites:
            other.rests = max(0, other.rests - 1)

    def begin(self) -> None:
        """A repetition begins: what failed in the last one is no reason in this one."""
        for one in self.sites:
            one.rests = 0

    async def why(self, name: str, error: UllageError) -> UllageError:
        """Why it could not be made: NODE_LOST where the machine has gone, which an agent's or a
        copy's end tells less well."""
        one = self._chosen(name)
        if one is None or error.kind is NODE_LOST:
            return error
        if one.machine.node.lost:
            return UllageError(NODE_LOST, node=one.machine.name, reason=error.message)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WORDS_S):
                try:
                    await one.machine.node.room()
                except UllageError as lost:
                    return lost if lost.kind is NODE_LOST else error
        return error

    def _chosen(self, name: str) -> PoolSite | None:
        return next((s for s in self.sites if s.machine.name == self.chosen.get(name)), None)


@dataclass(frozen=True, kw_only=True)
class PoolNodes(StreamingNodes):
    """Makes nodes on the machine of each one's turn."""

    pool: Pool

    def machine(self, name: str) -> str:
        """That was chosen for it; empty while none is."""
        return self.pool.chosen.get(name, "")

    async def make(self, name: str, limit_s: float) -> StreamingNode:
        """A node that streams; what `allocate.allocate` raises."""
        try:
            node = await super().make(name, limit_s)
        except UllageError as error:
            self.pool.note(name, failed=True)
            raise await self.pool.why(name, error) from error
        except Exception:
            self.pool.note(name, failed=True)
            raise
        self.pool.note(name, failed=False)
        return node


async def _remove_there(making: asyncio.Task[Instance]) -> None:
    """What a machine was asked to make, once it has; where it could not, nothing is left there."""
    await asyncio.wait({making})
    if not making.cancelled() and making.exception() is None:
        await making.result().destroy()


async def _room_of(one: PoolSite) -> wire.RoomLeft | str:
    """What it has left; or why it has nothing for us."""
    name = one.machine.name
    if one.machine.node.lost:
        return f"{name} is lost"
    try:
        async with asyncio.timeout(_TELLS_S):
            return await one.machine.node.room()
    except TimeoutError:
        return f"{name} has not told within {_TELLS_S:g} s what it has left"
    except UllageError as error:
        return error.message
