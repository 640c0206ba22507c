"""The environments of a run with the figures of their repetitions: what is compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ullage.elastic.metrics import Measured, measured
from ullage.elastic.reading import ElasticRun


@dataclass(frozen=True)
class Side:
    """One environment of one run, with the figures of its repetitions."""

    key: str
    label: str
    ended: int
    """Repetitions that came to an end, with figures or without."""
    figures: Mapping[int, Measured]
    """Repetition → figures, of those that have any."""
    again_of: str | None = None
    """The baseline, of which this is the second copy."""

    def of(self, metric: str) -> dict[int, float]:
        """Repetition → figure of a metric."""
        return {n: m.figures[metric] for n, m in self.figures.items() if metric in m.figures}

    def seed(self, repetition: int) -> int | None:
        """Of the arrivals."""
        outcome = self.figures[repetition].repetition.outcome
        return None if outcome is None else outcome.seed


def sides(run: ElasticRun) -> tuple[Side, ...]:
    """Every environment with its figures."""
    return tuple(
        Side(
            e.key,
            e.label,
            sum(r.status != "unfinished" for r in run.of(e.key)),
            {r.number: measured(r, run.resolved) for r in run.of(e.key) if r.counts},
            e.again_of,
        )
        for e in run.resolved.environments
    )
