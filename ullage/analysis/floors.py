"""The noise floor of a comparison: what the A/A comparisons of a run say that chance does."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ullage.analysis.compare import Draft
from ullage.stats.floor import Floor, noise_floor, reach
from ullage.stats.interval import Moments, t_interval


def floor_of(
    draft: Draft, again: Sequence[Draft], correlation: float
) -> tuple[Floor | None, Moments | None]:
    """Noise floor of a comparison, and the A/A that set it.

    Of the same workload and metric: the baseline against its second copy, and the environment
    against its own where the plan has one. None where the plan has none; infinite when an A/A could
    be anything: so few pairs at such a confidence that a bound is no number, or none that gave any.
    """
    sides = (draft.baseline.key, draft.environment.key)
    nulls = [
        (t_interval(null.units, null.settings.confidence, null.settings.widening), null)
        for null in again
        if null.baseline.key in sides
        and null.workload.key == draft.workload.key
        and null.metric.name == draft.metric.name
        and null.moments is not None
    ]
    floor = noise_floor((interval for interval, _ in nulls), correlation)
    if floor is None:
        return (Floor(math.inf, biased=False) if draft.settings.again else None), None
    widest = max(nulls, key=lambda each: reach(each[0], correlation))
    return floor, widest[1].moments
