"""Intervals, verdicts and stop rules: pure mathematics over NumPy and SciPy, a leaf of the tree.

Everywhere here a comparison is a series of *log-ratios*, one a block, oriented by `log_ratio` so
that above 0 (ratio above 1) means worse than the baseline. Intervals come back on the ratio scale.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Verdict = Literal["worse", "better", "equivalent", "inconclusive"]
Why = Literal[
    "difference",
    "within-margin",
    "too-few-blocks",
    "no-spread",
    "below-floor",
    "floor-biased",
    "systematic",
    "interval-too-wide",
    "holes",
    "losses",
]
"""What a verdict rests on."""
