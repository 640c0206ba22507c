"""What a plan says of the machines it runs on, and of which instances stand where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from ullage.common.fields import Fields

MOST: Final = 64
ADDRESS: Final = r"^([A-Za-z0-9_][A-Za-z0-9_.-]{0,63}@)?[A-Za-z0-9_][A-Za-z0-9_.:-]{0,252}$"
"""`host` or `user@host`, as ssh takes it: it can be no option of ssh's."""

IPV4: Final = r"^[0-9]{1,3}(\.[0-9]{1,3}){3}$"

Place = (
    Literal["pack", "spread"]
    | Annotated[dict[str, Annotated[int, Field(ge=1, le=256, strict=True)]], Field(min_length=1)]
)
"""Where an environment's instances stand."""


class NodePlan(Fields):
    """One machine: this one, or another by ssh."""

    local: Literal[True] | None = Field(None, description="`true`: the machine that ullage runs on")
    ssh: str | None = Field(
        None,
        pattern=ADDRESS,
        description="`root@a`: another, as the system's ssh reaches it by your own configuration",
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
        if (self.local is None) == (self.ssh is None):
            raise ValueError("either `local: true` or `ssh: USER@HOST`")
        if self.local and (self.config is not None or self.sudo):
            raise ValueError("`config` and `sudo` are of a node by ssh")
        return self


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
