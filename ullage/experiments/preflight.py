"""What can be told before a run: what is certain to refuse it here, and how busy the host is."""

from __future__ import annotations

import os
import time
from typing import Final

from ullage.common.errors import HOST_NEEDS_ROOT, INSTANCE_NOT_LIMITED, UllageError
from ullage.common.quantities import format_bytes, memory_bytes
from ullage.common.signals import run_here
from ullage.engine import resolved
from ullage.environments.containers.oci import Oci
from ullage.environments.native import Native
from ullage.host import devices
from ullage.host.cgroups import hierarchies
from ullage.host.swap import area
from ullage.meters.host import HostReading
from ullage.plan.instances import Needs
from ullage.plan.matrix import Matrix
from ullage.plan.schema import NUISANCES, Plan

LOOK_S: Final = 0.2
"""So long is the host looked at."""
BUSY: Final = 0.1
"""Share of the CPUs that others may use before it is said."""


def faults(plan: Plan, cells: Matrix) -> list[UllageError]:
    """What would refuse the run on this host; nothing is made, fetched or booted."""
    errors: list[UllageError] = []
    for check in (_check_room, _check_descriptors, check_parity, _check_disks, _check_root):
        try:
            check(plan, cells)
        except UllageError as error:
            errors.append(error)
    return [*errors, *run_here(_absent(cells))]


def _check_room(_plan: Plan, cells: Matrix) -> None:
    Needs(cells).check()


def _check_descriptors(_plan: Plan, cells: Matrix) -> None:
    Needs(cells).descriptors.check()


def _check_disks(_plan: Plan, cells: Matrix) -> None:
    """DISK_UNUSABLE, SWAP_UNUSABLE; DISK_SHARED where what differs in its disk does not."""
    here = [cell for cell in cells.environments if not cell.away]
    devices.check({cell.key: cell.provider.data_request for cell in here})
    area.check({cell.key: request for cell in here if (request := cell.provider.swap_request)})


def refuse(plan: Plan, cells: Matrix) -> None:
    """Raise what is certain to refuse the run, before anything is built for it.

    This process is allowed as many open files as the run takes.
    """
    _check_room(plan, cells)
    check_parity(plan, cells)
    _check_disks(plan, cells)
    Needs(cells).descriptors.provide()


def check_parity(plan: Plan, cells: Matrix) -> None:
    """PARITY_UNEQUAL for what the plan itself makes unequal and does not allow."""
    userland = "the host's" if plan.image == "host" else "the image"
    nuisances = {
        environment.key: {
            **dict.fromkeys(NUISANCES, ""),
            "cpus": f"{environment.resources.cpus:g}",
            "memory": format_bytes(environment.resources.memory),
            "userland": environment.provider.userland() or userland,
            "instances": str(environment.instances),
        }
        for environment in cells.environments
    }
    resolved.compare(nuisances, plan.allow)


def _check_root(plan: Plan, cells: Matrix) -> None:
    """HOST_NEEDS_ROOT, INSTANCE_NOT_LIMITED for what a plain user cannot have."""
    if os.geteuid() == 0:
        return
    for environment in cells.environments:
        if environment.away:
            continue
        name, resources = environment.provider.name, environment.resources
        if name == Native.name and plan.image == "built":
            raise UllageError(
                HOST_NEEDS_ROOT, what="native from an image", otherwise="say `image: host`"
            )
        limited = "memory" if resources.memory < memory_bytes() else ""
        limited = limited or ("a part of a CPU" if resources.cpus % 1 else "")
        if name in (Native.name, Oci.name) and limited and not _cgroups_are_ours():
            raise UllageError(
                INSTANCE_NOT_LIMITED,
                provider=name,
                what=limited,
                name=environment.key,
                reason="a plain user has no cgroup to set limits in",
            )


def _cgroups_are_ours() -> bool:
    return all(os.access(hierarchy.path, os.W_OK) for hierarchy in hierarchies())


async def _absent(cells: Matrix) -> list[UllageError]:
    """Why providers cannot work here, each reason once."""
    errors: dict[str, UllageError] = {}
    for environment in cells.environments:
        try:
            await environment.provider.check_at_once()
        except UllageError as error:
            errors.setdefault(error.message, error)
    return list(errors.values())


def busy() -> str | None:
    """A sentence where others use much of this host now; waits a moment to see it."""
    before = HostReading.now()
    time.sleep(LOOK_S)
    shares = before.until(HostReading.now())
    used = shares.get("busy", 0.0) + shares.get("steal", 0.0)
    if used < BUSY:
        return None
    return (
        f"this host is busy: others use {used:.0%} of its CPUs now, so intervals will be wider and "
        "more blocks needed; wait for a quiet hour, or write `design: duet`"
    )
