"""Random and systematic uncertainty together, after the GUM (JCGM 100:2008)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from ullage.stats.interval import check_confidence


@dataclass(frozen=True, slots=True)
class Combined:
    """A mean with its whole uncertainty; all on the log scale but low and high."""

    type_a: float
    """Standard uncertainty from the repetitions."""
    type_b: float
    """Root of the sum of squares of the systematic ones."""
    df: float
    """Effective degrees of freedom; infinite where nothing is random."""
    factor: float
    """Coverage factor k: expanded / standard."""
    expanded: float
    low: float
    high: float
    """exp(mean ± expanded)."""

    @property
    def standard(self) -> float:
        """Combined standard uncertainty (GUM 5.1.2)."""
        return math.hypot(self.type_a, self.type_b)


def combine(
    type_a: float, df: float, components: Sequence[float], mean: float, confidence: float
) -> Combined:
    """Combine a standard error of `df` degrees of freedom with systematic standard uncertainties.

    Root of the sum of squares (GUM 5.1.2), the components being independent of each other;
    expanded by Student's t with the effective degrees of freedom (GUM G.4.1). A Type B component is
    taken to be known exactly, so its degrees of freedom are infinite (GUM G.4.3). With few
    repetitions that alone would give less than the repetitions by themselves, for the degrees of
    freedom grow faster than the uncertainty (Ballico, Metrologia 37 (2000) 61): it is never less.
    ValueError for a negative or infinite uncertainty.
    """
    check_confidence(confidence)
    if not all(0 <= u < math.inf for u in (type_a, *components)):
        raise ValueError("an uncertainty is negative or no number")
    type_b = math.hypot(*components)
    effective = effective_df([(type_a, df), (type_b, math.inf)])
    level = 0.5 + confidence / 2
    standard = math.hypot(type_a, type_b)
    expanded = max(_t(effective, level) * standard, _t(df, level) * type_a)
    factor = expanded / standard if standard > 0 else _t(effective, level)
    with np.errstate(over="ignore"):
        low, high = (float(v) for v in np.exp((mean - expanded, mean + expanded)))
    return Combined(type_a, type_b, effective, factor, expanded, low, high)


def _t(df: float, level: float) -> float:
    return float(special.ndtri(level) if math.isinf(df) else special.stdtrit(df, level))


def effective_df(parts: Sequence[tuple[float, float]]) -> float:
    """Welch–Satterthwaite (GUM G.2b): of (standard uncertainty, degrees of freedom) pairs.

    u⁴ / Σ uᵢ⁴/νᵢ, not rounded down; infinite where nothing with finite degrees is uncertain.
    """
    total = math.fsum(u * u for u, _ in parts)
    if total == 0:
        return math.inf
    lost = math.fsum((u * u / total) ** 2 / df for u, df in parts)
    return 1 / lost if lost > 0 else math.inf


def rectangular(half_width: float) -> float:
    """Standard uncertainty of what is known to lie within ± half_width, and no more (GUM 4.3.7)."""
    return half_width / math.sqrt(3)
