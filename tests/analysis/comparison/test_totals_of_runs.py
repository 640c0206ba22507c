"""Beside every geometric ratio: that of the totals, of the slowest, and whether they disagree."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.doubtkit import doubted, draft
from ullage.analysis.comparison.estimates import Interval
from ullage.analysis.comparison.totals import tail, totals
from ullage.analysis.doubts.totals import disagree

RNG = np.random.default_rng(4)
NOISE = RNG.normal(1, 0.01, 900)


def _interval(estimate: float, low: float, high: float) -> Interval:
    return Interval(estimate=estimate, low=low, high=high, confidence=0.95, n=12, method="")


def test_totals_of_times_are_sums() -> None:
    mine, theirs = [1.0, 1.0, 1.0, 5.0], [1.0, 1.1, 0.9, 1.0]
    ratio = totals(draft(mine, theirs))
    assert ratio is not None
    assert ratio.estimate == pytest.approx(2.0)


def test_totals_of_rates_are_times_for_the_same_work() -> None:
    """A rate of a fifth is a time of five: the harmonic mean, and above 1 is worse."""
    d = draft([1.0, 1.0, 1.0, 0.2], [1.0, 1.1, 0.9, 1.0], unit="B/s", better="higher")
    ratio = totals(d)
    assert ratio is not None
    assert ratio.estimate == pytest.approx(2.0, rel=0.01)


def test_what_is_no_rate_and_better_when_higher_is_summed_as_it_is() -> None:
    ratio = totals(draft([1.0, 3.0, 2.0], [2.0, 2.0, 2.0], unit="1", better="higher"))
    assert ratio is not None
    assert ratio.estimate == pytest.approx(1.0)


def test_makings_count_once() -> None:
    mine = [1.0, 1.0, 1.0, 3.0, 3.1]
    ratio = totals(draft(mine, [1.0] * 5, generations=[0, 0, 0, 1, 1]))
    assert ratio is not None
    assert ratio.n == 2
    assert ratio.estimate == pytest.approx((1 + 3.05) / 2)


def test_a_curve_and_a_single_pair_have_none() -> None:
    assert totals(draft([1.0], [1.0])) is None
    curve = [[(1.0, 2.0), (2.0, 3.0)]] * 3
    assert totals(draft(curve, curve)) is None
    assert tail(draft(curve, curve)) is None


@pytest.mark.parametrize(("pairs", "quantile"), [(85, None), (86, 0.95), (434, 0.95), (435, 0.99)])
def test_a_tail_where_the_blocks_bound_it(pairs: int, quantile: float | None) -> None:
    of_tail = tail(draft(NOISE[:pairs], NOISE[-pairs:]))
    assert (of_tail.quantile if of_tail else None) == quantile


def test_the_tail_of_rates_is_their_slowest() -> None:
    slow = np.where(np.arange(100) % 10 == 0, 0.5, 1.0) * NOISE[:100]
    of_tail = tail(draft(slow, NOISE[100:200], unit="1/s", better="higher"))
    assert of_tail is not None
    assert of_tail.ratio.estimate == pytest.approx(2, rel=0.05)


def test_makings_have_no_tail() -> None:
    generations = [block // 10 for block in range(100)]
    assert tail(draft(NOISE[:100], NOISE[100:200], generations=generations)) is None


def test_a_few_slow_trials_that_the_usual_one_hides() -> None:
    """10 % faster but for one trial in a hundred, of fifteen times: better, and dearer."""
    slow = np.where(np.arange(100) == 50, 15, 0.9) * NOISE[:100]
    doubts = doubted(draft(slow, NOISE[100:200]))
    assert "All trials together read differently" in doubts["totals-disagree"].message
    assert "totals-disagree" not in doubted(draft(NOISE[:30], NOISE[30:60]))
    assert "totals-disagree" not in doubted(draft(1.1 * NOISE[:30], NOISE[30:60]))


@pytest.mark.parametrize(
    ("usual", "all_trials", "expected"),
    [
        ((0.95, 0.92, 0.98), (1.1, 0.94, 1.3), True),  # better, and dearer
        ((0.95, 0.92, 0.98), (0.97, 0.92, 1.02), False),
        ((1.001, 0.99, 1.012), (1.05, 0.995, 1.3), True),  # equivalent, and dearer
        ((1.0, 0.9, 1.1), (1.05, 0.9, 1.2), False),
        ((1.0, 0.98, 1.02), (1.3, 1.1, 1.6), True),  # neither holds the other
        ((0.99, 0.9, 1.1), (1.2, 1.05, 1.6), True),
        ((1.1, 1.05, 1.15), (1.12, 1.04, 1.2), False),
    ],
)
def test_what_disagrees(
    usual: tuple[float, float, float], all_trials: tuple[float, float, float], expected: bool
) -> None:
    assert disagree(_interval(*usual), _interval(*all_trials), 0.02) is expected
