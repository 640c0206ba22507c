"""A table's figures as lines along what its rows, or its columns, have: threads, or sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from ullage.common.text import clean
from ullage.experiments.studies import showing
from ullage.experiments.studies.base import Along, DerivedTable, StudyFigure

WIDTH: Final = 640
HEIGHT: Final = 220
LEFT: Final = 60
RIGHT: Final = 20
TOP: Final = 12
AXIS: Final = 36
"""Below, for the places and what they are."""
LEGEND: Final = 16
"""Height of a line's name."""
MOST_LINES: Final = 12
MOST_PLACES: Final = 32
LONGEST: Final = 70
DASHES: Final = ("", "6 3", "2 2", "8 3 2 3", "4 4", "1 3")

Series = dict[str, dict[str, StudyFigure]]
"""Name of a line → place → its figure."""


def draw(table: DerivedTable, columns: Sequence[str], along: Along) -> str:
    """An SVG with a line for each series; empty where none has two places."""
    every = _series(table, columns, along)
    series = dict(list(every.items())[:MOST_LINES])
    places = _places(table, columns, along)[:MOST_PLACES]
    most = max(
        (
            figure.high or figure.value or 0.0
            for line in series.values()
            for figure in line.values()
        ),
        default=0.0,
    )
    if not most > 0 or all(len(line) < 2 for line in series.values()):
        return ""
    height = HEIGHT + LEGEND * (len(series) + (len(every) > MOST_LINES))
    parts = [*_axes(table, places, most, along)]
    for number, (name, line) in enumerate(series.items()):
        parts += _line(line, places, most, number)
        parts += _legend(name, number)
    if len(every) > MOST_LINES:
        more = f"{len(every) - MOST_LINES} more are in the table"
        parts.append(f'<text x="{LEFT}" y="{height - 8}">{more}</text>')
    title = escape(clean(table.caption, showing.LONGEST))
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" aria-label="{title}" '
        f'font-size="11" fill="currentColor">{"".join(parts)}</svg>'
    )


def _series(table: DerivedTable, columns: Sequence[str], along: Along) -> Series:
    """What has a value; a figure that cannot be said is no point, and no zero."""
    series: Series = {}
    of_group = table.of.rpartition(", ")[0]
    several = len([column for column in table.columns if column.title in columns]) > 1
    for row, column, figure in table.figures():
        if column.title not in columns or figure.value is None or figure.value < 0:
            continue
        group, _, last = row.label.rpartition(", ")
        group = f"{of_group} {group}" if group.isdecimal() else group
        if along == "columns":
            name, place = row.label, column.title
        else:
            names = [group] * bool(group) + [column.title] * (several or not group)
            name, place = ", ".join(names), last
        series.setdefault(name, {})[place] = figure
    return series


def _places(table: DerivedTable, columns: Sequence[str], along: Along) -> list[str]:
    """In the table's order, with those that have no value."""
    if along == "columns":
        return [column.title for column in table.columns if column.title in columns]
    return [*dict.fromkeys(row.label.rpartition(", ")[2] for row in table.rows)]


def _x(places: Sequence[str], place: str) -> float:
    """Places are equally far apart: they are doubled from one to the next, or are few."""
    room = WIDTH - LEFT - RIGHT
    return LEFT + room * (places.index(place) + 0.5) / len(places)


def _y(value: float, most: float) -> float:
    return TOP + (HEIGHT - TOP - AXIS) * (1 - min(value, most) / most)


def _axes(table: DerivedTable, places: Sequence[str], most: float, along: Along) -> Iterator[str]:
    bottom = _y(0, most)
    frame = f"M{LEFT} {TOP}V{bottom:.1f}H{WIDTH - RIGHT}"
    yield f'<path d="{frame}" stroke="currentColor" fill="none"/>'
    for value in (0.0, most / 2, most):
        y = _y(value, most)
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>'
    for place in places:
        x, words = _x(places, place), escape(clean(place, 12))
        yield f'<text x="{x:.1f}" y="{bottom + 14:.1f}" text-anchor="middle">{words}</text>'
    of = table.of.rpartition(", ")[2] if along == "rows" else ""
    middle = (LEFT + WIDTH - RIGHT) / 2
    words = escape(clean(of, LONGEST))
    yield f'<text x="{middle}" y="{bottom + 30:.1f}" text-anchor="middle">{words}</text>'


def _line(
    line: dict[str, StudyFigure], places: Sequence[str], most: float, number: int
) -> Iterator[str]:
    path, joined = "", False
    for place in places:
        if place not in line:
            joined = False  # nothing is drawn through a hole
            continue
        figure, x = line[place], _x(places, place)
        assert figure.value is not None
        y = _y(figure.value, most)
        path += f"{'L' if joined else 'M'}{x:.1f} {y:.1f}"
        joined = True
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
        if figure.low is not None and figure.high is not None:
            low, high = (_y(max(0.0, bound), most) for bound in (figure.low, figure.high))
            yield f'<path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="currentColor"/>'
    yield f'<path d="{path}" {_stroke(number)}/>'


def _legend(name: str, number: int) -> Iterator[str]:
    y = HEIGHT + LEGEND * number + 4
    yield f'<path d="M{LEFT} {y}H{LEFT + 40}" {_stroke(number)}/>'
    yield f'<text x="{LEFT + 48}" y="{y + 4}">{escape(clean(name, LONGEST))}</text>'


def _stroke(number: int) -> str:
    """Told apart without colours: by dashes, and from the seventh on by width."""
    dash = DASHES[number % len(DASHES)]
    width = 1.5 + number // len(DASHES)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'stroke="currentColor" fill="none" stroke-width="{width}"{dashed}'
