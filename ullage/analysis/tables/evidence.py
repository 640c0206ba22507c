"""What the rows of one comparison of a table say: interval, checks, tests and facts for doubts.

The same mathematics as for a run (`ullage.stats`), on columns instead of trials.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from ullage.analysis.comparison import totals
from ullage.analysis.comparison.estimates import Absolute, Interval, Precision, Tail
from ullage.analysis.comparison.pairing import bootstrap, mean_interval, robust, stored
from ullage.analysis.comparison.totals import Sides
from ullage.analysis.tables.codes import Codes
from ullage.analysis.tables.figures import TableFigure
from ullage.analysis.tables.pairs import (
    BlockCounts,
    Pairs,
    by_inversion,
    halves_repeat,
    pair,
)
from ullage.analysis.tables.request import Criteria
from ullage.analysis.tables.table import Rows
from ullage.analysis.tables.workers import RunCalls
from ullage.stats import LEAST_PAIRS, Floats, quantiles, unpaired
from ullage.stats import interval as intervals
from ullage.stats.interval import MeanKind, Moments, TooFewError, collapse, mean, moments
from ullage.stats.memory import Course, course
from ullage.stats.series_checks import (
    AUTOCORRELATION_LEAST,
    OUTLIER_LIMIT,
    Autocorrelation,
    Drift,
    autocorrelation,
    drift,
    median,
    robust_z_about,
)
from ullage.stats.uncertainty import FigureSteps, steps
from ullage.stats.unseen import SlowTrials, slow_of, slow_trials
from ullage.stats.verdict import Against, PValues, p_values

SEED: Final = 1
"""Of the bootstrap: the same table gives the same answer."""
NEIGHBOURS: Final = 1_000_000
"""So many tell how alike neighbours are to a thousandth; more only cost time."""


NO_STEPS: Final = FigureSteps(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a comparison knows before its verdict."""

    interval: Interval | None = None
    moments: Moments | None = None
    p: PValues | None = None
    bootstrap: Interval | None = None
    robust: Interval | None = None
    without_outliers: Interval | None = None
    outliers: Codes | None = None
    """Codes of the blocks whose pairs lie far from the others."""
    drift: Drift | None = None
    autocorrelation: Autocorrelation | None = None
    ratio: float | None = None
    """The estimate; there may be one without an interval."""
    counts: BlockCounts | None = None
    """None: the comparison is unpaired."""
    generations: int = 1
    units: int = 0
    """Independent values that the interval rests on."""
    no_verdict: str | None = None
    no_ratio: bool = False
    """It is zeros or negative figures that forbid the verdict."""
    fieller: bool = False
    """Fieller's method might say something of them, and was not asked."""
    unbounded: bool = False
    """There are too few values to bound the quantile that was asked for."""
    mixed: bool = False
    """A quantile was asked for of rows of several generations."""
    filled: tuple[Evidence, Evidence] | None = None
    """Interval and tests with what is missing at its best and at its worst (see
    `ullage.analysis.comparison.losses`); None: nothing is missing."""
    steps: FigureSteps = NO_STEPS
    """How coarse the figures of both sides are."""
    repeated: bool = False
    """The rows of a cell stand there twice, one after the other."""
    sides: tuple[float, float] | None = None
    """Lengths of an interval below and above its estimate, log scale, if it is no t interval."""
    course: Course | None = None
    """Of the units from block to block."""
    slow: SlowTrials | None = None
    """None: a quantile, which a few slow ones do not move."""
    totals: Interval | None = None
    """Ratio of the arithmetic means, beside a geometric one."""
    tail: Tail | None = None

    @property
    def against(self) -> Against | None:
        """As a verdict sees it."""
        if self.moments is None or self.p is None:
            return None
        return Against(self.moments, self.p, self.sides)

    @property
    def precision(self) -> Precision:
        """What the units differ by."""
        return "intermediate" if self.generations > 1 else "repeatability"


