"""Every trial's figure of one metric, by environment."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import altair as alt

from ullage.common.text import clean
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
from ullage.report.charts.text import first_sentence, quantity, unit_scale
from ullage.runs.events import Trial
from ullage.runs.records import EnvironmentRecord, Metric
from ullage.stats.quantiles import Quantile

MOST_POINTS: Final = 300
"""Points of one lane that are drawn; the page says when there are more."""
MOST_LINES: Final = 60
LANE: Final = 58
GOLDEN: Final = 0.6180339887498949

_POINT_TIPS: Final = (("t", "value"), ("b", "block"), ("i", "trial"))


def strip(
    metric: Metric,
    environments: Sequence[EnvironmentRecord],
    trials: Sequence[Trial],
    medians: Mapping[str, Quantile],
    baseline: str,
    *,
    paired: bool = False,
) -> Drawing:
    """Every trial's figure of one metric, by environment, with median and interval.

    trials: those of one workload.
    medians: environment key → median with its interval.
    paired: join the trials of one block (in a duet of one pair) by a line; do not spread points.
    """
    values = [v for t in trials if (v := scalar(t, metric)) is not None]
    factor, unit = unit_scale(_typical(values), metric.unit)
    x, scale = _value_axis([v / factor for v in values], _title(metric, unit))
    count = len(environments)
    data = {
        "names": [
            _name(i, e, trials, medians.get(e.key), metric, paired=paired)
            for i, e in enumerate(environments)
        ],
        "points": _lanes(metric, environments, trials, factor, paired=paired),
    }
    layers: list[Layer] = []
    if baseline in medians:
        data["baseline"] = [{"x": medians[baseline].estimate / factor, "y": 0, "z": count}]
        layers.append(_reference(x, count))
    if paired:
        layers.append(_pair_lines(x, count))
    layers.append(_points(x, count))
    if not paired:
        data["medians"] = _median_rows(medians, environments, factor)
        layers += _medians(x, scale, count)
    layers += lane_names(data["names"], count)
    return finish(layers, LANE * count + 4, data)


def _lanes(
    metric: Metric,
    environments: Sequence[EnvironmentRecord],
    trials: Sequence[Trial],
    factor: float,
    *,
    paired: bool,
) -> list[DataRow]:
    """The points of all lanes, thinned; spread across the lane, or on its line when paired."""
    blocks = set(thin(sorted({t.block for t in trials}), MOST_LINES))
    rows = []
    for lane, environment in enumerate(environments):
        good = [
            t
            for t in trials
            if t.environment == environment.key
            and scalar(t, metric) is not None
            and (not paired or t.block in blocks)
        ]
        for index, trial in enumerate(good if paired else thin(good, MOST_POINTS)):
            spread = 0.0 if paired else (index * GOLDEN) % 1 - 0.5
            point = _point(trial, metric, factor, lane + 0.66 + 0.34 * spread)
            # In a duet a block has several pairs, each in two neighbouring lanes.
            pair = trial.block if trial.partner is None else f"{trial.block}, {lane // 2}"
            rows.append(point | {"j": pair})
    return rows


def thinned(trials: Sequence[Trial], *, paired: bool) -> str:
    """A note when not every trial is drawn."""
    most = max(Counter(t.environment for t in trials if t.status == "ok").values(), default=0)
    if most > MOST_POINTS:
        return (
            f"Drawn are {MOST_POINTS} of {most:,} points of an environment, evenly spread; "
            "the figures are those of all."
        )
    blocks = len({t.block for t in trials})
    if paired and blocks > MOST_LINES:
        return f"Drawn are the lines of {MOST_LINES} of {blocks:,} blocks, evenly spread."
    return ""


def scalar(trial: Trial, metric: Metric) -> float | None:
    """The trial's figure of a metric without a coordinate, if it has a usable one."""
    value = trial.metrics.get(metric.name) if trial.status == "ok" else None
    if isinstance(value, float) and math.isfinite(value):
        return value
    return None


