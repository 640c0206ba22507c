"""What of a run that goes on is not what it was: its repetitions may differ by that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from ullage.manifest import sha256_of

DIVERGED = "run-moved"
"""Code of the warning."""


class Recorded(Protocol):
    """`resolved.json` of a run of any kind."""

    @property
    def ullage(self) -> str:
        """The version."""

    @property
    def programs(self) -> Mapping[str, str]:
        """As `programs` tells them; none in runs of before."""

    @property
    def host(self) -> Mapping[str, Any]:
        """As `ullage.host.facts` tells it."""


def programs(files: Iterable[Path]) -> dict[str, str]:
    """Name → `sha256:…` of programs of ours that work in every environment."""
    return {file.name: f"sha256:{sha256_of(file)}" for file in files}


def diverged(old: Recorded, now: Recorded) -> list[str]:
    """What was another when the run began; in words."""
    names = ("hostname", "kernel", "cpu_model", "memory_bytes", "microcode")
    found = [f"the host's {n}" for n in names if old.host.get(n) != now.host.get(n)]
    found += ["the version of ullage"] if old.ullage != now.ullage else []
    both = old.programs.keys() & now.programs.keys()
    changed = sorted(name for name in both if old.programs[name] != now.programs[name])
    return found + [f"the program {name}" for name in changed]
