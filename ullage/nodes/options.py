"""What a plan says of the machines it runs on, and of which instances stand where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, PrivateAttr, model_validator

from ullage.common.fields import Fields

MOST: Final = 1024
ADDRESS: Final = r"^([A-Za-z0-9_][A-Za-z0-9_.-]{0,63}@)?[A-Za-z0-9_][A-Za-z0-9_.:-]{0,252}$"
"""`host` or `user@host`, as ssh takes it: it can be no option of ssh's."""

IPV4: Final = r"^[0-9]{1,3}(\.[0-9]{1,3}){3}$"

Place = (
    Literal["pack", "spread"]
    | Annotated[dict[str, Annotated[int, Field(ge=1, le=1024, strict=True)]], Field(min_length=1)]
)
"""Where an environment's instances stand."""


class NodePlan(Fields):
    """One machine: this one, another by ssh, or those of an allocation."""

    _turn: int = PrivateAttr(default=0)

    local: Literal[True] | None = Field(None, description="`true`: the machine that ullage runs on")
    ssh: str | None = Field(
        None,
        pattern=ADDRESS,
        description="`root@a`: another, as the system's ssh reaches it by your own configuration",
    )
    slurm: int | None = Field(
        None,
        ge=1,
        le=MOST,
        strict=True,
        description="so many machines of the Slurm allocation that ullage runs in, by srun; with "
        "`n: {slurm: 2}` they are called `n1` and `n2`",
    )
    config: Path | None = Field(
        None, description="file to give to ssh in place of ~/.ssh/config (`ssh -F`)"
    )
    sudo: bool = Field(
        False, strict=True, description="become root there by `sudo -n`, which never asks"
    )

    address: str | None = Field(
        None,
        pattern=IPV4,
        description="its IPv4 address for the other machines; left out: the one that ssh reaches",
    )

    @model_validator(mode="after")
    def _one(self) -> NodePlan:
        if sum(way is not None for way in (self.local, self.ssh, self.slurm)) != 1:
            raise ValueError("one of `local: true`, `ssh: USER@HOST` and `slurm: COUNT`")
        if self.ssh is None and self.config is not None:
            raise ValueError("`config` is of a node by ssh")
        if self.local and self.sudo:
            raise ValueError("`sudo` is of another machine")
        if self.slurm is not None and self.slurm > 1 and self.address is not None:
            raise ValueError("one `address` cannot be that of several machines")
        return self

    @property
    def turn(self) -> int:
        """Of a machine of an allocation: it is that one of its hosts, from 0."""
        return self._turn

    @property
    def where(self) -> str:
        """In words."""
        if self.slurm is not None:
            return f"machine {self._turn + 1} of the Slurm allocation"
        return self.ssh or "this machine"


def expanded(nodes: dict[str, NodePlan]) -> dict[str, NodePlan]:
    """A name for each machine: those of an allocation are numbered, and taken in turn."""
    machines: dict[str, NodePlan] = {}
    turn = 0
    for name, node in nodes.items():
        count = node.slurm or 1
        for number in range(count):
            own = name if count == 1 else f"{name}{number + 1}"
            if own in machines:
                raise ValueError(f"two machines would be called {own!r}")
            machines[own] = node
            if node.slurm is not None:
                machines[own] = node.model_copy(update={"slurm": 1})
                machines[own]._turn = turn
                turn += 1
    if len(machines) > MOST:
        raise ValueError(f"{len(machines)} machines; at most {MOST}")
    return machines


def placed(place: Place | None, instances: int, nodes: Sequence[str]) -> tuple[str, ...]:
    """The node of each instance, in their order; ValueError where that cannot be."""
    if isinstance(place, Mapping):
        if unknown := [name for name in place if name not in nodes]:
            raise ValueError(f"{unknown[0]!r} is none of `nodes:`: {', '.join(nodes)}")
        if sum(place.values()) != instances:
            raise ValueError(f"it places {sum(place.values())} of {instances} instances")
        return tuple(name for name, count in place.items() for _ in range(count))
    if place == "spread":
        return tuple(nodes[i % len(nodes)] for i in range(instances))
    return (nodes[0],) * instances
