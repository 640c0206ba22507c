"""What is said of a metric of elastic runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ullage.runs import Better

Scale = Literal["ratio", "difference"]
"""How two environments are compared: by the ratio of a figure that is above 0, or by the difference
of one that may be 0, such as a share."""
Group = Literal["users", "allocation", "elasticity", "cost"]

GROUPS: Final[dict[Group, str]] = {
    "users": "What the viewers felt",
    "allocation": "How fast nodes came and went",
    "elasticity": "How well supply followed demand",
    "cost": "What it took",
}
STUDY: Final = "a study of elastic environments and global physical clocks, 2015"
"""What `ullage study` calls elastic-clock."""
BUNGEE: Final = "BUNGEE, Herbst et al. 2015"
SPEC_RG: Final = "SPEC RG, Herbst et al. 2016 and 2018"
HERE: Final = "ullage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One metric."""

    name: str
    title: str
    symbol: str = ""
    """As the field calls it."""
    unit: str
    """`1`: a share, shown in per cent, or a pure number; `count`, `nodes`, `nodes/s`; else SI."""
    better: Better | None
    """None: it tells what was asked of the environment; nothing is better or worse."""
    scale: Scale
    group: Group
    description: str
    source: str
    primary: bool = False
    """It gets a verdict, corrected together with those of the other primary ones."""
    percent: bool = False
    """Shown in per cent."""
    bounded: bool = False
    """A part of a whole: never above 1."""
    two_clocks: bool = False
    """Made of instants of the viewers and of the controller, so that a bound of their clocks
    against each other is in it."""
    margin: float = 0.01
    """Of a primary difference: what counts as none, in its unit."""

    def within(self, low: float, high: float) -> tuple[float, float]:
        """An interval of differences, cut off at what two parts of a whole can differ by."""
        if self.scale == "difference" and self.bounded:
            return max(-1.0, low), min(1.0, high)
        return low, high
