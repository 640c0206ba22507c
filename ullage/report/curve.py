"""A metric along a coordinate, such as throughput by message size: one line an environment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import altair as alt

from ullage.analysis.compare import medians as medians_of
from ullage.printable import clean
from ullage.report.lanes import Drawing, Row, finish, over
from ullage.report.text import first_sentence, quantity, unit_scale
from ullage.report.theme import SERIES
from ullage.runs import Coordinate, EnvironmentRecord, Metric, Trial
from ullage.stats.quantiles import quantile

HEIGHT: Final = 300
SHAPES: Final = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
DASHES: Final = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [1, 3])

_TIPS: Final = (
    ("e", "environment"),
    ("a", "at"),
    ("t", "value"),
    ("r", "interval"),
    ("k", "trials"),
)


@dataclass(frozen=True)
class Point:
    """One place on a curve."""

    at: float
    middle: float
    low: float
    high: float
    trials: int | None = None


@dataclass(frozen=True)
class Line:
    """The curve of one environment."""

    name: str
    points: tuple[Point, ...]


def medians(
    metric: Metric,
    environments: Sequence[EnvironmentRecord],
    trials: Sequence[Trial],
    confidence: float,
) -> list[Line]:
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
            lines.append(Line(clean(environment.label, 60), points))
    return lines


def _point(at: float, found: Sequence[tuple[int, float]], confidence: float) -> Point:
    values = medians_of(found)
    middle = quantile(values, 0.5, confidence)
    return Point(
        at=at,
        middle=middle.estimate,
        low=min(values) if middle.low is None else middle.low,
        high=max(values) if middle.high is None else middle.high,
        trials=len(found),
    )


def draw(
    lines: Sequence[Line], coordinate: Coordinate, title: str, unit: str, *, ratio: bool = False
) -> Drawing:
    """Lines with bands, told apart by colour, dash and shape.

    ratio: the figures are ratios to the baseline, whose line of no difference is drawn.
    """
    every = [p for line in lines for p in line.points]
    factor, name = unit_scale(max((p.middle for p in every), default=1.0), unit)
    x = alt.X(
        "x:Q",
        title=_titled(coordinate.name, coordinate.unit),
        scale=_scale([p.at for p in every]),
        axis=alt.Axis(format="~s"),
    )
    bounds = [v / factor for p in every for v in (p.low, p.high)]
    y_scale = _scale([*bounds, 1.0] if ratio else bounds)
    y_title = _titled(title, name)
    domain = list(dict.fromkeys(line.name for line in lines))
    legend = alt.Legend(title=None, orient="top", columns=2, symbolSize=90, symbolOpacity=1)
    rows = [_row(line.name, p, factor, unit, coordinate) for line in lines for p in line.points]
    base = over("points").encode(x=x)
    colour, y = _colours(domain, legend), alt.Y("y:Q", title=y_title, scale=y_scale)
    band = base.mark_area(opacity=0.16).encode(
        y=alt.Y("lo:Q", scale=y_scale, title=y_title), y2="hi:Q", color=colour, detail="e:N"
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
    return finish(layers, HEIGHT, {"points": rows, "one": [{"y": 1}]})


def _titled(title: str, unit: str) -> str:
    unit = unit if unit not in ("", "/s") else ""
    return f"{first_sentence(title)}{f', {clean(unit, 20)}' if unit else ''}"


def _row(name: str, p: Point, factor: float, unit: str, coordinate: Coordinate) -> Row:
    return {
        "e": name,
        "x": p.at,
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
