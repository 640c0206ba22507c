"""Figures of our own runs for the tables of studies: ratios with intervals, as in the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from ullage.analysis import overhead
from ullage.analysis.comparison import words
from ullage.analysis.comparison.energy_model import Energy, EnergyFigure
from ullage.analysis.comparison.estimates import Absolute
from ullage.analysis.comparison.model import Analysis, Comparison
from ullage.analysis.comparison.rounding import share
from ullage.analysis.energy import words as energy_words
from ullage.experiments.studies.base import (
    Column,
    DerivedCell,
    DerivedRow,
    DerivedTable,
    Study,
    StudyFigure,
)
from ullage.runs.reader import RunFolder, stamp


@dataclass(frozen=True)
class StudiedRun:
    folder: RunFolder
    analysis: Analysis

    def parameters(self, comparison: Comparison) -> dict[str, Any]:
        """Those of its workload, as the plan has them with all defaults."""
        workloads = self.folder.resolved.workloads
        return next(w.parameters for w in workloads if w.key == comparison.workload)

    def kind(self, comparison: Comparison) -> str:
        """The name of its workload: `sysbench-cpu`, however it is called in the plan."""
        workloads = self.folder.resolved.workloads
        return next(w.workload for w in workloads if w.key == comparison.workload)


@lru_cache(maxsize=8)
def _opened(path: Path, _stamp: str) -> StudiedRun:
    folder = RunFolder.open(path)
    return StudiedRun(folder, overhead.analyse(folder))


def opened(path: Path) -> StudiedRun:
    """A run and its analysis, made once; raises what opening a run folder raises."""
    return _opened(path, stamp(path))


def ratio(comparison: Comparison) -> StudyFigure:
    """Its ratio to the baseline, above 1 worse, with its interval; why not where there is none."""
    if comparison.no_verdict or comparison.ratio is None:
        return StudyFigure(
            value=None, why=comparison.no_verdict or "no pair of trials gave a ratio"
        )
    interval = comparison.interval
    if interval is None:
        return StudyFigure(value=comparison.ratio, why="one block has no spread")
    return StudyFigure(value=interval.estimate, low=interval.low, high=interval.high)


def baseline(comparison: Comparison, scale: float = 1.0) -> StudyFigure:
    """The median of its baseline, over `scale` (1e6 for MB/s), with that median's interval."""
    return _median(comparison.baseline_values, scale)


def environment(comparison: Comparison, scale: float = 1.0) -> StudyFigure:
    """The same of its environment."""
    return _median(comparison.environment_values, scale)


def _median(values: Absolute | None, scale: float) -> StudyFigure:
    if values is None:
        return StudyFigure(value=None, why="no trial gave a figure")
    low, high = values.median_low, values.median_high
    return StudyFigure(
        value=values.median / scale,
        low=None if low is None else low / scale,
        high=None if high is None else high / scale,
    )


def name(comparison: Comparison) -> str:
    """What its environment is called, with emulation and what is not equal."""
    label = comparison.environment_label
    return words.name(label, emulated=comparison.emulated, unequal=comparison.unequal)


def part(study: Study, runs: Mapping[str, Path], plan: str) -> str:
    """What the keys of a run's tables hold where a study has several runs: `-disks-quick`."""
    return "" if len(runs) <= 1 else f"-{plan.removeprefix(study.name + '-')}"


RATIO: Final = Column(title="ratio", decimals=3)
VERDICT: Final = Column(title="verdict")


@dataclass(frozen=True)
class PublishedColumns:
    """Columns that stand beside ours: the published figures for the same question."""

    columns: tuple[Column, ...] = ()
    of: Callable[[Comparison], tuple[DerivedCell, ...]] = lambda _: ()


def ratios(
    run: StudiedRun,
    comparisons: Iterable[Comparison],
    key: str,
    caption: str,
    published: PublishedColumns | None = None,
) -> DerivedTable | None:
    """A row for each comparison: ratio, interval, verdict, and what was published; None of none."""
    published = published or PublishedColumns()
    rows = tuple(
        DerivedRow(
            label=f"{name(c)}, {c.workload_title}" + ("" if c.primary else f" ({c.metric})"),
            cells=(ratio(c), str(c.verdict or "no verdict"), *published.of(c)),
        )
        for c in comparisons
    )
    if not rows:
        return None
    analysis = run.analysis
    return DerivedTable(
        key=key,
        caption=caption,
        of="environment and work",
        columns=(RATIO, VERDICT, *published.columns),
        rows=rows,
        notes=(
            f"How many times worse than {analysis.baseline_label}; intervals are "
            f"{share(analysis.confidence)} each, from {words.blocks(analysis.blocks)}.",
        ),
    )


def energies(run: StudiedRun, key: str, caption: str) -> DerivedTable | None:
    """Energy and power of each cell, by how and of what they were told; None without a meter."""
    if not run.analysis.energy:
        return None
    rows = tuple(_energy_row(energy) for energy in run.analysis.energy)
    columns = (
        Column(title="how it is known"),
        Column(title="a trial", unit="J", decimals=1),
        Column(title="a unit of work", unit="J", decimals=4),
        Column(title="mean power", unit="W", decimals=1),
        Column(title="above idle", unit="J", decimals=1),
        Column(title="for the work, times the baseline", decimals=3),
        VERDICT,
    )
    notes = (energy_words.note(run.analysis), *energy_words.note_lines(run.analysis))
    return DerivedTable(
        key=key, caption=caption, of="environment and work", columns=columns, rows=rows, notes=notes
    )


def _energy_row(energy: Energy) -> DerivedRow:
    """An estimate from CPU time says what it says, and compares nobody."""
    of_work = energy.per_unit or energy.energy
    estimated = energy.method == "estimated"
    return DerivedRow(
        label=f"{energy.environment_label}, {energy.workload_title}",
        cells=(
            energy_words.source(energy.method, energy.scope),
            _absolute(energy.energy, ""),
            _absolute(energy.per_unit, "the work of a trial is no number of units"),
            _absolute(energy.mean_power, ""),
            _absolute(energy.above_idle, "no idle power was measured"),
            StudyFigure(value=None, why=_ESTIMATED) if estimated else _times(of_work),
            "no verdict" if estimated else str(of_work.verdict or "no verdict"),
        ),
    )


_ESTIMATED: Final = (
    "an estimate knows the CPUs' time alone, so that it cannot say which of two takes less energy: "
    "a meter can"
)


def _absolute(figure: EnergyFigure | None, missing: str) -> StudyFigure:
    if figure is None:
        return StudyFigure(value=None, why=missing)
    return StudyFigure(value=figure.values.median, low=figure.low, high=figure.high)


def _times(figure: EnergyFigure) -> StudyFigure:
    """With the meter's own uncertainty in the interval."""
    if figure.ratio is None or figure.budget is None:
        return StudyFigure(value=None, why="the baseline, or without pairs")
    return StudyFigure(value=figure.ratio.estimate, low=figure.budget.low, high=figure.budget.high)
