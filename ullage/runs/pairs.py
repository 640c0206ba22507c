"""What a pair is: one definition for the stop rule and for the analysis.

A pair is the trial of an environment and that of its baseline in the same block and workload; in a
duet, the two that ran at the same time. Both must have given the figure; its effect is the
log-ratio, above 0 is worse than the baseline. Of a run that goes on each block is paired once,
however many there are before it.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from ullage.runs.events import Trial
from ullage.runs.records import Curve, Metric, Scalar
from ullage.stats import LEAST_PAIRS, Floats
from ullage.stats.interval import collapse, log_ratio

TrialsByBlock = Mapping[int, Trial]
"""Block → trial of one environment × workload."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two trials of one block, compared."""

    block: int
    environment: Trial
    baseline: Trial
    log_ratio: float
    """Of a curve: its part of the mean along all curves, see `_means_along`."""
    along: tuple[float, ...] = ()
    """Of a curve: the log-ratio at each of `Paired.coordinates`; NaN where one side lacks it."""

    @property
    def generation(self) -> int:
        """How often all instances had been made anew before it: a block never spans two makings."""
        return self.environment.generation


@dataclass(frozen=True, slots=True)
class Paired:
    """All pairs of one metric, in the order of the blocks, and what could not be paired."""

    pairs: tuple[Pair, ...] = ()
    coordinates: tuple[float, ...] = ()
    """Of a curve: those that have enough pairs to be compared."""
    thin: tuple[tuple[float, int], ...] = ()
    """Of a curve: the other coordinates of its trials, and in how few blocks (makings) each is."""
    failed: int = 0
    """Blocks in which one of the two trials failed or was invalid."""
    missing: int = 0
    """Blocks in which a trial did not yield this metric; of a curve, no point to compare."""
    no_ratio: int = 0
    """Blocks in which a figure was zero or negative: then there are no pairs at all, for the ratio
    of the others would be that of a selection."""

    blocks: int = 0
    """Blocks that have both trials, whatever became of them."""

    @property
    def holes(self) -> int:
        """Of a curve: points at the compared coordinates that pairs lack."""
        return sum(math.isnan(x) for pair in self.pairs for x in pair.along)

    @property
    def dropped(self) -> int:
        """Blocks with both trials and no pair."""
        return self.blocks - len(self.pairs)

    @property
    def log_ratios(self) -> list[float]:
        """Of the pairs, in their order."""
        return [pair.log_ratio for pair in self.pairs]

    @property
    def generations(self) -> list[int]:
        """Of the pairs, in their order."""
        return [pair.generation for pair in self.pairs]


@dataclass(frozen=True)
class Cells:
    """Trials by environment and workload."""

    trials: Iterable[Trial]
    _series: dict[tuple[str, str, str | None], dict[int, Trial]] = field(
        default_factory=dict, init=False
    )
    """By partner too; without one, every trial that had none, or the first of each block."""

    def __post_init__(self) -> None:
        for trial in self.trials:
            cell = trial.environment, trial.workload
            if trial.partner is not None:
                self._series.setdefault((*cell, trial.partner), {})[trial.block] = trial
            first = self._series.setdefault((*cell, None), {})
            if trial.block not in first or trial.order < first[trial.block].order:
                first[trial.block] = trial

    def series(self, environment: str, workload: str, partner: str | None = None) -> TrialsByBlock:
        """Block → trial; empty when the cell has none.

        partner: of a duet, the environment beside which the trials ran: the baseline has trials
        beside each of the others. None, then: the one of them that came first in its block. In a
        solo run nothing ran beside, and `partner` is ignored.
        """
        cell = self._series.get((environment, workload, None), {})
        first = next(iter(cell.values()), None)
        if partner is None or first is None or first.partner is None:
            return cell
        return self._series.get((environment, workload, partner), {})


