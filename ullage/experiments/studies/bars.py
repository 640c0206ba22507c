"""A table's figures as bars: the published charts drawn anew, and ours in the same way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from ullage.common.text import clean
from ullage.experiments.studies import showing
from ullage.experiments.studies.base import Column, DerivedTable, StudyFigure

WIDTH: Final = 640
LABELS: Final = 260
"""Of the width, for what a bar is about."""
FIGURES: Final = 60
"""On the right, for the figure."""
BAR: Final = 14
GAP: Final = 8
MOST_BARS: Final = 60
LONGEST: Final = 44

FigureBar = tuple[str, Column, StudyFigure]
"""What it is about, its column, and its figure."""


def draw(table: DerivedTable, columns: Sequence[str]) -> str:
    """An SVG of these columns, a bar a figure, with its interval; empty where none has a value."""
    bars = [*_bars(table, columns)][:MOST_BARS]
    if not bars:
        return ""
    most = max(figure.high or figure.value or 0.0 for _, _, figure in bars)
    if not most > 0:
        return ""
    scale = (WIDTH - LABELS - FIGURES) / most
    lines = [line for place, bar in enumerate(bars) for line in _bar(bar, place, scale)]
    height = len(bars) * (BAR + GAP) + GAP
    title = escape(clean(table.caption, showing.LONGEST))
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" aria-label="{title}" '
        f'font-size="11" fill="currentColor">{"".join(lines)}</svg>'
    )


def _bars(table: DerivedTable, columns: Sequence[str]) -> Iterator[FigureBar]:
    """Row by row; a figure that cannot be said has no bar, and no zero."""
    chosen = [column for column in table.columns if column.title in columns]
    for row, column, figure in table.figures():
        if column in chosen and figure.value is not None and figure.value >= 0:
            name = row.label if len(chosen) == 1 else f"{row.label}: {column.title}"
            yield name, column, figure


def _bar(bar: FigureBar, place: int, scale: float) -> Iterator[str]:
    name, column, figure = bar
    assert figure.value is not None
    top = GAP + place * (BAR + GAP)
    middle, words = top + BAR / 2, top + BAR - 3
    short = clean(name, LONGEST)
    yield f'<text x="{LABELS - 8}" y="{words}" text-anchor="end">{escape(short)}</text>'
    length = figure.value * scale
    yield (
        f'<rect x="{LABELS}" y="{top}" width="{length:.1f}" height="{BAR}" '
        f'fill-opacity="0.45"><title>{escape(clean(name, showing.LONGEST))}</title></rect>'
    )
    end = length
    if figure.low is not None and figure.high is not None:
        low, high = (max(0.0, bound) * scale for bound in (figure.low, figure.high))
        end = max(end, high)
        yield (
            f'<path d="M{LABELS + low:.1f} {middle}H{LABELS + high:.1f}" stroke="currentColor" '
            'stroke-width="2"/>'
        )
    shown = f"{figure.value:,.{min(column.decimals, 3)}f}"
    yield f'<text x="{LABELS + end + 5:.1f}" y="{words}">{escape(shown)}</text>'