def _point(trial: Trial, metric: Metric, factor: float, y: float) -> DataRow:
    value = scalar(trial, metric) or 0.0
    return {
        "x": float(f"{value / factor:.6g}"),
        "y": round(y, 3),
        "b": trial.block,
        "t": quantity(value, metric.unit),
        "i": clean(trial.trial, 40),
    }


def _name(
    lane: int,
    environment: EnvironmentRecord,
    trials: Sequence[Trial],
    median: Quantile | None,
    metric: Metric,
    *,
    paired: bool,
) -> DataRow:
    bad = sum(t.environment == environment.key and t.status != "ok" for t in trials)
    return {
        "y": lane + 0.2,
        "n": clean(environment.label, 60),
        "f": f"✕ {bad} failed" if bad else "",
        "m": f"median {quantity(median.estimate, metric.unit)}" if median and not paired else "",
    }


def _points(x: alt.X, count: int) -> Layer:
    return (
        over("points")
        .mark_point(filled=True, size=30, opacity=0.62, color="var(--c2)")
        .encode(
            x=x,
            y=lane_axis(count),
            tooltip=[alt.Tooltip(f"{k}:N", title=t) for k, t in _POINT_TIPS],
        )
    )


def _pair_lines(x: alt.X, count: int) -> Layer:
    return (
        over("points")
        .mark_line(strokeWidth=1, opacity=0.4, color="var(--c0)")
        .encode(x=x, y=lane_axis(count), detail=alt.Detail("j:N"), order=alt.Order("y:Q"))
    )


def _median_rows(
    medians: Mapping[str, Quantile], environments: Sequence[EnvironmentRecord], factor: float
) -> list[DataRow]:
    return [
        {
            "x": medians[e.key].estimate / factor,
            "lo": _bound(medians[e.key].low, factor),
            "hi": _bound(medians[e.key].high, factor),
            "y": i + 0.66,
            "a": i + 0.46,
            "z": i + 0.86,
        }
        for i, e in enumerate(environments)
        if e.key in medians
    ]


def _medians(x: alt.X, scale: alt.Scale, count: int) -> list[Layer]:
    """Upright bar at the median, a line for its interval."""
    base = over("medians")
    return [
        base.mark_rule(strokeWidth=2.4, color="var(--median)").encode(
            x=alt.X("lo:Q", scale=scale), x2=alt.X2("hi:Q"), y=lane_axis(count)
        ),
        base.mark_rule(strokeWidth=3.2, color="var(--median)").encode(
            x=x, y=lane_axis(count, field="a"), y2=alt.Y2("z:Q")
        ),
    ]


def _reference(x: alt.X, count: int) -> Layer:
    """The baseline's median, through all lanes."""
    return (
        over("baseline")
        .mark_rule(strokeDash=[3, 3], color="var(--soft)", opacity=0.8)
        .encode(x=x, y=lane_axis(count), y2=alt.Y2("z:Q"))
    )


def _bound(value: float | None, factor: float) -> float | None:
    return None if value is None else value / factor


def _value_axis(values: Sequence[float], title: str) -> tuple[alt.X, alt.Scale]:
    """Logarithmic when the figures span more than a factor of five."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if low > 0 and high / low > 5:
        pad = (high / low) ** 0.03
        scale = alt.Scale(type="log", domain=[low / pad, high * pad], nice=False)
    else:
        pad = (high - low) * 0.04 or abs(high) * 0.05 or 1.0
        floor = 0.0 if low >= 0 and low < pad else low - pad
        scale = alt.Scale(domain=[floor, high + pad], nice=False, zero=False)
    return alt.X("x:Q", title=title, scale=scale), scale


def _title(metric: Metric, unit: str) -> str:
    name = first_sentence(metric.description or metric.name)
    better = "more is better →" if metric.better == "higher" else "← less is better"
    return f"{name}{f', {unit}' if unit not in ('', '/s') else ''}   ({better})"


def _typical(values: Sequence[float]) -> float:
    ordered = sorted(abs(v) for v in values)
    return ordered[len(ordered) // 2] if ordered else 0.0
