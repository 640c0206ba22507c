"""Units of other people's figures."""

import pytest

from ullage.analysis.tables.figures import si


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("ms", ("s", 1e-3)),
        ("MiB/s", ("B/s", 2.0**20)),
        ("Gbit/s", ("bit/s", 1e9)),
        ("µs", ("s", 1e-6)),
        ("s", ("s", 1.0)),
        ("frames", ("frames", 1.0)),
        ("", ("", 1.0)),
    ],
)
def test_units_lose_their_prefix(unit: str, expected: tuple[str, float]) -> None:
    assert si(unit) == expected
