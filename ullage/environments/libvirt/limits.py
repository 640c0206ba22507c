"""Do the limits hold that libvirt was asked to set on a VM?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ullage.common.errors import LIMIT_NOT_APPLIED, UllageError
from ullage.common.quantities import exact_bytes

if TYPE_CHECKING:
    from ullage.environments.base import InstanceSpec
    from ullage.host.cgroups import Limits

_PROC: Final = Path("/proc")
_TOLERANCE: Final = 0.01


def limit_memory(limits: Limits, domain: Any) -> dict[str, int]:
    """Set the limit of a virDomain; what libvirt then reads from its cgroup."""
    assert limits.memory_bytes is not None
    domain.setMemoryParameters({"hard_limit": limits.memory_bytes >> 10})
    return {**domain.schedulerParameters(), **domain.memoryParameters()}


def verify(
    spec: InstanceSpec, limits: Limits, parameters: Mapping[str, int], allowed: set[int] | None
) -> None:
    """LIMIT_NOT_APPLIED unless QEMU's threads are on these CPUs and its cgroup has the rest."""
    cpus = set(limits.cpu_ids or ())
    if not allowed or not allowed <= cpus:
        _refuse(spec, f"CPUs {_cpus(cpus)}", f"CPUs {_cpus(allowed)}")
    if limits.cpu_quota is not None:
        period, quota = parameters.get("global_period", 0), parameters.get("global_quota", 0)
        actual = quota / period if period else 0.0
        if abs(actual / limits.cpu_quota - 1) > _TOLERANCE:
            _refuse(spec, f"a quota of {limits.cpu_quota:g} CPUs", f"{actual:g} in its cgroup")
    assert limits.memory_bytes is not None
    memory = parameters.get("hard_limit", 0) << 10
    if not limits.memory_bytes - os.sysconf("SC_PAGE_SIZE") < memory <= limits.memory_bytes:
        required = f"a limit of {exact_bytes(limits.memory_bytes)}"
        _refuse(spec, required, f"a limit of {exact_bytes(memory)} in its cgroup")


def cpus_allowed(pid: int) -> set[int] | None:
    """Where any thread of the process may run; None: it is not to be seen."""
    cpus: set[int] = set()
    for task in (_PROC / str(pid) / "task").glob("*"):
        with suppress(OSError):  # a thread of QEMU's pool comes and goes
            cpus |= os.sched_getaffinity(int(task.name))
    return cpus or None


def _cpus(cpus: set[int] | None) -> str:
    return ", ".join(map(str, sorted(cpus))) if cpus else "none"


def _refuse(spec: InstanceSpec, required: str, actual: str) -> None:
    raise UllageError(LIMIT_NOT_APPLIED, instance=spec.name, asked=required, seen=actual)
