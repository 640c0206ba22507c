"""Are the limits that were asked for the limits that hold inside?"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any, Final, NoReturn

from ullage import errors
from ullage.cgroups import Group, Limits
from ullage.environments.base import InstanceSpec
from ullage.errors import UllageError
from ullage.quantities import exact_bytes

_QUOTA_TOLERANCE: Final = 0.01
_VM_MEMORY_LEAST: Final = 0.75
"""A guest's kernel and firmware keep some of its memory to themselves."""


def verify_limits(
    spec: InstanceSpec, facts: Mapping[str, Any], *, virtual_machine: bool = False
) -> None:
    """LIMIT_NOT_APPLIED unless what the agent saw inside is what the instance was to get.

    In a VM the vCPUs and the memory of the machine count, and what holds QEMU on the host is
    another question (`verify_group`); elsewhere the CPUs that a process may run on, the CPU quota,
    and the tightest memory limit or else the memory of the machine.
    """
    if virtual_machine:
        _verify_machine(spec, facts)
    else:
        _verify_cpus(spec, facts)
        _verify_quota(spec, facts)
        _verify_memory(spec, facts)


def verify_group(spec: InstanceSpec, asked: Limits, group: Group, pid: int) -> None:
    """LIMIT_NOT_APPLIED unless the process is in the group, and the group has these limits."""
    if not group.holds(pid):
        _refuse(spec, f"all of it in the cgroup {group.path}", "a part that is not")
    found = group.limits()
    if asked.cpus is not None and sorted(asked.cpus) != sorted(found.cpus or ()):
        _refuse(spec, f"CPUs {_cpus(asked.cpus)}", f"{_cpus(found.cpus)} in its cgroup")
    if not _same_quota(asked.cpu_quota, found.cpu_quota):
        wanted = f"a quota of {_show(asked.cpu_quota)}"
        _refuse(spec, wanted, f"a quota of {_show(found.cpu_quota)} in its cgroup")
    if asked.memory_bytes is not None and not _is_limit(found.memory_bytes, asked.memory_bytes):
        wanted = f"a limit of {exact_bytes(asked.memory_bytes)}"
        _refuse(spec, wanted, f"a limit of {_size(found.memory_bytes)} in its cgroup")


def _verify_machine(spec: InstanceSpec, facts: Mapping[str, Any]) -> None:
    online = facts.get("cpus_online")
    if online != len(spec.cpus):
        _refuse(spec, f"{len(spec.cpus)} vCPUs", f"{online} online")
    total, asked = _number(facts, "memory_total_bytes"), spec.memory_bytes
    if total is None or not _VM_MEMORY_LEAST * asked <= total <= asked:
        _refuse(spec, f"{exact_bytes(asked)} of memory", f"{_size(total)} in all")


def _verify_cpus(spec: InstanceSpec, facts: Mapping[str, Any]) -> None:
    found = facts.get("cpus_allowed")
    allowed = found if isinstance(found, list) else None
    if allowed is None or sorted(allowed) != sorted(spec.cpus):
        _refuse(spec, f"CPUs {_cpus(spec.cpus)}", f"{_cpus(allowed)} allowed")


def _verify_quota(spec: InstanceSpec, facts: Mapping[str, Any]) -> None:
    quota = _number(facts, "cpu_quota")
    if spec.cpu_quota is None:
        if quota is not None and quota < len(spec.cpus):
            _refuse(spec, f"{len(spec.cpus)} CPUs without a quota", f"a quota of {quota:g}")
    elif not _same_quota(spec.cpu_quota, quota):
        _refuse(spec, f"a quota of {spec.cpu_quota:g} CPUs", f"{_show(quota)}")


def _verify_memory(spec: InstanceSpec, facts: Mapping[str, Any]) -> None:
    asked = spec.memory_bytes
    limit, total = _number(facts, "memory_limit_bytes"), _number(facts, "memory_total_bytes")
    # What exceeds the machine limits nothing.
    unlimited = limit is None or limit >= asked
    if not _is_limit(limit, asked) and not (unlimited and total is not None and total <= asked):
        seen = f"a limit of {_size(limit)}, {_size(total)} in all"
        _refuse(spec, f"{exact_bytes(asked)} of memory", seen)


def _same_quota(asked: float | None, found: float | None) -> bool:
    if asked is None or found is None:
        return asked is found
    return abs(found / asked - 1) <= _QUOTA_TOLERANCE


def _is_limit(found: float | None, asked: int) -> bool:
    """Is it the limit that was asked for? The kernel counts in pages."""
    return found is not None and asked - os.sysconf("SC_PAGE_SIZE") < found <= asked


def _cpus(found: Collection[object] | None) -> str:
    return ", ".join(map(str, found)) if found else "none"


def _number(facts: Mapping[str, Any], name: str) -> float | None:
    """A fact from inside, where anything may stand."""
    value = facts.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _show(value: float | None) -> str:
    return "none" if value is None else f"{value:.12g}"


def _size(value: float | None) -> str:
    """A guest may tell of more than there are numbers for."""
    if value is None or not float(value).is_integer():
        return _show(value)
    return exact_bytes(int(value))


def _refuse(spec: InstanceSpec, asked: str, seen: str) -> NoReturn:
    raise UllageError(errors.LIMIT_NOT_APPLIED, instance=spec.name, asked=asked, seen=seen)
