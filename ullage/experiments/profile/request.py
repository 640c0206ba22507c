"""What `ullage profile` is asked, and what of it this host can do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from ullage.common.errors import (
    HOST_NEEDS_ROOT,
    PROFILE_NO_PROGRAM,
    PROFILE_NOTHING,
    PROFILE_TOO_MANY_CPUS,
    UllageError,
)
from ullage.common.packages import install_command
from ullage.experiments.profile import disk
from ullage.host import cgroups, paths
from ullage.runs.records import Resource

HINDERED: Final[tuple[Resource, ...]] = tuple(r for r in get_args(Resource) if r != "other")
"""What can be slowed: cpu, memory, disk, network."""


@dataclass(frozen=True)
class ProfileRequest:
    """A command, and how it is to be profiled."""

    argv: tuple[str, ...]
    directory: Path
    """Where it runs."""
    variables: Mapping[str, str]
    """Its environment variables; they are kept nowhere."""
    resources: tuple[Resource, ...] = HINDERED
    repeat: int = 6
    """Most blocks."""
    budget_s: float = 600.0
    cpus: int = 1
    """That it may use."""

    @property
    def alone(self) -> bool:
        """It runs in a network namespace of its own, in every trial: only there can packets be
        slowed for it and nobody else."""
        return "network" in self.resources

    @property
    def name(self) -> str:
        """A plain name for folders: that of the program."""
        base = Path(self.argv[0]).name
        plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in base)
        return f"x{plain}"[:40].rstrip("-.") if not plain[:1].isalnum() else plain[:40]


def check(request: ProfileRequest) -> dict[Resource, str]:
    """What of the resources cannot be slowed here, and why.

    HOST_NEEDS_ROOT; PROFILE_NO_PROGRAM where there is nothing to run; PROFILE_TOO_MANY_CPUS;
    PROFILE_NOTHING where nothing can be slowed.
    """
    if os.geteuid() != 0:
        raise UllageError(
            HOST_NEEDS_ROOT,
            what="`ullage profile`",
            otherwise="give weights of your own to `ullage weigh`",
        )
    path = request.variables.get("PATH", os.defpath)
    program = request.argv[0]
    file = str(request.directory / program) if "/" in program else program
    if shutil.which(file, path=path) is None:
        raise UllageError(PROFILE_NO_PROGRAM, program=repr(program))
    if request.cpus > (cpus := len(os.sched_getaffinity(0))):
        raise UllageError(PROFILE_TOO_MANY_CPUS, cpus=request.cpus, here=cpus)
    lacking = {"cpu": _no_cpu(), "memory": _no_memory(request), "disk": _no_disk(request.directory)}
    lacking["network"] = _no_network()
    absent = {
        resource: why for resource in request.resources if (why := lacking[resource]) is not None
    }
    if len(absent) == len(request.resources):
        reasons = "; ".join(f"{resource}: {why}" for resource, why in absent.items())
        raise UllageError(PROFILE_NOTHING, reasons=reasons)
    return absent


def _no_cpu() -> str | None:
    return None if "cpu" in cgroups.available() else "no cgroup controller `cpu`"


def _no_memory(request: ProfileRequest) -> str | None:
    if shutil.which("stress-ng") is None:
        return f"stress-ng is missing: {install_command('stress-ng')}"
    cpus = len(os.sched_getaffinity(0))
    if cpus < 2 * request.cpus:
        return f"the neighbour needs as many CPUs as the command, and there are {cpus} in all"
    return None


def _no_disk(directory: Path) -> str | None:
    if disk.tree() is None:
        return "no cgroup controller `blkio` of version 1, nor `io` of version 2"
    data = paths.data_root()
    existing = next(path for path in (data, *data.parents) if path.exists())
    device = disk.whole_disk(directory)
    if device is None:
        return f"{directory} is on no block device"
    if disk.whole_disk(existing) != device:
        return (
            f"{directory} and {data} are on different disks, so the probe would tell of another "
            "one: set ULLAGE_DATA_DIR to a directory on the same disk"
        )
    return None


def _no_network() -> str | None:
    missing = [program for program in ("ip", "tc") if shutil.which(program) is None]
    command = install_command("iproute2")
    return f"{' and '.join(missing)} missing: {command}" if missing else None