def paired(
    mine: Rows, theirs: Rows, figure: TableFigure, criteria: Criteria, run: RunCalls
) -> Evidence:
    """Pair by block; the units are the pairs, or their means by generation."""
    pairs = pair(mine, theirs, figure)
    x, groups, counts = pairs.log_ratios, pairs.groups, pairs.counts
    units = x if groups is None else collapse(x, groups)
    m = moments(units) if units.size >= 2 else None
    sides = Sides(*pairs.values, figure.better, figure.is_rate)
    drifting, ranked, neighbours, (far, without, slow), paid, tail, *others = run(
        (  # those that take longest first
            lambda: _drift(x),
            lambda: robust(units, criteria.confidence),
            lambda: _neighbours(units),
            lambda: _without(x, groups, criteria.confidence),
            lambda: totals.of_pairs(sides, groups, criteria.confidence),
            lambda: totals.tail_of(sides, criteria.confidence) if groups is None else None,
            lambda: course(units),
            lambda: bootstrap(units, criteria.confidence, SEED),
            lambda: _filled_pairs(pairs, criteria),
            lambda: mean_interval(units, criteria.confidence),
            lambda: steps(mine.value, theirs.value),
        )
    )
    in_time, resampled, filled, interval, coarse = others
    return Evidence(
        interval=interval,
        moments=m,
        p=p_values(m, criteria.margin) if m else None,
        bootstrap=resampled,
        robust=ranked,
        without_outliers=without,
        outliers=pairs.block[far],
        drift=drifting,
        autocorrelation=neighbours,
        steps=coarse,
        filled=filled,
        course=in_time,
        slow=slow,
        totals=paid,
        tail=tail,
        ratio=math.exp(float(np.mean(units))) if units.size else None,
        counts=counts,
        generations=1 if groups is None else units.size,
        units=units.size,
        no_verdict=_no_ratio(counts.no_ratio, counts.both, "pairs"),
        no_ratio=counts.no_ratio > 0,
        fieller=figure.better == "lower",
    )


def _filled_pairs(pairs: Pairs, criteria: Criteria) -> tuple[Evidence, Evidence] | None:
    """With the least, and the greatest, ratio of any pair in each block that has none.

    Where pairs are in groups the lost ones are spread evenly over these.
    """
    x, groups, counts = pairs.log_ratios, pairs.groups, pairs.counts
    lost = counts.failed + counts.alone
    if not (lost and x.size):
        return None

    def with_all(at: float) -> Evidence:
        if groups is None:
            units = np.append(x, np.full(lost, at))
        else:
            units = collapse(x, groups)
            units += lost / counts.blocks * (at - units)
        m = moments(units) if units.size >= 2 else None
        return Evidence(
            interval=mean_interval(units, criteria.confidence),
            moments=m,
            p=p_values(m, criteria.margin) if m else None,
            units=units.size,
        )

    return with_all(float(x.min())), with_all(float(x.max()))


def _filled_rows(
    mine: Rows, theirs: Rows, figure: TableFigure, evidence_of: Callable[[Rows, Rows], Evidence]
) -> tuple[Evidence, Evidence] | None:
    """Without blocks: what is missing takes the best, and the worst, value of its side."""
    if not any(np.isnan(rows.value).any() for rows in (mine, theirs)):
        return None
    (slow_a, fast_a), (slow_b, fast_b) = (
        [_with(rows, extreme(rows.value)) for extreme in (np.nanmax, np.nanmin)]
        for rows in (mine, theirs)
    )
    ends = (fast_a, slow_b), (slow_a, fast_b)
    best, worst = ends if figure.better == "lower" else ends[::-1]
    return evidence_of(*best), evidence_of(*worst)


def _with(rows: Rows, value: float) -> Rows:
    return replace(rows, value=np.where(np.isnan(rows.value), value, rows.value))


def remembering(e: Evidence, factor: float, criteria: Criteria) -> Evidence:
    """The same of an environment that remembers: standard errors times the factor (paired only)."""
    m = e.moments
    if m is None or e.counts is None or factor == 1:
        return e
    wider = _wider(e, factor, criteria)
    if wider.filled is None:
        return wider
    best, worst = (_wider(end, factor, criteria) for end in wider.filled)
    return replace(wider, filled=(best, worst))


def _wider(e: Evidence, factor: float, criteria: Criteria) -> Evidence:
    if e.moments is None:
        return e
    wider = replace(e.moments, error=e.moments.error * factor)
    interval = intervals.of_moments(wider, criteria.confidence)
    return replace(
        e,
        interval=stored(interval),
        moments=wider,
        p=p_values(wider, criteria.margin),
        totals=_stretched(e.totals, factor) if e.totals else None,
    )


def _stretched(i: Interval, factor: float) -> Interval | None:
    """With both its sides so many times as long, on the log scale."""
    bounds = (i.estimate * (bound / i.estimate) ** factor for bound in (i.low, i.high))
    low, high = bounds
    return stored(intervals.IntervalEstimate(i.estimate, low, high, i.confidence, i.n, i.method))


def at_its(end: int, e: Evidence) -> Evidence:
    """Judged with what is missing at its best (0) or at its worst (1); itself if nothing is."""
    if e.filled is None:
        return e
    filled = e.filled[end]
    return replace(e, moments=filled.moments, p=filled.p, units=filled.units, sides=filled.sides)


def against_copy(
    mine: Rows, theirs: Rows, figure: TableFigure, criteria: Criteria, factor: float
) -> Against | None:
    """The ratio to a second copy, without all that is shown beside an interval."""
    if criteria.quantile is not None:
        return of_quantile(mine, theirs, figure, criteria).against
    if mine.block is None:
        return independent(mine, theirs, figure, criteria).against
    pairs = pair(mine, theirs, figure)
    units = pairs.log_ratios
    if pairs.groups is not None:
        units = collapse(units, pairs.groups)
    if units.size < 2:
        return None
    return Against.of(moments(units, factor), criteria.margin)


