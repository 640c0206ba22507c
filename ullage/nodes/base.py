"""What the engine asks of a machine that instances are made on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ullage.environments.placement import Placed, Resources
from ullage.nodes import wire
from ullage.nodes.answers import Offer

if TYPE_CHECKING:
    from ullage.environments import Instance, Provider
    from ullage.host.image import Image
    from ullage.host.network.bridge import Network
    from ullage.meters import Scene
    from ullage.runs.records import Metered


@dataclass(frozen=True)
class Order:
    """One instance to be made on a node."""

    provider: Provider
    name: str
    resources: Resources
    turn: int
    """Its turn for the CPUs of the node, from 0."""
    image: Image | None
    place: Placed | None = None
    """CPUs and quota where they follow from the plan; None: by its turn."""
    network: Network | None = None
    """One of this machine alone."""
    joined: bool = False
    """On the network that the node has joined."""
    removal_s: float | None = None
    """After so long without an answer to its removal the node counts as lost; None: soon, as at
    the end of a run, when a node removes everything by itself."""


class Node(ABC):
    """A machine: everything under it, providers, cgroups, images, meters, works there."""

    name: str
    """In the plan."""

    @abstractmethod
    async def open(self) -> None:
        """Reach it, and remove what earlier sessions of the run have left there."""

    @abstractmethod
    async def facts(self) -> Mapping[str, Any]:
        """What it is: kernel, CPU, memory, power state."""

    @abstractmethod
    async def check(self, provider: Provider) -> Offer:
        """Raise UllageError when that provider cannot work there."""

    @abstractmethod
    async def room(self) -> wire.RoomLeft:
        """What it has left for instances now."""

    @property
    @abstractmethod
    def lost(self) -> bool:
        """Nobody has answered there, and it was not reached anew."""

    @abstractmethod
    async def has(self, image: Image) -> bool:
        """Is the image there, byte by byte?"""

    @abstractmethod
    async def take(self, image: Image) -> None:
        """See that the image is there, byte by byte."""

    @abstractmethod
    async def packages(self, programs: Mapping[str, str]) -> Mapping[str, str]:
        """Its own userland, for `image: host`: the packages of these programs, with versions.

        HOST_MISSING when one is not there.
        """

    @abstractmethod
    async def surroundings(self, address: str | None) -> wire.Place:
        """Where it is on the network; None: where ssh reaches it. NETWORK_FAILED."""

    @abstractmethod
    async def join(self, request: wire.Join) -> None:
        """Make its part of the run's network. NETWORK_FAILED, HOST_NEEDS_ROOT."""

    @abstractmethod
    async def listen(self) -> wire.Ear:
        """Have an endpoint there send back what comes, until `hush`."""

    @abstractmethod
    async def reach(self, ear: wire.Ear) -> None:
        """Have an endpoint there speak to it. NETWORK_FAILED with what is wrong on the way."""

    @abstractmethod
    async def hush(self) -> None:
        """Have nobody listen there any more."""

    @abstractmethod
    async def create(self, order: Order) -> Instance:
        """Make an instance, and see that its limits hold. On failure nothing is left."""

    @abstractmethod
    def metered(self, scene: Scene) -> AbstractAsyncContextManager[Metered]:
        """Its meters on, and off again; then meter → quantity → value is filled in."""

    @abstractmethod
    async def close(self) -> None:
        """Remove what is left of the run there, and part."""
