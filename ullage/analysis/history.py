"""One figure over many runs, with the places where it became another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from ullage.analysis import overhead
from ullage.analysis.comparison.model import Comparison
from ullage.runs.listing import first_instant
from ullage.runs.reader import RunFolder
from ullage.runs.records import Better, Record
from ullage.stats.series_checks import change_points

Of = Literal["overhead", "value"]
"""The ratio to each run's own baseline, above 1 is worse; or the environment's median itself."""
FigureKey = tuple[str, str, str, str]


class HistoryPoint(Record):
    """A run's figure."""

    run: str
    started: str
    """UTC, ISO 8601."""
    labels: dict[str, str]
    value: float | None
    """None: the run has no such figure, for want of pairs."""
    low: float | None = None
    high: float | None = None
    """Interval of an overhead, by the run's own confidence."""


class HistoryChange(Record):
    """From this run on the figure is another."""

    run: str
    labels: dict[str, str]
    before: float
    after: float
    """Geometric means of the runs since the change before, and until the next."""
    p_value: float


class HistorySeries(Record):
    """One metric of one workload in one environment, run by run, the oldest first."""

    environment: str
    environment_label: str
    workload: str
    workload_title: str
    metric: str
    unit: str
    """Of the values; `1` of an overhead."""
    better: Better
    """Of an overhead: lower."""
    machines: int
    """Hosts that the runs are of: a change may be one of the machine."""
    points: tuple[HistoryPoint, ...]
    changes: tuple[HistoryChange, ...]


class History(Record):
    """What became of each figure."""

    of: Of
    level: float
    """Highest p value of a change, in each series by itself."""
    series: tuple[HistorySeries, ...]


def history(
    folders: Iterable[RunFolder],
    of: Of = "overhead",
    *,
    metrics: Sequence[str] = (),
    environments: Sequence[str] = (),
    level: float = 0.05,
) -> History:
    """The primary figures of ordinary runs; with `metrics` those of these names, primary or not.

    Runs may come in any order. What has another unit or direction is a series of its own.
    """
    rows: dict[FigureKey, list[tuple[RunFolder, Comparison]]] = {}
    for folder in sorted(folders, key=_age):
        for c in overhead.analyse(folder).comparisons:
            chosen = c.metric in metrics if metrics else c.primary
            if chosen and not c.again and (not environments or c.environment in environments):
                key = (c.environment, c.workload, c.metric, f"{c.unit} {c.better}")
                rows.setdefault(key, []).append((folder, c))
    return History(
        of=of, level=level, series=tuple(_series(row, of, level) for row in rows.values())
    )


def _age(folder: RunFolder) -> tuple[str, str]:
    return first_instant(folder.events), folder.resolved.run


def _series(row: Sequence[tuple[RunFolder, Comparison]], of: Of, level: float) -> HistorySeries:
    points = tuple(_point(folder, c, of) for folder, c in row)
    c = row[-1][1]
    return HistorySeries(
        environment=c.environment,
        environment_label=c.environment_label,
        workload=c.workload,
        workload_title=c.workload_title,
        metric=c.metric,
        unit="1" if of == "overhead" else c.unit,
        better="lower" if of == "overhead" else c.better,
        machines=len({str(folder.resolved.host.get("hostname")) for folder, _ in row}),
        points=points,
        changes=_changes([point for point in points if point.value is not None], level),
    )


def _point(folder: RunFolder, c: Comparison, of: Of) -> HistoryPoint:
    resolved = folder.resolved
    started, labels = first_instant(folder.events), resolved.labels
    if of == "value":
        value = None if c.environment_values is None else c.environment_values.median
        return HistoryPoint(run=resolved.run, started=started, labels=labels, value=value)
    return HistoryPoint(
        run=resolved.run,
        started=started,
        labels=labels,
        value=c.ratio,
        low=c.interval.low if c.interval else None,
        high=c.interval.high if c.interval else None,
    )


def _changes(points: Sequence[HistoryPoint], level: float) -> tuple[HistoryChange, ...]:
    """By the logarithms: what slows by a tenth is as far from 1 as what gains one."""
    values = [point.value or 0.0 for point in points]
    if not values or min(values) <= 0:
        return ()
    logs = np.log(values)
    places = change_points(logs, level)
    edges = [0, *(place.index for place in places), len(values)]
    means = [math.exp(float(logs[low:high].mean())) for low, high in pairwise(edges)]
    return tuple(
        HistoryChange(
            run=points[place.index].run,
            labels=points[place.index].labels,
            before=before,
            after=after,
            p_value=place.p_value,
        )
        for place, (before, after) in zip(places, pairwise(means), strict=True)
    )
