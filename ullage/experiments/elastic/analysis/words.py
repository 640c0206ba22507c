"""Figures and effects of an elastic run in words, with no more digits than they bear."""

from __future__ import annotations

from typing import Final

from ullage.analysis.comparison.rounding import MINUS, bounded, quantity
from ullage.common.quantities import many
from ullage.experiments.elastic.analysis.contrasts import Contrast
from ullage.experiments.elastic.analysis.definitions import BY_NAME, Definition


def figure(d: Definition, value: float | None) -> str:
    """A figure with its unit: `2.1 %`, `10.4 s`, `0.31 nodes`."""
    if value is None:
        return "–"
    factor, unit = _SHOWN.get("%" if d.percent else d.unit, (0.0, ""))
    if factor:
        return f"{_signed(factor * value)}{unit}"
    return f"{value:,.4g}" if d.unit == "count" else quantity(value, d.unit)


_SHOWN: Final = {
    "%": (100.0, " %"),
    "1": (1.0, "×"),
    "money": (1.0, ""),
    "nodes": (1.0, " nodes"),
    "node·s": (1.0, " node·s"),
    "nodes/s": (60.0, " nodes/min"),
}
"""Unit → what a figure is multiplied with, and what stands after it."""


def _signed(value: float) -> str:
    text = quantity(abs(value), "")
    return f"{MINUS}{text}" if value < 0 else text


def spanned(d: Definition, low: float, high: float) -> str:
    """Two bounds with one unit."""
    first, last = figure(d, low), figure(d, high)
    number, _, unit = first.partition(" ")
    same = last.endswith(f" {unit}")
    return f"{number} to {last}" if same else f"{first} to {last}"


def effect(c: Contrast) -> str:
    """`1.32×`, or `+3.2 points`."""
    if c.estimate is None:
        return "–"
    if c.kind == "ratio":
        return f"{_ratio(c)[0]}×"
    return _difference(c, c.estimate)


def effect_interval(c: Contrast) -> str:
    """`1.27× to 1.36×`, `+1.1 to +5.3 points`; empty where it has none."""
    if c.low is None or c.high is None:
        return ""
    if c.kind == "ratio":
        return "{}× to {}×".format(*_ratio(c)[1:])
    low, high = _difference(c, c.low), _difference(c, c.high)
    number, _, unit = low.partition(" ")
    same = high.endswith(f" {unit}")
    return f"{number} to {high}" if same else f"{low} to {high}"


def _ratio(c: Contrast) -> tuple[str, str, str]:
    """Estimate and bounds, with as many digits as they bear."""
    assert c.estimate is not None
    if c.low is None or c.high is None or not c.low > 0:
        return f"{c.estimate:.2f}", "", ""
    return bounded(c.estimate, c.low, c.high)


def _difference(c: Contrast, value: float) -> str:
    d = BY_NAME[c.metric]
    sign = "+" if value > 0 else ""
    text = f"{_signed(100 * value)} points" if d.percent else figure(d, value)
    return f"{sign}{text}"


def counted(number: int, between: str = "") -> str:
    """`1 repetition`, `12 more repetitions`."""
    return many(number, f"{between}repetition")
