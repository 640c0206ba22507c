"""The forest plot: every ratio with its interval on a logarithmic axis, beside the noise floor.

In the page each row is a small SVG whose places are percentages, so that rows stretch with the
table and the text beside them stays text. `draw` makes one standalone SVG of the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, Literal, get_args

MarkKind = Literal["worse", "better", "equivalent", "inconclusive", "mixed", "none"]

ROW: Final = 26
NEAR: Final = 1.6
"""A group whose ratios and bounds all lie within this factor of 1 gets the fine scale."""

_SPAN, _FIGURES = 400, 300
"""Layout of the standalone picture: how wide are the plot, and the figures beside it."""
_LETTER: Final = 7.6
"""Width of a letter of a label, about."""
_LONGEST: Final = 56
"""Letters of a label that are shown."""

FLUID: Final = 'width="100%"'
FILLING: Final = 'width="100%" height="100%"'

_STEPS: Final[tuple[tuple[float, tuple[float, ...]], ...]] = (
    (1.25, (0.8, 0.85, 0.9, 0.95, 0.98, 1, 1.02, 1.05, 1.1, 1.15, 1.2, 1.25)),
    (2.2, (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 1.75, 2)),
    (25, (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 15, 20)),
    (400, (0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)),
)

_CSS: Final = """
.fr{display:block;overflow:visible}
.fr .floor,.key-floor{fill:var(--band)}
.fr .tick{stroke:var(--grid)}
.fr .one{stroke:var(--ink);stroke-width:1.3}
.fr .ci{stroke-width:2.6;stroke-linecap:butt}
.fr .end{stroke-width:1.6}
.fr .arrow{stroke:none}
.fr text{font-size:12px;fill:var(--soft);text-anchor:middle}
.fr .mark{stroke-width:1.8}
"""


def _verdict_css(verdict: MarkKind) -> str:
    """Colour of one verdict; a hollow mark is one that is not decided."""
    colour = "var(--none)" if verdict == "mixed" else f"var(--{verdict})"
    fill = {"inconclusive": "var(--bg)", "mixed": "var(--bg)", "none": "none"}.get(verdict, colour)
    of = f".v-{verdict}"
    return (
        f"{of} .mark{{fill:{fill};stroke:{colour}}}{of} .ci,{of} .end{{stroke:{colour}}}"
        f"{of} .arrow,{of} .half{{fill:{colour}}}.word{of}{{fill:{colour};color:{colour}}}\n"
    )


CSS: Final = _CSS + "".join(_verdict_css(verdict) for verdict in get_args(MarkKind))


@dataclass(frozen=True)
class RatioRow:
    """One ratio. `low` and `high` may be None when there is no interval."""

    label: str
    verdict: MarkKind
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    value: str = ""
    """The ratio in words: `1.12×`."""
    interval: str = ""
    floor: float | None = None
    """Noise floor of this ratio."""
    detail: str = ""
    """Smaller, after the label: the metric, or the parameters."""
    note: str = ""
    """Instead of figures: why there are none."""
    absolute: str = ""
    """What it is the ratio of, in the metric's unit."""


@dataclass(frozen=True)
class RatioGroup:
    label: str
    rows: tuple[RatioRow, ...]

    @property
    def reach(self) -> float:
        """The largest factor away from 1 that any point or bound lies."""
        values = _values(self.rows)
        return max((max(v, 1 / v) for v in values), default=1.0)


_APART: Final = 0.13
"""Least distance of two tick labels, as a share of the axis."""


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis of ratios."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def place(self, ratio: float) -> float:
        """Where a ratio stands, 0 to 1; clamped."""
        span = math.log(self.high / self.low)
        return min(max(math.log(ratio / self.low) / span, 0.0), 1.0)

    def sparse(self, most: int) -> tuple[float, ...]:
        """At most so many ticks, evenly dropped, always with 1."""
        ticks = self.ticks
        while len(ticks) > most:
            at = ticks.index(1)
            ticks = tuple(t for i, t in enumerate(ticks) if (i - at) % 2 == 0)
        return ticks


