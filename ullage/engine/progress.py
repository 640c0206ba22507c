"""Who is told how a run goes on, and what is told of its end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ullage.runs.events import Trial


class Progress(Protocol):
    """Who is told how a run goes on."""

    def step(self, text: str) -> None:
        """A stage of the set-up began."""

    def trial(self, done: Trial, number: int, of_block: int) -> None:
        """A trial ended."""

    def block(self, number: int, most: int, half_width: float | None) -> None:
        """A block ended; the widest primary interval so far, relative."""

    def warning(self, text: str) -> None:
        """Something the user should know now."""


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended."""

    folder: Path
    reason: str
    blocks: int
    trials: int
    failed: int
