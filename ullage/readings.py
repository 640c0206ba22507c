"""What energy meters leave in a run folder: `meters/LABEL.jsonl`, a line for each reading.

Every channel says how its figure comes about (`method`), of what it is (`scope`) and who looked
(`observer`), so that a figure at the wall is never taken for one of a package, nor an estimate for
a measurement. Instants are nanoseconds of the run's clock (`ullage.clock.ordered_ns`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ullage.runs import Nanoseconds, Record

Kind = Literal["power", "energy"]
"""A power in W at the instant of the reading; or an energy in J that only grows, until it wraps."""
Method = Literal["measured", "attributed", "estimated"]
"""By an instrument; divided among several by their use; or from a model."""
Scope = Literal["wall", "package", "memory", "guest"]
"""The whole machine behind its plug, a processor, its memory, or what one guest is said to take."""
Observer = Literal["host", "guest", "bmc"]
"""Who looked: this host's operating system, a guest's, or the board's own controller."""

Value = Annotated[float, Field(allow_inf_nan=False)]
Label = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,39}$")]


class Channel(Record):
    """One thing that a meter tells."""

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


class Opened(Record):
    """First line of a stretch of readings: a meter was found and told what it has."""

    event: Literal["opened"] = "opened"
    format: Literal[1] = 1
    session: str
    """Tag of the run's session, or of the one `ullage meter start`."""
    label: str
    """What the plan calls it."""
    meter: str
    options: dict[str, Any]
    """Without secrets."""
    every_s: float
    channels: tuple[Channel, ...]
    epoch_ns: int
    at_ns: Nanoseconds
    """The same instant as `epoch_ns`, by the run's clock."""


class Reading(Record):
    """All channels of a meter, read once."""

    event: Literal["reading"] = "reading"
    at_ns: Nanoseconds
    """Middle of the request."""
    within_ns: Nanoseconds
    """Half of the request: the value was read so much earlier or later at most."""
    values: dict[str, Value]
    """Channel → W or J, as the meter tells it: not unwrapped, not smoothed."""


class Fault(Record):
    """An attempt to read that gave nothing to be trusted."""

    event: Literal["fault"] = "fault"
    at_ns: Nanoseconds
    code: str
    """`gone`, `silent`, `denied`, `nonsense`, `on-battery`."""
    message: str


class Closed(Record):
    """The stretch ended in order."""

    event: Literal["closed"] = "closed"
    at_ns: Nanoseconds


Line = Annotated[Opened | Reading | Fault | Closed, Field(discriminator="event")]
"""One line of `meters/LABEL.jsonl` in a run folder."""
