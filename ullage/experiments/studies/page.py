"""A study as one HTML file in the look of the report, with its plot of energies. Long to import."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markupsafe import Markup

from ullage.analysis import sentences
from ullage.common.files import put
from ullage.common.text import clean
from ullage.experiments.elastic.analysis.contrasts import sides
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.analysis.summary import summarise
from ullage.experiments.elastic.report import answer as elastic_answer
from ullage.experiments.studies import bars, lines, measured, showing
from ullage.experiments.studies.base import Along, DerivedTable
from ullage.experiments.studies.finding import Runs
from ullage.experiments.studies.showing import StudyReport
from ullage.report import document, energy
from ullage.report.charts.text import unbroken
from ullage.report.views import Fact
from ullage.runs.reader import is_elastic, is_ordinary

NAME: Final = "study.html"
REPORT: Final = "report.html"


@dataclass(frozen=True)
class RunLink:
    """A run, and its report as seen from the page."""

    plan: str
    run: str
    report: str
    """Empty where there is none."""


def write(report: StudyReport, out: Path) -> Path:
    """Write the page, whole or not at all."""
    put(out, render(report, out.parent).encode())
    return out


@dataclass(frozen=True)
class DrawnChart:
    title: str
    published: Markup
    fresh: tuple[Markup, ...]


def drawing(table: DerivedTable, columns: Sequence[str], along: Along | None) -> str:
    """Lines where there is something to go along, else bars."""
    unit = table.columns[-1].unit
    chosen = columns or [column.title for column in table.columns if column.unit == unit]
    drawn = lines.draw(table, chosen, along) if along else ""
    return drawn or bars.draw(table, chosen)


def charts(report: StudyReport) -> list[DrawnChart]:
    """The published charts drawn anew, with ours beside; none of what cannot be drawn."""
    published = {table.key: table for table in report.tables}
    drawn = []
    for chart in report.study.charts:
        there = ""
        if chart.published:
            there = drawing(published[chart.published], chart.columns, chart.along)
        ours = (
            drawing(table, chart.fresh_columns, chart.fresh_along)
            for table in report.fresh
            if chart.fresh and table.key.startswith(chart.fresh)
        )
        fresh = tuple(Markup(svg) for svg in ours if svg)  # noqa: S704
        if there or fresh:
            drawn.append(DrawnChart(chart.title, Markup(there), fresh))  # noqa: S704
    return drawn


def answers(report: StudyReport) -> list[str]:
    """What our own runs say, the first sentence of each."""
    texts = []
    for plan, path in report.runs.items():
        if is_ordinary(path):
            sentence = sentences.answer(measured.opened(path).analysis)[:1]
        elif is_elastic(path):
            run = ElasticRun.open(path)
            sentence = elastic_answer.answer(summarise(run, sides(run)))[:1]
        else:
            continue
        texts += [f"{clean(plan, showing.LONGEST)}: {line}" for line in sentence]
    return texts


def render(report: StudyReport, place: Path) -> str:
    """The whole page, with links as from a file in `place`."""
    return document.render(
        "ullage.experiments.studies",
        "study.html.j2",
        report.study.title,
        [Fact(f"study {report.study.name}")],
        answer=[unbroken(line) for line in (*showing.summary(report), *answers(report))],
        charts=charts(report),
        published=[*map(showing.page_table, report.tables)],
        fresh=[*map(showing.page_table, report.fresh)],
        coverage=report.coverage and showing.page_table(report.coverage),
        plans=showing.page_table(report.plans),
        energy=[*_energies(report.runs)],
        links=[_link(name, path, place) for name, path in report.runs.items()],
        readme=_html(report.study.readme()),
    )


def _html(readme: str) -> Markup:
    """Our own Markdown without its title, which the page has; HTML in it is shown as text."""
    body = readme.partition("\n")[2] if readme.startswith("# ") else readme
    return Markup(MarkdownIt("commonmark", {"html": False}).enable("table").render(body))  # noqa: S704


def _energies(runs: Runs) -> Iterator[energy.EnergySection]:
    """Of each run of ours that has some; elastic runs and those of the clock have no such plot."""
    for plan, path in runs.items():
        if is_ordinary(path):
            section = energy.section(measured.opened(path).analysis)
            if section is not None and section.forest:
                yield replace(section, title=f"{clean(plan, showing.LONGEST)}: {section.title}")


def _link(plan: str, path: Path, place: Path) -> RunLink:
    file = path / REPORT
    relative = Path(os.path.relpath(file.resolve(), place.resolve())).as_posix()
    return RunLink(plan, clean(str(path), showing.LONGEST), relative if file.is_file() else "")
