"""How long a node is held back before the front hears of it: injected, and labelled everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

_FAR: Final = 6
"""Deviations above the mean that no draw of a run's nodes will pass."""


@dataclass(frozen=True)
class Hold:
    """In real seconds: a delay after a node serves, or a time from its request until it may."""

    delay_s: float = 0.0
    mean_s: float | None = None
    """Set: nodes take a time from their request that is drawn; a node that is there later by itself
    is not held at all."""
    deviation_s: float = 0.0
    seed: str = ""

    def until_ns(self, node: int, requested_ns: int, serving_ns: int) -> int:
        """The instant at which the front hears of it; the same node has the same draw always."""
        if self.mean_s is None:
            return serving_ns + round(self.delay_s * 1e9)
        drawn_s = max(0.0, Random(f"{self.seed}:{node}").gauss(self.mean_s, self.deviation_s))
        return max(serving_ns, requested_ns + round(drawn_s * 1e9))

    @property
    def longest_s(self) -> float:
        """Longer than any of its nodes is held."""
        return self.delay_s if self.mean_s is None else self.mean_s + _FAR * self.deviation_s
