from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.stats.multiple import holm

P = st.lists(st.floats(0, 1), min_size=1, max_size=20)


def test_holms_own_arithmetic() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(P)
def test_adjusting_never_makes_smaller_and_keeps_the_order(p: list[float]) -> None:
    adjusted = holm(p)
    assert all(a >= b for a, b in zip(adjusted, p, strict=True))
    assert all(a <= 1 for a in adjusted)
    order = np.argsort(p, kind="stable")
    assert list(np.array(adjusted)[order]) == sorted(adjusted)


@given(P)
def test_not_stricter_than_bonferroni(p: list[float]) -> None:
    assert all(a <= min(1, b * len(p)) + 1e-12 for a, b in zip(holm(p), p, strict=True))


def test_of_nothing_is_nothing() -> None:
    assert holm([]) == []


def test_what_is_no_probability_is_refused() -> None:
    with pytest.raises(ValueError, match="p-value"):
        holm([0.5, 1.5])


def test_any_false_rejection_stays_under_alpha() -> None:
    rng = np.random.default_rng(8)
    runs = rng.uniform(size=(4000, 12))
    wrong = np.mean([min(holm(list(row))) <= 0.05 for row in runs])
    assert wrong <= 0.05 + 3 * (0.05 * 0.95 / 4000) ** 0.5
