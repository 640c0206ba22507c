from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from ullage.stats.multiple import Correction, adjust, benjamini_hochberg, holm, next_levels

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
    assert holm([]) == benjamini_hochberg([]) == []


@pytest.mark.parametrize("p", [[0.5, 1.5], [0.5, float("nan")], [-0.1]])
def test_what_is_no_probability_is_refused(p: list[float]) -> None:
    for procedure in (holm, benjamini_hochberg):
        with pytest.raises(ValueError, match="p-value"):
            procedure(p)


def test_the_example_of_benjamini_and_hochberg() -> None:
    """Their 15 p-values (1995, of a study of infarctions): four rejected at 0.05, by Holm three."""
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262]
    p += [0.5719, 0.6528, 0.7590, 1.0]
    assert sum(adjusted <= 0.05 for adjusted in benjamini_hochberg(p)) == 4
    assert sum(adjusted <= 0.05 for adjusted in holm(p)) == 3


@given(P)
def test_benjamini_and_hochberg_are_scipys_and_never_stricter_than_holm(p: list[float]) -> None:
    adjusted = benjamini_hochberg(p)
    assert adjusted == pytest.approx(list(stats.false_discovery_control(p)))
    assert all(b - 1e-12 <= a <= c + 1e-12 for a, b, c in zip(adjusted, p, holm(p), strict=True))
    assert list(np.array(adjusted)[np.argsort(p, kind="stable")]) == sorted(adjusted)


@given(P, st.randoms(use_true_random=False))
def test_the_order_of_comparisons_does_not_matter(p: list[float], random: Random) -> None:
    places = list(range(len(p)))
    random.shuffle(places)
    for procedure in (holm, benjamini_hochberg):
        moved = procedure([p[i] for i in places])
        assert moved == pytest.approx([procedure(p)[i] for i in places])


def test_the_plan_chooses() -> None:
    p = [0.01, 0.02, 0.03]
    assert adjust(p, "holm") == holm(p)
    assert adjust(p, "benjamini-hochberg") == benjamini_hochberg(p)


@given(P, st.sampled_from(["holm", "benjamini-hochberg"]))
def test_the_next_level_is_where_the_procedure_decides(
    p: list[float], correction: Correction
) -> None:
    alpha = 0.05
    adjusted = adjust(p, correction)
    for i, level in enumerate(next_levels(adjusted, alpha, correction)):
        if adjusted[i] > alpha:
            below = [*p[:i], level * (1 - 1e-9), *p[i + 1 :]]
            assert adjust(below, correction)[i] <= alpha
            assert p[i] > level * (1 - 1e-9)


def test_the_share_of_false_discoveries_stays_under_q_with_a_shared_baseline() -> None:
    """Two-sided tests of 12 comparisons with one baseline (correlation 0.5), four of them real."""
    rng, runs = np.random.default_rng(9), 4000
    z = (rng.standard_normal((runs, 12)) + rng.standard_normal((runs, 1))) / np.sqrt(2)
    z[:, :4] += 3
    shares = []
    for p in 2 * special.ndtr(-np.abs(z)):
        rejected = np.array(benjamini_hochberg(list(p))) <= 0.05
        shares.append(rejected[4:].sum() / max(1, rejected.sum()))
    error = float(np.std(shares)) / runs**0.5
    assert np.mean(shares) <= 0.05 + 3 * error
    assert np.mean(shares) > 0.01, "the simulation sees false discoveries"


def test_any_false_rejection_stays_under_alpha() -> None:
    rng = np.random.default_rng(8)
    runs = rng.uniform(size=(4000, 12))
    wrong = np.mean([min(holm(list(row))) <= 0.05 for row in runs])
    assert wrong <= 0.05 + 3 * (0.05 * 0.95 / 4000) ** 0.5
