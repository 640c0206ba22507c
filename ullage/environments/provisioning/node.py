"""The node that instances are allocated on: this host, with what is left of its memory and CPUs."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ullage.common.cleanup import Undo
from ullage.common.errors import ALLOCATION_NO_ROOM, UllageError
from ullage.common.quantities import format_bytes
from ullage.environments import placement
from ullage.environments.base import Instance, InstanceSpec, Provider
from ullage.environments.placement import Resources
from ullage.host import devices, storage
from ullage.host.image import Image
from ullage.host.paths import state_dir
from ullage.runs.allocations import Copy

if TYPE_CHECKING:
    from ullage.host.network.bridge import Network

_MEMINFO: Final = Path("/proc/meminfo")


@dataclass
class Site:
    """Where instances of one environment are made during a run."""

    tag: str
    provider: Provider
    """After its `check`."""
    resources: Resources
    """Of each instance."""
    image: Image | None
    agent: Path
    network: Network | None
    copy: Copy = "backing"
    """How an instance comes by its image."""
    image_size: int | None = None
    """Bytes that are copied then, with what fills the image up; None: as it is."""
    filler: Path | None = None
    """What fills it up, copied with it."""
    _budget: int | None = None
    """Memory that was left before the first instance here."""
    _turns: Counter[int] = field(default_factory=Counter)
    """How many instances run at each place of the host's CPUs."""
    _places: dict[str, int] = field(default_factory=dict)
    """Instance → its place."""

    async def prepare(self) -> None:
        """What is done once for all instances, so that the first one does not wait for it."""
        await devices.mount(self.tag, [self.provider.data_request])
        if self.image is not None and self.provider.stands_on == "disk":
            await self.image.disk(self.provider.image_format)

    async def place(self, name: str) -> tuple[Site, InstanceSpec]:
        """Where one more is to be made. ALLOCATION_NO_ROOM."""
        return self, self.choose(name)

    async def fetch(self) -> None:
        """See that the image is where the instance is made: it is here."""

    async def create(self, spec: InstanceSpec, undo: Undo) -> Instance:
        """Make it, of that image; `undo` removes it. What the provider raises; nothing is left
        then."""
        instance = await self.provider.create(spec)
        undo.push_within(self.removal_s, instance.destroy)
        return instance

    @property
    def removal_s(self) -> float:
        """So long may the removal of one take that no signal of ours ends."""
        return self.provider.removal_s

    def choose(self, name: str) -> InstanceSpec:
        """A place for one more: on the CPUs that the fewest have. ALLOCATION_NO_ROOM."""
        self.check_room(1)
        places = range(self.cpus)
        place = min(places, key=lambda cpu_place: (self._turns[cpu_place], cpu_place))
        cpu_ids, quota = self._cpus(place)
        data = self._data(name)
        self._turns[place] += 1
        self._places[name] = place
        return InstanceSpec(
            tag=self.tag,
            name=name,
            cpu_ids=cpu_ids,
            cpu_quota=quota,
            memory_bytes=self.resources.memory,
            image=self.image,
            agent=self.agent,
            state_dir=state_dir(self.tag) / name,
            data_dir=data,
            network=None if self.provider.elsewhere else self.network,
        )

    @property
    def cpus(self) -> int:
        """Places that are taken in turn."""
        return 1 if self.provider.elsewhere else len(os.sched_getaffinity(0))

    def _cpus(self, place: int) -> placement.Placed:
        if self.provider.elsewhere:
            return placement.elsewhere(self.resources)
        return placement.place(self.resources, place)

    def _data(self, name: str) -> Path:
        """Where its data go. DISK_UNUSABLE."""
        return storage.place(self.tag, name, self.provider.data_request.path)

    @property
    def reachable(self) -> bool:
        """Have its instances addresses that we may knock at: the run's, or their cloud's?"""
        return self.network is not None or self.provider.elsewhere

    @property
    def used(self) -> int:
        """Instances that have a place: those that were made and are not gone whole."""
        return len(self._places)

    def turn(self, name: str) -> int:
        """Its place among the CPUs, from 0."""
        return self._places[name]

    def give_back(self, spec: InstanceSpec) -> None:
        """Its place is free again."""
        place = self._places.pop(spec.name, None)
        if place is not None:
            self._turns[place] -= 1

    def check_room(self, count: int) -> None:
        """ALLOCATION_NO_ROOM unless so many more fit into the memory that this host has left.

        A VM keeps what it has once used, and may come to use all of it: those that were made here
        count in full, however far they have come. A container takes what it uses.
        """
        if self.provider.elsewhere or not self.provider.keeps_memory:
            return
        memory = self.resources.memory + self.provider.overhead_bytes
        needed, free = count * memory, available_bytes()
        if self._budget is None:
            self._budget = free
        free = min(free, self._budget - self.used * memory)
        if needed > free:
            raise UllageError(
                ALLOCATION_NO_ROOM,
                count=f"{count} more VM{'s' if count > 1 else ''}",
                asked=format_bytes(needed),
                each=format_bytes(memory),
                free=format_bytes(max(0, free)),
            )


def available_bytes() -> int:
    """Memory that this host could give without swapping, as its kernel estimates it."""
    for line in _MEMINFO.read_text(encoding="ascii").splitlines():
        name, _, amount = line.partition(":")
        if name == "MemAvailable":
            return int(amount.split()[0]) * 1024
    raise OSError(f"{_MEMINFO} does not tell MemAvailable")
