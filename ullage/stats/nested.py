"""From values within groups to one value a group: what is random at the highest level."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ullage.stats.interval import Floats, sample


def collapse(values: ArrayLike, groups: ArrayLike) -> Floats:
    """Means by group in order of first appearance; with one distinct group the values themselves.

    `groups` labels each value with an integer, such as the generation of its instances. Values of
    one group share what that instance was dealt and are not independent: intervals, tests and
    bootstraps take what this returns (Kalibera & Jones 2013, §6: repeat the highest random level).
    A group counts once, however many values it has. No values give none.

    ValueError for unequal lengths, for labels that are no integers, for values that are not finite.
    """
    x, labels = sample(values, 0), np.asarray(groups).reshape(-1)
    if labels.size != x.size:
        raise ValueError(f"{labels.size} groups for {x.size} values")
    if x.size == 0:
        return x
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"groups are labelled by integers, not by {labels.dtype}")
    if (labels == labels[0]).all():
        return x
    _, first, group, count = np.unique(
        labels, return_index=True, return_inverse=True, return_counts=True
    )
    means = np.bincount(group, weights=x) / count
    # Once more over what is left: equal values have exactly their value as mean.
    means += np.bincount(group, weights=x - means[group]) / count
    found: Floats = means[np.argsort(first)]
    return found
