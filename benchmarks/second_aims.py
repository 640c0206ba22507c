"""The second figures: aims nearer to the limit than those that the benchmarks themselves hold.

A row that is named here is judged by its second aim; what it says of the first stands beside it.
The whole interval must be on the aim's side; where both sides have some of it, that is not decided.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True)
class SecondAim:
    """Of every row whose whole name matches."""

    rows: str
    side: Literal["at most", "at least"]
    limit: float
    unit: str = ""
    besides: str = ""
    """What the first aim asked for too, and still must hold."""
    tried: float | None = None
    """As much as the first aim's run asks for: who reached that was not asked for more."""

    @property
    def words(self) -> str:
        """`at most 0.003 s`."""
        words = f"{self.side} {self.limit:,g}" if self.limit >= 1 else f"{self.side} {self.limit:g}"
        return f"{words} {self.unit}".rstrip() + (f", {self.besides}" if self.besides else "")

    def judged(self, value: float, low: float | None, high: float | None) -> bool | None:
        """Whether it holds; None: the interval is on both sides, or it was not tried."""
        if value == self.tried:
            return None
        ends = [value if end is None else end for end in (low, high)]
        within = {
            end <= self.limit if self.side == "at most" else end >= self.limit for end in ends
        }
        return within.pop() if len(within) == 1 else None


SECOND_AIMS: Final = (
    SecondAim("seconds per trial, .*", "at most", 0.003, "s"),
    SecondAim("analysis, .*", "at most", 2, "s"),
    SecondAim("read, strict and migration-guarded ÷ rdtsc", "at most", 1.1, "×"),
    SecondAim("error right after, 2 ranks, .*", "at most", 2e-8, "s"),
    SecondAim("CPU time of a request, .* with a pace, ours / h2load", "at most", 1.2),
    SecondAim("p99 lateness, .* with a pace, ours / h2load", "at most", 0.08),
    SecondAim(
        "paced viewers at once on one core",
        "at least",
        300_000,
        besides="none with a violation",
        tried=100_000,
    ),
    SecondAim("100,000 pending, .*: speed", "at least", 1.2),
    SecondAim("CPU time of 10\\^9 sessions", "at most", 60, "s"),
    SecondAim("connections per CPU second, ours / wrk", "at least", 1),
    SecondAim("front / nginx, a connection each: redirects per CPU second", "at least", 1),
)


def of(row: str) -> SecondAim | None:
    """The second aim of a row of this name."""
    return next((aim for aim in SECOND_AIMS if re.fullmatch(aim.rows, row)), None)
