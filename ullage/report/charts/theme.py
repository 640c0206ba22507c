"""The colours of the report, light and dark, and what may stand on what.

Every chart names colours as `var(--name)`, so that one SVG is right in both schemes and on paper;
`resolve` puts real colours in where no style sheet follows (SVG, PNG and PDF files).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import altair as alt

from ullage.runs.symbols import OTHER_END

WorkKind = tuple[str, str]
"""Whose work it was on the host's CPUs: what charts and tables call it, and its colour."""

_KINDS: Final[dict[str, WorkKind]] = {
    "programs": ("programs", "c2"),
    "vcpu": ("vCPUs", "c1"),
    "hypervisor": ("QEMU", "c5"),
    "vhost": ("vhost", "c6"),
    "ksoftirqd": ("kernel threads", "c4"),
    "kworker": ("kernel threads", "c4"),
    "kernel_threads": ("kernel threads", "c4"),
    OTHER_END: ("the other end", "c0"),
    "agent": ("ullage", "c7"),
    "controller": ("ullage", "c7"),
    "others": ("others", "wood"),
}
"""In the order in which they are stacked."""
_UNKNOWN: Final = ("not told whose", "c3")
ORDER: Final = tuple(dict.fromkeys([*_KINDS.values(), _UNKNOWN]))


def kind(group: str) -> WorkKind:
    return _KINDS.get(group, _UNKNOWN)


def kinds(groups: Iterable[str]) -> list[WorkKind]:
    """Of these groups, each once and in their order."""
    used = {kind(group) for group in groups}
    return [group_kind for group_kind in ORDER if group_kind in used]


def colours(used: Sequence[WorkKind]) -> alt.Color:
    """Of the field `g`, with a legend of these."""
    scale = alt.Scale(
        domain=[name for name, _ in used], range=[f"var(--{colour})" for _, colour in used]
    )
    legend = alt.Legend(title=None, orient="top", columns=4, symbolType="square")
    return alt.Color("g:N", scale=scale, legend=legend)


LIGHT: Final[Mapping[str, str]] = {
    "bg": "#ffffff",
    "panel": "#f7f5f2",
    "ink": "#1d2126",
    "soft": "#59636d",
    "line": "#d9dee3",
    "grid": "#e9ecef",
    "band": "#e4e1dc",
    "oak": "#8a5a2b",
    "wood": "#c9a57c",
    "empty": "#f5f0e8",
    "liquid": "#7c2337",
    "surface": "#97465a",
    "on-liquid": "#ffffff",
    "worse": "#8a2740",
    "better": "#1b5fa6",
    "equivalent": "#1c7053",
    "inconclusive": "#7a5f00",
    "none": "#59636d",
    "focus": "#1b5fa6",
    "median": "#7c2337",
    "c0": "#3d4650",
    "c1": "#b5432c",
    "c2": "#1b6fb0",
    "c3": "#2b7f55",
    "c4": "#8a5fb0",
    "c5": "#96690a",
    "c6": "#b0417e",
    "c7": "#2a7f86",
}

DARK: Final[Mapping[str, str]] = {
    "bg": "#15181c",
    "panel": "#1c2025",
    "ink": "#e8eaed",
    "soft": "#a3adb7",
    "line": "#363d45",
    "grid": "#262c32",
    "band": "#33363b",
    "oak": "#b98a5a",
    "wood": "#6f5336",
    "empty": "#25211d",
    "liquid": "#96405a",
    "surface": "#b0627a",
    "on-liquid": "#ffffff",
    "worse": "#e58aa0",
    "better": "#7fb6ec",
    "equivalent": "#63c7a1",
    "inconclusive": "#d9ba55",
    "none": "#a3adb7",
    "focus": "#7fb6ec",
    "median": "#e27f99",
    "c0": "#c3cad1",
    "c1": "#ee8a73",
    "c2": "#74b3e6",
    "c3": "#6cc79b",
    "c4": "#bf9be0",
    "c5": "#d9b04f",
    "c6": "#e58fbd",
    "c7": "#66c4cb",
}

TEXT_PAIRS: Final[tuple[tuple[str, str], ...]] = (
    ("ink", "bg"),
    ("ink", "panel"),
    ("ink", "empty"),
    ("soft", "bg"),
    ("soft", "panel"),
    ("on-liquid", "liquid"),
    ("worse", "bg"),
    ("better", "bg"),
    ("equivalent", "bg"),
    ("inconclusive", "bg"),
    ("none", "bg"),
    ("none", "empty"),
    ("focus", "bg"),
)
"""(text, ground): each pair stands in the page, so each must have a contrast of 4.5:1 or more."""

SERIES: Final = tuple(f"c{i}" for i in range(8))

FONT: Final = (
    'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", '
    '"DejaVu Sans", sans-serif'
)


def css(colours: Mapping[str, str]) -> str:
    """The colours as CSS custom properties."""
    return ";".join(f"--{name}:{value}" for name, value in colours.items())


def resolve(text: str, colours: Mapping[str, str] = LIGHT) -> str:
    """`var(--name)` replaced by the colour itself."""
    return re.sub(r"var\(--([a-z0-9-]+)\)", lambda match: colours[match.group(1)], text)


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb`, WCAG 2.2."""
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(colour: str, ground: str) -> float:
    """Contrast ratio of two colours, 1 to 21, WCAG 2.2."""
    darker, lighter = sorted((luminance(colour), luminance(ground)))
    return (lighter + 0.05) / (darker + 0.05)
