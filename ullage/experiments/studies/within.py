"""Figures made of several cells of a run, block by block: speed-ups, what communication adds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ullage.analysis.comparison.words import blocks
from ullage.experiments.studies.base import StudyFigure
from ullage.experiments.studies.measured import StudiedRun
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import WorkloadRecord
from ullage.stats.interval import collapse, t_interval

MOST_WITHOUT = 0.1
"""No figure where more than this part of a cell's trials has none: as for every verdict."""


@dataclass(frozen=True)
class Term:
    """One factor of a product: a metric of a cell, to a power."""

    power: float
    environment: str
    workload: str
    metric: str


def product(run: StudiedRun, terms: Sequence[Term], scale: float = 1.0) -> StudyFigure:
    """scale · ∏ metric^power, with Student's t over the logs of the blocks.

    All terms of a block were measured within it, so what they have in common cancels. Only blocks
    count in which all have a figure; where the instances were made several times, the makings are
    what counts. The standard error is widened for repeated looks as all others of the run are.
    """
    columns = []
    for term in terms:
        trials = [t for t in run.folder.trials if _is_of(t, term)]
        figures = {
            t.block: (t.generation, x) for t in trials if (x := _scalar(t, term)) is not None
        }
        if not trials or len(trials) - len(figures) > MOST_WITHOUT * len(trials):
            why = f"of {blocks(len(trials))} {len(figures)} have a figure of {term.workload}"
            return StudyFigure(value=None, why=why)
        columns.append((term.power, figures))
    whole = sorted(set.intersection(*(set(figures) for _, figures in columns)))
    if not whole:
        return StudyFigure(value=None, why="no block has a figure of all")
    generations = [columns[0][1][block][0] for block in whole]
    logs = [
        math.log(scale)
        + math.fsum(power * math.log(figures[block][1]) for power, figures in columns)
        for block in whole
    ]
    units = collapse(logs, generations)
    if units.size < 2:
        return StudyFigure(value=math.exp(float(units[0])), why="one block has no spread")
    interval = t_interval(units, run.analysis.confidence, run.analysis.stop.widening)
    return StudyFigure(value=interval.estimate, low=interval.low, high=interval.high)


def _is_of(trial: Trial, term: Term) -> bool:
    return (trial.environment, trial.workload) == (term.environment, term.workload)


def _scalar(trial: Trial, term: Term) -> float | None:
    """Its figure above 0; None of a trial without one."""
    if trial.status != "ok":
        return None
    value = trial.metrics.get(term.metric)
    return value if isinstance(value, float) and value > 0 else None


def environments(folder: RunFolder) -> list[str]:
    """Keys of a run's environments, without second copies."""
    return [e.key for e in folder.resolved.environments if e.again_of is None]


def label(folder: RunFolder, key: str) -> str:
    """What tables call an environment; emulation is said."""
    environment = next(e for e in folder.resolved.environments if e.key == key)
    emulated = " (emulated)" if environment.emulated and "emulated" not in environment.label else ""
    return environment.label + emulated


def workloads(folder: RunFolder, name: str) -> list[WorkloadRecord]:
    """The parameter sets of one workload, however the plan calls them."""
    return [w for w in folder.resolved.workloads if w.workload == name]
