"""One comparison: the figures of one metric in one environment against its baseline."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from ullage.analysis.comparison import systems
from ullage.analysis.comparison.estimates import Absolute, Interval, Precision
from ullage.analysis.comparison.model import Cell, CurvePoint, Point
from ullage.runs.events import Trial
from ullage.runs.pairs import Cells, Pair, Paired, TrialsByBlock, pair, values
from ullage.runs.records import EnvironmentRecord, Metric, Parity, WorkloadRecord
from ullage.stats import Floats
from ullage.stats import interval as intervals
from ullage.stats.interval import (
    MeanKind,
    TooFewError,
    collapse,
    mean,
    moments,
)
from ullage.stats.quantiles import quantile
from ullage.stats.series_checks import outliers
from ullage.stats.totals import total_interval
from ullage.stats.uncertainty import SHARED, FigureSteps, steps
from ullage.stats.verdict import MOST_FAILURES, PValues, equivalence_p, p_values

BOOTSTRAP_LEAST = 3
BOOTSTRAP_HEARD = 20
"""Its disagreement counts from so many units on: under that it is known to be too short, and of 12
clean normal values it would disagree in 4.5 % of the cases, of 20 in 1.7 %."""
TOO_COARSE = 2.0
"""A step, relative to the mean: with one of this size the true figure may be nothing at all."""
_LEAST = sys.float_info.min


@dataclass(frozen=True)
class ComparisonSettings:
    """What holds for all comparisons of a run."""

    confidence: float
    margin: float
    seed: int
    widening: float
    blocks_each: int | None = None
    """Blocks after which the plan makes all instances anew."""
    governor: str | None = None
    """Of the host's CPUs; None: it did not tell."""
    turbo_off: bool = False
    again: bool = False
    """The plan has a second copy of the baseline, whatever became of its trials."""
    correlation: float = SHARED
    """Of a comparison's mean with that of its A/A, see `noise_floor`: a duet's is APART."""


@dataclass(frozen=True)
class TrialSource:
    """Where comparisons are made from."""

    cells: Cells
    parity: Sequence[Parity]
    settings: ComparisonSettings
    systems: Mapping[str, str] = field(default_factory=dict)
    """Environment → its operating system, as far as it is known."""

    def unequal(self, environment: str, baseline: str) -> tuple[str, ...]:
        """Nuisances in which the two differ; of userlands also which systems they are."""
        crossing = systems.crossing(self.systems, environment, baseline)
        words = {"userland": f"userland: {crossing}"} if crossing else {}
        return tuple(
            words.get(row.nuisance, row.nuisance)
            for row in self.parity
            if row.values.get(environment) != row.values.get(baseline)
        )