def _several(generation: Codes | None) -> bool:
    return generation is not None and bool((generation != generation[:1]).any())


def _no_ratio(bad: int, of: int, units: str) -> str | None:
    return f"zero or negative figures in {bad:,} of {of:,} {units}" if bad else None


def _drift(x: Floats) -> Drift | None:
    return drift(None, x) if x.size >= LEAST_PAIRS else None


def _neighbours(units: Floats) -> Autocorrelation | None:
    """Of more than `NEIGHBOURS` units the first so many."""
    if units.size < AUTOCORRELATION_LEAST:
        return None
    return autocorrelation(units[:NEIGHBOURS])


def _without(
    x: Floats, groups: Codes | None, confidence: float
) -> tuple[Any, Interval | None, SlowTrials]:
    """Which pairs are outliers, the interval without them, None where there is none; slow ones."""
    if not x.size:
        return np.zeros(0, dtype=bool), None, slow_trials(x)
    middle = median(x)
    z = robust_z_about(middle, x)
    far, slow = z > OUTLIER_LIMIT, slow_of(x, middle, z)
    if not far.any() or far.all():
        return far, None, slow
    near = x[~far] if groups is None else collapse(x[~far], groups[~far])
    return far, mean_interval(near, confidence), slow


def independent(mine: Rows, theirs: Rows, figure: TableFigure, criteria: Criteria) -> Evidence:
    """Two samples without blocks; the units are the values, or their means by generation.

    Each method takes the mean by generation on the scale that it works on: logarithms for Welch,
    and of rates the inverses, for their mean is the harmonic one.
    """
    logs, rate = criteria.method == "welch", figure.better == "higher"
    lowest = 0.0 if logs or rate else -np.finfo(np.float64).tiny
    bad = sum(int(np.count_nonzero(rows.value <= lowest)) for rows in (mine, theirs))
    if bad:
        of = mine.value.size + theirs.value.size
        no_verdict = _no_ratio(bad, of, "values")
        return Evidence(no_verdict=no_verdict, no_ratio=True, fieller=logs and not rate)
    way, scale = _METHODS[criteria.method], _LOGS if logs else _INVERSES if rate else _AS_THEY_ARE

    def evidence_of(mine: Rows, theirs: Rows) -> Evidence:
        a, b = (_units(rows, *scale) for rows in (mine, theirs))
        return _unpaired(
            mine, theirs, (a, b), criteria, lambda level: way(a, b, figure.better, level)
        )

    evidence = evidence_of(mine, theirs)
    if logs and evidence.interval is not None:
        evidence = _with_totals(evidence, mine, theirs, figure, criteria)
    filled = _filled_rows(mine, theirs, figure, evidence_of)
    slow = slow_trials(_slowness(mine, figure))
    return replace(evidence, filled=filled, slow=slow)


def _with_totals(
    e: Evidence, mine: Rows, theirs: Rows, figure: TableFigure, criteria: Criteria
) -> Evidence:
    """Beside a geometric ratio; of generations their means, and no tail."""
    scale = _INVERSES if figure.is_rate else _AS_THEY_ARE
    a, b = (_units(rows, *scale) for rows in (mine, theirs))
    sides = Sides(a, b, figure.better, figure.is_rate)
    return replace(
        e,
        totals=totals.of_independent(sides, criteria.confidence),
        tail=totals.tail_of(sides, criteria.confidence) if e.generations == 1 else None,
    )


def of_quantile(mine: Rows, theirs: Rows, figure: TableFigure, criteria: Criteria) -> Evidence:
    """Two samples, each row independent of the others: the ratio of one quantile.

    Rows of several generations are not: order statistics of all rows would take those of one
    instance for independent, so there is no interval and no verdict.
    """
    q = criteria.quantile
    assert q is not None
    if any(_several(rows.generation) for rows in (mine, theirs)):
        return Evidence(
            no_verdict=f"the {q:g} quantile of all rows does not count the generations",
            mixed=True,
        )

    def evidence_of(mine: Rows, theirs: Rows) -> Evidence:
        a, b = (np.sort(rows.value[~np.isnan(rows.value)]) for rows in (mine, theirs))
        return _unpaired(
            mine,
            theirs,
            (a, b),
            criteria,
            lambda level: quantiles.quantile_ratio(a, b, q, figure.better, level),
        )

    filled = _filled_rows(mine, theirs, figure, evidence_of)
    return replace(evidence_of(mine, theirs), filled=filled)


