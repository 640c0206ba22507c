"""What a command shows as one HTML file in the look of the report. Long to import."""

from __future__ import annotations

from dataclasses import dataclass

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

import ullage
from ullage import host
from ullage.clock.view import Section, Table, View
from ullage.report import page as report
from ullage.report import views
from ullage.report.workloads import add

TEMPLATE = "clock.html.j2"


@dataclass(frozen=True)
class _Part:
    id: str
    title: str
    lines: tuple[str, ...]
    tables: tuple[views.Table, ...]
    figures: tuple[views.Figure, ...]


def render(view: View, when: str) -> str:
    """The whole page."""
    templates = Environment(
        loader=ChoiceLoader([PackageLoader("ullage.clock"), PackageLoader("ullage.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    specs = views.Specs()
    assets = report.assets()
    parts = [_part(number, section, specs) for number, section in enumerate(view.sections, 1)]
    return templates.get_template(TEMPLATE).render(
        page={
            "title": view.title,
            "version": ullage.__version__,
            "style": assets.style,
            "library": assets.library,
            "script": assets.script,
            "policy": assets.policy,
            "facts": [*_host(), when],
            "answer": view.answer,
            "sections": parts,
            "specs": specs.items,
        }
    )


def _host() -> list[str]:
    facts = host.facts()
    known = (facts.get(name) for name in ("cpu_model", "kernel"))
    return [str(fact) for fact in known if fact]


def _part(number: int, section: Section, specs: views.Specs) -> _Part:
    figures = []
    for chart in section.charts:
        drawing = chart.draw()
        figures.append(
            views.Figure(
                id=add(specs, drawing),
                caption=chart.caption,
                label=chart.label,
                height=drawing.height,
            )
        )
    return _Part(
        id=f"part-{number}",
        title=section.title,
        lines=section.lines,
        tables=tuple(map(_table, section.tables)),
        figures=tuple(figures),
    )


def _table(table: Table) -> views.Table:
    numbers = tuple(head for head in table.heads[1:] if head not in table.texts)
    places = tuple(i for i, head in enumerate(table.heads) if head in numbers)
    return views.Table(
        table.caption,
        views.heads(*table.heads, numbers=numbers),
        tuple(views.cells(*row, numbers=places) for row in table.rows),
    )
