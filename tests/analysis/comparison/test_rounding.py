from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.analysis.comparison import rounding
from ullage.analysis.comparison.estimates import Interval


def _interval(estimate: float, low: float, high: float) -> Interval:
    return Interval(estimate=estimate, low=low, high=high, confidence=0.95, n=12, method="t")


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ((1.12, 1.08, 1.17), ("1.12", "1.08", "1.17")),
        ((1.0042, 0.9871, 1.0213), ("1.004", "0.987", "1.022")),
        ((6.91, 6.58, 7.27), ("6.9", "6.5", "7.3")),
        ((2.4012, 2.3891, 2.4133), ("2.401", "2.389", "2.414")),
        ((1.9, 1.2, 3.1), ("1.9", "1.2", "3.1")),
        ((1.5, 1.5, 1.5), ("1.50", "1.50", "1.50")),
        ((1.024, 1.0004, 1.048), ("1.0240", "1.0004", "1.0480")),
        ((0.9, 0.8, 0.998), ("0.900", "0.800", "0.998")),
        # Two blocks that disagree: orders of magnitude, and no more digits than that.
        ((1.2345, 0.00123456, 1234.567), ("1.2", "0.0012", "1,300")),
        ((1.0, 3.21e-9, 3.11e8), ("1.0", "3.2e-09", "3.2e+08")),
        ((14.2, 1.2, 170.1), ("14", "1.2", "180")),
        ((11.0, 1.0004, 131.0), ("11", "1.0004", "140")),
        ((0.11, 0.0023, 0.998), ("0.11", "0.0023", "0.998")),
    ],
)
def test_as_many_digits_as_the_interval_bears(
    interval: tuple[float, float, float], expected: tuple[str, str, str]
) -> None:
    assert rounding.ratio(_interval(*interval)) == expected


def test_a_ratio_is_never_printed_as_nothing() -> None:
    assert rounding.ratio(_interval(1.0, 0.2123, 4.711)) == ("1.0", "0.2", "4.8")


def _number(text: str) -> float:
    return float(text.replace("−", "-"))


@given(st.floats(0.05, 20), st.floats(1.0001, 3), st.floats(1.0001, 3))
def test_a_printed_interval_holds_the_computed_one(estimate: float, down: float, up: float) -> None:
    interval = _interval(estimate, estimate / down, estimate * up)
    middle, low, high = (_number(part) for part in rounding.ratio(interval))
    slack = 1e-6
    assert low <= interval.low + slack
    assert high >= interval.high - slack
    assert low <= middle <= high
    width = interval.high - interval.low
    assert high - low <= 1.5 * width + 4e-6, "and is not much wider"


@given(st.floats(1.00001, 20), st.floats(1.00001, 1.5))
def test_an_interval_that_excludes_one_reads_so(low: float, width: float) -> None:
    """On either side; what is nearer to 1 than a millionth cannot be told apart."""
    above = _interval(low * width**0.5, low, low * width)
    below = rounding.inverse(above)
    assert _number(rounding.ratio(above)[1]) > 1
    assert _number(rounding.ratio(below)[2]) < 1


@given(st.floats(1e-9, 1e9), st.floats(10.1, 1e9), st.floats(10.1, 1e9))
def test_so_does_one_of_orders_of_magnitude(estimate: float, down: float, up: float) -> None:
    interval = _interval(estimate, estimate / down, estimate * up)
    middle, low, high = (float(part.replace(",", "")) for part in rounding.ratio(interval))
    assert interval.low / 1.1 <= low <= interval.low * (1 + 1e-5)
    assert interval.high * (1 - 1e-5) <= high <= interval.high * 1.1
    assert low < middle < high
    assert middle == pytest.approx(estimate, rel=0.06)


def test_better_is_said_from_the_other_side() -> None:
    assert rounding.ratio(rounding.inverse(_interval(0.8, 0.75, 0.86)))[0] == "1.25"


@pytest.mark.parametrize(
    ("number", "text"), [(1, "1"), (18, "18"), (99, "99"), (121, "130"), (2743, "2,800")]
)
def test_about_so_many(number: int, text: str) -> None:
    assert rounding.count(number) == text


@pytest.mark.parametrize(("value", "text"), [(0.02, "2 %"), (0.025, "2.5 %"), (1 / 3, "33.3 %")])
def test_shares(value: float, text: str) -> None:
    assert rounding.share(value) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (41.2e9, "bit/s", "41.2 Gbit/s"),
        (0.00039, "s", "390 µs"),
        (95.0, "s", "95 s"),
        (2300.4, "1/s", "2,300 1/s"),
        (3.0, "1", "3"),
        (0.0, "s", "0 s"),
        (2e-9, "s", "2 ns"),
        (5000.0, "s", "5,000 s"),
        (999.7, "s", "1,000 s"),
        (12345.0, "points", "12,345 points"),
        (1500.0, "points", "1,500 points"),
        (120000.0, "EUR", "120,000 EUR"),
        (1.2e15, "points", "1.2e+15 points"),
    ],
)
def test_absolute_values(value: float, unit: str, text: str) -> None:
    assert rounding.quantity(value, unit) == text
