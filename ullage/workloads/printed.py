"""Numbers as programs write them: a value, and the step of its last digit."""

from __future__ import annotations

import math
import re
from typing import Final

from ullage.runs.records import LARGEST

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?([0-9]*)|\.([0-9]+))(?:[eE]([+-]?[0-9]+))?")
LONGEST: Final = 64
"""Characters of a number in a text; what is longer is none."""


class JsonNumber(float):
    """A number of a JSON document that knows how it stood there."""

    text: str

    def __new__(cls, text: str) -> JsonNumber:
        number = super().__new__(cls, text)
        number.text = text
        return number


def number(text: str) -> float | None:
    """The value of a plain number; None: it is none."""
    if len(text) > LONGEST or not _NUMBER.fullmatch(text):
        return None
    return float(text)


def step(text: str) -> float | None:
    """Of the last digit: 0.01 of `20.35`, 1 of `20`, 10 of `1.23e3`. None beyond all figures."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    whole, fraction, exponent = match.groups(default="")
    digits = len(whole or fraction)
    last = float(f"1e{int(exponent[:LONGEST] or 0) - digits}")
    return last if 0 < last <= LARGEST and math.isfinite(last) else None
