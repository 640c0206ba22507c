"""Text at the edge: SI figures made readable, and JSON that no element can be ended with."""

from __future__ import annotations

import json
import math
from typing import Final

from ullage.common.quantities import format_seconds
from ullage.common.text import clean

_PREFIXES: Final = (
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
)
_PREFIXED: Final = {"s", "B", "B/s", "bit", "bit/s", "J", "W", "Hz", "V", "A"}
"""Units that take a prefix; a count or a rate of events is written out."""


def first_sentence(text: str) -> str:
    """A description without its details and its full stop, for a caption."""
    return clean(text.partition(". ")[0].rstrip("."), 90)


def unbroken(text: str) -> str:
    """The same, with no line break between a number and its sign: `95 %`."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def as_json(value: object) -> str:
    """JSON that can stand inside an HTML script element: nothing in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def unit_scale(largest: float, unit: str) -> tuple[float, str]:
    """What to divide by, and the unit then: (1e6, "MB/s") for a largest value of 2.5e8 B/s."""
    if unit not in _PREFIXED or not math.isfinite(largest) or largest == 0:
        return 1.0, unit_name(unit)
    if unit == "s" and largest >= 1:
        return 1.0, "s"
    factor, prefix = next((p for p in _PREFIXES if abs(largest) >= p[0]), _PREFIXES[-1])
    return factor, prefix + unit


def unit_name(unit: str) -> str:
    """The unit as people write it: nothing for a pure number, `/s` for `1/s`."""
    return {"1": "", "1/s": "/s"}.get(unit, unit)


def quantity(value: float | None, unit: str) -> str:
    """A figure with its unit, three or four significant digits: `1,432 /s`, `2.41 GB/s`."""
    if value is None or not math.isfinite(value):
        return "–"
    factor, name = unit_scale(value, unit)
    number = digits(value / factor)
    return f"{number}\N{NO-BREAK SPACE}{name}" if name else number


def digits(value: float) -> str:
    """A number with four significant digits at least, thousands apart."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    magnitude = math.floor(math.log10(abs(value)))
    if -4 <= magnitude < 12:
        text = f"{value:,.{max(0, 2 - magnitude if magnitude < 3 else 0)}f}"
        return text
    return f"{value:.3g}"


def duration(seconds: float | None) -> str:
    """A length of time, from nanoseconds to hours."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    return format_seconds(seconds) if abs(seconds) >= 60 else quantity(seconds, "s")
