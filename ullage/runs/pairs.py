"""What a pair is: one definition for the stop rule and for the analysis.

A pair is the trial of an environment and that of its baseline in the same block and workload; in a
duet, the two that ran at the same time. Both must have given the figure; its effect is the
log-ratio, above 0 is worse than the baseline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ullage.runs.events import Trial
from ullage.runs.records import Curve, Metric, Scalar
from ullage.stats.interval import collapse, log_ratio

Series = Mapping[int, Trial]
"""Block → trial of one environment × workload."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two trials of one block, compared."""

    block: int
    environment: Trial
    baseline: Trial
    log_ratio: float
    """Of a curve: the mean along it, so that its exponential is the geometric mean."""
    along: tuple[float, ...] = ()
    """Of a curve: the log-ratio at each coordinate."""

    @property
    def generation(self) -> int:
        """How often all instances had been made anew before it: a block never spans two makings."""
        return self.environment.generation


@dataclass(frozen=True, slots=True)
class Paired:
    """All pairs of one metric, in the order of the blocks, and what could not be paired."""

    pairs: tuple[Pair, ...] = ()
    coordinates: tuple[float, ...] = ()
    """Of a curve: those that every pair has."""
    ragged: bool = False
    """Some coordinates are missing in some trials, and left out."""
    failed: int = 0
    """Blocks in which one of the two trials failed or was invalid."""
    missing: int = 0
    """Blocks in which a trial did not yield this metric."""
    no_ratio: int = 0
    """Blocks in which a figure was zero or negative: then there are no pairs at all, for the ratio
    of the others would be that of a selection."""

    blocks: int = 0
    """Blocks that have both trials, whatever became of them."""

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

    def series(self, environment: str, workload: str, partner: str | None = None) -> Series:
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


def pair(environment: Series, baseline: Series, metric: Metric) -> Paired:
    """Pair two series by block."""
    blocks = sorted(environment.keys() & baseline.keys())
    both = [(environment[b], baseline[b]) for b in blocks]
    usable = [(e, b) for e, b in both if e.status == b.status == "ok"]
    having = [(e, b) for e, b in usable if _has(e, metric) and _has(b, metric)]
    failed, missing = len(both) - len(usable), len(usable) - len(having)
    if metric.coordinate is None:
        candidates = [_scalar_pair(e, b, metric) for e, b in having]
        coordinates: tuple[float, ...] = ()
        ragged = False
    else:
        coordinates, ragged = _shared(having, metric.name)
        candidates = [_curve_pair(e, b, metric, coordinates) for e, b in having]
    pairs = tuple(pair for pair in candidates if pair is not None)
    no_ratio = len(candidates) - len(pairs)
    return Paired(
        pairs=pairs if no_ratio == 0 else (),
        coordinates=coordinates,
        ragged=ragged,
        failed=failed,
        missing=missing,
        no_ratio=no_ratio,
        blocks=len(both),
    )


def primary_log_ratios(
    trials: Iterable[Trial],
    baseline: str,
    environments: Sequence[str],
    metrics: Mapping[str, Sequence[Metric]],
) -> dict[str, list[float]]:
    """`environment/workload/metric` → log-ratios, of the primary metrics: what a stop rule sees.

    They are the means of the generations where instances were made anew, for these are the highest
    random level. environments: those compared with the baseline (no second copies); metrics: by
    workload key.
    """
    cells = Cells(trials)
    log_ratios: dict[str, list[float]] = {}
    for environment in environments:
        for workload, of_workload in metrics.items():
            mine = cells.series(environment, workload)
            theirs = cells.series(baseline, workload, environment)
            for metric in of_workload:
                if metric.primary:
                    key = comparison_key(environment, workload, metric.name)
                    log_ratios[key] = _units(pair(mine, theirs, metric))
    return log_ratios


def _units(paired: Paired) -> list[float]:
    if not paired.pairs:
        return []
    return [float(x) for x in collapse(paired.log_ratios, paired.generations)]


def comparison_key(environment: str, workload: str, metric: str) -> str:
    """Name of a comparison."""
    return f"{environment}/{workload}/{metric}"


def values(trial: Trial, name: str) -> Scalar | Curve | None:
    """The figure of a trial that went well; None when it has none of that name."""
    return trial.metrics.get(name) if trial.status == "ok" else None


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


def _shared(both: Sequence[tuple[Trial, Trial]], name: str) -> tuple[tuple[float, ...], bool]:
    """Coordinates that all curves have, and whether some have more."""
    sets = [frozenset(_curve(trial, name)) for pair in both for trial in pair]
    if not sets:
        return (), False
    shared = frozenset.intersection(*sets)
    return tuple(sorted(shared)), any(coordinates != shared for coordinates in sets)


def _curve_pair(
    environment: Trial, baseline: Trial, metric: Metric, coordinates: Sequence[float]
) -> Pair | None:
    mine, theirs = _curve(environment, metric.name), _curve(baseline, metric.name)
    try:
        along = tuple(log_ratio(mine[x], theirs[x], metric.better) for x in coordinates)
    except ValueError:
        return None
    if not along:
        return None
    return Pair(environment.block, environment, baseline, sum(along) / len(along), along)
