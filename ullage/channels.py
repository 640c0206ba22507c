"""What an energy meter says of each thing that it tells: how, of what, seen by whom, how exactly.

So a figure at the wall is never taken for one of a package, nor an estimate for a measurement.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Kind = Literal["power", "energy"]
"""A power in W at the instant of the reading; or an energy in J that only grows, until it wraps."""
Method = Literal["measured", "attributed", "estimated"]
"""By an instrument; divided among several by their use; or from a model."""
Scope = Literal["wall", "package", "memory", "guest"]
"""The whole machine behind its plug, a processor, its memory, or what one guest is said to take."""
Observer = Literal["host", "guest", "bmc"]
"""Who looked: this host's operating system, a guest's, or the board's own controller."""

Label = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,39}$")]


class Channel(BaseModel):
    """One thing that a meter tells."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Label
    """Unique in its meter: `wall`, `package-0`, `memory-1`."""
    kind: Kind
    method: Method
    scope: Scope
    observer: Observer
    resolution: float = Field(ge=0, allow_inf_nan=False)
    """The smallest step of its value, in W or J; 0: not known to have one."""
    accuracy: float | None = Field(None, ge=0, lt=1)
    """Relative half width that its maker states, such as 0.015; None: the maker states none."""
    wraps_at: float | None = Field(None, gt=0, allow_inf_nan=False)
    """J at which a counter starts at 0 again; None: it does not."""
    source: str = ""
    """What exactly is read, for a reader who checks: `/sys/class/powercap/intel-rapl:0`."""


def addable(channels: Iterable[Channel], scope: Scope, method: Method) -> tuple[Channel, ...]:
    """The channels of a scope and method that add up.

    A power and a counter of the same thing are never added: where a meter has both, it is the
    power's, as the counters of boards that have both are coarse.
    """
    found = [each for each in channels if (each.scope, each.method) == (scope, method)]
    powers = [each for each in found if each.kind == "power"]
    return tuple(powers or found)
