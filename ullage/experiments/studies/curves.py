"""Tables along a coordinate: a ratio for each message size, or each quantile."""

from __future__ import annotations

from collections.abc import Sequence

from ullage.analysis.comparison.model import Comparison, CurvePoint
from ullage.analysis.comparison.rounding import share
from ullage.experiments.studies import measured
from ullage.experiments.studies.base import (
    Column,
    DerivedCell,
    DerivedRow,
    DerivedTable,
    StudyFigure,
)
from ullage.experiments.studies.measured import StudiedRun


def table(
    run: StudiedRun,
    comparisons: Sequence[Comparison],
    key: str,
    caption: str,
    unit: tuple[str, float],
) -> DerivedTable | None:
    """A row for each coordinate: the baseline's median, then each environment's ratio to it.

    All comparisons are of one workload and one metric. `unit`: how the baseline is shown, and how
    much one of it is in the metric's own: ("µs", 1e-6). None where there is nothing to show.
    """
    sound = [c for c in comparisons if c.curve and not c.no_verdict]
    if not sound:
        return None
    of = sound[0].coordinate
    assert of is not None  # a curve has one
    by_place = [{p.coordinate: p for p in c.curve} for c in sound]
    places = sorted(set().union(*by_place))
    place_label = size if of.unit == "B" else _plain
    name, scale = unit
    return DerivedTable(
        key=key,
        caption=caption,
        of=of.name.replace("_", " "),
        columns=(
            Column(title=run.analysis.baseline_label, unit=name, decimals=1),
            *(Column(title=measured.name(c), decimals=3) for c in sound),
        ),
        rows=tuple(
            DerivedRow(
                label=place_label(place),
                cells=(
                    _baseline(by_place, place, scale),
                    *(_ratio(points.get(place)) for points in by_place),
                ),
            )
            for place in places
        ),
        notes=(
            f"{sound[0].description.rstrip('.')}: the median of {run.analysis.baseline_label}, and "
            f"how many times worse the others are. The intervals of an environment hold all along "
            f"its column together, with {share(run.analysis.confidence)} confidence.",
        ),
    )


def _baseline(
    by_place: Sequence[dict[float, CurvePoint]], place: float, scale: float
) -> DerivedCell:
    point = next(points[place] for points in by_place if place in points)
    return StudyFigure(value=point.baseline_median / scale)


def _ratio(point: CurvePoint | None) -> StudyFigure:
    if point is None:
        return StudyFigure(value=None, why="not every trial has this point")
    if point.low is None or point.high is None:
        return StudyFigure(value=point.ratio, why="one block has no spread")
    return StudyFigure(value=point.ratio, low=point.low, high=point.high)


def size(value: float) -> str:
    """`64 KiB`; a size that is no whole number of them in bytes."""
    for factor, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= factor and value % factor == 0:
            return f"{value / factor:.0f} {unit}"
    return f"{value:,.0f} B"


def _plain(value: float) -> str:
    return f"{value:g}"
