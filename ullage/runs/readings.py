"""What energy meters leave in a run folder: `meters/LABEL.jsonl`, a line for each reading.

Instants are nanoseconds of the run's clock (`ullage.host.clock.ordered_ns`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ullage.runs.records import (
    Channel,
    Finite,
    Label,
    Measurand,
    Method,
    Nanoseconds,
    Observer,
    Record,
    Scope,
    Seconds,
)

__all__ = [
    "Channel",
    "Closed",
    "Fault",
    "Label",
    "Line",
    "Measurand",
    "Method",
    "Observer",
    "Opened",
    "Reading",
    "Scope",
]


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
    every_s: Seconds
    channels: tuple[Channel, ...]
    epoch_ns: Nanoseconds
    at_ns: Nanoseconds
    """The same instant as `epoch_ns`, by the run's clock."""


class Reading(Record):
    """All channels of a meter, read once."""

    event: Literal["reading"] = "reading"
    at_ns: Nanoseconds
    """Middle of the request."""
    within_ns: Nanoseconds
    """Half of the request: the value was read so much earlier or later at most."""
    values: dict[str, Finite]
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
