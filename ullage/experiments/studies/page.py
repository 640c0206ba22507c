"""A study as one HTML file in the look of the report, with its plot of energies. Long to import."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markupsafe import Markup

from ullage.common.files import put
from ullage.common.text import clean
from ullage.experiments.studies import measured, showing
from ullage.experiments.studies.finding import Runs
from ullage.experiments.studies.showing import StudyReport
from ullage.report import document, energy
from ullage.report.charts.text import unbroken
from ullage.report.views import Fact
from ullage.runs.reader import is_ordinary

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


def render(report: StudyReport, place: Path) -> str:
    """The whole page, with links as from a file in `place`."""
    return document.render(
        "ullage.experiments.studies",
        "study.html.j2",
        report.study.title,
        [Fact(f"study {report.study.name}")],
        answer=[unbroken(line) for line in showing.summary(report)],
        published=[*map(showing.page_table, report.tables)],
        fresh=[*map(showing.page_table, report.fresh)],
        coverage=report.coverage and showing.page_table(report.coverage),
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
