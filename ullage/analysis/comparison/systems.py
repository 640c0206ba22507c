"""Operating systems that a comparison crosses: its sentences say which against which."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from ullage.common.text import printable
from ullage.runs.records import EnvironmentRecord

_LONGEST: Final = 48
_CODENAME: Final = re.compile(r" \((?!not )[^)]*\)")
"""`(bookworm)`; what a system is not stays."""


def by_environment(environments: Iterable[EnvironmentRecord]) -> dict[str, str]:
    """Environment → the system that its agent saw inside: `Debian 12`, `Wine 8.0 (not Windows)`."""
    names = {}
    for record in environments:
        text = record.facts.get("os")
        if isinstance(text, str) and text.strip():
            short = _CODENAME.sub("", printable(text, 200)).replace(" GNU/Linux", "")
            names[record.key] = printable(short, _LONGEST)
    return names


def crossing(systems: Mapping[str, str], environment: str, baseline: str) -> str | None:
    """`Windows 10 against Debian 12`; None where both run one system, or nobody knows.

    Another version of the same is no other system.
    """
    mine, other = systems.get(environment), systems.get(baseline)
    if mine is None or other is None or _family(mine) == _family(other):
        return None
    return f"{mine} against {other}"


def plain(nuisance: str) -> str:
    """The nuisance's name, without the systems behind it: for files that others read."""
    return nuisance.partition(": ")[0]


def _family(system: str) -> str:
    return system.split(maxsplit=1)[0].lower()