def pair(environment: TrialsByBlock, baseline: TrialsByBlock, metric: Metric) -> Paired:
    """Pair two series by block; curves at each coordinate, see `_pair_curves`."""
    blocks = sorted(environment.keys() & baseline.keys())
    both = [(environment[b], baseline[b]) for b in blocks]
    usable = [(e, b) for e, b in both if e.status == b.status == "ok"]
    having = [(e, b) for e, b in usable if _has(e, metric) and _has(b, metric)]
    counts = Paired(
        failed=len(both) - len(usable), missing=len(usable) - len(having), blocks=len(both)
    )
    if metric.coordinate is not None:
        return _pair_curves(having, metric, counts)
    candidates = [_scalar_pair(e, b, metric) for e, b in having]
    pairs = tuple(pair for pair in candidates if pair is not None)
    if no_ratio := len(candidates) - len(pairs):
        return replace(counts, no_ratio=no_ratio)
    return replace(counts, pairs=pairs)


def comparison_key(environment: str, workload: str, metric: str) -> str:
    """Name of a comparison."""
    return f"{environment}/{workload}/{metric}"


def values(trial: Trial, name: str) -> Scalar | Curve | None:
    """The figure of a trial that went well; None when it has none of that name."""
    return trial.metrics.get(name) if trial.status == "ok" else None


def repeated(curve: Curve) -> float | None:
    """A coordinate at which a curve has two points: nothing says which of them is meant."""
    places = sorted(x for x, _ in curve)
    return next((x for x, y in pairwise(places) if x == y), None)


def _has(trial: Trial, metric: Metric) -> bool:
    figure = trial.metrics.get(metric.name)
    return figure is not None and isinstance(figure, list) == (metric.coordinate is not None)


def _scalar_pair(environment: Trial, baseline: Trial, metric: Metric) -> Pair | None:
    mine, theirs = environment.metrics[metric.name], baseline.metrics[metric.name]
    if isinstance(mine, list) or isinstance(theirs, list):
        return None
    try:
        ratio = log_ratio(mine, theirs, metric.better)
    except ValueError:
        return None
    return Pair(environment.block, environment, baseline, ratio)


def _curve(trial: Trial, name: str) -> dict[float, float]:
    curve = trial.metrics[name]
    return dict(curve) if isinstance(curve, list) else {}


def _pair_curves(both: Sequence[tuple[Trial, Trial]], metric: Metric, counts: Paired) -> Paired:
    """Pair curves coordinate by coordinate: each has its own pairs, and a hole costs only itself.

    A coordinate is compared when it has pairs in six blocks (makings, where instances were made
    several times), or in all where there are fewer. The others are `thin`: their few pairs may not
    be typical, and nothing is made of them. A block without a point that is compared is missing.
    """
    curves = [(_curve(e, metric.name), _curve(b, metric.name)) for e, b in both]
    rows = [_log_ratios(mine, theirs, metric) for mine, theirs in curves]
    ratios = [row for row in rows if row is not None]
    if no_ratio := len(rows) - len(ratios):
        return replace(counts, no_ratio=no_ratio)
    makings = [environment.generation for environment, _ in both]
    several = len(set(makings)) > 1
    units = makings if several else list(range(len(both)))
    enough = min(LEAST_PAIRS, len(set(units)))
    places = sorted({x for mine, theirs in curves for x in (*mine, *theirs)})
    number = {
        x: len({unit for row, unit in zip(ratios, units, strict=True) if x in row}) for x in places
    }
    coordinates = tuple(x for x in places if number[x] >= enough)
    chosen = [
        (trials, [row.get(x, math.nan) for x in coordinates])
        for trials, row in zip(both, ratios, strict=True)
        if any(x in row for x in coordinates)
    ]
    means = _means_along(np.array([along for _, along in chosen])) if chosen else ()
    return replace(
        counts,
        pairs=tuple(
            Pair(mine.block, mine, theirs, float(mean), tuple(along))
            for ((mine, theirs), along), mean in zip(chosen, means, strict=True)
        ),
        coordinates=coordinates,
        thin=tuple((x, number[x]) for x in places if number[x] < enough),
        missing=counts.missing + len(both) - len(chosen),
    )


