"""What charts in lanes share: one lane an environment, its name above its points.

Names stand above and not beside, so that a chart reads on a phone as well. Places within a lane are
worked out here; Vega-Lite only draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import altair as alt

from ullage.report.theme import FONT

Row = dict[str, Any]
Layer = Any
"""An Altair chart; its own types do not compose under strict checking."""
Item = TypeVar("Item")

CONFIG: Final[dict[str, Any]] = {
    "background": "transparent",
    "font": FONT,
    "view": {"stroke": None},
    "padding": {"left": 2, "right": 8, "top": 4, "bottom": 2},
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
    "legend": {
        "labelColor": "var(--ink)",
        "titleColor": "var(--soft)",
        "labelFontSize": 12.5,
        "symbolStrokeWidth": 2,
        "labelLimit": 260,
    },
}


def thin(items: Sequence[Item], most: int) -> list[Item]:
    """At most so many of the items, evenly spread; for drawing only."""
    if len(items) <= most:
        return list(items)
    return [items[int(i * len(items) / most)] for i in range(most)]


def lane_names(rows: Sequence[Row], count: int) -> Layer:
    """Lane names at the left (`n`), under them failures (`f`), medians at the right (`m`)."""
    data = alt.InlineData(list(rows))
    base = alt.Chart(data).encode(y=lane_axis(count))
    left = base.mark_text(
        align="left",
        baseline="middle",
        fontSize=12.5,
        fontWeight=600,
        color="var(--ink)",
        limit=210,
    ).encode(x=alt.value(0), text="n:N")
    layers = [left]
    if any(row.get("m") for row in rows):
        layers.append(
            base.mark_text(
                align="right", baseline="middle", fontSize=12, color="var(--soft)"
            ).encode(x=alt.value("width"), text="m:N")
        )
    if any(row.get("f") for row in rows):
        layers.append(
            base.mark_text(
                align="left", baseline="middle", fontSize=12, color="var(--worse)", dy=17
            ).encode(x=alt.value(0), text="f:N")
        )
    return alt.layer(*layers)


def lane_axis(count: int, field: str = "y") -> alt.Y:
    """Lane 0 on top; a lane is one unit high."""
    return alt.Y(
        f"{field}:Q",
        axis=None,
        scale=alt.Scale(domain=[0, count], reverse=True, nice=False, zero=False),
    )


def finish(layers: Sequence[Layer], height: float) -> Layer:
    """The layers as one chart, as wide as its place, in the report's style."""
    return (
        alt.layer(*layers)
        .properties(width="container", height=height, autosize=alt.AutoSizeParams(type="fit-x"))
        .configure(**CONFIG)
    )
