"""Fields with units."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from ullage.quantities import Bytes, Fraction, Seconds, format_bytes, format_seconds

fraction, seconds, size = TypeAdapter(Fraction), TypeAdapter(Seconds), TypeAdapter(Bytes)


@pytest.mark.parametrize(
    ("text", "value"), [("2%", 0.02), ("0.5 %", 0.005), (0.1, 0.1), ("95%", 0.95)]
)
def test_shares(text: object, value: float) -> None:
    assert fraction.validate_python(text) == pytest.approx(value)


@pytest.mark.parametrize("bad", ["x%", "200%", "0%", -0.1, "nan%", "%"])
def test_bad_shares(bad: object) -> None:
    with pytest.raises(ValidationError):
        fraction.validate_python(bad)


@pytest.mark.parametrize(
    ("text", "value"), [("90s", 90), ("10m", 600), ("1h30m", 5400), ("1.5m", 90), (12, 12)]
)
def test_durations(text: object, value: float) -> None:
    assert seconds.validate_python(text) == value


@pytest.mark.parametrize("bad", ["", "10", "m10", "1h 30m", "-5s", "0s", 0, float("inf")])
def test_bad_durations(bad: object) -> None:
    with pytest.raises(ValidationError):
        seconds.validate_python(bad)


@given(st.integers(1, 2**50))
def test_exact_sizes_read_back(value: int) -> None:
    text = format_bytes(value)
    if "." not in text:
        assert size.validate_python(text) == value


@pytest.mark.parametrize(
    ("value", "text"), [(4.4, "4 s"), (60, "1 min"), (400, "6 min 40 s"), (5400, "1 h 30 min")]
)
def test_durations_for_people(value: float, text: str) -> None:
    assert format_seconds(value) == text
