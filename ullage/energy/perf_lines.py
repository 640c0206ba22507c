"""What `perf stat --json --per-socket --interval-print` says of energy, line by line.

The fields are those of `tools/perf/util/stat-display.c` of Linux 6.1 and newer: `interval` is the
time since perf began, `counter-value` a text, and `pcnt-running` below 100 means that the value is
scaled up from the part of the interval that was counted.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ullage.energy.base import FaultError
from ullage.printable import clean

CHANNELS: Final[dict[str, tuple[str, Literal["package", "memory"]]]] = {
    "package": ("power/energy-pkg/", "package"),
    "memory": ("power/energy-ram/", "memory"),
}
"""First word of a channel → its event and scope."""

_SOCKET: Final = re.compile(r"S(\d{1,4})")
_WHOLE_PERCENT: Final = 99.99


class _Fields(BaseModel):
    """Of a line; what else stands in it is not needed."""

    model_config = ConfigDict(frozen=True)

    interval: float
    socket: str
    value: str = Field(alias="counter-value")
    unit: str = ""
    event: str
    running: float = Field(100.0, alias="pcnt-running")


@dataclass(frozen=True)
class Line:
    """The energy of one package or memory in one interval."""

    interval_s: float
    """When it ended, since perf began."""
    channel: str
    joules: float


@dataclass
class Interval:
    """The lines of one interval, as they come."""

    expected: frozenset[str] = frozenset()
    """The channels that make it whole."""
    end_s: float | None = None
    joules: dict[str, float] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """True when each channel has told."""
        return bool(self.expected) and self.joules.keys() == self.expected

    def begins(self, line: Line) -> bool:
        """True when the line is of this interval."""
        return self.end_s in (None, line.interval_s)

    def take(self, line: Line) -> None:
        """FaultError when it belongs to another interval, or tells what was told."""
        strange = self.expected and line.channel not in self.expected
        if strange or not self.begins(line) or line.channel in self.joules:
            raise FaultError("nonsense", f"an interval without all its channels: {line.channel}")
        self.end_s = line.interval_s
        self.joules[line.channel] = line.joules


def parsed(text: bytes) -> Line:
    """What a line says; FaultError when no energy follows from it."""
    shown = clean(text.decode("utf-8", "replace").strip(), 120)
    try:
        fields = _Fields.model_validate_json(text)
    except ValidationError as error:
        raise FaultError("nonsense", f"no line of perf stat --json: {shown}") from error
    if fields.value == "<not supported>":
        raise FaultError("gone", f"{fields.event} is not supported here")
    if fields.value == "<not counted>":
        raise FaultError("gone", f"{fields.event} was not counted for a while")
    if fields.running < _WHOLE_PERCENT:
        share = f"{fields.event} was counted for {fields.running:g} % of the time"
        raise FaultError("nonsense", f"{share}; the rest is a guess")
    return Line(fields.interval, _channel(fields, shown), _joules(fields, shown))


def _channel(fields: _Fields, shown: str) -> str:
    socket = _SOCKET.fullmatch(fields.socket)
    for first, (event, _) in CHANNELS.items():
        if socket and fields.event.rstrip("/") == event.rstrip("/"):
            return f"{first}-{socket[1]}"
    raise FaultError("nonsense", f"neither package nor memory: {shown}")


def _joules(fields: _Fields, shown: str) -> float:
    try:
        value = float(fields.value)
    except ValueError:
        value = math.nan
    if fields.unit != "Joules" or not math.isfinite(value) or value < 0:
        raise FaultError("nonsense", f"no energy: {shown}")
    return value
