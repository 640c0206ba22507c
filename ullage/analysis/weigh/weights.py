"""What a machine is for: weights of resources, nodes made of environments, and shares, as asked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Final, Literal, TypeVar, get_args

from pydantic import ByteSize, TypeAdapter, ValidationError

from ullage.common.errors import WEIGHTS_NOT_ONE, UllageError
from ullage.common.text import nearest
from ullage.runs.records import EnvironmentRecord, Resolved, Resource

Number = TypeVar("Number", float, Decimal)
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
    overrides: Mapping[tuple[str | None, Resource], float]

    def of(self, environment: str, resource: Resource, copies: int) -> tuple[float, Basis]:
        """The share of one of so many instances on a node, and where it comes from."""
        for key in ((environment, resource), (None, resource)):
            if key in self.overrides:
                return self.overrides[key], "given"
        limit = self._limit(self._record(environment), resource)
        has = self._has(resource)
        if limit is None or has is None or (resource == "memory" and limit >= has):
            return 1 / copies, "equal part"
        return limit / has, "limit"

    def instances(self, environment: str) -> int:
        """How many of it run each trial together."""
        instances = self._record(environment).nuisances.get("instances", "1")
        return int(instances) if instances.isdecimal() else 1

    def _record(self, environment: str) -> EnvironmentRecord:
        return next(e for e in self.resolved.environments if e.key == environment)

    def _limit(self, record: EnvironmentRecord, resource: Resource) -> float | None:
        if resource == "cpu":
            match = _CPUS.fullmatch(record.nuisances.get("cpus", ""))
            return float(match[2] or match[1]) if match else None
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
            amount = len(cpus) if isinstance(cpus, list) else cpus
        else:
            amount = self.resolved.host.get("memory_bytes") if resource == "memory" else None
        return float(amount) if isinstance(amount, int) and amount > 0 else None


Weights = Mapping[Resource, float]
"""Resource → its part of what the machine is for; together 1."""

RESOURCES: Final[tuple[Resource, ...]] = get_args(Resource)
MOST_COPIES: Final = 1_000_000
_PLACES: Final = 6
"""Decimals of the weights that are offered."""
_COMMA: Final = re.compile(r",(?![^\[]*\])")
"""Between the environments of a node; a key such as `vm[nic=e1000,disk=raw]` has commas inside."""


@dataclass(frozen=True)
class WeighRequest:
    """What `ullage weigh` was asked."""

    weights: Weights
    own: Mapping[str, Weights] = field(default_factory=dict)
    """Environment → weights other than those of all."""
    environments: tuple[str, ...] = ()
    """Only these; none: all."""
    nodes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Node → environment → copies of it that the node holds."""
    shares: Mapping[tuple[str | None, Resource], float] = field(default_factory=dict)
    """(Environment or None for all, resource) → part of a node's that each copy has."""

    def of(self, environment: str) -> Weights:
        """The weights of an environment, without those that are 0."""
        weights = self.own.get(environment, self.weights)
        return {resource: weight for resource, weight in weights.items() if weight > 0}

    def named(self) -> Iterable[str]:
        """Every environment that is named."""
        of_nodes = (key for copies in self.nodes.values() for key in copies)
        of_shares = (key for key, _ in self.shares if key is not None)
        return (*self.environments, *self.own, *of_nodes, *of_shares)


def weights(text: str) -> dict[Resource, float]:
    """`cpu=0.1,disk=90%` as weights.

    ValueError for what is none; WEIGHTS_NOT_ONE, with weights in the same proportions that do, when
    they do not add up to 1.
    """
    parsed: dict[Resource, Decimal] = {}
    for item in text.split(","):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise ValueError(f"{item.strip()!r} is not RESOURCE=WEIGHT")
        resource = resource_of(name)
        if resource in parsed:
            raise ValueError(f"{name} stands twice")
        parsed[resource] = _weight(value)
    total = sum(parsed.values(), Decimal(0))
    if total == 0:
        raise ValueError("every weight is 0")
    if total != 1:
        raise UllageError(
            WEIGHTS_NOT_ONE, given=text, total=f"{total.normalize():f}", corrected=_in_words(parsed)
        )
    return {resource: float(value) for resource, value in parsed.items()}


def resource_of(name: str) -> Resource:
    """The resource of that name; ValueError with the nearest one."""
    for resource in RESOURCES:
        if resource == name:
            return resource
    raise ValueError(f"{name!r} is no resource: {nearest(name, RESOURCES)}")


def prefixed(text: str) -> tuple[str | None, str]:
    """`vm:cpu=1` → (`vm`, `cpu=1`); a key such as `vm[a=b:2]` may have colons itself."""
    key, colon, remainder = text.rpartition(":")
    return (key.strip() or None, remainder) if colon else (None, text)


def node(text: str) -> tuple[str, dict[str, int]]:
    """`big=vm:4,container` → the node `big`, and the copies of each environment that it holds.

    ValueError for what is none.
    """
    name, equals, members = (part.strip() for part in text.partition("="))
    if not (name and equals and members) or "[" in name:
        raise ValueError(f"{text!r} is not NAME=ENVIRONMENT:COPIES,…")
    by_environment: dict[str, int] = {}
    for member in _COMMA.split(members):
        key, colon, copies = member.strip().rpartition(":")
        if not colon or "]" in copies:
            key, copies = member.strip(), "1"
        if not copies.isdecimal() or not 1 <= int(copies) <= MOST_COPIES:
            raise ValueError(f"{copies!r} in {member.strip()!r} is no number of copies from 1 on")
        by_environment[key] = by_environment.get(key, 0) + int(copies)
    return name, by_environment


def share(text: str) -> tuple[str | None, Resource, float]:
    """`vm:disk=25%` → environment, resource, and the part of a node's that an instance has of it.

    ValueError for what is none.
    """
    key, assignment = prefixed(text)
    name, equals, value = (part.strip() for part in assignment.partition("="))
    fraction = float(_weight(value)) if equals else 0.0
    if not 0 < fraction <= 1:
        raise ValueError(f"{text!r} is not RESOURCE=SHARE, above 0 and at most 1")
    return key, resource_of(name), fraction


def _weight(text: str) -> Decimal:
    percent = text.endswith("%")
    try:
        value = Decimal(text.removesuffix("%").strip())
    except InvalidOperation:
        raise ValueError(f"{text!r} is no weight: write 0.1 or 10%") from None
    if not value.is_finite() or value < 0 or value > 10**9:
        raise ValueError(f"{text!r} is no weight: it is from 0 to 1")
    return value / 100 if percent else value


def apportioned(parts: Mapping[Resource, Number], unit: int) -> dict[Resource, int]:
    """Whole numbers in the same proportions that add up to `unit` (largest remainders first)."""
    total = sum(parts.values())
    exact = {resource: part / total * unit for resource, part in parts.items()}
    counts = {resource: int(value) for resource, value in exact.items()}
    by_remainder = sorted(exact, key=lambda resource: counts[resource] - exact[resource])
    for resource in by_remainder[: unit - sum(counts.values())]:
        counts[resource] += 1
    return counts


def _in_words(proportions: Mapping[Resource, Decimal]) -> str:
    """The same proportions, rounded so that they add up to 1 exactly."""
    unit = 10**_PLACES
    counts = apportioned(proportions, unit)
    decimals = ((resource, Decimal(count) / unit) for resource, count in counts.items())
    return ",".join(f"{resource}={value.normalize():f}" for resource, value in decimals)
