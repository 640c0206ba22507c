"""A study as one HTML file in the look of the report, with its plot of energies. Long to import."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

import ullage
from ullage.common.files import put
from ullage.common.text import clean
from ullage.experiments.studies import measured, showing
from ullage.experiments.studies.base import Table
from ullage.experiments.studies.finding import Runs
from ullage.experiments.studies.showing import Shown
from ullage.report import energy, views
from ullage.report import page as report
from ullage.report.charts.text import unbroken
from ullage.runs.reader import is_ordinary

NAME: Final = "study.html"
TEMPLATE: Final = "study.html.j2"
REPORT: Final = "report.html"
POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
"""No script at all: tables, text and the plot of energies need none."""
_LONGEST: Final = 300
"""Of a cell: labels are a run's own words."""


@dataclass(frozen=True)
class Link:
    """A run, and its report as seen from the page."""

    plan: str
    run: str
    report: str
    """Empty where there is none."""


@dataclass(frozen=True)
class Plot:
    """The energies of a run over its baseline's, as its report draws them."""

    title: str
    panels: tuple[views.ForestPanel, ...]


def write(found: Shown, out: Path) -> Path:
    """Write the page, whole or not at all."""
    put(out, render(found, out.parent).encode())
    return out


def render(found: Shown, place: Path) -> str:
    """The whole page, with links as from a file in `place`."""
    templates = Environment(
        loader=ChoiceLoader(
            [PackageLoader("ullage.experiments.studies"), PackageLoader("ullage.report")]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template(TEMPLATE).render(
        page={
            "title": found.study.title,
            "name": found.study.name,
            "version": ullage.__version__,
            "style": Markup(report.style()),  # noqa: S704  our own
            "policy": POLICY,
            "answer": [unbroken(line) for line in showing.summary(found)],
            "published": _tables(found.tables),
            "fresh": _tables(found.fresh),
            "energy": [*_energies(found.runs)],
            "links": [_link(name, path, place) for name, path in found.runs.items()],
            "readme": _html(found.study.readme()),
        }
    )


def _html(readme: str) -> Markup:
    """Our own Markdown without its title, which the page has; HTML in it is shown as text."""
    body = readme.partition("\n")[2] if readme.startswith("# ") else readme
    return Markup(MarkdownIt("commonmark", {"html": False}).enable("table").render(body))  # noqa: S704


def _energies(runs: Runs) -> Iterator[Plot]:
    """Of each run of ours that has some; elastic runs and those of the clock have no such plot."""
    for plan, path in runs.items():
        if is_ordinary(path):
            section = energy.section(measured.opened(path).analysis)
            if section is not None and section.forest:
                yield Plot(f"{clean(plan, _LONGEST)}: {section.title}", section.forest)


def _link(plan: str, path: Path, place: Path) -> Link:
    file = path / REPORT
    relative = Path(os.path.relpath(file.resolve(), place.resolve())).as_posix()
    return Link(plan, clean(str(path), _LONGEST), relative if file.is_file() else "")


def _tables(tables: Iterable[Table]) -> tuple[views.Table, ...]:
    return tuple(map(_table, tables))


def _table(table: Table) -> views.Table:
    heads = [views.Head(table.of)]
    for place, column in enumerate(table.columns):
        words = all(isinstance(row.cells[place], str) for row in table.rows)
        heads.append(views.Head(showing.head(column), number=not words))
    rows = tuple(
        (
            views.TableCell(clean(row.label, _LONGEST)),
            *(
                views.TableCell(
                    clean(showing.text(cell, column), _LONGEST),
                    "" if isinstance(cell, str) else "n",
                )
                for cell, column in zip(row.cells, table.columns, strict=True)
            ),
        )
        for row in table.rows
    )
    note = unbroken(clean(" ".join(showing.notes(table)), 4 * _LONGEST))
    return views.Table(clean(table.caption, _LONGEST), tuple(heads), rows, note)
