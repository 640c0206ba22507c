"""What a pair is: one definition for the stop rule and for the analysis.

A pair is the trial of an environment and that of its baseline in the same block and workload. Both
must have given the figure; its effect is the log-ratio, above 0 is worse than the baseline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ullage.runs import Curve, Metric, Scalar, Trial
from ullage.stats.interval import log_ratio

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


@dataclass(frozen=True)
class Cells:
    """Trials by environment and workload."""

    trials: Iterable[Trial]
    _series: dict[tuple[str, str], dict[int, Trial]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for trial in self.trials:
            cell = self._series.setdefault((trial.environment, trial.workload), {})
            cell[trial.block] = trial

    def series(self, environment: str, workload: str) -> Series:
        """Block → trial; empty when the cell has none."""
        return self._series.get((environment, workload), {})


def pair(environment: Series, baseline: Series, metric: Metric) -> Paired:
    """Pair two series by block."""
    blocks = sorted(environment.keys() & baseline.keys())
    both = [(environment[b], baseline[b]) for b in blocks]
    usable = [(e, b) for e, b in both if e.status == b.status == "ok"]
    having = [(e, b) for e, b in usable if _has(e, metric) and _has(b, metric)]
    failed, missing = len(both) - len(usable), len(usable) - len(having)
    if metric.coordinate is None:
        found = [_scalar_pair(e, b, metric) for e, b in having]
        coordinates: tuple[float, ...] = ()
        ragged = False
    else:
        coordinates, ragged = _shared(having, metric.name)
        found = [_curve_pair(e, b, metric, coordinates) for e, b in having]
    pairs = tuple(each for each in found if each is not None)
    no_ratio = len(found) - len(pairs)
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

    environments: those compared with the baseline (no second copies); metrics: by workload key.
    """
    cells = Cells(trials)
    return {
        comparison_key(environment, workload, metric.name): pair(
            cells.series(environment, workload), cells.series(baseline, workload), metric
        ).log_ratios
        for environment in environments
        for workload, of_workload in metrics.items()
        for metric in of_workload
        if metric.primary
    }


def comparison_key(environment: str, workload: str, metric: str) -> str:
    """Name of a comparison."""
    return f"{environment}/{workload}/{metric}"


def values(trial: Trial, name: str) -> Scalar | Curve | None:
    """The figure of a trial that went well; None when it has none of that name."""
    return trial.metrics.get(name) if trial.status == "ok" else None


def _has(trial: Trial, metric: Metric) -> bool:
    found = trial.metrics.get(metric.name)
    return found is not None and isinstance(found, list) == (metric.coordinate is not None)


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
    found = trial.metrics[name]
    return dict(found) if isinstance(found, list) else {}


def _shared(both: Sequence[tuple[Trial, Trial]], name: str) -> tuple[tuple[float, ...], bool]:
    """Coordinates that all curves have, and whether some have more."""
    sets = [frozenset(_curve(trial, name)) for each in both for trial in each]
    if not sets:
        return (), False
    shared = frozenset.intersection(*sets)
    return tuple(sorted(shared)), any(each != shared for each in sets)


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
