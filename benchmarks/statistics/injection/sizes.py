"""How much is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Size:
    """Counts, and the length of a trial."""

    name: str
    rounds: int
    """Each has its own instances: first blocks, then sequences of every workload."""
    blocks: int
    """Of a round; a multiple of a campaign's."""
    stretches: int
    """Of a sequence: ×1.00, ×1.05, ×1.00 …"""
    stretch: int
    """Trials in one; a multiple of three times a campaign's blocks."""
    trial_s: float
    """Length of a trial at factor 1, about."""
    hindered: int
    """Blocks with hindered instances."""


CAMPAIGN: Final = 6
"""Blocks in a campaign: a whole cycle of the schedule of six environments."""

QUICK: Final = Size("quick", 1, 12, 2, 36, 0.1, 6)
USUAL: Final = Size("usual", 1, 36, 4, 36, 0.18, 8)
FULL: Final = Size("full", 3, 36, 4, 36, 0.18, 12)
