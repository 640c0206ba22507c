"""Many comparisons in one report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from ullage.stats import Floats

Correction = Literal["holm", "benjamini-hochberg"]
"""As a plan names them."""


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values of Holm's step-down procedure (Holm 1979, Scand. J. Statist. 6:65).

    Rejecting where the adjusted value is at most α keeps the chance of any false rejection in the
    family at α, whatever the dependence. Order is kept. ValueError unless all are in [0, 1].
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    stepped = p[order] * np.arange(p.size, 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return [float(value) for value in adjusted]


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values of the step-up procedure of Benjamini & Hochberg (1995, JRSS B 57:289).

    Rejecting where the adjusted value is at most q keeps the false discovery rate, the expected
    share of false rejections among the rejections (0 when there are none), at q: for independent
    statistics, and for positively dependent ones in the sense of Benjamini & Yekutieli (2001, Ann.
    Statist. 29:1165). Comparisons that share their baseline's trials are of that kind when they are
    one-sided; for two-sided ones it is simulated in `tests/stats/test_multiple.py`, not proven.
    The chance of *some* false rejection is not kept. Order is kept. ValueError unless all are in
    [0, 1].
    """
    p = _checked(p_values)
    if p.size == 0:
        return []
    order = np.argsort(p, kind="stable")
    stepped = p[order] * (p.size / np.arange(1, p.size + 1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 1.0)
    return [float(value) for value in adjusted]


def adjust(p_values: Sequence[float], correction: Correction) -> list[float]:
    """The p-values as the plan's `correction` adjusts them."""
    return holm(p_values) if correction == "holm" else benjamini_hochberg(p_values)


def next_levels(adjusted: Sequence[float], alpha: float, correction: Correction) -> list[float]:
    """The level that the procedure asks of each p-value, if all others stay as they are.

    With k of the others rejected, Holm asks α / (m − k) and Benjamini–Hochberg α (k + 1) / m, so
    both ask α / m before anything is rejected. What planning reckons with.
    """
    rejected = [p <= alpha for p in adjusted]
    size, all_rejected = len(adjusted), sum(rejected)
    others = [all_rejected - mine for mine in rejected]
    if correction == "holm":
        return [alpha / (size - k) for k in others]
    return [alpha * (k + 1) / size for k in others]


def best_share(size: int, unclaimed: int, correction: Correction) -> float:
    """The most of α that can be left to one of `size` claims, when so many others are not made.

    All others rejected, Holm asks α / (1 + unclaimed), Benjamini–Hochberg α (size − unclaimed) /
    size.
    """
    return 1 / (1 + unclaimed) if correction == "holm" else (size - unclaimed) / size


def _checked(p_values: Sequence[float]) -> Floats:
    p: Floats = np.asarray(p_values, dtype=np.float64).reshape(-1)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("a p-value is not between 0 and 1")
    return p
