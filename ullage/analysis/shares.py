"""What part of a node each instance on it has, by resource."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import ByteSize, TypeAdapter, ValidationError

from ullage.runs import EnvironmentRecord, Resolved, Resource

Basis = Literal["limit", "equal part", "given"]
"""Where a share comes from."""

_CPUS: Final = re.compile(r"(\d+)(?:, quota ([0-9.]+))?")
_SIZE: Final = TypeAdapter(ByteSize)


@dataclass(frozen=True)
class Shares:
    """Shares of one run's environments on a node like its host.

    CPU and memory by what the run verified as the instance's limits, over what the host has. Disk
    and network have no limits, nor has memory with `memory: host`: there the instances of a node
    have equal parts. What the user gives goes before both.
    """

    resolved: Resolved
    given: Mapping[tuple[str | None, Resource], float]

    def of(self, environment: str, resource: Resource, copies: int) -> tuple[float, Basis]:
        """The share of one of so many instances on a node, and where it comes from."""
        for key in ((environment, resource), (None, resource)):
            if key in self.given:
                return self.given[key], "given"
        limit = self._limit(self._record(environment), resource)
        has = self._has(resource)
        if limit is None or has is None or (resource == "memory" and limit >= has):
            return 1 / copies, "equal part"
        return limit / has, "limit"

    def instances(self, environment: str) -> int:
        """How many of it run each trial together."""
        told = self._record(environment).nuisances.get("instances", "1")
        return int(told) if told.isdecimal() else 1

    def _record(self, environment: str) -> EnvironmentRecord:
        return next(e for e in self.resolved.environments if e.key == environment)

    def _limit(self, record: EnvironmentRecord, resource: Resource) -> float | None:
        if resource == "cpu":
            found = _CPUS.fullmatch(record.nuisances.get("cpus", ""))
            return float(found[2] or found[1]) if found else None
        if resource == "memory":
            try:
                return float(_SIZE.validate_python(record.nuisances.get("memory", "")))
            except ValidationError:
                return None
        return None

    def _has(self, resource: Resource) -> float | None:
        """What the host has of it."""
        if resource == "cpu":
            cpus = self.resolved.host.get("cpus")
            found = len(cpus) if isinstance(cpus, list) else cpus
        else:
            found = self.resolved.host.get("memory_bytes") if resource == "memory" else None
        return float(found) if isinstance(found, int) and found > 0 else None
