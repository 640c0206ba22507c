"""The systems that may be inside of an instance: their names, and what is other in a Windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

System = Literal["linux", "windows"]
SYSTEMS: Final[Mapping[System, str]] = {"linux": "Linux", "windows": "Windows"}
WINDOWS_DATA: Final = "C:/data"
"""Where the agent for Windows has the data directory, unless it is told another."""
WINDOWS_SUFFIX: Final = ".exe"


def inside(system: System | None) -> str:
    """What a label says of it: nothing of a Linux, as that is the rule."""
    return f" ({SYSTEMS[system]})" if system == "windows" else ""