def _usable(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value > 0


def _values(rows: Iterable[RatioRow]) -> list[float]:
    every = (v for r in rows for v in (r.ratio, r.low, r.high))
    return [v for v in every if v is not None and _usable(v)]


def axis(groups: Sequence[RatioGroup]) -> Axis:
    """An axis that holds every ratio, bound and floor, and 1."""
    rows = [row for group in groups for row in group.rows]
    values = [1.0, *_values(rows)]
    for floor in (row.floor for row in rows):
        if floor is not None and _usable(floor):
            values += [floor, 1 / floor]
    low, high = min(values), max(values)
    pad = max((high / low) ** 0.04, 1.01)
    low, high = low / pad, high * pad
    widest = max(high, 1 / low)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    powers = tuple(10.0**decade for decade in decades)
    steps = next((steps for limit, steps in _STEPS if widest <= limit), powers)
    return Axis(low, high, _spaced(Axis(low, high, tuple(t for t in steps if low <= t <= high))))


def _spaced(scale: Axis) -> tuple[float, ...]:
    """The ticks, from 1 outwards, whose labels do not run into each other."""
    ticks = [1.0]
    for tick in sorted(scale.ticks, key=lambda t: abs(math.log(t))):
        if all(abs(scale.place(tick) - scale.place(k)) >= _APART for k in ticks):
            ticks.append(tick)
    return tuple(sorted(ticks))


def panels(groups: Sequence[RatioGroup]) -> list[list[RatioGroup]]:
    """Groups that share an axis.

    When some environments stay near 1 and others are far away, one axis would press the near ones
    into a line; then each kind gets an axis of its own.
    """
    near = [g for g in groups if g.reach <= NEAR]
    far = [g for g in groups if g.reach > NEAR]
    if near and far and max(g.reach for g in far) > NEAR**2:
        return [near, far]
    return [list(groups)]


def cell(row: RatioRow, scale: Axis, place: str = FLUID) -> str:
    """Point and interval of one row, an SVG that is as wide as its place."""
    return (
        f'<svg class="fr v-{row.verdict}" {place} height="{ROW}" aria-hidden="true">'
        f"{_mark(row, scale)}</svg>"
    )


def ground(scale: Axis, floor: float | None, place: str = FILLING) -> str:
    """What stands behind a row: noise floor, ticks and the line of no difference."""
    parts = []
    if floor is not None and _usable(floor):
        left, right = scale.place(1 / floor), scale.place(floor)
        parts.append(
            f'<rect x="{_percent(left)}" width="{_percent(right - left)}" y="0" height="100%" '
            'class="floor"/>'
        )
    for tick in scale.ticks:
        x = _percent(scale.place(tick))
        kind = "one" if tick == 1 else "tick"
        parts.append(f'<line x1="{x}" x2="{x}" y1="0" y2="100%" class="{kind}"/>')
    return f'<svg class="fr ground" {place} aria-hidden="true">{"".join(parts)}</svg>'


def ruler(scale: Axis, place: str = FLUID) -> str:
    """The tick labels, over the rows; those that a narrow screen has no room for say so."""
    few = scale.sparse(5)
    marks = "".join(
        f'<text x="{_percent(scale.place(t))}" y="14" class="{"few" if t in few else "wide"}">'
        f"{t:g}×</text>"
        for t in scale.ticks
    )
    return f'<svg class="fr" {place} height="20" aria-hidden="true">{marks}</svg>'


@dataclass(frozen=True)
class ForestSheet:
    """The words around a standalone picture, and its colour."""

    style: str
    title: str
    """Of the axis: what is how many times as large."""
    band: str = ""
    """What the band behind a row is; empty: there is none."""
    ground: str = "#fff"


def draw(groups: Sequence[RatioGroup], sheet: ForestSheet) -> str:
    """The whole plot as one standalone SVG."""
    left = _label_width(groups)
    parts: list[str] = []
    y = 6
    for panel in panels(groups):
        scale = axis(panel)
        parts.append(ruler(scale, f'x="{left}" y="{y}" width="{_SPAN}"'))
        y += 22
        for group in panel:
            parts.append(ground(scale, None, _place(left, y)))
            label = escape(_short(group.label))
            parts.append(f'<text x="0" y="{y + 17}" class="env">{label}</text>')
            y += ROW
            for row in group.rows:
                parts.append(_line(row, scale, left, y))
                y += ROW
        y += 14
    middle = left + _SPAN / 2
    parts.append(f'<text x="{middle:g}" y="{y + 8}" class="head">{escape(sheet.title)}</text>')
    y += 18
    if sheet.band:
        parts.append(f'<rect x="{left}" y="{y}" width="22" height="15" class="key-floor"/>')
        parts.append(f'<text x="{left + 30}" y="{y + 12}" class="soft">{escape(sheet.band)}</text>')
        y += 24
    wide = left + _SPAN + _FIGURES
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{y}" '
        f'viewBox="0 0 {wide} {y}"><style>{sheet.style}</style>'
        f'<rect width="{wide}" height="{y}" fill="{sheet.ground}"/>{"".join(parts)}</svg>'
    )


