"""A metric along a coordinate, such as throughput by message size: one line an environment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import altair as alt

from ullage.analysis.comparison.pairing import medians as medians_of
from ullage.common.text import clean
from ullage.report.charts.lanes import DataRow, Drawing, finish, over
from ullage.report.charts.text import first_sentence, quantity, unit_scale
from ullage.report.charts.theme import SERIES
from ullage.runs.events import Trial
from ullage.runs.records import Coordinate, EnvironmentRecord, Metric
from ullage.stats.quantiles import quantile

HEIGHT: Final = 300
SHAPES: Final = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
DASHES: Final = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [1, 3])

_BYTES: Final = (
    "datum.value < 1024 ? format(datum.value, '~r') + ' B' : "
    "datum.value < 1048576 ? format(datum.value / 1024, '.3~r') + ' KiB' : "
    "datum.value < 1073741824 ? format(datum.value / 1048576, '.3~r') + ' MiB' : "
    "format(datum.value / 1073741824, '.3~r') + ' GiB'"
)
"""Sizes on an axis, as people say them."""

_TIPS: Final = (
    ("e", "environment"),
    ("a", "at"),
    ("t", "value"),
    ("r", "interval"),
    ("k", "trials"),
)


@dataclass(frozen=True)
class LinePoint:
    at: float
    middle: float
    low: float
    high: float
    trials: int | None = None


@dataclass(frozen=True)
class CurveLine:
    name: str
    points: tuple[LinePoint, ...]


def medians(
    metric: Metric,
    environments: Sequence[EnvironmentRecord],
    trials: Sequence[Trial],
    confidence: float,
) -> list[CurveLine]:
    """Median of all good trials at each coordinate; the trials are those of one workload.

    The interval is that of the order statistics, or the extremes where there are too few trials.
    """
    lines = []
    for environment in environments:
        values: dict[float, list[tuple[int, float]]] = {}
        for trial in trials:
            curve = trial.metrics.get(metric.name)
            if trial.environment != environment.key or trial.status != "ok":
                continue
            for at, value in curve if isinstance(curve, list) else []:
                if math.isfinite(at) and math.isfinite(value):
                    values.setdefault(at, []).append((trial.generation, value))
        points = tuple(_point(at, values[at], confidence) for at in sorted(values))
        if points:
            lines.append(CurveLine(clean(environment.label, 60), points))
    return lines


def _point(at: float, measured: Sequence[tuple[int, float]], confidence: float) -> LinePoint:
    values = medians_of(measured)
    middle = quantile(values, 0.5, confidence)
    return LinePoint(
        at=at,
        middle=middle.estimate,
        low=min(values) if middle.low is None else middle.low,
        high=max(values) if middle.high is None else middle.high,
        trials=len(measured),
    )


def draw(
    lines: Sequence[CurveLine],
    coordinate: Coordinate,
    title: str,
    unit: str,
    *,
    ratio: bool = False,
    ideal: Sequence[tuple[float, float]] = (),
) -> Drawing:
    """Lines with bands, told apart by colour, dash and shape.

    ratio: the figures are ratios to the baseline, whose line of no difference is drawn. ideal: a
    thin line beside them, such as the speed-up that there would be without any loss.
    """
    every = [p for line in lines for p in line.points]
    factor, name = unit_scale(max((p.middle for p in every), default=1.0), unit)
    x = _across(coordinate, [p.at for p in every])
    bounds = [v / factor for p in every for v in (p.low, p.high)]
    y_scale = _scale([*bounds, 1.0] if ratio else [*bounds, *(y for _, y in ideal)])
    y_title = _titled(title, name)
    domain = list(dict.fromkeys(line.name for line in lines))
    legend = alt.Legend(title=None, orient="top", columns=2, symbolSize=90, symbolOpacity=1)
    rows = [_row(line.name, p, factor, unit, coordinate) for line in lines for p in line.points]
    base = over("points").encode(x=x)
    colour, y = _colours(domain, legend), alt.Y("y:Q", title=y_title, scale=y_scale)
    band = base.mark_area(opacity=0.16).encode(
        y=alt.Y("lo:Q", scale=y_scale, title=y_title),
        y2=alt.Y2("hi:Q"),
        color=colour,
        detail=alt.Detail("e:N"),
    )
    dash = alt.StrokeDash("e:N", scale=_cycle(domain, DASHES), legend=legend)
    line = base.mark_line(strokeWidth=2).encode(y=y, color=colour, strokeDash=dash)
    dots = base.mark_point(filled=True, size=52, opacity=1).encode(
        y=y,
        color=colour,
        shape=alt.Shape("e:N", scale=_cycle(domain, SHAPES), legend=legend),
        tooltip=[alt.Tooltip(f"{k}:N", title=t) for k, t in _TIPS],
    )
    layers = [band, line, dots]
    if ratio:
        layers.insert(0, over("one").mark_rule(color="var(--ink)", strokeWidth=1.2).encode(y=y))
    if ideal:
        thin = over("ideal").mark_line(color="var(--soft)", strokeWidth=1, strokeDash=[2, 3])
        layers.insert(0, thin.encode(x=x, y=y))
    data: dict[str, list[DataRow]] = {"points": rows}
    if ratio:
        data["one"] = [{"y": 1}]
    if ideal:
        data["ideal"] = [{"x": at, "y": y} for at, y in ideal]
    return finish(layers, HEIGHT, data)


def _across(coordinate: Coordinate, places: Sequence[float]) -> alt.X:
    title = _titled(coordinate.name.replace("_", " "), coordinate.unit)
    if coordinate.scale == "quantile":
        # As many nines as the share has: 90 %, 99 %, 99.9 % stand at equal distances.
        most = max((_nines(at) for at in places), default=1.0)
        ticks = [_nines(q) for q in (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999) if _nines(q) <= most]
        label = "format(1 - pow(10, -datum.value), '.6~%')"
        axis = alt.Axis(values=ticks, labelExpr=label)
        label = f"{title}: share that is not above"
        return alt.X("x:Q", title=label, scale=alt.Scale(nice=False, padding=6), axis=axis)
    scale = _scale(places)
    if coordinate.scale == "log" and places and min(places) > 0:
        scale = alt.Scale(type="log", base=2, nice=False, padding=6)
    axis = alt.Axis(labelExpr=_BYTES) if coordinate.unit == "B" else alt.Axis(format="~s")
    return alt.X("x:Q", title=title, scale=scale, axis=axis)


def _nines(share: float) -> float:
    return -math.log10(max(1e-12, 1 - share))


def _at(at: float, coordinate: Coordinate) -> float:
    """Where a place on the curve stands on its axis."""
    return _nines(at) if coordinate.scale == "quantile" else at


def _titled(title: str, unit: str) -> str:
    unit = unit if unit not in ("", "/s") else ""
    return f"{first_sentence(title)}{f', {clean(unit, 20)}' if unit else ''}"


def _row(name: str, p: LinePoint, factor: float, unit: str, coordinate: Coordinate) -> DataRow:
    return {
        "e": name,
        "x": _at(p.at, coordinate),
        "y": p.middle / factor,
        "lo": p.low / factor,
        "hi": p.high / factor,
        "a": quantity(p.at, coordinate.unit),
        "t": quantity(p.middle, unit),
        "r": f"{quantity(p.low, unit)} to {quantity(p.high, unit)}",
        "k": "–" if p.trials is None else p.trials,
    }


def _colours(domain: Sequence[str], legend: alt.Legend) -> alt.Color:
    return alt.Color(
        "e:N", scale=_cycle(domain, [f"var(--{name})" for name in SERIES]), legend=legend
    )


def _cycle(domain: Sequence[str], values: Sequence[Any]) -> alt.Scale:
    return alt.Scale(
        domain=list(domain), range=[values[i % len(values)] for i in range(len(domain))]
    )


def _scale(values: Sequence[float]) -> alt.Scale:
    """Logarithmic when all is positive and spans more than a factor of five."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if low > 0 and high / low > 5:
        return alt.Scale(type="log", nice=False, padding=6)
    return alt.Scale(zero=False, nice=True, padding=6)
