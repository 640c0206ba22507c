"""Types of plan fields that carry a unit: shares, durations, sizes, rates. SI base units inside."""

from __future__ import annotations

import math
import os
import re
from typing import Annotated, Final

from pydantic import BeforeValidator, ByteSize, Field

_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3}
_DURATION: Final = re.compile("".join(rf"(?:(\d+(?:\.\d+)?){unit}(?!s))?" for unit in _UNITS))

_BIT_PREFIXES: Final = {"k": 1e3, "M": 1e6, "G": 1e9}
_BIT_RATE: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?([kMG])bit(?:/s)?")


def _fraction(value: object) -> object:
    """`2%` → 0.02; a number is taken as it is."""
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            return float(value.strip()[:-1]) / 100
        except ValueError:
            raise ValueError("a share such as 2% or 0.02") from None
    return value


def _seconds(value: object) -> object:
    """`1h30m`, `10m`, `45s`, `500ms` → seconds; a number is seconds."""
    if isinstance(value, str):
        match = _DURATION.fullmatch(value.strip())
        if not match or not any(match.groups()):
            raise ValueError("a duration such as 500ms, 90s, 10m or 1h30m")
        parts = zip(match.groups(), _UNITS.values(), strict=True)
        return sum(float(part) * unit for part, unit in parts if part)
    return value


def _bit_rate(value: object) -> object:
    """`1Gbit`, `2.5Gbit/s`, `100Mbit` → bit/s; a number is bit/s."""
    if isinstance(value, str):
        match = _BIT_RATE.fullmatch(value.strip())
        if not match:
            raise ValueError("a rate such as 100Mbit, 1Gbit or 2.5Gbit/s")
        return float(match[1]) * _BIT_PREFIXES[match[2]]
    return value


def _memory(value: object) -> object:
    return memory_bytes() if value == "host" else value


Fraction = Annotated[
    float,
    BeforeValidator(_fraction, json_schema_input_type=str | float),
    Field(gt=0, lt=1, allow_inf_nan=False),
]
"""A share: `2%` or 0.02."""

Share = Annotated[
    float,
    BeforeValidator(_fraction, json_schema_input_type=str | float),
    Field(gt=0, le=1, allow_inf_nan=False),
]
"""As a fraction, but it may be all: `100%`."""

Seconds = Annotated[
    float,
    BeforeValidator(_seconds, json_schema_input_type=str | float),
    Field(gt=0, allow_inf_nan=False),
]
"""A duration in seconds: `500ms`, `90s`, `10m`, `1h30m` or a number."""

Delay = Annotated[
    float,
    BeforeValidator(_seconds, json_schema_input_type=str | float),
    Field(ge=0, allow_inf_nan=False),
]
"""The same, but it may be none: 0."""

BitRate = Annotated[
    float,
    BeforeValidator(_bit_rate, json_schema_input_type=str | float),
    Field(gt=0, allow_inf_nan=False),
]
"""Bits in a second: `100Mbit`, `1Gbit`, `2.5Gbit/s` or a number. Prefixes are decimal."""

Bytes = ByteSize
"""A size in bytes: `1GiB`, `512MiB`, `16KiB`."""

Memory = Annotated[Bytes, BeforeValidator(_memory, json_schema_input_type=str | int)]
"""A size in bytes, or `host`: all memory of this host."""


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
SI_UNITS: Final = frozenset(
    f"{unit}{per}"
    for unit in ("s", "B", "bit", "J", "W", "Hz", "m", "g", "V", "A", "op", "flop")
    for per in ("", "/s")
)
"""Units that take an SI prefix: a count or a rate of events is written out, and what a table calls
its unit may be anything."""


def prefixed(value: float, unit: str) -> tuple[float, str]:
    """What to divide a value of that size by, and the unit then: `(1e6, "MB/s")` for 2.5e8 B/s.

    999.6 µs are a millisecond, as three digits show it; seconds stay seconds from 1 s on.
    """
    size = abs(value)
    if unit not in SI_UNITS or not 0 < size < math.inf or (unit == "s" and size >= 1):
        return 1.0, unit
    factor, prefix = next((p for p in _PREFIXES if size >= 0.9995 * p[0]), _PREFIXES[-1])
    return factor, prefix + unit


def digits(value: float) -> str:
    """Three significant digits, or all before the point; thousands apart: `1.50`, `24.4`, `1,432`.

    Those after the point stay when they are zeros, so that the figures of a column are in line.
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    magnitude = int(f"{value:.2e}".partition("e")[2])
    if -4 <= magnitude < 12:
        return f"{value:,.{max(0, 2 - magnitude)}f}"
    return f"{value:.3g}"


def many(number: int, noun: str) -> str:
    """`1 block`, `12 blocks`, `1,000 blocks`, for people."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_seconds(seconds: float) -> str:
    """`0.5 s`, `6 min 40 s`, for people."""
    if seconds < 1:
        return f"{seconds:.2g} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, left_s = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {left_s} s" if left_s else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def format_bytes(size: int) -> str:
    """`1GiB`, in the largest binary unit that is exact, else with one decimal."""
    for unit, step in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= step:
            return f"{size // step}{unit}" if size % step == 0 else f"{size / step:.1f}{unit}"
    return f"{size}B"


def exact_bytes(size: int) -> str:
    """`1GiB`, `65507B`: in the largest unit that is exact, for what is allowed."""
    text = format_bytes(size)
    return f"{size}B" if "." in text else text


def memory_bytes() -> int:
    """All memory of this host; a limit of so much or more limits nothing."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
