"""The pictures of an elastic run: nodes and viewers over time, allocations, waits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import altair as alt

from ullage.common.text import clean, slug
from ullage.experiments.elastic.analysis.contrasts import EnvironmentSide
from ullage.experiments.elastic.analysis.curves import StepCurve
from ullage.experiments.elastic.analysis.demand import Curves
from ullage.experiments.elastic.analysis.doubts import ElasticDoubt
from ullage.experiments.elastic.analysis.elasticity import NS
from ullage.experiments.elastic.analysis.metrics import RepetitionFigures
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.analysis.summary import RunContrasts, Summary
from ullage.experiments.elastic.simulator.twin import Simulated
from ullage.report.charts.lanes import (
    DataRow,
    Drawing,
    Layer,
    finish,
    lane_axis,
    lane_names,
    over,
    thin,
)
from ullage.report.charts.text import quantity
from ullage.report.charts.theme import SERIES
from ullage.report.pictures import stacked, vega_svg

HEIGHT: Final = 250
MOST_TICKS: Final = 6
LANE: Final = 56
MOST_CORNERS: Final = 1_200
"""Of one curve that are drawn; beyond, each bin of time shows its extremes."""
MOST_POINTS: Final = 300
DASHES: Final = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [1, 3])

_LINES: Final = (
    ("nodes demanded", "var(--c1)", [5, 3]),
    ("nodes supplied", "var(--c2)", [1, 0]),
    ("nodes allocated", "var(--c2)", [1, 3]),
    ("supplied, simulated", "var(--c5)", [8, 3, 2, 3]),
)
"""Name, colour and dash of each line: told apart without their colour."""


def field(curves: Curves, room: int, scale: float, simulated: StepCurve | None = None) -> Drawing:
    """The figure of the field: nodes over time at the left, viewers at the right on one scale.

    What `room` viewers need is one node, so demand is the viewers' curve rounded up.
    """
    begin, end = curves.over.begin, max(curves.over.end, curves.last_ns)

    def rows(curve: StepCurve, **more: str) -> list[DataRow]:
        return [row | more for row in _steps(curve, begin, end)]

    named = [curves.demanded, curves.supplied, curves.allocated]
    named += [] if simulated is None else [simulated]
    data: dict[str, Sequence[DataRow]] = {
        "viewers": [row | {"y": row["y"] / room} for row in rows(curves.present)],
        "waiting": [row | {"y": row["y"] / room} for row in rows(curves.waiting)],
        "lines": [
            row
            for curve, (name, *_) in zip(named, _LINES, strict=False)
            for row in rows(curve, l=name)
        ],
        "missing": _missing(curves, begin, end),
    }
    x = alt.X(
        "x:Q", title=_time(scale), scale=alt.Scale(domain=[0, (end - begin) / NS], nice=False)
    )
    most = max(math.ceil(row["y"]) for name in ("viewers", "lines") for row in data[name])
    drawn = finish(_field_layers(x, room, len(named), whole(most)), HEIGHT, data)
    # One scale, two axes: nodes at the left, their seats at the right.
    return replace(drawn, layout=drawn.layout | {"resolve": {"axis": {"y": "independent"}}})


def _time(scale: float) -> str:
    users = "" if scale == 1 else f" (one is {scale:g} s of the users' time)"
    return f"seconds since the start{users}"


def whole(most: int) -> list[int]:
    """Ticks of an axis from 0 to `most`: a few, and no parts of one, which Vega's least step still
    gives.
    """
    steps = (digit * 10**power for power in itertools.count() for digit in (1, 2, 5))
    step = next(step for step in steps if most <= MOST_TICKS * step)
    return list(range(0, most + 1, step))


def _field_layers(x: alt.X, room: int, lines: int, ticks: list[int]) -> list[Layer]:
    styles = _LINES[:lines]
    names = [name for name, *_ in styles]
    scale = alt.Scale(zero=True, nice=True)
    nodes = alt.Axis(title="nodes", values=ticks, format=",d")
    seats = alt.Axis(
        title=f"viewers ({room} to a node)",
        orient="right",
        labelExpr=f"format(datum.value * {room}, ',.0f')",
        grid=False,
        values=ticks,
    )
    # In a file the names are wider than Vega thinks, which has no font there to measure them by.
    legend = alt.Legend(
        title=None,
        orient="top",
        columns=2,
        columnPadding=30,
        symbolType="stroke",
        symbolSize=260,
    )
    colour = alt.Color(
        "l:N", scale=alt.Scale(domain=names, range=[c for _, c, _ in styles]), legend=legend
    )
    dash = alt.StrokeDash(
        "l:N", scale=alt.Scale(domain=names, range=[d for _, _, d in styles]), legend=legend
    )
    viewers = over("viewers").mark_area(interpolate="step-after", color="var(--c0)", opacity=0.2)
    waiting = over("waiting").mark_area(interpolate="step-after", color="var(--c0)", opacity=0.5)
    missing = over("missing").mark_rect(color="var(--worse)", opacity=0.28)
    line = over("lines").mark_line(interpolate="step-after", strokeJoin="miter", strokeWidth=2)
    return [
        viewers.encode(x=x, y=alt.Y("y:Q", scale=scale, axis=seats, stack=None)),
        waiting.encode(x=x, y=alt.Y("y:Q", scale=scale, axis=None, stack=None)),
        missing.encode(x=alt.X("x:Q"), x2="z:Q", y=alt.Y("y:Q", scale=scale, axis=None), y2="h:Q"),
        line.encode(
            x=x,
            y=alt.Y("y:Q", scale=scale, axis=nodes),
            color=colour,
            strokeDash=dash,
            order="x:Q",
        ),
    ]


def _missing(curves: Curves, begin: int, end: int) -> list[DataRow]:
    """Rectangles where fewer nodes are supplied than demanded; the largest if there are many."""
    cuts = sorted({t for c in (curves.demanded, curves.supplied) for t, _ in c.corners(begin, end)})
    rows = []
    for start, stop in zip(cuts, [*cuts[1:], end], strict=True):
        d, s = int(curves.demanded(start)), int(curves.supplied(start))
        if s < d:
            rows.append({"x": _x(start, begin), "z": _x(stop, begin), "y": s, "h": d})
    rows.sort(key=lambda row: (row["z"] - row["x"]) * (row["h"] - row["y"]), reverse=True)
    return rows[:MOST_CORNERS]


def _steps(curve: StepCurve, begin: int, end: int) -> list[DataRow]:
    """Corners for drawing; of more than can be seen the extremes of each bin of time."""
    corners = [*curve.corners(begin, end), (end, int(curve(end)))]
    if len(corners) > MOST_CORNERS:
        corners = _extremes(corners, begin, end)
    return [{"x": _x(t, begin), "y": value} for t, value in corners]


def _extremes(corners: Sequence[tuple[int, int]], begin: int, end: int) -> list[tuple[int, int]]:
    bins: dict[int, list[tuple[int, int]]] = {}
    count = MOST_CORNERS // 4
    for t, value in corners:
        bins.setdefault((t - begin) * count // (end - begin), []).append((t, value))
    extremes: set[tuple[int, int]] = set()
    for of in bins.values():
        extremes |= {of[0], of[-1], min(of, key=lambda c: c[1]), max(of, key=lambda c: c[1])}
    return sorted(extremes)


def _x(at: int, begin: int) -> float:
    return round((at - begin) / NS, 4)


def allocations(seconds: Mapping[str, Sequence[float]], middle: Mapping[str, str]) -> Drawing:
    """TaR of every allocation, one lane an environment. middle: what stands at the lane's right."""
    labels = list(seconds)
    every = [t for of in seconds.values() for t in of]
    low, high = (min(every), max(every)) if every else (0.0, 1.0)
    logs = low > 0 and high / low > 5
    scale = (
        alt.Scale(type="log", domain=[low / 1.05, high * 1.05], nice=False)
        if logs
        else alt.Scale(domain=[0, high * 1.05 or 1.0], nice=False)
    )
    x = alt.X("x:Q", title="time to allocate a node, s   (← less is better)", scale=scale)
    golden = 0.6180339887498949
    points = [
        {
            "x": t,
            "y": round(lane + 0.66 + 0.34 * ((i * golden) % 1 - 0.5), 3),
            "t": quantity(t, "s"),
        }
        for lane, label in enumerate(labels)
        for i, t in enumerate(thin(seconds[label], MOST_POINTS))
    ]
    names = [
        {"y": lane + 0.2, "n": clean(label, 60), "m": middle.get(label, "")}
        for lane, label in enumerate(labels)
    ]
    tip = alt.Tooltip("t:N", title="TaR")
    layers: list[Layer] = [
        over("points")
        .mark_point(filled=True, size=30, opacity=0.62, color="var(--c2)")
        .encode(x=x, y=lane_axis(len(labels)), tooltip=[tip]),
        *lane_names(names, len(labels)),
    ]
    return finish(layers, LANE * len(labels) + 4, {"points": points, "names": names})


