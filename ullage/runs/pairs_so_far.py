"""The pairs of a run that goes on: each block is paired once, however many there are before it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ullage.runs.events import Trial
from ullage.runs.pairs import Cells, comparison_key, pair
from ullage.runs.records import Metric
from ullage.stats.interval import collapse


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
