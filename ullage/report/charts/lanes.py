"""What charts in lanes share: one lane an environment, its name above its points.

Names stand above and not beside, so that a chart reads on a phone as well. Places within a lane are
worked out here; Vega-Lite only draws.

A lane of a duet is an environment and its partner. The baseline has trials beside every other
environment, and each partner loads it in its own way, so these never share a lane, a median or a
row.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import altair as alt

from ullage.analysis.comparison.model import Analysis
from ullage.analysis.comparison.words import SIDE_BY_SIDE
from ullage.report.charts.theme import FONT
from ullage.runs.events import Trial
from ullage.runs.records import Design, EnvironmentRecord, Resolved


def key(design: Design, environment: str, partner: str) -> str:
    """Key of the lane in which the trials of `environment` beside `partner` stand."""
    return f"{environment} beside {partner}" if design == "duet" else environment


def apart(
    resolved: Resolved, trials: Sequence[Trial]
) -> tuple[tuple[EnvironmentRecord, ...], tuple[Trial, ...]]:
    """Environments and trials by lane: as they are, or of a duet renamed by their partner.

    The two lanes of a pair are neighbours.
    """
    if resolved.design == "solo":
        return resolved.environments, tuple(trials)
    records = {e.key: e for e in resolved.environments}
    ran = {(t.environment, t.partner) for t in trials if t.partner is not None}
    order = [
        side
        for environment, partner in itertools.combinations(records, 2)
        for side in ((environment, partner), (partner, environment))
        if side in ran
    ]
    lanes = [
        records[environment].model_copy(
            update={
                "key": key("duet", environment, partner),
                "label": f"{records[environment].label} beside {records[partner].label}",
            }
        )
        for environment, partner in order
    ]
    moved = [
        t.model_copy(update={"environment": key("duet", t.environment, t.partner)})
        for t in trials
        if t.partner is not None
    ]
    return tuple(lanes), tuple(moved)


def suffix(analysis: Analysis) -> str:
    """What every caption and label of a duet says."""
    return f", {SIDE_BY_SIDE}" if analysis.design == "duet" else ""


DataRow = dict[str, Any]
Layer = Any
"""An Altair chart; its own types do not compose under strict checking."""
Item = TypeVar("Item")


@dataclass(frozen=True)
class Drawing:
    """A finished chart: a Vega-Lite specification and its height in pixels."""

    layout: dict[str, Any]
    """The specification without its data."""
    data: Mapping[str, Sequence[DataRow]]
    height: int

    @property
    def spec(self) -> dict[str, Any]:
        return self.layout | {"datasets": {name: list(rows) for name, rows in self.data.items()}}

    def packed(self) -> dict[str, Any]:
        """The same, smaller: of each data set the names once, and rows without names."""
        sets = {}
        for name, rows in self.data.items():
            keys = list(dict.fromkeys(key for row in rows for key in row))
            sets[name] = {"keys": keys, "rows": [[row.get(key) for key in keys] for row in rows]}
        return {"spec": self.layout, "data": sets}


CONFIG: Final[dict[str, Any]] = {
    "view": {"continuousWidth": 300, "continuousHeight": 300, "stroke": None},
    "axis": {
        "labelColor": "var(--soft)",
        "titleColor": "var(--soft)",
        "titleFontWeight": "normal",
        "titleFontSize": 12,
        "labelFontSize": 11.5,
        "gridColor": "var(--grid)",
        "domainColor": "var(--line)",
        "tickColor": "var(--line)",
        "labelFlush": True,
        "labelOverlap": "greedy",
        "tickCount": 6,
    },
    "background": "transparent",
    "font": FONT,
    "legend": {
        "labelColor": "var(--ink)",
        "titleColor": "var(--soft)",
        "labelFontSize": 12.5,
        "symbolStrokeWidth": 2,
        "labelLimit": 260,
    },
    "padding": {"left": 2, "right": 8, "top": 4, "bottom": 2},
}


def thin(items: Sequence[Item], most: int) -> list[Item]:
    """At most so many of the items, evenly spread; for drawing only."""
    if len(items) <= most:
        return list(items)
    return [items[int(i * len(items) / most)] for i in range(most)]


def over(data: str) -> alt.Chart:
    """A layer over the named data of `finish`.

    Data go in by name after Altair has checked the specification; checking each of thousands of
    rows against the schema takes seconds and finds nothing.
    """
    return alt.Chart(alt.NamedData(name=data))


def lane_names(rows: Sequence[DataRow], count: int) -> list[Layer]:
    """Lane names at the left (`n`), under them failures (`f`), medians at the right (`m`).

    The rows are the data `names`. Words stand on a rim of the ground's colour, over lines.
    """
    base = over("names").encode(y=lane_axis(count))
    bold = {"fontSize": 12.5, "fontWeight": 600, "limit": 210, "align": "left"}
    layers = _words(base, "n", x_at(0), bold | {"color": "var(--ink)"})
    if any(row.get("m") for row in rows):
        place = {"fontSize": 12, "align": "right", "color": "var(--soft)"}
        layers += _words(base, "m", x_at("width"), place)
    if any(row.get("f") for row in rows):
        place = {"fontSize": 12, "align": "left", "dy": 17, "color": "var(--worse)"}
        layers += _words(base, "f", x_at(0), place)
    return layers


def _words(base: alt.Chart, field: str, x: Any, style: dict[str, Any]) -> list[Layer]:
    rim = style | {"stroke": "var(--bg)", "strokeWidth": 4, "strokeJoin": "round"}
    return [
        base.mark_text(baseline="middle", **look).encode(x=x, text=alt.Text(f"{field}:N"))
        for look in (rim, style)
    ]


def x_at(place: float | str) -> Any:
    """A fixed place, in pixels or `width`. Altair finds the channel of a bare value slowly."""
    return alt.XValue(place)  # type: ignore[no-untyped-call]


def lane_axis(count: int, field: str = "y") -> alt.Y:
    """Lane 0 on top; a lane is one unit high."""
    return alt.Y(
        f"{field}:Q",
        axis=None,
        scale=alt.Scale(domain=[0, count], reverse=True, nice=False, zero=False),
    )


def finish(layers: Sequence[Layer], height: int, data: Mapping[str, Sequence[DataRow]]) -> Drawing:
    """The layers as one chart, as wide as its place, in the report's style.

    data: the rows of each name that a layer stands over.
    """
    # Each layer was checked as it was made; the whole takes longest, and is checked in the tests.
    chart = alt.layer(*layers).to_dict(validate=False)
    head = {"config": CONFIG, "layer": chart.pop("layer")}
    tail = {"$schema": chart.pop("$schema")}
    del chart["config"]
    place = {"width": "container", "height": height, "autosize": {"type": "fit-x"}}
    return Drawing(head | dict(sorted((chart | place).items())) | tail, data, height)
