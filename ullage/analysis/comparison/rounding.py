"""Figures as people read them: as many digits as the interval bears, never more.

Bounds are rounded outwards, so a printed interval holds the computed one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ullage.analysis.comparison.estimates import Interval
from ullage.common.quantities import SI_UNITS, prefixed

MINUS = "−"
MOST_DIGITS = 6
WIDE = 100
"""Bounds that are so many times apart tell orders of magnitude."""
SCIENTIFIC = (1e-4, 1e6)
WRITTEN_OUT = (999.5, 1e12)
"""A figure with a unit has all its digits there: three would be `5e+03 s`."""


def decimals(low: float, high: float) -> int:
    """Digits after the point: one significant digit of the half-width, two where it leads with 1.

    That keeps what rounding adds under a quarter of the uncertainty (GUM §7.2.6).
    """
    half = (high - low) / 2
    if not 0 < half < math.inf:
        return 2
    place = math.floor(math.log10(half))
    leading = half / 10.0**place
    return min(MOST_DIGITS, max(0, -place + (1 if leading < 2 else 0)))


def _fixed(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = f"{0:.{digits}f}"
    return text.replace("-", MINUS)


def _outwards(low: float, high: float, digits: int) -> tuple[str, str]:
    scale = 10.0**digits
    # Round off the noise of binary fractions first: 0.08 must not become 0.07.
    down = math.floor(round(low * scale, 6)) / scale
    up = math.ceil(round(high * scale, 6)) / scale
    return _fixed(down, digits), _fixed(up, digits)


def ratio(interval: Interval) -> tuple[str, str, str]:
    """As `bounded`, of an interval."""
    return bounded(interval.estimate, interval.low, interval.high)


def bounded(estimate: float, low: float, high: float) -> tuple[str, str, str]:
    """Estimate, low and high of a ratio: `1.12`, `1.08`, `1.17`.

    Low never reads as 0, and a bound never reads as 1 that excludes it: a sentence that says
    "worse" shows an interval that says so too. One that spans two orders of magnitude has two
    digits everywhere, whatever their place.
    """
    if 0 < WIDE * low < high < math.inf:
        return (
            _significant(estimate, round),
            _significant(low, math.floor),
            _significant(high, math.ceil),
        )
    digits = decimals(low, high)
    if low > 0:
        digits = max(digits, math.ceil(-math.log10(low)))
    if not low <= 1 <= high:
        nearest = min(abs(low - 1), abs(high - 1))
        digits = max(digits, math.ceil(-math.log10(nearest)))
    digits = min(MOST_DIGITS, digits)
    return (_fixed(estimate, digits), *_outwards(low, high, digits))


def _significant(value: float, towards: Callable[[float], int]) -> str:
    """`0.0013`, `14,000`, `3.2e-07`: two digits, and more where those would read as 1."""
    rounded = step = value
    for digits in range(2, MOST_DIGITS + 1):
        step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
        rounded = towards(round(value / step, 6)) * step
        if (rounded == 1) == (value == 1) or towards is round:
            break
    if not SCIENTIFIC[0] <= rounded < SCIENTIFIC[1]:
        return f"{rounded:.{digits - 1}e}"
    return f"{rounded:,.{max(0, -math.floor(math.log10(step)))}f}"


def inverse(interval: Interval) -> Interval:
    """The same seen from the other side: how many times better."""
    return interval.model_copy(
        update={
            "estimate": 1 / interval.estimate,
            "low": 1 / interval.high,
            "high": 1 / interval.low,
        }
    )


def share(value: float) -> str:
    """A margin or a share as a percentage: `2 %`, `2.5 %`."""
    return f"{float(f'{100 * value:.3g}'):g} %"


def count(number: int) -> str:
    """About so many: two significant digits, rounded up."""
    if number < 100:
        return str(number)
    step = 10 ** (len(str(number)) - 2)
    return f"{-(-number // step) * step:,}"


def quantity(value: float, unit: str, digits: int = 3) -> str:
    """A figure with its unit as sentences have it: `41.2 Gbit/s`, `390 µs`, `2,300 1/s`."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}".rstrip()
    if unit in ("1", "1/s", ""):
        plain = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.{digits}g}"
        return f"{plain} {unit}".strip() if unit != "1" else plain
    factor, name = prefixed(value, unit)
    scaled = value / factor
    if WRITTEN_OUT[0] <= abs(scaled) < WRITTEN_OUT[1]:
        return f"{scaled:,.0f} {name}"
    return f"{scaled:.{digits if unit in SI_UNITS else max(digits, 4)}g} {name}"
