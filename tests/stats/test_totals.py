"""Totals are arithmetic means, with intervals that hold where a tail makes them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from ullage.stats import Floats
from ullage.stats.interval import IntervalEstimate, TooFewError
from ullage.stats.totals import ratio_of_independent_totals, ratio_of_totals, total_interval

CAMPAIGNS = 1500
Draw = Callable[[np.random.Generator], Floats]


def lognormal(rng: np.random.Generator) -> Floats:
    return rng.lognormal(0, 1, (CAMPAIGNS, 12))


def slow_fifth(rng: np.random.Generator) -> Floats:
    slow = rng.random((CAMPAIGNS, 12)) < 0.2
    return np.where(slow, 5, 1) * constant(rng)


def constant(rng: np.random.Generator) -> Floats:
    return np.exp(0.05 * rng.standard_normal((CAMPAIGNS, 12)))


EVEN = math.exp(0.05**2 / 2)
MEANS: dict[Draw, float] = {lognormal: math.exp(0.5), slow_fifth: 1.8 * EVEN, constant: EVEN}


@pytest.mark.parametrize("draw", MEANS)
def test_the_total_is_covered(draw: Draw) -> None:
    """At least 92 %, but for three standard errors of the simulation: 2 %."""
    intervals = [total_interval(x, 0.95) for x in draw(np.random.default_rng(11))]
    covered = np.mean([i.low <= MEANS[draw] <= i.high for i in intervals])
    assert 0.90 <= covered <= 0.98


@pytest.mark.parametrize("ratio", [ratio_of_totals, ratio_of_independent_totals])
@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (lognormal, lognormal),
        (lognormal, constant),
        (constant, lognormal),
        (slow_fifth, constant),
        (slow_fifth, slow_fifth),
        (constant, constant),
    ],
)
def test_the_ratio_of_totals_is_covered(
    ratio: Callable[[Floats, Floats, float], IntervalEstimate], mine: Draw, theirs: Draw
) -> None:
    rng = np.random.default_rng(12)
    truth = MEANS[mine] / MEANS[theirs]
    pairs = zip(mine(rng), theirs(rng), strict=True)
    intervals = [ratio(x, y, 0.95) for x, y in pairs]
    assert np.mean([i.low <= truth <= i.high for i in intervals]) >= 0.90


def test_independent_samples_may_have_different_sizes() -> None:
    one, other = [1.0, 2.0, 9.0, 1.5], [0.4, 0.6]
    i, inverse = (
        ratio_of_independent_totals(*sides, 0.95) for sides in ((one, other), (other, one))
    )
    assert i.estimate == pytest.approx(3.375 / 0.5)
    assert i.n == 2
    assert (i.low, i.high) == pytest.approx((1 / inverse.high, 1 / inverse.low))
    with pytest.raises(TooFewError):
        ratio_of_independent_totals(one, [1.0], 0.95)


def test_a_slow_fifth_is_paid_for() -> None:
    """Issue 19: the median says 1 where 1.8 is paid."""
    x = [1.0, 1.01, 0.99, 1.0, 5.0, 1.0, 1.02, 0.98, 5.1, 1.0]
    interval = total_interval(x, 0.95)
    assert interval.estimate == pytest.approx(1.81)
    assert interval.low < 1.2
    assert interval.high > 3
    assert interval.high - interval.estimate > interval.estimate - interval.low


def test_what_has_no_spread_has_no_width() -> None:
    interval = total_interval([0.1] * 3, 0.95)
    assert (interval.low, interval.high) == (interval.estimate, interval.estimate)
    ratio = ratio_of_totals([0.3, 0.6, 0.9], [0.1, 0.2, 0.3], 0.95)
    assert (ratio.low, ratio.high) == pytest.approx((3.0, 3.0))


def test_figures_of_any_size() -> None:
    x = np.array([1.0, 2.0, 9.0, 1.5])
    for size in (1e-75, 1e75):
        assert total_interval(size * x, 0.95).high / size == pytest.approx(
            total_interval(x, 0.95).high
        )
        assert ratio_of_totals(size * x, size * x[::-1], 0.95).high == pytest.approx(
            ratio_of_totals(x, x[::-1], 0.95).high
        )


def test_looking_on_the_way_widens_it() -> None:
    x = [1.0, 2.0, 3.0, 2.5, 1.5, 2.0]
    assert total_interval(x, 0.95, 1.2).high > total_interval(x, 0.95).high
    assert ratio_of_totals(x, x[::-1], 0.95, 1.2).low < ratio_of_totals(x, x[::-1], 0.95).low


def test_what_is_no_total_is_refused() -> None:
    with pytest.raises(TooFewError):
        total_interval([1.0], 0.95)
    for bad in ([1.0, 0.0, 2.0], [1.0, -1.0, 2.0], [1.0, math.inf, 2.0]):
        with pytest.raises(ValueError):
            total_interval(bad, 0.95)
        with pytest.raises(ValueError):
            ratio_of_totals(bad, [1.0, 1.0, 1.0], 0.95)
    with pytest.raises(ValueError, match="not paired"):
        ratio_of_totals([1.0, 2.0], [1.0, 2.0, 3.0], 0.95)
