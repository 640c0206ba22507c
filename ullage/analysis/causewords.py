"""Causes in plain words."""

from __future__ import annotations

import math
from typing import Final

from ullage.analysis.counters import OF_A_CPU
from ullage.analysis.model import Cause, Causes
from ullage.analysis.rounding import MINUS, decimals, quantity, ratio, share

_A_SECOND: Final = " a second"
_OF_A_CPU: Final = " of a CPU"
_PERCENT: Final = {"1": "", OF_A_CPU: _OF_A_CPU}
"""Units that are told as shares → what of."""
LEAD: Final = "What changes along is a lead, not a proof."


def told(causes: Causes) -> str:
    """The causes of one comparison in a sentence or two, for `show --details`."""
    if not causes.found:
        return none(causes)
    return f"{'; '.join(cause(each) for each in causes.found)}. {counted(causes)} {LEAD}"


def none(causes: Causes) -> str:
    """When no counter can be named."""
    if causes.looked == 0:
        return "no counter was seen in enough of these trials"
    return (
        f"none of the {causes.looked} counters looked at changed for sure: the cause is not in "
        "them, or more blocks are needed to see it"
    )


def counted(causes: Causes) -> str:
    """How many there were to choose from."""
    changed = "1 changed" if causes.differing == 1 else f"{causes.differing} changed"
    return (
        f"Of {causes.looked} counters looked at {changed}; all intervals hold together at "
        f"{share(causes.confidence)}."
    )


def cause(found: Cause) -> str:
    """`interrupts of the host: 12,300 a second against 1,020 a second, 12 times (10 to 15)`."""
    mine, theirs = (value(x, found.unit) for x in (found.environment_mean, found.baseline_mean))
    theirs = theirs.removesuffix(_OF_A_CPU)
    return f"{found.words}: {mine} against {theirs}, {change(found)} ({bounds(found)})"


def change(found: Cause) -> str:
    """`12 times`, or where one side is next to nothing `11 % more`."""
    if not found.from_nothing:
        return f"{ratio(found.ratio)[0]} times"
    more = "more" if found.difference > 0 else "less"
    if found.unit in _PERCENT:
        return f"{_percents(found)[0]}{_PERCENT[found.unit]} {more}"
    return f"{value(abs(found.difference), found.unit)} {more}"


def bounds(found: Cause) -> str:
    """The interval of that."""
    if not found.from_nothing:
        _, low, high = ratio(found.ratio)
        return f"{low} to {high}"
    if found.unit in _PERCENT:
        return " to ".join(_percents(found)[1:])
    low, high = (_signed(end, found.unit) for end in _ends(found))
    return f"{low.removesuffix(_A_SECOND)} to {high}"


def _ends(found: Cause) -> tuple[float, float]:
    """Bounds of how much more, or how much less."""
    if found.difference < 0:
        return -found.difference_high, -found.difference_low
    return found.difference_low, found.difference_high


def _percents(found: Cause) -> tuple[str, str, str]:
    """How much more or less and its bounds, with the digits that they bear, rounded outwards.

    A bound above 0 does not read as 0.
    """
    low, high = (100 * end for end in _ends(found))
    digits = decimals(low, high)
    if low > 0:
        digits = max(digits, math.ceil(-math.log10(low)))
    scale = 10.0**digits
    outer = math.floor(round(low * scale, 6)) / scale, math.ceil(round(high * scale, 6)) / scale
    told = [f"{x:.{digits}f} %".replace("-", MINUS) for x in (100 * abs(found.difference), *outer)]
    return told[0], told[1], told[2]


def value(x: float, unit: str) -> str:
    """`1,020 a second`, `11 %`, `11 % of a CPU`, `4.2 MB/s`, `0.8`."""
    if unit == "1":
        return share(x)
    if unit == OF_A_CPU:
        return share(x) + _OF_A_CPU
    if unit == "1/s":
        return quantity(x, "1") + _A_SECOND
    return quantity(x, unit)


def _signed(x: float, unit: str) -> str:
    return f"{MINUS}{value(-x, unit)}" if x < 0 else value(x, unit)