def waits(waits_by_label: Mapping[str, tuple[Sequence[float], int]], patience_s: float) -> Drawing:
    """Share of all requests that were sent to a node within a time.

    waits_by_label: the waits, sorted, and the number of requests. Who never
    was is missing at the right end: the line ends below 100 %.
    """
    labels = list(waits_by_label)
    rows: list[DataRow] = []
    longest = max((w[-1] for w, _ in waits_by_label.values() if w), default=0.0)
    end = max(longest, patience_s) * 1.04 or 1.0
    for label, (waits_s, requests) in waits_by_label.items():
        rows.append({"x": 0.0, "y": 0.0, "l": clean(label, 60)})
        shares = [(w, (i + 1) / requests) for i, w in enumerate(waits_s)]
        points = thin(shares, MOST_CORNERS // 2) + shares[-1:]
        rows += [
            {"x": float(f"{w:.6g}"), "y": round(y, 6), "l": clean(label, 60)} for w, y in points
        ]
        rows.append({"x": end, "y": round(len(waits_s) / requests, 6), "l": clean(label, 60)})
    domain = [clean(label, 60) for label in labels]
    legend = alt.Legend(title=None, orient="top", columns=2, symbolType="stroke", symbolSize=260)
    dashes = [DASHES[i % len(DASHES)] for i in range(len(domain))]
    colours = [f"var(--{SERIES[1 + i % (len(SERIES) - 1)]})" for i in range(len(domain))]
    line = (
        over("lines")
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X(
                "x:Q",
                title="seconds that a viewer waited",
                scale=alt.Scale(domain=[0, end], nice=False),
            ),
            y=alt.Y(
                "y:Q",
                title="share of the requests",
                axis=alt.Axis(format=".0%"),
                scale=alt.Scale(domain=[0, 1]),
            ),
            color=alt.Color("l:N", scale=alt.Scale(domain=domain, range=colours), legend=legend),
            strokeDash=alt.StrokeDash(
                "l:N", scale=alt.Scale(domain=domain, range=dashes), legend=legend
            ),
            order="x:Q",
        )
    )
    data: dict[str, Sequence[DataRow]] = {"lines": rows}
    layers: list[Layer] = [line]
    if patience_s > 0 and math.isfinite(patience_s):
        data["patience"] = [{"x": patience_s, "t": "patience"}]
        rule = over("patience").mark_rule(strokeDash=[3, 3], color="var(--soft)")
        layers.append(rule.encode(x="x:Q", tooltip=[alt.Tooltip("x:Q", title="patience, s")]))
    return finish(layers, HEIGHT, data)


