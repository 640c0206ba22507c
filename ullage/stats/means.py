"""The right mean for the kind of figure."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ullage.stats.interval import sample

MeanKind = Literal["arithmetic", "harmonic"]


def mean(values: ArrayLike, kind: MeanKind) -> float:
    """Arithmetic for costs (times, bytes), harmonic for rates (Hoefler & Belli 2015, rule 3).

    Ratios are summarised by the geometric mean, which `interval.t_interval` gives. The harmonic
    mean with a zero among the values is 0; of negative values it has no meaning: ValueError.
    """
    x = sample(values)
    if kind == "arithmetic":
        return float(np.mean(x))
    least = float(np.min(x))
    if least < 0:
        raise ValueError("no harmonic mean of negative values")
    if least == 0:
        return 0.0
    # In units of the least: 1/x of a tiny value would overflow and make the mean 0.
    return float(x.size * least / np.sum(least / x))
