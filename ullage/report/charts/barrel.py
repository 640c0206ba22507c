"""The signature picture: a barrel filled to what is left of the machine.

The level is 1/ratio of the barrel's height; the empty part above it is the ullage. The hatched band
is the interval of the level. A ratio under 1 stands over the brim.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Final, Literal

WIDTH: Final = 96
HEIGHT: Final = 114
CENTRE: Final = WIDTH / 2
TOP: Final = 16.0
BOTTOM: Final = 106.0
RIM: Final = 29.0
BULGE: Final = 10.0
FLAT: Final = 4.0
"""Minor half-axis of every horizontal ellipse: how far we look down into the barrel."""

HOOP: Final = 15.0
"""How far the hoops are from the ends."""

ROOM: Final = 42.0
"""What a figure and a word under it need."""

BarrelState = Literal["decided", "undecided", "failed", "missing"]

DEFS: Final = (
    '<pattern id="hatch" width="5" height="5" patternTransform="rotate(45)" '
    'patternUnits="userSpaceOnUse"><path d="M0,0V5" class="hatch-line"/></pattern>'
    '<pattern id="hatch-liquid" width="5" height="5" patternTransform="rotate(45)" '
    'patternUnits="userSpaceOnUse"><path d="M0,0V5" class="hatch-line on-liquid"/></pattern>'
)
"""Goes once into the page, or into each standalone file."""

CSS: Final = """
.barrel{font-family:inherit}
.barrel .inside{fill:var(--empty)}
.barrel .liquid{fill:var(--liquid)}
.barrel .surface{fill:var(--surface)}
.barrel .stave{fill:none;stroke:var(--oak);stroke-width:2.2;stroke-linejoin:round}
.barrel .grain{fill:none;stroke:var(--wood);stroke-width:.7;opacity:.4}
.barrel .hoop{fill:none;stroke:var(--oak);stroke-width:3.4;opacity:.92}
.barrel .edge{fill:none;stroke:var(--ink);stroke-width:.8;stroke-dasharray:2 2;opacity:.75}
.barrel .interval{fill:url(#hatch)}
.barrel .interval.wet{fill:url(#hatch-liquid)}
.hatch-line{stroke:var(--ink);stroke-width:1.3;opacity:.6}
.hatch-line.on-liquid{stroke:var(--on-liquid);opacity:.5}
.barrel text{text-anchor:middle;fill:var(--ink)}
.barrel .pct{font-size:17px;font-weight:600;paint-order:stroke;stroke:var(--empty);stroke-width:3px}
.barrel .pct.wet{fill:var(--on-liquid);stroke:var(--liquid)}
.barrel .range{font-size:12.5px}
.barrel .word{font-size:11.5px;font-style:italic;fill:var(--soft)}
.barrel .word{paint-order:stroke;stroke:var(--empty);stroke-width:3px}
.barrel.undecided .stave{stroke-dasharray:5 3}
.barrel.failed .stave,.barrel.missing .stave{stroke:var(--soft);stroke-width:1.6}
.barrel.failed .hoop,.barrel.missing .hoop{stroke:var(--soft);stroke-width:1.4;opacity:.6}
.barrel.missing .stave,.barrel.missing .hoop{stroke-dasharray:2 4}
.barrel.missing .inside{fill:none}
.barrel .cross{stroke:var(--soft);stroke-width:2.4;stroke-linecap:round}
"""


@dataclass(frozen=True)
class Barrel:
    """What one barrel shows. `ratio`, `low` and `high` are None when there is no figure."""

    name: str
    """Whose barrel it is, for the reader who hears it: `container, CPU`."""
    state: BarrelState
    ratio: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def left(self) -> float:
        """What is left of the machine: 1/ratio."""
        return 1 / self.ratio if self.ratio else 0.0


def percent(share: float) -> str:
    """A share as a whole percentage; more digits only under 1 %."""
    value = abs(share * 100)
    sign = "−" if share < 0 and value >= 0.5 else ""
    if 0 < share < 0.0005:
        return "< 0.1 %"
    return f"{value:.1f} %" if 0 < share < 0.0095 else f"{sign}{value:.0f} %"


def label(barrel: Barrel) -> str:
    if barrel.ratio is None or barrel.low is None or barrel.high is None:
        why = "its trials failed" if barrel.state == "failed" else "not measured"
        return f"{barrel.name}: no figure, {why}"
    doubt = ", undecided" if barrel.state == "undecided" else ""
    span = f"interval {percent(1 / barrel.high)} to {percent(1 / barrel.low)}"
    if barrel.left > 1:
        return f"{barrel.name}: {percent(barrel.left)}, more than the baseline{doubt}; {span}"
    return (
        f"{barrel.name}: {percent(barrel.left)} of the machine is left, "
        f"{percent(1 - barrel.left)} ullage{doubt}; {span}"
    )


def draw(barrel: Barrel) -> str:
    """The barrel as one SVG element; `DEFS` and `CSS` must be in the same document."""
    parts = [
        f'<path d="{_between(TOP, BOTTOM)}" class="inside"/>',
        f'<path d="{_back(TOP)}" class="stave"/>',
    ]
    if barrel.ratio is None or barrel.low is None or barrel.high is None:
        parts += [_grain(), *_wood(), _no_figure(barrel)]
    else:
        parts += _filled(barrel, barrel.low, barrel.high)
    return (
        f'<svg class="barrel {barrel.state}" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" role="img" aria-label="{escape(label(barrel))}">{"".join(parts)}</svg>'
    )


def _filled(barrel: Barrel, low: float, high: float) -> list[str]:
    level = _y(barrel.left)
    least, most = _y(1 / high), _y(1 / low)
    parts = []
    if barrel.left > 0:
        parts.append(f'<path d="{_between(level, BOTTOM)}" class="liquid"/>')
    if barrel.left > 1:
        parts.append(f'<path d="{_dome(barrel.left)}" class="liquid"/>')
    parts.append(_grain())
    if barrel.left < 1:
        rx = _half(level)
        parts.append(
            f'<ellipse cx="{CENTRE}" cy="{level:.1f}" rx="{rx:.1f}" ry="{FLAT}" class="surface"/>'
        )
    if most < level - 0.4:
        parts.append(f'<path d="{_between(most, level)}" class="interval"/>')
    if least > level + 0.4:
        parts.append(f'<path d="{_between(level, least)}" class="interval wet"/>')
    parts += _wood()
    parts.append(_percentage(barrel, level))
    return parts


def _percentage(barrel: Barrel, level: float) -> str:
    """The figure, in the larger part of the barrel: wet or dry. An interval while undecided."""
    text, kind = percent(barrel.left), "pct"
    if barrel.state == "undecided" and barrel.low and barrel.high:
        text, kind = _range(barrel.low, barrel.high), "pct range"
    text = escape(text)
    if barrel.left >= 0.5:
        middle = (level + BOTTOM) / 2 + 8
        return f'<text x="{CENTRE}" y="{middle:.1f}" class="{kind} wet">{text}</text>'
    middle = (TOP + HOOP + level) / 2 + 3
    if level - TOP - HOOP < ROOM:
        return f'<text x="{CENTRE}" y="{middle + 5:.1f}" class="{kind}">{text}</text>'
    return (
        f'<text x="{CENTRE}" y="{middle:.1f}" class="{kind}">{text}</text>'
        f'<text x="{CENTRE}" y="{middle + 13:.1f}" class="word">left</text>'
    )


def _range(low: float, high: float) -> str:
    """Between which the level lies: an undecided barrel claims no more."""
    least, most = round(100 / high), round(100 / low)
    return percent(1 / low) if least == most else f"{least}–{most} %"


def _no_figure(barrel: Barrel) -> str:
    middle = (TOP + BOTTOM) / 2
    if barrel.state == "missing":
        return f'<text x="{CENTRE}" y="{middle + 5:.1f}" class="word">not run</text>'
    x, y = CENTRE, middle - 5
    return (
        f'<path d="M{x - 9},{y - 9}l18,18m0,-18l-18,18" class="cross"/>'
        f'<text x="{x}" y="{middle + 21:.1f}" class="word">no figure</text>'
    )


def _wood() -> list[str]:
    """Outline, rim and hoops, in front of the liquid."""
    hoops = "".join(_front(y, inset=1.4) for y in (TOP + HOOP, BOTTOM - HOOP))
    return [
        f'<path d="{hoops}" class="hoop"/>',
        f'<path d="{_between(TOP, BOTTOM, top_edge=False)}" class="stave"/>',
        f'<path d="{_front(TOP)}" class="stave"/>',
    ]


def _grain() -> str:
    """Faint seams between the staves."""
    seams = "".join(
        f"M{CENTRE + f * RIM:.1f},{TOP + FLAT * (1 - f * f) ** 0.5:.1f}"
        f"Q{CENTRE + f * (RIM + 2 * BULGE):.1f},{(TOP + BOTTOM) / 2:.1f} "
        f"{CENTRE + f * RIM:.1f},{BOTTOM + FLAT * (1 - f * f) ** 0.5:.1f}"
        for f in (-0.62, -0.22, 0.22, 0.62)
    )
    return f'<path d="{seams}" class="grain"/>'


def _y(share: float) -> float:
    """Where a share of the height stands; the brim for more than all of it."""
    return BOTTOM - (BOTTOM - TOP) * min(max(share, 0.0), 1.0)


def _half(y: float) -> float:
    """Half the barrel's width at height y: a parabola."""
    middle = (TOP + BOTTOM) / 2
    return RIM + BULGE * (1 - ((y - middle) / (middle - TOP)) ** 2)


def _slope(y: float) -> float:
    middle = (TOP + BOTTOM) / 2
    return -2 * BULGE * (y - middle) / (middle - TOP) ** 2


def _front(y: float, inset: float = 0.0) -> str:
    """The near half of the ellipse at y."""
    rx = _half(y) - inset
    return f"M{CENTRE - rx:.1f},{y:.1f}A{rx:.1f},{FLAT} 0 0 0 {CENTRE + rx:.1f},{y:.1f}"


def _back(y: float) -> str:
    """The far half of the ellipse at y."""
    rx = _half(y)
    return f"M{CENTRE - rx:.1f},{y:.1f}A{rx:.1f},{FLAT} 0 0 1 {CENTRE + rx:.1f},{y:.1f}"


def _between(top: float, bottom: float, *, top_edge: bool = True) -> str:
    """The part of the barrel between two levels.

    A piece of a parabola is a quadratic Bézier whose control point is where the end tangents meet.
    """
    upper, lower = _half(top), _half(bottom)
    bend = upper + _slope(top) * (bottom - top) / 2
    middle = (top + bottom) / 2
    sides = (
        f"M{CENTRE - upper:.1f},{top:.1f}"
        f"Q{CENTRE - bend:.1f},{middle:.1f} {CENTRE - lower:.1f},{bottom:.1f}"
        f"A{lower:.1f},{FLAT} 0 0 0 {CENTRE + lower:.1f},{bottom:.1f}"
        f"Q{CENTRE + bend:.1f},{middle:.1f} {CENTRE + upper:.1f},{top:.1f}"
    )
    return sides + (
        f"A{upper:.1f},{FLAT} 0 0 0 {CENTRE - upper:.1f},{top:.1f}Z" if top_edge else ""
    )


def _dome(share: float) -> str:
    """What stands over the brim: higher for more, up to 12 units."""
    rise = FLAT + min(12.0, 3 + 40 * (share - 1))
    return (
        f"M{CENTRE - RIM},{TOP}C{CENTRE - RIM + 4},{TOP - rise:.1f} {CENTRE + RIM - 4},"
        f"{TOP - rise:.1f} {CENTRE + RIM},{TOP}A{RIM},{FLAT} 0 0 1 {CENTRE - RIM},{TOP}Z"
    )
