"""What a study shows: tables as text, as JSON, and on the terminal. Needs nothing that draws."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ullage.analysis.comparison import rounding
from ullage.common.console import CleanConsole, escape
from ullage.common.quantities import many
from ullage.common.text import clean
from ullage.experiments.studies.base import (
    Column,
    Coverage,
    DerivedCell,
    DerivedRow,
    DerivedTable,
    Study,
    StudyFigure,
    StudyPlan,
)
from ullage.experiments.studies.finding import Runs
from ullage.report import views
from ullage.report.charts.text import unbroken

FORMAT: Final = 1
DIFFERS: Final = "≠"
SHORT_MINUTES: Final = 180
LONGEST: Final = 300
"""Of a cell: labels are a run's own words."""


@dataclass(frozen=True)
class StudyReport:
    """A study with all that is to be shown of it."""

    study: Study
    tables: tuple[DerivedTable, ...]
    """Recomputed from the published figures."""
    fresh: tuple[DerivedTable, ...]
    """From our own runs."""
    coverage: DerivedTable | None
    """What of the published figures our full runs have a counterpart of."""
    plans: DerivedTable
    """What the full form runs."""
    runs: Runs


def recompute(study: Study, runs: Runs) -> StudyReport:
    """Recompute the published tables, and answer the same from runs where there are some."""
    fresh = study.fresh(runs) if runs else ()
    coverage, plans = coverage_table(study), plans_table(study, runs)
    return StudyReport(study, study.tables(), fresh, coverage, plans, runs)


def published_count(study: Study, coverage: Coverage) -> int:
    """How many figures of that kind are published."""
    rows = study.published(coverage.file)
    return sum(bool(row[column]) for row in rows for column in coverage.columns)


def coverage_table(study: Study) -> DerivedTable | None:
    """A row for each kind of published figure; None of a study that has none."""
    kinds = [(coverage, published_count(study, coverage)) for coverage in study.coverage()]
    if not kinds:
        return None
    total, fresh = (sum(of) for of in ([n for _, n in kinds], [c.fresh for c, _ in kinds]))
    rows = [(c.of, c.fresh, number, c.missing or "–") for c, number in kinds]
    return DerivedTable(
        key="coverage",
        caption="Published figures that a full run here has a counterpart of, of the same setting",
        of="figures",
        columns=(
            Column(title="fresh", decimals=0),
            Column(title="published", decimals=0),
            Column(title="what the others want"),
        ),
        rows=tuple(
            DerivedRow(
                label=label,
                cells=(StudyFigure(value=float(some)), StudyFigure(value=float(all_)), missing),
            )
            for label, some, all_, missing in (*rows, ("all", fresh, total, f"{fresh / total:.0%}"))
        ),
    )


def plans_table(study: Study, runs: Runs) -> DerivedTable:
    """The plans of `--full`, how long each takes, and which of them stand here."""
    plans = study.plans(quick=False)
    short = sum(plan.minutes <= SHORT_MINUTES for plan in plans)
    return DerivedTable(
        key="plans",
        caption=f"What `ullage study run {study.name} --full` runs",
        of="plan",
        columns=(
            Column(title="time", unit="h", decimals=1),
            Column(title="disk", unit="GiB", decimals=0),
            Column(title="within three hours"),
            Column(title="wants"),
            Column(title="run here"),
        ),
        rows=tuple(
            DerivedRow(
                label=plan.name,
                cells=(
                    StudyFigure(value=plan.minutes / 60),
                    StudyFigure(value=plan.disk_gib),
                    "yes" if plan.minutes <= SHORT_MINUTES else "no",
                    _wants(plan),
                    "yes" if plan.name in runs else "–",
                ),
            )
            for plan in plans
        ),
        notes=(
            f"On two quiet CPUs, the image apart. {short} of {many(len(plans), 'plan')} end within "
            f"three hours each, all together take {sum(plan.minutes for plan in plans) / 60:.0f}; "
            "`--plan NAME` runs one of them, and what this host has no room for is refused before "
            "anything starts.",
        ),
    )


def _wants(plan: StudyPlan) -> str:
    if plan.disks:
        return "`--disk`, once for each disk"
    if plan.cloud:
        return "`--cloud` with a plan of yours"
    return "`--plan` with its name" if plan.by_name else "–"


def dumped(report: StudyReport) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "study": report.study.name,
        "title": report.study.title,
        "question": report.study.question,
        "published": [_dumped(table) for table in report.tables],
        "runs": {name: str(path) for name, path in report.runs.items()},
        "fresh": [_dumped(table) for table in report.fresh],
        "coverage": report.coverage and _dumped(report.coverage),
        "plans": _dumped(report.plans),
    }


def _dumped(table: DerivedTable) -> dict[str, Any]:
    """A table, each figure with whether it agrees with the printed one."""
    dumped = table.model_dump(mode="json")
    for row, plain in zip(table.rows, dumped["rows"], strict=True):
        for cell, plain_cell in zip(row.cells, plain["cells"], strict=True):
            if isinstance(cell, StudyFigure):
                plain_cell["agrees"] = cell.agrees
    return dumped


