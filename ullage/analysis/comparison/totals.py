"""What all trials of a comparison took together, and its slowest ones, beside the usual trial."""

from __future__ import annotations

import math

import numpy as np

from ullage.analysis.comparison.estimates import Interval, Tail
from ullage.analysis.comparison.pairing import Draft, stored
from ullage.stats import Floats
from ullage.stats.interval import collapse
from ullage.stats.quantiles import least_for, quantile_ratio
from ullage.stats.totals import ratio_of_totals

QUANTILES = (0.99, 0.95)
"""Of the tail; the first that the blocks can bound."""


def totals(d: Draft) -> Interval | None:
    """Ratio of the arithmetic means of both sides' pairs, above 1 is worse.

    Rates of which more is better count by the time that a unit of work takes, so their means are
    harmonic. Where the instances were made several times these are the makings' means. None of a
    curve, whose coordinates have no sum, and under two units.
    """
    if d.metric.coordinate is not None or len(d.units) < 2:
        return None
    mine, theirs = (collapse(_costs(d, side), d.generations) for side in (0, 1))
    if d.metric.better == "higher" and not _is_rate(d):
        mine, theirs = theirs, mine
    settings = d.settings
    return stored(ratio_of_totals(mine, theirs, settings.confidence, d.widening))


def tail(d: Draft) -> Tail | None:
    """Ratio of the 95 or 99 % quantiles of how slow the trials are, by order statistics.

    None where there are too few pairs: 86 and 435 at 95 %. With instances made several times the
    trials are not independent: None then too.
    """
    confidence = d.settings.confidence
    pairs = len(d.paired.pairs)
    if d.metric.coordinate is not None or d.precision != "repeatability":
        return None
    q = next((q for q in QUANTILES if pairs >= least_for(q, math.sqrt(confidence))), None)
    if q is None:
        return None
    mine, theirs = (_values(d, side) for side in (0, 1))
    if d.metric.better == "higher":
        mine, theirs = 1 / mine, 1 / theirs
    ratio = stored(quantile_ratio(mine, theirs, q, "lower", confidence))
    return None if ratio is None else Tail(quantile=q, ratio=ratio)


def _is_rate(d: Draft) -> bool:
    return d.metric.unit.endswith("/s")


def _costs(d: Draft, side: int) -> Floats:
    """What adds up: times and amounts as they are, of rates the time that a unit takes."""
    x = _values(d, side)
    return 1 / x if d.metric.better == "higher" and _is_rate(d) else x


def _values(d: Draft, side: int) -> Floats:
    """Of the environment (0) or the baseline (1), in the order of the pairs; all are above 0."""
    trials = d.sides[side][1]
    return np.array([trial.metrics[d.metric.name] for trial in trials], dtype=np.float64)
