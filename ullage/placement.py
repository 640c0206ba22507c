"""Which CPUs an instance gets, and whether everything fits on this host."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable

from ullage import host
from ullage.errors import HOST_TOO_SMALL, UllageError
from ullage.matrix import Environment
from ullage.plan import Resources
from ullage.quantities import format_bytes


def check(counts: Iterable[tuple[Environment, int]]) -> str | None:
    """HOST_TOO_SMALL when an environment does not fit; a sentence when all together do not.

    counts: environments with their numbers of instances. A VM keeps its memory while it is frozen;
    what else is idle keeps next to none.
    """
    total = host.memory_bytes()
    kept, most = 0, 0
    for environment, instances in counts:
        cpus(environment.resources, 0)
        asked = environment.resources.memory * instances
        if asked > total:
            raise UllageError(
                HOST_TOO_SMALL,
                asked=f"{format_bytes(asked)} of memory for {environment.key}",
                has=format_bytes(total),
            )
        if environment.provider.keeps_memory:
            kept += asked
        else:
            most = max(most, asked)
    if kept + most <= total:
        return None
    return (
        f"all instances together may use {format_bytes(kept + most)} of memory and the host has "
        f"{format_bytes(total)}: where it swaps, swapping is what is measured"
    )


def cpus(
    resources: Resources, index: int, *, backwards: bool = False
) -> tuple[tuple[int, ...], float | None]:
    """Host CPUs of instance `index`, and the quota when the plan asks for a part of a CPU.

    Instances take the host's CPUs in turn; host endpoints (`backwards`) from the other end.
    """
    allowed = sorted(os.sched_getaffinity(0), reverse=backwards)
    whole = math.ceil(resources.cpus)
    if whole > len(allowed):
        raise UllageError(
            HOST_TOO_SMALL, asked=f"{resources.cpus:g} CPUs", has=f"{len(allowed)} CPUs"
        )
    chosen = tuple(sorted(allowed[(index * whole + i) % len(allowed)] for i in range(whole)))
    return chosen, (resources.cpus if resources.cpus != whole else None)
