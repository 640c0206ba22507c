"""Text at the edge: SI figures made readable, and JSON that no element can be ended with."""

from __future__ import annotations

import json
import math

from ullage.common.quantities import digits, format_seconds, prefixed
from ullage.common.text import clean


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
    """As `prefixed`; the unit as people write it: nothing for a number, `/s` for `1/s`."""
    factor, name = prefixed(largest, unit)
    return factor, {"1": "", "1/s": "/s"}.get(name, name)


def quantity(value: float | None, unit: str) -> str:
    """A figure with its unit as tables and charts have it: `1,432 /s`, `2.41 GB/s`."""
    if value is None or not math.isfinite(value):
        return "–"
    factor, name = unit_scale(value, unit)
    number = digits(value / factor)
    return f"{number}\N{NO-BREAK SPACE}{name}" if name else number


def duration(seconds: float | None) -> str:
    """A length of time, from nanoseconds to hours."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    return format_seconds(seconds) if abs(seconds) >= 60 else quantity(seconds, "s")