def _log_ratios(
    mine: Mapping[float, float], theirs: Mapping[float, float], metric: Metric
) -> dict[float, float] | None:
    """Coordinate → log-ratio where both have a point; None when one of these has no ratio."""
    try:
        return {x: log_ratio(mine[x], theirs[x], metric.better) for x in mine if x in theirs}
    except ValueError:
        return None


def _means_along(log_ratios: Floats) -> Floats:
    """Of each block the value that stands for its curve; their mean is that of the curve.

    log_ratios: blocks × coordinates; NaN is a hole, and no column has only these. The effect of a
    curve is the mean of the means at its coordinates, each over the blocks that have it: so every
    coordinate counts alike, and a block that lacks those where the environment is slow does not
    make it look fast, as its mean over what it has would. A block's value is its pseudo-value by
    the jackknife (Tukey 1958; Efron & Tibshirani 1993, §11.5), n·θ − (n − 1)·θ without it: without
    holes simply the block's own mean, with them the values whose scatter is that of the effect.
    """
    present = ~np.isnan(log_ratios)
    if present.all():
        return np.asarray(log_ratios.mean(axis=1))
    blocks, number = len(log_ratios), present.sum(axis=0)
    means = np.nansum(log_ratios, axis=0) / number
    weights = (blocks - 1) / np.maximum(number - 1, 1)
    apart = np.where(present, log_ratios - means, 0.0)
    return np.asarray(means.mean() + (apart * weights).mean(axis=1))


@dataclass
class _Comparison:
    """One metric of an environment and its baseline, so far."""

    metric: Metric
    log_ratios: array[float] = field(default_factory=lambda: array("d"))
    generations: array[int] = field(default_factory=lambda: array("q"))
    no_ratio: bool = False
    """A figure was zero or negative: then there are no pairs at all, see `Paired.no_ratio`."""
    mine: dict[int, Trial] = field(default_factory=dict)
    theirs: dict[int, Trial] = field(default_factory=dict)
    """Of a curve, by block: which of its points are compared depends on all of them."""

    def add(self, mine: Mapping[int, Trial], theirs: Mapping[int, Trial]) -> None:
        """The trials of one block."""
        if self.metric.coordinate is not None:
            self.mine.update(mine)
            self.theirs.update(theirs)
            return
        paired = pair(mine, theirs, self.metric)
        self.no_ratio = self.no_ratio or paired.no_ratio > 0
        self.log_ratios.extend(paired.log_ratios)
        self.generations.extend(paired.generations)

    def units(self) -> Sequence[float]:
        """Log-ratios of the blocks, or of the makings where instances were made anew."""
        if self.metric.coordinate is not None:
            paired = pair(self.mine, self.theirs, self.metric)
            return array("d", collapse(paired.log_ratios, paired.generations))
        if self.no_ratio:
            return array("d")
        if not self.generations or self.generations[0] == self.generations[-1]:
            return self.log_ratios
        return array("d", collapse(self.log_ratios, self.generations))


class PairsSoFar:
    """`environment/workload/metric` → log-ratios, of the primary metrics: what a stop rule sees.

    They are the means of the generations where instances were made anew, for these are the highest
    random level.
    """

    def __init__(
        self,
        baseline: str,
        environments: Sequence[str],
        metrics: Mapping[str, Sequence[Metric]],
    ) -> None:
        """environments: those that are compared (no second copies); metrics: by workload."""
        self.baseline = baseline
        self._comparisons = {
            (environment, workload, metric.name): _Comparison(metric)
            for environment in environments
            for workload, of_workload in metrics.items()
            for metric in of_workload
            if metric.primary
        }

    def add(self, trials: Iterable[Trial]) -> None:
        """All trials of one block, later than those before."""
        cells = Cells(trials)
        for (environment, workload, _), comparison in self._comparisons.items():
            mine = cells.series(environment, workload)
            if mine:
                comparison.add(mine, cells.series(self.baseline, workload, environment))

    def log_ratios(self) -> dict[str, Sequence[float]]:
        """Comparison → its units."""
        return {
            comparison_key(*names): comparison.units()
            for names, comparison in self._comparisons.items()
        }
