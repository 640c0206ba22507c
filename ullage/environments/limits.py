"""Are the limits that were asked for the limits that hold inside?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from ullage import errors
from ullage.environments.base import InstanceSpec
from ullage.errors import UllageError

_QUOTA_TOLERANCE: Final = 0.01
_VM_MEMORY_LEAST: Final = 0.75
"""A guest's kernel and firmware keep some of its memory to themselves."""


def verify_limits(
    spec: InstanceSpec, facts: Mapping[str, Any], *, virtual_machine: bool = False
) -> None:
    """LIMIT_NOT_APPLIED unless what the agent saw inside is what the instance was to get.

    In a VM the vCPUs and the memory of the machine count; elsewhere the CPUs that a process may
    run on, the CPU quota, and the tightest memory limit or else the memory of the machine.
    """
    if virtual_machine:
        _verify_machine(spec, facts)
    else:
        _verify_cpus(spec, facts)
        _verify_quota(spec, facts)
        _verify_memory(spec, facts)


def _verify_machine(spec: InstanceSpec, facts: Mapping[str, Any]) -> None:
    online = facts.get("cpus_online")
    if online != len(spec.cpus):
        _refuse(spec, f"{len(spec.cpus)} vCPUs", f"{online} online")
    total, asked = _number(facts, "memory_total_bytes"), spec.memory_bytes
    if total is None or not _VM_MEMORY_LEAST * asked <= total <= asked:
        _refuse(spec, f"{asked} B of memory", f"{_show(total)} B in all")


def _verify_cpus(spec: InstanceSpec, facts: Mapping[str, Any]) -> None:
    allowed = facts.get("cpus_allowed")
    count = len(allowed) if isinstance(allowed, list) else None
    if count != len(spec.cpus):
        _refuse(spec, f"{len(spec.cpus)} CPUs", f"{_show(count)} allowed")


def _verify_quota(spec: InstanceSpec, facts: Mapping[str, Any]) -> None:
    quota = _number(facts, "cpu_quota")
    if spec.cpu_quota is None:
        if quota is not None and quota < len(spec.cpus):
            _refuse(spec, f"{len(spec.cpus)} CPUs without a quota", f"a quota of {quota:g}")
    elif quota is None or abs(quota / spec.cpu_quota - 1) > _QUOTA_TOLERANCE:
        _refuse(spec, f"a quota of {spec.cpu_quota:g} CPUs", f"{_show(quota)}")


def _verify_memory(spec: InstanceSpec, facts: Mapping[str, Any]) -> None:
    asked = spec.memory_bytes
    limit, total = _number(facts, "memory_limit_bytes"), _number(facts, "memory_total_bytes")
    page = os.sysconf("SC_PAGE_SIZE")
    # The kernel counts limits in pages; and what exceeds the machine limits nothing.
    exact = limit is not None and asked - page < limit <= asked
    unlimited = limit is None or limit >= asked
    if not exact and not (unlimited and total is not None and total <= asked):
        _refuse(spec, f"{asked} B of memory", f"a limit of {_show(limit)}, {_show(total)} B in all")


def _number(facts: Mapping[str, Any], name: str) -> float | None:
    """A fact from inside, where anything may stand."""
    value = facts.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _show(value: float | None) -> str:
    return "none" if value is None else f"{value:.12g}"


def _refuse(spec: InstanceSpec, asked: str, seen: str) -> NoReturn:
    raise UllageError(errors.LIMIT_NOT_APPLIED, instance=spec.name, asked=asked, seen=seen)
