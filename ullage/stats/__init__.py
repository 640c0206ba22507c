"""Intervals, verdicts and stop rules: pure mathematics over NumPy and SciPy, a leaf of the tree.

Everywhere here a comparison is a series of *log-ratios*, one a block, oriented by `log_ratio` so
that above 0 (ratio above 1) means worse than the baseline. Intervals come back on the ratio scale.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

RULES: Final = 3
"""Which rules the verdicts are of; a run's folder holds those that it was made under. Whatever may
change a verdict, a formula's constant too, is a number more, and the older way stays beside it:

1. knew second copies by the noise floor only, and neither memory, slow trials nor losses;
2. took the root of the squares' sum of systematic part and half width, and corrected the memory's
   bias as of a memory of 0.6;
3. adds the two up, and corrects as of 0.75.
"""
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
    "second-copy",
    "no-copy",
    "unseen",
    "correction",
    "interval-too-wide",
    "holes",
    "losses",
]
"""What a verdict rests on."""

LEAST_PAIRS: Final = 6
"""Fewer pairs (or makings) bring no verdict."""
