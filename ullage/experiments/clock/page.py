"""What a command shows as one HTML file in the look of the report. Long to import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import altair as alt
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

import ullage
from ullage.experiments.clock import view
from ullage.experiments.clock.outcomes import Histogram
from ullage.experiments.clock.view import Section, Table, View
from ullage.host import facts as host
from ullage.report import page as report
from ullage.report import views
from ullage.report.charts.lanes import Drawing, finish, over
from ullage.report.charts.theme import SERIES
from ullage.report.workloads import add

# Histograms of durations by several clocks, over each other. Long to import.

HEIGHT: Final = 220


def draw(histograms: Sequence[tuple[str, Histogram]]) -> Drawing:
    """Bars over a logarithmic axis; a single value is still seen beside ten thousand."""
    names = [name for name, _ in histograms]
    rows = [
        {
            "e": name,
            "x": one.from_ns / 1e9,
            "z": one.to_ns / 1e9,
            "y": one.count,
            "b": 0,
            "t": f"{view.span(one.from_ns)} to {view.span(one.to_ns)}",
        }
        for name, histogram in histograms
        for one in histogram.bins
        if one.count
    ]
    colours = alt.Scale(domain=names, range=[f"var(--{SERIES[i]})" for i in range(len(names))])
    tips = (("e", "clock"), ("t", "duration"), ("y", "loops"))
    bars = (
        over("bins")
        .mark_rect(fillOpacity=0.3, strokeWidth=1.2)
        .encode(
            x=alt.X(
                "x:Q",
                title="duration, s",
                scale=alt.Scale(type="log", nice=False, padding=6),
                axis=alt.Axis(format="~s"),
            ),
            x2="z:Q",
            y=alt.Y("y:Q", title="loops", scale=alt.Scale(type="symlog"), stack=None),
            y2="b:Q",
            color=alt.Color("e:N", scale=colours, legend=alt.Legend(title=None, orient="top")),
            stroke=alt.Stroke("e:N", scale=colours, legend=None),
            tooltip=[alt.Tooltip(f"{key}:N", title=title) for key, title in tips],
        )
    )
    return finish([bars], HEIGHT, {"bins": rows})


TEMPLATE = "clock.html.j2"


@dataclass(frozen=True)
class _Part:
    id: str
    title: str
    lines: tuple[str, ...]
    tables: tuple[views.Table, ...]
    figures: tuple[views.Figure, ...]


def render(view: View, when: str) -> str:
    templates = Environment(
        loader=ChoiceLoader(
            [PackageLoader("ullage.experiments.clock"), PackageLoader("ullage.report")]
        ),
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
