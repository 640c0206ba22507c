"""Numbers as programs write them."""

from __future__ import annotations

import pytest

from ullage.workloads.printed import LONGEST, JsonNumber, number, step


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20.35", 0.01),
        ("20", 1.0),
        ("+20.", 1.0),
        ("-.5", 0.1),
        ("20.00", 0.01),
        ("1.23457e+06", 10.0),
        ("1e-3", 1e-3),
        ("0.0", 0.1),
    ],
)
def test_the_last_digit_has_a_step(text: str, expected: float) -> None:
    assert step(text) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("text", ["", ".", "1_0", "0x10", "٣", "1e999", "1e-999", "nan", "1 2"])
def test_what_is_no_number_or_beyond_all_figures_has_none(text: str) -> None:
    assert step(text) is None


def test_a_number_is_short_and_plain() -> None:
    assert number("1" * LONGEST) == float("1" * LONGEST)
    assert number("1" * (LONGEST + 1)) is None
    assert number("fast") is None


def test_a_number_of_json_is_one_and_knows_how_it_stood() -> None:
    assert JsonNumber("17.50") == 17.5
    assert JsonNumber("17.50").text == "17.50"