_METHODS: Final = {
    "welch": unpaired.welch_log,
    "fieller": unpaired.fieller,
    "delta": unpaired.delta_log,
}
_LOGS: Final = (np.log, np.exp)
_INVERSES: Final = (np.reciprocal, np.reciprocal)
_AS_THEY_ARE: Final = (np.asarray, np.asarray)


def _unpaired(
    mine: Rows,
    theirs: Rows,
    units: tuple[Floats, Floats],
    criteria: Criteria,
    at: Callable[[float], intervals.IntervalEstimate],
) -> Evidence:
    """at: confidence → interval. The smaller sample is what counts: a verdict needs six of each."""
    number = min(x.size for x in units)
    nested = any(_several(rows.generation) for rows in (mine, theirs))
    base = Evidence(
        generations=number if nested else 1,
        units=number,
        steps=steps(mine.value, theirs.value, averages=criteria.quantile is None),
        repeated=halves_repeat(mine.value) or halves_repeat(theirs.value),
    )
    try:
        interval = stored(bare := at(criteria.confidence))
    except TooFewError as error:
        if criteria.quantile is not None:
            return replace(base, no_verdict=str(error), unbounded=True)
        return replace(base, no_verdict=str(error)) if number >= LEAST_PAIRS else base
    except ValueError as error:
        return replace(base, no_verdict=str(error))
    if interval is None:
        return replace(base, no_verdict="the interval reaches 0, or beyond all numbers")
    return replace(
        base,
        interval=interval,
        ratio=interval.estimate,
        moments=_moments(bare, number),
        sides=_sides(bare),
        p=by_inversion(at, criteria.margin, number),
    )


def _units(
    rows: Rows, scale: Callable[[Floats], Floats], back: Callable[[Floats], Floats]
) -> Floats:
    """The values, missing ones left out, or where there are generations their means on a scale."""
    present = ~np.isnan(rows.value)
    value = rows.value[present]
    if rows.generation is None:
        return value
    return back(collapse(scale(value), rows.generation[present]))


def _slowness(rows: Rows, figure: TableFigure) -> Floats:
    """Log times of the rows that have one: of rates the negative."""
    value = rows.value[rows.value > 0]
    return np.log(value) if figure.better == "lower" else -np.log(value)


def _sides(i: intervals.IntervalEstimate) -> tuple[float, float]:
    mean = math.log(i.estimate)
    return mean - math.log(i.low), math.log(i.high) - mean


def _moments(i: intervals.IntervalEstimate, n: int) -> Moments:
    """What makes the same interval on the log scale, by its wider side where they differ."""
    mean, half = math.log(i.estimate), max(_sides(i))
    error = half / intervals.t_quantile(0.5 + i.confidence / 2, n - 1)
    return Moments(n, mean, error, error * math.sqrt(n))


def absolute(rows: Rows, figure: TableFigure, confidence: float, factor: float) -> Absolute | None:
    """Absolute values of one cell, missing ones left out; None without any.

    factor: makes SI units of them. Where the instances were made several times, median and
    interval are those of the medians of each.
    """
    present = ~np.isnan(rows.value)
    value = rows.value if present.all() else rows.value[present]
    if value.size == 0:
        return None
    units = value
    if rows.generation is not None:
        units = _medians(value, rows.generation if present.all() else rows.generation[present])
    x = np.sort(value)
    kind: MeanKind = "harmonic" if figure.is_rate and x[0] >= 0 else "arithmetic"
    middle = (
        quantiles.quantile(units, 0.5, confidence)
        if units.size < x.size
        else quantiles.of_sorted(x, 0.5, confidence)
    )
    return Absolute(
        n=x.size,
        mean=factor * mean(x, kind),
        mean_kind=kind,
        least=factor * float(x[0]),
        q1=factor * _of_sorted(x, 0.25),
        median=factor * middle.estimate,
        median_low=None if middle.low is None else factor * middle.low,
        median_high=None if middle.high is None else factor * middle.high,
        q3=factor * _of_sorted(x, 0.75),
        most=factor * float(x[-1]),
        p95=factor * _of_sorted(x, 0.95) if x.size >= 20 else None,
    )


def _of_sorted(x: Floats, q: float) -> float:
    """Quantile by linear interpolation, as NumPy has it, without looking at all values again."""
    at = q * (x.size - 1)
    below = int(at)
    above = min(below + 1, x.size - 1)
    return float(x[below] + (at - below) * (x[above] - x[below]))


def _medians(value: Floats, generation: Codes) -> Floats:
    """Median of each generation; with one of them the values themselves."""
    order = np.lexsort((value, generation))
    value, generation = value[order], generation[order]
    starts = np.flatnonzero(np.concatenate(([True], generation[1:] != generation[:-1])))
    if starts.size == 1:
        return value
    size = np.diff(np.append(starts, value.size))
    return np.asarray((value[starts + (size - 1) // 2] + value[starts + size // 2]) / 2)