def summary(report: StudyReport) -> list[str]:
    """The first lines: the question, and how much of what was published can be recomputed."""
    figures = [figure for table in report.tables for _, _, figure in table.figures()]
    agreeing = sum(figure.agrees is True for figure in figures)
    differing = sum(figure.agrees is False for figure in figures)
    if not figures:
        return [report.study.question, f"Of {report.study.source} no table can be recomputed."]
    lines = [
        report.study.question,
        f"Of {report.study.source}: {many(len(report.tables), 'table')} with "
        f"{many(len(figures), 'figure')}, recomputed from the published raw figures.",
    ]
    if agreeing + differing:
        lines.append(
            f"{agreeing + differing} of them are known as printed: {agreeing} agree to the last "
            f"digit, {differing} do not" + (f", marked {DIFFERS}." if differing else ".")
        )
    else:
        lines.append("None of them is known as printed, so none could disagree.")
    return lines


def head(column: Column) -> str:
    """A column's title with its unit."""
    return f"{column.title}, {column.unit}" if column.unit else column.title


def text(cell: DerivedCell, column: Column) -> str:
    """A cell in words: value, interval, and the printed figure where it is another."""
    if isinstance(cell, str):
        return cell
    if cell.value is None:
        return _bounds(cell, column) or "–"
    if cell.printed is not None:
        agrees = f"{cell.printed} = printed"
        return agrees if cell.agrees else f"{_plain(cell.value, column)} {DIFFERS} {cell.printed}"
    return _with_interval(cell.value, cell, column)


def _with_interval(value: float, figure: StudyFigure, column: Column) -> str:
    """Of a ratio as many digits as its interval bears."""
    if figure.low is None or figure.high is None:
        return _plain(value, column)
    if column.unit or min(value, figure.low) <= 0:
        return f"{_plain(value, column)} ({_bounds(figure, column)})"
    middle, low, high = rounding.bounded(value, figure.low, figure.high)
    return f"{middle} ({low} to {high})"


def _bounds(figure: StudyFigure, column: Column) -> str:
    if figure.low is None or figure.high is None:
        return ""
    return f"{_plain(figure.low, column)} to {_plain(figure.high, column)}"


def _plain(value: float, column: Column) -> str:
    return f"{value:,.{column.decimals}f}"


def notes(table: DerivedTable) -> list[str]:
    """What stands under a table: its notes, then why figures disagree or are missing."""
    why: dict[str, str] = {}
    for _, _, figure in table.figures():
        if figure.why and figure.agrees is not True:
            why.setdefault(figure.why, _sign(figure))
    return [*table.notes, *(f"{sign}: {reason}." for reason, sign in why.items())]


def page_table(table: DerivedTable) -> views.Table:
    """As it is shown, its notes below."""
    titles = [head(column) for column in table.columns]
    figures = {
        title
        for row in table.rows
        for title, cell in zip(titles, row.cells, strict=True)
        if isinstance(cell, StudyFigure)
    }
    rows: Iterable[views.TableRow] = (
        (_clean(row.label), *map(_cell, row.cells, table.columns)) for row in table.rows
    )
    note = unbroken(clean(" ".join(notes(table)), 4 * LONGEST))
    return views.tabulate(
        _clean(table.caption), (table.of, *titles), rows, numbers=figures, note=note
    )


def _cell(cell: DerivedCell, column: Column) -> views.TableCell:
    words = _clean(text(cell, column))
    if isinstance(cell, str):
        return views.TableCell(words)
    return views.TableCell(words, views.DIFFERS if cell.agrees is False else "n")


def _clean(text: str) -> str:
    return clean(text, LONGEST)


def _sign(figure: StudyFigure) -> str:
    """By what a reader knows a figure that has something to explain."""
    if figure.agrees is False:
        return DIFFERS
    if figure.value is not None:
        return "No interval"
    return "–" if figure.low is None else "A range"


def show(report: StudyReport, console: CleanConsole) -> None:
    for line in summary(report):
        console.print(escape(line), soft_wrap=True)
    _print(report.tables, console)
    if report.runs:
        console.print(f"\n[bold]Our own runs: {escape(_listed(report.runs.values()))}[/]")
        _print(report.fresh, console)
    if report.coverage is not None:
        _print([report.coverage], console)
    _print([report.plans], console)


def _listed(paths: Iterable[Path]) -> str:
    return ", ".join(map(str, paths))


def _print(tables: Iterable[DerivedTable], console: CleanConsole) -> None:
    for table in tables:
        console.print(f"\n[bold]{escape(table.caption)}[/]", soft_wrap=True)
        if table.rows:
            console.print(views.rich_table(page_table(table)))
        for note in notes(table):
            console.print(escape(note), soft_wrap=True)
