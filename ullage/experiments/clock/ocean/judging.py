"""Whether a variant's runs took longer than those of another, in ratios of the same block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from scipy import stats

from ullage.experiments.clock.ocean.outcome import AGAIN, STOCK, OceanSeries
from ullage.stats.interval import log_ratio, moments, t_interval
from ullage.stats.quantiles import Quantile, quantile
from ullage.stats.uncertainty import Floor, noise_floor
from ullage.stats.verdict import Against, FamilyMember, Judgement, judge, p_values

CONFIDENCE: Final = 0.95
MARGIN: Final = 0.01
"""Run times closer than this are called equivalent, when it is proven."""


class RatioInterval(NamedTuple):
    value: float
    low: float
    high: float


def log_ratios(series: OceanSeries, variant: str, field: str, base: str = STOCK) -> list[float]:
    """Of the blocks in which both have a value; lower is better."""
    mine, theirs = series.values(variant, field), series.values(base, field)
    return [log_ratio(mine[b], theirs[b], "lower") for b in sorted(mine.keys() & theirs.keys())]


def median(series: OceanSeries, variant: str, field: str) -> Quantile | None:
    """With its interval by order statistics; None where no run has the field."""
    values = list(series.values(variant, field).values())
    return quantile(values, 0.5, CONFIDENCE) if values else None


def verdicts(
    series: OceanSeries, names: Sequence[str]
) -> tuple[dict[str, Judgement], Floor | None]:
    """Judged together, against either copy of stock; the noise floor of these is shown beside."""
    again = log_ratios(series, AGAIN, "total_s")
    floor = noise_floor([t_interval(again, CONFIDENCE)]) if len(again) >= 2 else None
    cases = []
    for name in names:
        ratios = log_ratios(series, name, "total_s")
        ratio_moments = moments(ratios) if len(ratios) >= 2 else None
        to_copy = log_ratios(series, name, "total_s", AGAIN)
        copies = (Against.of(moments(to_copy), MARGIN),) if len(to_copy) >= 2 else ()
        cases.append(
            FamilyMember(
                ratio_moments,
                p_values(ratio_moments, MARGIN) if ratio_moments else None,
                None if copies else floor,
                copies=copies,
                pairs=len(ratios),
            )
        )
    return dict(zip(names, judge(cases, MARGIN, CONFIDENCE), strict=True)), floor


def deviation(series: OceanSeries, variant: str) -> float | None:
    """Of the run times of a variant, in seconds; None with fewer than two."""
    totals = list(series.values(variant, "total_s").values())
    return float(np.std(totals, ddof=1)) if len(totals) > 1 else None


def deviation_ratio(series: OceanSeries, variant: str, base: str) -> RatioInterval | None:
    """One deviation over another, with the interval of an F test: it takes the times for normal.

    None where one of them is not known, or is nothing.
    """
    mine, theirs = deviation(series, variant), deviation(series, base)
    if not mine or not theirs:
        return None
    freedoms = [len(series.values(name, "total_s")) - 1 for name in (variant, base)]
    tails = ((1 + CONFIDENCE) / 2, (1 - CONFIDENCE) / 2)
    low, high = (mine / theirs / math.sqrt(float(stats.f.ppf(p, *freedoms))) for p in tails)
    return RatioInterval(mine / theirs, low, high)
