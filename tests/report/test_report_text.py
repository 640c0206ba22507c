"""Text at the edge: harmless and readable."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.report.charts import text

Json = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(Json)
def test_json_in_a_script_element_cannot_end_it(value: object) -> None:
    written = text.as_json(value)
    assert not set(written) & set("<>&\u2028\u2029")
    assert json.loads(written) == value


def test_json_has_no_numbers_that_json_lacks() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        text.as_json({"x": math.nan})


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (2300.0, "1/s", "2,300 /s"),
        (0.00039, "s", "390 µs"),
        (12.5, "s", "12.5 s"),
        (2.443e10, "B/s", "24.4 GB/s"),
        (0.0, "1", "0"),
        (41e9, "bit/s", "41.0 Gbit/s"),
        (None, "s", "–"),
        (math.inf, "s", "–"),
    ],
)
def test_quantities(value: float | None, unit: str, words: str) -> None:
    assert text.quantity(value, unit).replace("\N{NO-BREAK SPACE}", " ") == words


@given(st.floats(min_value=1e-9, max_value=1e15), st.sampled_from(["s", "B/s", "1/s", "1"]))
def test_a_quantity_is_within_one_percent_of_its_value(value: float, unit: str) -> None:
    factor, name = text.unit_scale(value, unit)
    words = text.quantity(value, unit).replace(",", "").split("\N{NO-BREAK SPACE}")
    assert float(words[0]) * factor == pytest.approx(value, rel=0.01)
    assert name == (words[1] if len(words) > 1 else "")


def test_no_break_between_a_number_and_its_sign() -> None:
    assert text.unbroken("8 to 17 %") == "8 to 17\N{NO-BREAK SPACE}%"
