"""The machines that an elastic plan names, and what is not made on other machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol

from ullage.common.errors import UllageError
from ullage.common.fields import impossible
from ullage.common.yamlfile import FieldPath, YamlFile
from ullage.environments import Provider
from ullage.host.network.links import Between
from ullage.nodes.options import NodePlan
from ullage.nodes.provider import ON_NODES, on_nodes

PoolPlace = Literal["spread", "pack"]
"""How the pool is spread over the machines."""


class PlanOfMachines(Protocol):
    """What of an elastic plan is of its machines, or cannot be had with them."""

    @property
    def machines(self) -> Mapping[str, NodePlan]: ...
    @property
    def place(self) -> PoolPlace | None: ...
    @property
    def between(self) -> Between | None: ...
    @property
    def image(self) -> str: ...
    @property
    def meters(self) -> Mapping[str, Any]: ...


_LEAVE: Final = "leave it out, or leave out `machines`"


def check(plan: PlanOfMachines, document: YamlFile) -> None:
    """PLAN_IMPOSSIBLE_MATRIX: what the plan asks of machines and cannot have."""
    if not plan.machines:
        for name in ("place", "between"):
            if getattr(plan, name) is not None:
                raise _without(document, (name,))
        return
    local = [name for name, machine in plan.machines.items() if machine.local]
    if len(local) == len(plan.machines):
        reason = "`machines` names no other machine, and without it nodes are made on this one"
        raise impossible(document, ("machines",), reason, "add `a: {ssh: root@a}`, or leave it out")
    if len(local) > 1:
        reason = f"{local[0]} and {local[1]} are both this machine"
        raise impossible(document, ("machines", local[1]), reason, "name it once")
    if plan.image == "host":
        reason = "nodes on several machines run from one image, which is sent to them"
        raise impossible(document, ("image",), reason, "leave out `image: host`")
    if plan.meters:
        reason = "energy meters are read on this machine, and nodes are made on others too"
        raise impossible(document, ("meters",), reason, _LEAVE)


def place(
    plan: PlanOfMachines, own: PoolPlace | None, document: YamlFile, path: FieldPath
) -> PoolPlace | None:
    """How an environment's nodes are spread; own: what it says itself. PLAN_IMPOSSIBLE_MATRIX."""
    if plan.machines:
        return own or plan.place or "spread"
    if own is not None:
        raise _without(document, (*path, "place"))
    return None


def _without(document: YamlFile, path: FieldPath) -> UllageError:
    reason = f"`{path[-1]}` is of nodes on several machines, and the plan names none"
    return impossible(document, path, reason, "add `machines:`")


def here(plan: PlanOfMachines) -> bool:
    """Are nodes made on this machine, alone or among others?"""
    return not plan.machines or any(machine.local for machine in plan.machines.values())


def between(plan: PlanOfMachines) -> Between | None:
    """How the machines' networks are joined; None: the plan names none."""
    return plan.between or "routes" if plan.machines else None


def provider(own: Provider, plan: PlanOfMachines, document: YamlFile, path: FieldPath) -> Provider:
    """The provider itself, or the one that the machines are asked for. PLAN_IMPOSSIBLE_MATRIX."""
    if not plan.machines:
        return own
    if own.name not in ON_NODES:
        there = ", ".join(name for name in ON_NODES if name != "native")  # no second machine
        reason = f"{path[-1]}: `{own.name}` makes no nodes on other machines"
        raise impossible(document, (*path, "provider"), reason, f"on `machines` there are {there}")
    if own.data_request.file_system is not None:
        reason = "a device is given a file system on this machine only"
        raise impossible(document, (*path, "disk"), reason, _LEAVE)
    return on_nodes(own)
