"""What the user wants to know of a table. Apart from what computes it, which is slow to load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ullage.runs.records import Correction

IntervalMethod = Literal["welch", "fieller", "delta"]


@dataclass(frozen=True, slots=True)
class Criteria:
    """What the user wants to know of every comparison."""

    margin: float
    confidence: float
    method: IntervalMethod = "welch"
    """Of comparisons without blocks."""
    quantile: float | None = None
    """Compare this quantile instead of the means."""


@dataclass(frozen=True)
class TableRequest:
    """What is to be compared, and how."""

    baseline: str
    criteria: Criteria
    correction: Correction = "holm"
    again: Mapping[str, str] = field(default_factory=dict)
    """Second copy → the environment that it is equal to."""
