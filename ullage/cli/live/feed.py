"""The parts of the page: put in by the run, taken out by each reader."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PagePart:
    """One part of the page, as it was put in last."""

    number: int
    """Counts up over all parts."""
    name: str
    html: str


class Feed:
    """Parts are put in by the run; each reader takes those newer than the last that it has."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: dict[str, PagePart] = {}
        self._number = 0
        self.bell: Callable[[], None] = lambda: None
        """Called whenever something was put in, in the thread that put it in."""

    def put(self, parts: Mapping[str, str]) -> None:
        """Set parts anew; a text that is what it was says nothing new."""
        with self._lock:
            for name, html in parts.items():
                if name not in self._parts or self._parts[name].html != html:
                    self._number += 1
                    self._parts[name] = PagePart(self._number, name, html)
        self.bell()

    def since(self, number: int) -> tuple[PagePart, ...]:
        """What is newer, in the order in which it came."""
        with self._lock:
            newer = [part for part in self._parts.values() if part.number > number]
        return tuple(sorted(newer, key=lambda part: part.number))
