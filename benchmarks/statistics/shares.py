"""Counted shares, with the error of the simulation that counted them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats


@dataclass(frozen=True)
class Share:
    """So many of so many campaigns."""

    hits: int
    of: int

    def __add__(self, other: Share) -> Share:
        return Share(self.hits + other.hits, self.of + other.of)

    @property
    def value(self) -> float:
        return self.hits / self.of

    @property
    def interval(self) -> tuple[float, float]:
        """Exact 95 % interval (Clopper & Pearson 1934, Biometrika 26:404): Monte-Carlo error."""
        bounds = stats.binomtest(self.hits, self.of).proportion_ci(0.95, "exact")
        return float(bounds.low), float(bounds.high)

    def at_most(self, limit: float) -> bool:
        """Not above the limit beyond the Monte-Carlo error."""
        return self.interval[0] <= limit

    def at_least(self, limit: float) -> bool:
        """Not below the limit beyond the Monte-Carlo error."""
        return self.interval[1] >= limit


def share(hits: ArrayLike) -> Share:
    """Of an array of truths."""
    counted = np.asarray(hits, dtype=bool)
    return Share(int(counted.sum()), int(counted.size))


def merged(first: Mapping[str, Share], second: Mapping[str, Share]) -> dict[str, Share]:
    """Counts of two batches of campaigns together."""
    return {key: first[key] + second[key] if key in first else second[key] for key in second} | {
        key: first[key] for key in first if key not in second
    }
