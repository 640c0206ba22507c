"""Fields with units."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from ullage.common.quantities import (
    Bytes,
    Fraction,
    Seconds,
    digits,
    exact_bytes,
    format_bytes,
    format_seconds,
    many,
    prefixed,
)

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
    ("text", "value"),
    [
        ("90s", 90),
        ("10m", 600),
        ("1h30m", 5400),
        ("1.5m", 90),
        (12, 12),
        ("500ms", 0.5),
        ("0.5ms", 0.0005),
        ("1s500ms", 1.5),
        ("1m500ms", 60.5),
        ("1h1m1s1ms", 3661.001),
    ],
)
def test_durations(text: object, value: float) -> None:
    assert seconds.validate_python(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    "bad", ["", "10", "m10", "1h 30m", "-5s", "0s", "0ms", "5 ms", "1ms1s", "5mss", 0, float("inf")]
)
def test_bad_durations(bad: object) -> None:
    with pytest.raises(ValidationError):
        seconds.validate_python(bad)


@given(st.integers(1, 2**50))
def test_exact_sizes_read_back(value: int) -> None:
    text = format_bytes(value)
    if "." not in text:
        assert size.validate_python(text) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 s"),
        (0.5, "0.5 s"),
        (0.0104, "0.01 s"),
        (4.4, "4 s"),
        (60, "1 min"),
        (400, "6 min 40 s"),
        (5400, "1 h 30 min"),
    ],
)
def test_durations_for_people(value: float, text: str) -> None:
    assert format_seconds(value) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 blocks"), (1, "1 block"), (2, "2 blocks"), (1000, "1,000 blocks")]
)
def test_one_is_no_plural(number: int, text: str) -> None:
    assert many(number, "block") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0B"), (512, "512B"), (4096, "4KiB"), (64 << 20, "64MiB"), (1 << 44, "16TiB")],
)
def test_exact_sizes(value: int, text: str) -> None:
    assert exact_bytes(value) == text


@pytest.mark.parametrize("value", [1025, 65_507, (1 << 30) - 1])
def test_a_size_is_not_rounded_where_it_is_a_bound(value: int) -> None:
    assert exact_bytes(value) == f"{value}B"


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (2.5e8, "B/s", (1e6, "MB/s")),
        (999.6e-6, "s", (1e-3, "ms")),
        (999.4e-6, "s", (1e-6, "µs")),
        (5e-9, "s", (1e-9, "ns")),
        (90_000, "s", (1, "s")),
        (1_432, "1/s", (1, "1/s")),
        (0, "W", (1, "W")),
    ],
)
def test_si_prefixes(value: float, unit: str, shown: tuple[float, str]) -> None:
    assert prefixed(value, unit) == shown
    assert prefixed(-value, unit) == shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.5, "1.50"),
        (9.996, "10.0"),
        (0.99961, "1.00"),
        (-24.44, "-24.4"),
        (1_432.4, "1,432"),
        (0.00123, "0.00123"),
        (0, "0"),
        (1e-7, "1e-07"),
    ],
)
def test_three_digits(value: float, text: str) -> None:
    assert digits(value) == text