def _label_width(groups: Sequence[RatioGroup]) -> int:
    """Room for the longest label, so that none runs into the plot."""
    labels = [f"{row.label} {row.detail}".strip() for group in groups for row in group.rows]
    longest = max((min(len(label), _LONGEST) for label in labels), default=0)
    names = max((min(len(group.label), _LONGEST) for group in groups), default=0)
    return max(120, 30 + round(_LETTER * longest), 10 + round((_LETTER + 1) * names))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _line(row: RatioRow, scale: Axis, left: int, y: int) -> str:
    """Label, plot and figures of one row of the standalone picture."""
    base, right = y + 17, left + _SPAN
    room = _LONGEST - len(row.label) - 1
    detail = row.detail[: max(room, 0)]
    detail = f' <tspan class="soft">{escape(detail)}</tspan>' if detail else ""
    if row.note:
        figures = f'<text x="{right + 24}" y="{base}" class="soft">{escape(row.note[:36])}</text>'
    else:
        verdict = "no verdict" if row.verdict == "none" else row.verdict
        figures = (
            f'<text x="{right + 72}" y="{base}" class="val">{escape(row.value)}</text>'
            f'<text x="{right + 84}" y="{base}" class="soft">{escape(row.interval)}</text>'
            f'<text x="{right + 206}" y="{base}" class="word v-{row.verdict}">{verdict}</text>'
        )
    return (
        f'<text x="14" y="{base}" class="lab">{escape(_short(row.label))}{detail}</text>'
        + ground(scale, row.floor, _place(left, y))
        + cell(row, scale, f'x="{left}" y="{y}" width="{_SPAN}"')
        + figures
    )


def _place(left: int, y: int) -> str:
    return f'x="{left}" y="{y}" width="{_SPAN}" height="{ROW}"'


def _percent(share: float) -> str:
    return f"{share * 100:.2f}%"


def _mark(row: RatioRow, scale: Axis) -> str:
    """The interval and the point; an arrow where the interval has no end."""
    if row.ratio is None or not _usable(row.ratio):
        return ""
    y = ROW / 2
    left = scale.place(row.low) if row.low is not None and _usable(row.low) else 0.0
    right = scale.place(row.high) if row.high is not None and _usable(row.high) else 1.0
    parts = []
    if row.low is not None or row.high is not None:
        parts.append(
            f'<line x1="{_percent(left)}" x2="{_percent(right)}" y1="{y}" y2="{y}" class="ci"/>'
        )
        parts.append(_end(left, _usable(row.low), -1))
        parts.append(_end(right, _usable(row.high), 1))
    parts.append(_at(scale.place(row.ratio), _SHAPES[row.verdict]))
    return "".join(parts)


def _end(share: float, closed: bool, way: int) -> str:
    if closed:
        return _at(share, '<path d="M0,-4V4" class="end"/>')
    return _at(share, f'<path d="M{8 * way},0L0,-5V5Z" class="arrow"/>')


def _at(share: float, shape: str) -> str:
    return f'<svg x="{_percent(share)}" y="{ROW / 2}" overflow="visible">{shape}</svg>'


_SHAPES: Final[dict[MarkKind, str]] = {
    "worse": '<circle r="4.8" class="mark"/>',
    "better": '<path d="M0,-6L6,0L0,6L-6,0Z" class="mark"/>',
    "equivalent": '<path d="M-4.4,-4.4H4.4V4.4H-4.4Z" class="mark"/>',
    "inconclusive": '<circle r="4.8" class="mark"/>',
    "mixed": '<circle r="4.8" class="mark"/><path d="M0,-4.8A4.8,4.8 0 0 1 0,4.8Z" class="half"/>',
    "none": '<path d="M-4,-4L4,4M4,-4L-4,4" class="mark"/>',
}


def glyph(verdict: MarkKind) -> str:
    """The verdict's mark, to stand beside its word."""
    return (
        f'<svg class="fr glyph v-{verdict}" viewBox="-8 -8 16 16" width="14" height="14" '
        f'aria-hidden="true">{_SHAPES[verdict]}</svg>'
    )