Twins = Mapping[tuple[str, int], Simulated]
"""(environment, repetition) → its twin, of those that have one."""


@dataclass(frozen=True)
class Report:
    """All that a page is made of."""

    run: ElasticRun
    sides: Sequence[EnvironmentSide]
    summary: Summary
    doubts: Sequence[ElasticDoubt]
    twins: Twins
    against: RunContrasts | None = None


def pictures(content: Report) -> Iterator[tuple[str, str]]:
    """Name and SVG of each picture of the page, without the fields of every repetition.

    `field` has all environments; where there are several, each has a picture of its own too.
    """
    fields = [
        (side, vega_svg(drawing))
        for side in content.sides
        if (measured := typical(content, side)) is not None
        and (drawing := field_picture(content, side, measured)) is not None
    ]
    if fields:
        yield "field", stacked([(side.label, svg) for side, svg in fields])
    if len(fields) > 1:
        for side, svg in fields:
            yield f"field-{slug(side.key)}", stacked([(side.label, svg)])
    for name, drawing in (
        ("allocations", allocation_picture(content)),
        ("waits", waits_picture(content)),
    ):
        if drawing is not None:
            yield name, vega_svg(drawing)


def typical(content: Report, side: EnvironmentSide) -> RepetitionFigures | None:
    """The repetition that is drawn first: of median elastic deviation in the first environment.

    Where that one has no figures here, the first that has.
    """
    drawn = {n: m for n, m in side.figures.items() if m.curves is not None}
    for other in content.sides:
        ordered = sorted(other.of("deviation").items(), key=lambda item: item[1])
        if ordered:
            number = ordered[(len(ordered) - 1) // 2][0]
            if number in drawn:
                return drawn[number]
    return next(iter(drawn.values()), None)


def field_picture(
    content: Report, side: EnvironmentSide, measured: RepetitionFigures
) -> Drawing | None:
    """Nodes and viewers of a repetition; None where nobody came."""
    if measured.curves is None:
        return None
    twin = content.twins.get((side.key, measured.repetition.number))
    supplied = twin.supplied if twin else None
    room, scale = content.run.resolved.room_of(side.key), content.summary.time_scale
    return field(measured.curves, room, scale, supplied)


def allocation_picture(content: Report) -> Drawing | None:
    """TaR of every allocation; None where none was made."""
    seconds = {
        side.label: [t for m in side.figures.values() for t in m.allocations]
        for side in content.sides
    }
    seconds = {label: times for label, times in seconds.items() if times}
    if not seconds:
        return None
    middle = {
        e.label: f"mean {quantity(tar.estimate, 's')}"
        for e in content.summary.environments
        if (tar := e.estimate("tar")) is not None
    }
    return allocations(seconds, middle)


def waits_picture(content: Report) -> Drawing | None:
    """How long viewers waited; None where nobody was served."""
    waits_by_label = {
        side.label: (
            sorted(w for m in side.figures.values() for w in m.waits),
            sum(len(m.repetition.sessions) for m in side.figures.values()),
        )
        for side in content.sides
    }
    waits_by_label = {label: of for label, of in waits_by_label.items() if of[0]}
    return waits(waits_by_label, content.run.resolved.patience_s) if waits_by_label else None
