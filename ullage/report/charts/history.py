"""A figure over many runs: each with its interval, the level since each change, and its commit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import altair as alt

from ullage.analysis.history import HistoryPoint, HistorySeries
from ullage.common.text import clean
from ullage.report.charts.lanes import DataRow, Drawing, finish, over
from ullage.report.charts.text import unit_scale

HEIGHT: Final = 240
MOST_NAMED: Final = 30
"""Of more runs than this only as many are named as there is room for."""
_COMMIT: Final = 8
"""Characters of a commit that are enough to tell it."""


def tick(point: HistoryPoint) -> str:
    """What stands under a run: its commit, else its day."""
    return clean(point.labels.get("commit", "")[:_COMMIT] or point.started[:10], 20)


def draw(series: HistorySeries) -> Drawing:
    """The runs from left to right, the oldest first, at equal distances."""
    points = [point for point in series.points if point.value is not None]
    factor, unit = unit_scale(
        max((point.value or 0.0 for point in points), default=1.0), series.unit
    )
    title = series.metric.replace("_", " ") + (f", {unit}" if unit else "")
    if series.unit == "1":
        factor, title = 1.0, "ratio"
    places = {point.run: number for number, point in enumerate(points)}
    names = [tick(point) for point in points]
    axis = alt.Axis(
        labelExpr=f"{json.dumps(names)}[datum.value]",
        labelAngle=-45,
        labelLimit=400,
        labelFontSize=10,
        labelOverlap=len(points) > MOST_NAMED,
        tickCount=len(points),
        values=list(range(len(points))),
    )
    x = alt.X("x:Q", title=None, axis=axis, scale=alt.Scale(padding=12, nice=False))
    y = alt.Y("y:Q", title=title, scale=alt.Scale(zero=False))
    base = over("points").encode(x=x)
    layers = [
        over("changes").mark_rule(color="var(--c1)", strokeDash=[4, 3]).encode(x=x),
        base.mark_rule(color="var(--soft)").encode(y=alt.Y("lo:Q", title=title), y2=alt.Y2("hi:Q")),
        over("levels")
        .mark_rule(color="var(--c1)", strokeWidth=2)
        .encode(x=x, x2=alt.X2("to:Q"), y=y),
        base.mark_point(filled=True, size=52, opacity=1, color="var(--ink)").encode(y=y),
    ]
    changes = [{"x": places[change.run] - 0.5} for change in series.changes]
    data: dict[str, list[DataRow]] = {
        "points": [_row(point, places[point.run], factor) for point in points],
        "changes": list(changes),
        "levels": _levels(series, places, factor),
    }
    drawing = finish(layers, HEIGHT, data)
    # A font that is wider than the one that the height was reckoned by.
    return replace(drawing, layout=drawing.layout | {"padding": {"left": 24, "bottom": 16}})


def _row(point: HistoryPoint, place: int, factor: float) -> DataRow:
    value = (point.value or 0.0) / factor
    low, high = (value if bound is None else bound / factor for bound in (point.low, point.high))
    return {"x": place, "y": value, "lo": low, "hi": high}


def _levels(series: HistorySeries, places: dict[str, int], factor: float) -> list[DataRow]:
    """The geometric mean from one change to the next."""
    starts = [0, *(places[change.run] for change in series.changes)]
    ends = [start - 1 for start in starts[1:]] + [len(places) - 1]
    levels: Sequence[float] = (
        [series.changes[0].before, *(change.after for change in series.changes)]
        if series.changes
        else []
    )
    return [
        {"x": start, "to": end, "y": level / factor}
        for start, end, level in zip(starts, ends, levels, strict=False)
    ]
