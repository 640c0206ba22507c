"""Which CPUs an instance gets, and whether everything fits on this host."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Set
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol

from pydantic import Field

from ullage.common.errors import HOST_TOO_SMALL, UllageError
from ullage.common.fields import Fields
from ullage.common.quantities import Bytes, Memory, format_bytes, memory_bytes
from ullage.runs.records import Design

if TYPE_CHECKING:
    from ullage.environments.base import Provider


class Resources(Fields):
    """What every environment gets, the native one too."""

    cpus: float = Field(
        1, gt=0, le=1024, description="CPUs: whole ones are pinned; a fraction is a quota"
    )
    memory: Memory = Field(
        Bytes(1 << 30),
        ge=64 << 20,
        description="memory limit, `1GiB`; `host`: all that there is, so no limit",
    )


Side = Literal[0, 1]


class Placeable(Protocol):
    """An environment of a plan, as far as its place goes."""

    @property
    def key(self) -> str:
        """Its name in the plan."""

    @property
    def provider(self) -> Provider:
        """Makes its instances."""

    @property
    def resources(self) -> Resources:
        """What each instance has."""


CPUS: Final = Path("/sys/devices/system/cpu")

Placed = tuple[tuple[int, ...], float | None]
"""Host CPUs, and the quota when the plan asks for a part of a CPU."""


def check(counts: Iterable[tuple[Placeable, int]], design: Design = "solo") -> str | None:
    """HOST_TOO_SMALL when an environment does not fit; a sentence when all together do not.

    counts: environments with their numbers of instances. A VM keeps its memory while it is frozen;
    what else is idle keeps next to none.
    """
    total = memory_bytes()
    frozen, most = 0, 0
    for environment, instances in counts:
        if design == "duet":
            side(environment.resources, 0)
        else:
            place(environment.resources, 0)
        memory = environment.resources.memory * instances
        if memory > total:
            raise UllageError(
                HOST_TOO_SMALL,
                asked=f"{format_bytes(memory)} of memory for {environment.key}",
                has=format_bytes(total),
            )
        if environment.provider.keeps_memory:
            frozen += memory
        else:
            most = max(most, memory)
    if frozen + most <= total:
        return None
    return (
        f"all instances together may use {format_bytes(frozen + most)} of memory and the host has "
        f"{format_bytes(total)}: where it swaps, swapping is what is measured"
    )


def place(resources: Resources, index: int, *, backwards: bool = False) -> Placed:
    """Where instance `index` runs.

    Instances take the host's CPUs in turn; host endpoints (`backwards`) from the other end.
    """
    allowed = sorted(os.sched_getaffinity(0), reverse=backwards)
    whole = math.ceil(resources.cpus)
    if whole > len(allowed):
        raise UllageError(
            HOST_TOO_SMALL, asked=f"{resources.cpus:g} CPUs", has=f"{len(allowed)} CPUs"
        )
    chosen = tuple(sorted(allowed[(index * whole + i) % len(allowed)] for i in range(whole)))
    return chosen, _quota(resources)


def elsewhere(resources: Resources) -> Placed:
    """The CPUs of an instance as they are numbered inside, where none of them is this host's."""
    return tuple(range(math.ceil(resources.cpus))), _quota(resources)


def side(resources: Resources, number: Side) -> Placed:
    """Where the instances of a side of a duet run: at one end of the host's CPUs, or at the other.

    The CPUs of one core stand together, so that the two sides share a core only where there is no
    other way. HOST_TOO_SMALL where the sides would share a CPU.
    """
    allowed = sorted(os.sched_getaffinity(0), key=lambda cpu: (_core(cpu), cpu))
    whole = math.ceil(resources.cpus)
    if 2 * whole > len(allowed):
        raise UllageError(
            HOST_TOO_SMALL,
            asked=f"{2 * whole} CPUs, {whole} for each side of a duet",
            has=f"{len(allowed)} CPUs",
        )
    chosen = allowed[-whole:] if number else allowed[:whole]
    return tuple(sorted(chosen)), _quota(resources)


def apart(resources: Resources, neighbours: int, used: Set[int]) -> list[Placed]:
    """Where neighbours on `other` CPUs run: each on its own, and none on one that is used.

    used: by whoever plays a role in the trials. HOST_TOO_SMALL where there are too few beside.
    """
    allowed, whole = sorted(os.sched_getaffinity(0)), math.ceil(resources.cpus)
    free = [cpu for cpu in allowed if cpu not in used]
    if whole * neighbours > len(free):
        raise UllageError(
            HOST_TOO_SMALL,
            asked=f"{whole * neighbours + len(used)} CPUs, {whole * neighbours} of them for "
            "neighbours on `other` ones than the instances of a trial use",
            has=len(allowed),
        )
    starts = range(0, whole * neighbours, whole)
    return [(tuple(free[first : first + whole]), _quota(resources)) for first in starts]


def shared_core(resources: Resources) -> str | None:
    """A sentence when the two sides of a duet have threads of the same core."""
    first, second = (side(resources, number)[0] for number in (0, 1))
    if {_core(cpu) for cpu in first}.isdisjoint(_core(cpu) for cpu in second):
        return None
    return (
        f"the two sides of the duet, CPUs {first} and {second}, share a core: each slows the other "
        "by what they use of it"
    )


def _quota(resources: Resources) -> float | None:
    return resources.cpus if resources.cpus != math.ceil(resources.cpus) else None


def _core(cpu: int) -> int:
    """The least CPU of the core that this one is a thread of; itself where nobody tells."""
    try:
        siblings = (CPUS / f"cpu{cpu}/topology/thread_siblings_list").read_text(encoding="ascii")
        return int(siblings.replace("-", ",").split(",")[0])
    except (OSError, ValueError):
        return cpu
