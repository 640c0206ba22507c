"""Many comparisons in one report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values of Holm's step-down procedure (Holm 1979, Scand. J. Statist. 6:65).

    Rejecting where the adjusted value is at most α keeps the chance of any false rejection in the
    family at α, whatever the dependence. Order is kept. ValueError unless all are in [0, 1].
    """
    p = np.asarray(p_values, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("a p-value is not between 0 and 1")
    order = np.argsort(p, kind="stable")
    stepped = p[order] * np.arange(p.size, 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return [float(value) for value in adjusted]
