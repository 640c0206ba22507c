"""What a campaign is: cases by name, each drawn from the seed alone, each with its figures."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path


class FaultFoundError(AssertionError):
    """The code under attack did what it must not do. The text says what."""


@dataclass(frozen=True)
class Case:
    """One attack. Who has the seed, the campaign's name and the case's has all of it."""

    name: str
    seed: int
    campaign: str
    place: Path
    """An empty folder; kept when the case fails."""
    counts: Counter[str] = field(default_factory=Counter)
    """What was really done: `kills`, `inputs` …; `most_…`: the largest value that was seen."""

    @property
    def random(self) -> random.Random:
        """The case's own numbers, from their beginning."""
        return random.Random(f"{self.seed}/{self.campaign}/{self.name}")

    def most(self, figure: str, value: float) -> None:
        """Keep the largest value of a figure `most_…`."""
        self.counts[figure] = max(self.counts[figure], round(value))


@dataclass(frozen=True)
class Campaign:
    """A row of the table."""

    name: str
    figure: str
    reach: str
    """What a full campaign has to reach, in words."""
    cases: Callable[[int], Iterable[str]]
    """Names of the cases of a full campaign, of a seed."""
    play: Callable[[Case], None]
    """Attack once; FaultFoundError, or any other exception, is a fault."""
    beside: Callable[[], AbstractContextManager[None]] = nullcontext
    """What has to be there while its cases are played."""


def numbered(prefix: str, count: int) -> list[str]:
    """`prefix-0` …"""
    return [f"{prefix}-{number}" for number in range(count)]