@dataclass(frozen=True)
class Draft:
    """A comparison before its verdict, which depends on all others and on the noise floor."""

    environment: EnvironmentRecord
    baseline: EnvironmentRecord
    workload: WorkloadRecord
    metric: Metric
    environment_cell: Cell
    baseline_cell: Cell
    environment_series: TrialsByBlock
    baseline_series: TrialsByBlock
    paired: Paired
    unequal: tuple[str, ...]
    settings: ComparisonSettings
    memory: float = 1.0
    """Factor on standard errors for what the environment keeps from block to block."""

    @property
    def widening(self) -> float:
        """Factor on every standard error of this comparison."""
        return self.settings.widening * self.memory

    @property
    def sides(self) -> tuple[tuple[EnvironmentRecord, list[Trial]], ...]:
        """The environment and the baseline, each with its trials of the pairs."""
        return (
            (self.environment, [pair.environment for pair in self.paired.pairs]),
            (self.baseline, [pair.baseline for pair in self.paired.pairs]),
        )

    @cached_property
    def steps(self) -> tuple[FigureSteps, ...]:
        """How coarse the figures of both sides are; of a curve at each compared coordinate."""
        places = self.paired.coordinates if self.metric.coordinate else (None,)
        known = max(self.metric.resolution or 0.0, self._printed)
        mine, theirs = (_figures(trials, self.metric.name) for _, trials in self.sides)
        return tuple(steps(_at(mine, place), _at(theirs, place), known) for place in places)

    @property
    def _printed(self) -> float:
        """The finest last digit that any trial printed; 0: none is known.

        The finest, for a program that leaves zeros out prints 20 in one trial and 20.35 in another.
        """
        name = self.metric.name
        trials = [trial for _, of_side in self.sides for trial in of_side]
        return min((t.steps[name] for t in trials if name in t.steps), default=0.0)

    @cached_property
    def log_ratios(self) -> list[float]:
        """Of every pair: for points, drift and outliers."""
        return self.paired.log_ratios

    @cached_property
    def generations(self) -> list[int]:
        """Making of the instances that each pair is of."""
        return self.paired.generations

    @cached_property
    def units(self) -> list[float]:
        """The independent values, on which every interval and test rests.

        The pairs' log-ratios, or where the instances were made several times their mean for each
        making: the highest level that is random is what counts (Kalibera & Jones 2013).
        """
        return self.collapsed(self.log_ratios)

    def collapsed(self, of_pairs: Sequence[float]) -> list[float]:
        """One value for each unit from one for each pair."""
        if not of_pairs:
            return []
        return [float(x) for x in collapse(of_pairs, self.generations)]

    @property
    def made_anew(self) -> bool:
        """Are the instances made several times, so that nobody needs to be told to?"""
        return self.settings.blocks_each is not None or self.precision == "intermediate"

    @property
    def precision(self) -> Precision:
        """What the units differ by."""
        return "intermediate" if len(set(self.generations)) > 1 else "repeatability"

    @property
    def nothing_common(self) -> bool:
        """Curves without a place at which enough of them have points: there is no ratio."""
        return bool(self.paired.thin and not self.paired.coordinates)

    @property
    def coordinate(self) -> str:
        """What the curve runs along."""
        return self.metric.coordinate.name if self.metric.coordinate else "the coordinate"

    @property
    def fails_often(self) -> bool:
        """So many trials of one side gave nothing that the others may not be typical."""
        return self._failing is not None

    @property
    def _failing(self) -> tuple[str, Cell] | None:
        sides = (
            (self.environment.label, self.environment_cell),
            (self.baseline.label, self.baseline_cell),
        )
        often = (side for side in sides if side[1].failure_rate > MOST_FAILURES)
        return next(often, None)

    @property
    def no_verdict(self) -> str | None:
        """Why there can be no verdict, `too many failures: 3 of 14 in container (crun)`."""
        if self._failing is not None:
            label, cell = self._failing
            return f"too many failures: {cell.without_figures} of {cell.trials} in {label}"
        paired = self.paired
        if self.nothing_common:
            return f"no value of {self.coordinate} has enough pairs"
        if paired.no_ratio:
            return f"zero or negative figures in {paired.no_ratio} of {paired.blocks} pairs"
        for side, (environment, _) in zip(("environment", "baseline"), self.sides, strict=True):
            if any(getattr(step, side) >= TOO_COARSE for step in self.steps):
                return f"the figures of {environment.label} are no larger than half their step"
        if paired.missing and paired.missing / paired.blocks > MOST_FAILURES:
            return f"{self.metric.name} is missing in {paired.missing} of {paired.blocks} pairs"
        return None

    @cached_property
    def moments(self) -> intervals.Moments | None:
        """None under two units."""
        if len(self.units) < 2:
            return None
        return moments(self.units, self.widening)

    @cached_property
    def p_values(self) -> PValues | None:
        """P-values of a difference and of equivalence; of a curve see `_curve_p_values`."""
        m = self.moments
        if m is None:
            return None
        p = p_values(m, self.settings.margin)
        return self._curve_p_values(p) if self.paired.coordinates else p

    def _curve_p_values(self, along_all: PValues) -> PValues:
        """A curve counts once, by its geometric mean; equivalence must hold all along it.

        A mean of 1 can hide a loss at one end and a gain at the other, so the equivalence p-value
        is the largest of all coordinates': an intersection–union test, which needs no correction
        (Berger 1982). A curve that differs both ways is `curve-mixed`.
        """
        equivalences = [
            equivalence_p(m, self.settings.margin, allowance=step.expanded)
            for m, step in zip(self.along, self.steps, strict=False)
        ]
        return PValues(along_all.difference, max(along_all.equivalence, *equivalences))

    @cached_property
    def along(self) -> tuple[intervals.Moments, ...]:
        """Of a curve: the moments at each coordinate; none under two units."""
        return tuple(moments(x, self.widening) for x in self.columns if len(x) >= 2)

    @cached_property
    def columns(self) -> list[list[float]]:
        """Of a curve: the log-ratios at each coordinate, of the units that have it."""
        along = np.array([p.along for p in self.paired.pairs])
        makings = np.array(self.generations)
        return [
            collapse(column[present], makings[present]).tolist()
            for column in along.T
            if (present := ~np.isnan(column)).any()
        ]

    @property
    def no_equivalence(self) -> bool:
        """May it not be called equivalent, because a part of the curve was hardly seen?"""
        return bool(self.paired.thin)


def _figures(trials: Iterable[Trial], name: str) -> list[dict[float | None, float]]:
    """Of each trial: coordinate → figure; None for the one figure of what is no curve."""
    figures = (trial.metrics[name] for trial in trials if name in trial.metrics)
    return [dict(f) if isinstance(f, list) else {None: f} for f in figures]


