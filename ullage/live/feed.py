"""The newest text of each part of the page, and a bell for those who wait for it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

END: Final = "end"
"""The part after which nothing follows."""


@dataclass(frozen=True)
class Said:
    """One part of the page, as it was put in last."""

    number: int
    """Counts up over all parts."""
    part: str
    html: str


class Feed:
    """Parts are put in by the run; each reader takes those newer than the last that it has."""

    def __init__(self) -> None:
        self._bell = threading.Condition()
        self._parts: dict[str, Said] = {}
        self._number = 0

    def put(self, parts: Mapping[str, str]) -> None:
        """Set parts anew; a text that is what it was says nothing new."""
        with self._bell:
            for part, html in parts.items():
                if part not in self._parts or self._parts[part].html != html:
                    self._number += 1
                    self._parts[part] = Said(self._number, part, html)
            self._bell.notify_all()

    def since(self, number: int, timeout_s: float) -> tuple[Said, ...]:
        """What is newer, in the order in which it came; empty when there was nothing in time."""
        with self._bell:
            self._bell.wait_for(lambda: self._number > number, timeout_s)
            newer = [said for said in self._parts.values() if said.number > number]
        return tuple(sorted(newer, key=lambda said: said.number))
