"""What a command shows as one HTML file in the look of the report. Long to import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import altair as alt

from ullage.experiments.clock import view
from ullage.experiments.clock.outcomes import Histogram
from ullage.experiments.clock.view import View
from ullage.host import facts as host
from ullage.report import document
from ullage.report.charts.lanes import Drawing, finish, over
from ullage.report.charts.theme import SERIES
from ullage.report.views import Fact, Specs

HEIGHT: Final = 220


def draw(histograms: Sequence[tuple[str, Histogram]]) -> Drawing:
    """Bars over a logarithmic axis; a single value is still seen beside ten thousand."""
    names = [name for name, _ in histograms]
    rows = [
        {
            "e": name,
            "x": bin_.from_ns / 1e9,
            "z": bin_.to_ns / 1e9,
            "y": bin_.count,
            "b": 0,
            "t": f"{view.span(bin_.from_ns)} to {view.span(bin_.to_ns)}",
        }
        for name, histogram in histograms
        for bin_ in histogram.bins
        if bin_.count
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


def render(view: View, when: str) -> str:
    specs = Specs()
    sections = [
        replace(
            section,
            id=f"part-{number}",
            figures=tuple(specs.figure(c.draw(), c.caption, c.label) for c in section.charts),
        )
        for number, section in enumerate(view.sections, 1)
    ]
    facts = [Fact(text) for text in (*_host(), when)]
    return document.render(
        "ullage.experiments.clock",
        "clock.html.j2",
        view.title,
        facts,
        specs.items,
        answer=view.answer,
        sections=sections,
    )


def _host() -> list[str]:
    facts = host.facts()
    return [str(facts[name]) for name in ("cpu_model", "kernel") if facts.get(name)]