def _at(figures: Iterable[Mapping[float | None, float]], place: float | None) -> list[float]:
    return [figure[place] for figure in figures if place in figure]


def draft(
    source: TrialSource,
    environment: EnvironmentRecord,
    baseline: EnvironmentRecord,
    workload: WorkloadRecord,
    metric: Metric,
) -> Draft:
    """Pair the trials of one metric; in a duet those that ran beside each other."""
    mine = source.cells.series(environment.key, workload.key, partner=baseline.key)
    theirs = source.cells.series(baseline.key, workload.key, partner=environment.key)
    return Draft(
        environment=environment,
        baseline=baseline,
        workload=workload,
        metric=metric,
        environment_cell=cell(environment.key, workload.key, mine.values()),
        baseline_cell=cell(baseline.key, workload.key, theirs.values()),
        environment_series=mine,
        baseline_series=theirs,
        paired=pair(mine, theirs, metric),
        unequal=source.unequal(environment.key, baseline.key),
        settings=source.settings,
    )


def by_cell(trials: Iterable[Trial]) -> dict[tuple[str, str], list[Trial]]:
    """(Environment, workload) → its trials, whatever became of them."""
    cells: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        cells.setdefault((trial.environment, trial.workload), []).append(trial)
    return cells


def cell(environment: str, workload: str, trials: Collection[Trial]) -> Cell:
    """Count how the trials of a cell ended."""
    status = [trial.status for trial in trials]
    codes = {trial.reason.code for trial in trials if trial.reason is not None}
    return Cell(
        environment=environment,
        workload=workload,
        trials=len(status),
        ok=status.count("ok"),
        failed=status.count("failed"),
        invalid=status.count("invalid"),
        reasons=tuple(sorted(codes)),
    )


def draft_interval(d: Draft) -> Interval | None:
    """The interval that verdicts rest on; None under two units."""
    return mean_interval(d.units, d.settings.confidence, d.widening)


def mean_interval(units: ArrayLike, confidence: float, widening: float = 1.0) -> Interval | None:
    """The t interval of independent log-ratios; None under two."""
    try:
        return stored(intervals.t_interval(units, confidence, widening))
    except TooFewError:
        return None


def without_outliers(d: Draft) -> Interval | None:
    """The same without the flagged pairs; None without any, or when they are nearly all."""
    near = [
        (p.log_ratio, p.generation)
        for p, far in zip(d.paired.pairs, flagged(d), strict=True)
        if not far
    ]
    if not near or len(near) == len(d.log_ratios):
        return None
    ratios, generations = zip(*near, strict=True)
    return mean_interval(collapse(ratios, generations), d.settings.confidence, d.widening)


def bootstrap(units: Sequence[float] | Floats, confidence: float, seed: int) -> Interval | None:
    """The bootstrap's interval, a check; None where it could not say anything."""
    if len(units) < BOOTSTRAP_LEAST:
        return None
    return stored(intervals.bootstrap_interval(units, confidence, seed))


def robust(units: ArrayLike, confidence: float) -> Interval | None:
    """The Hodges–Lehmann interval; None when there are too few units for the confidence."""
    try:
        return stored(intervals.hodges_lehmann(units, confidence))
    except TooFewError:
        return None


def stored(interval: intervals.IntervalEstimate) -> Interval | None:
    """As the model holds it; None when a bound, or its inverse, is no number that JSON has."""
    if not (
        interval.low >= _LEAST and math.isfinite(interval.high) and math.isfinite(interval.estimate)
    ):
        return None
    return Interval(
        estimate=interval.estimate,
        low=interval.low,
        high=interval.high,
        confidence=interval.confidence,
        n=interval.n,
        method=interval.method,
    )


def disagree(first: Interval | None, second: Interval | None) -> bool:
    """True when two intervals of the same data would be read differently."""
    if first is None or second is None:
        return False
    apart = not first.low <= second.estimate <= first.high or not (
        second.low <= first.estimate <= second.high
    )
    return apart or excludes_one(first) != excludes_one(second)


def excludes_one(interval: Interval) -> bool:
    """True when the interval says that there is a difference."""
    return not interval.low <= 1 <= interval.high


def flagged(d: Draft) -> list[bool]:
    """Which pairs are outliers."""
    return [bool(x) for x in outliers(d.log_ratios)] if d.log_ratios else []


def points(d: Draft) -> tuple[Point, ...]:
    return tuple(
        Point(
            block=p.block,
            generation=p.generation,
            trial=p.environment.trial,
            baseline_trial=p.baseline.trial,
            ratio=math.exp(p.log_ratio),
            epoch_ns=p.environment.epoch_ns,
            gap_s=gap_s(p),
            outlier=outlier,
        )
        for p, outlier in zip(d.paired.pairs, flagged(d), strict=True)
    )


def gap_s(p: Pair) -> float:
    """Time between the starts of the two trials, by the wall clock: a reboot does not reset it."""
    return abs(p.environment.epoch_ns - p.baseline.epoch_ns) / 1e9


def median_gap_s(pairs: Iterable[Pair]) -> float | None:
    """Median time between the trials of a pair."""
    gaps = [gap_s(p) for p in pairs]
    return float(np.median(gaps)) if gaps else None


def curve(d: Draft) -> tuple[CurvePoint, ...]:
    """Ratios along the coordinate, each interval at confidence 1 − α/k, so that all hold together.

    (Bonferroni's band: it asks nothing of how the coordinates of one trial depend on each other.)
    """
    coordinates = d.paired.coordinates
    if not d.paired.pairs or not coordinates:
        return ()
    s = d.settings
    confidence = 1 - (1 - s.confidence) / len(coordinates)
    mine = _medians(d.environment_series, d.metric.name)
    theirs = _medians(d.baseline_series, d.metric.name)
    curve_points = []
    places = zip(*(p.along for p in d.paired.pairs), strict=True)
    for coordinate, column, at_place in zip(coordinates, d.columns, places, strict=True):
        band = mean_interval(column, confidence, d.widening)
        curve_points.append(
            CurvePoint(
                coordinate=coordinate,
                ratio=math.exp(sum(column) / len(column)),
                low=band.low if band else None,
                high=band.high if band else None,
                baseline_median=theirs[coordinate],
                environment_median=mine[coordinate],
                pairs=sum(not math.isnan(x) for x in at_place),
            )
        )
    return tuple(curve_points)


def _medians(series: TrialsByBlock, name: str) -> dict[float, float]:
    """Coordinate → median of the curves of one cell."""
    at: dict[float, list[float]] = {}
    for trial in series.values():
        figure = values(trial, name)
        if isinstance(figure, list):
            for coordinate, value in figure:
                at.setdefault(coordinate, []).append(value)
    return {coordinate: float(np.median(x)) for coordinate, x in at.items()}


def medians(by_making: Sequence[tuple[int, float]]) -> list[float]:
    """Of (making, value): the values, or where there are several makings the median of each."""
    makings: dict[int, list[float]] = {}
    for making, value in by_making:
        makings.setdefault(making, []).append(value)
    if len(makings) == 1:
        return [value for _, value in by_making]
    return [float(np.median(x)) for x in makings.values()]


def absolute(series: TrialsByBlock, metric: Metric, confidence: float) -> Absolute | None:
    """Absolute values of one cell, failed trials left out; None for a curve, or without values.

    Rates (a unit per second) have a harmonic mean, all else an arithmetic one. Its interval is that
    of stats.totals, of rates the inverse of that of the times for one unit.
    """
    if metric.coordinate is not None:
        return None
    trials = [series[block] for block in sorted(series)]
    by_making = [
        (t.generation, v) for t in trials if isinstance(v := values(t, metric.name), float)
    ]
    if not by_making:
        return None
    x = np.array([v for _, v in by_making], dtype=np.float64)
    kind: MeanKind = "harmonic" if metric.unit.endswith("/s") and (x >= 0).all() else "arithmetic"
    median = quantile(medians(by_making), 0.5, confidence)
    q1, q3 = (float(v) for v in np.quantile(x, (0.25, 0.75)))
    middle, low, high = _mean(x, [making for making, _ in by_making], kind, confidence)
    return Absolute(
        n=x.size,
        mean=middle,
        mean_low=low,
        mean_high=high,
        mean_kind=kind,
        least=float(x.min()),
        q1=q1,
        median=median.estimate,
        median_low=median.low,
        median_high=median.high,
        q3=q3,
        most=float(x.max()),
        p95=float(np.quantile(x, 0.95)) if x.size >= 20 else None,
    )


def _mean(
    x: Floats, makings: Sequence[int], kind: MeanKind, confidence: float
) -> tuple[float, float | None, float | None]:
    """The mean, of several makings that of their means, with its interval."""
    units = np.array(
        [mean(x[np.equal(makings, making)], kind) for making in dict.fromkeys(makings)]
    )
    if units.size == 1:
        units = x
    middle = mean(units, kind)
    if units.size < 2 or not (units > 0).all():
        return middle, None, None
    harmonic = kind == "harmonic"
    of_mean = stored(total_interval(1 / units if harmonic else units, confidence))
    if of_mean is None:
        return middle, None, None
    bounds = (1 / of_mean.high, 1 / of_mean.low) if harmonic else (of_mean.low, of_mean.high)
    return middle, *bounds


def geometric_mean(d: Draft) -> float | None:
    """Geometric mean of the units' ratios; None without a pair."""
    return math.exp(math.fsum(d.units) / len(d.units)) if d.units else None
