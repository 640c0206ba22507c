from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, stats

from ullage.stats.interval import IntervalEstimate, TooFewError
from ullage.stats.unpaired import UnboundedError, delta_log, fieller, more_often, welch_log

Better = Literal["higher", "lower"]
Make = Callable[[list[float], list[float], Better, float], IntervalEstimate]
Floats = NDArray[np.float64]
ALL = pytest.mark.parametrize("make", [welch_log, fieller, delta_log])
FIGURES = st.lists(st.floats(5, 10), min_size=4, max_size=20)


def _sample(mean: float, deviation: float, n: int, seed: int = 1) -> Floats:
    """Values with exactly this mean and standard deviation."""
    x = np.random.default_rng(seed).normal(size=n)
    scaled: Floats = mean + deviation * (x - x.mean()) / x.std(ddof=1)
    return scaled


def test_welch_is_scipys() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.lognormal(1, 0.5, 9), rng.lognormal(0, 0.1, 14)
    reference = stats.ttest_ind(np.log(x), np.log(y), equal_var=False).confidence_interval(0.9)
    interval = welch_log(x, y, "lower", 0.9)
    assert (interval.low, interval.high) == pytest.approx(
        (math.exp(reference.low), math.exp(reference.high))
    )
    assert interval.estimate == pytest.approx(stats.gmean(x) / stats.gmean(y))
    assert interval.n == 23


@pytest.mark.parametrize(
    ("confidence", "low", "high"), [(0.9, 1.54, 2.64), (0.95, 1.46, 2.83), (0.99, 1.27, 3.36)]
)
def test_fieller_of_a_published_example(confidence: float, low: float, high: float) -> None:
    """14 ± 3 over 7 ± 2, six values each, by GraphPad's calculator.

    (Printed with DCSTATS' notebook on Fieller, github.com/DCPROGS/DCSTATS.) It takes t with ten
    degrees of freedom, we the 9.27 that Welch–Satterthwaite leaves: asked for the confidence at
    which both have the same t, we must agree.
    """
    mine, theirs = 9 / 6, 2**2 * 4 / 6
    df = (mine + theirs) ** 2 / (mine**2 / 5 + theirs**2 / 5)
    same = float(1 - 2 * stats.t.sf(stats.t.isf((1 - confidence) / 2, 10), df))
    interval = fieller(_sample(14, 3, 6), _sample(7, 2, 6, seed=2), "lower", same)
    assert interval.estimate == pytest.approx(2)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=0.005)


@pytest.mark.parametrize("seed", range(5))
def test_fieller_inverts_the_t_test(seed: int) -> None:
    """At its bounds |t| of mean(x) − ρ·mean(y) is the critical value, between them it is less."""
    rng = np.random.default_rng(seed)
    x, y = rng.gamma(4, 1, 7), rng.gamma(6, 1, 10)
    interval = fieller(x, y, "lower", 0.95)
    a, b = x.var(ddof=1) / x.size, y.var(ddof=1) / y.size
    r = float(x.mean() / y.mean())
    df = (a + r * r * b) ** 2 / (a**2 / 6 + (r * r * b) ** 2 / 9)

    def over(ratio: float) -> float:
        distance = abs(float(x.mean()) - ratio * float(y.mean()))
        return distance / math.sqrt(a + ratio**2 * b) - float(stats.t.isf(0.025, df))

    assert interval.low == pytest.approx(optimize.brentq(over, 0, r))
    assert interval.high == pytest.approx(optimize.brentq(over, r, 1e4))


def test_delta_and_fieller_agree_where_errors_are_small() -> None:
    x, y = _sample(110, 2, 12), _sample(100, 3, 10, seed=3)
    first, second = fieller(x, y, "lower", 0.95), delta_log(x, y, "lower", 0.95)
    assert (second.low, second.high) == pytest.approx((first.low, first.high), rel=2e-4)
    relative = math.hypot(2 / 12**0.5 / 110, 3 / 10**0.5 / 100)
    half = math.log(second.high / second.low) / 2
    assert half == pytest.approx(relative * stats.t.isf(0.025, 15.2), rel=0.01)


@pytest.mark.parametrize("make", [fieller, delta_log])
def test_rates_are_compared_by_their_harmonic_means(make: Make) -> None:
    mine, theirs = [80.0, 90.0, 100.0], [100.0, 110.0, 130.0, 120.0]
    interval = make(mine, theirs, "higher", 0.9)
    assert interval.estimate == pytest.approx(stats.hmean(theirs) / stats.hmean(mine))
    assert interval.estimate > 1, "a lower rate is worse"
    times = make([1 / x for x in mine], [1 / x for x in theirs], "lower", 0.9)
    assert (interval.low, interval.high) == pytest.approx((times.low, times.high))


@ALL
@pytest.mark.parametrize("better", ["lower", "higher"])
@given(x=FIGURES, y=FIGURES, unit=st.floats(1e-6, 1e6))
@settings(deadline=None)
def test_the_unit_does_not_matter(
    make: Make, better: Better, x: list[float], y: list[float], unit: float
) -> None:
    a, b = (make([u * v for v in x], [u * v for v in y], better, 0.9) for u in (1, unit))
    assert (b.low, b.estimate, b.high) == pytest.approx((a.low, a.estimate, a.high), rel=1e-9)
    assert a.low <= a.estimate <= a.high


@ALL
@given(x=FIGURES, y=FIGURES)
@settings(deadline=None)
def test_turning_the_comparison_round_inverts_it(
    make: Make, x: list[float], y: list[float]
) -> None:
    a, b = make(x, y, "lower", 0.9), make(y, x, "lower", 0.9)
    assert (1 / b.high, 1 / b.low) == pytest.approx((a.low, a.high), rel=1e-6)


@ALL
@pytest.mark.parametrize("better", ["lower", "higher"])
@pytest.mark.parametrize(("mine", "theirs"), [(0.05, 0.05), (0.3, 0.1), (0.1, 0.4)])
def test_the_ratio_is_covered(make: Make, better: Better, mine: float, theirs: float) -> None:
    """Gamma burdens of equal and unequal spread, 10 against 14 values, a true ratio of 1.2."""
    rng, campaigns = np.random.default_rng(4), 2000
    truth = 1.2
    if make is welch_log:  # of a gamma, E log differs from log E by digamma(k) − log k
        truth *= math.exp(_log_gap(mine) - _log_gap(theirs))
    hits = 0
    for _ in range(campaigns):
        x = 1.2 * rng.gamma(mine**-2, mine**2, 10)
        y = rng.gamma(theirs**-2, theirs**2, 14)
        if better == "higher":
            x, y = 1 / x, 1 / y
        hits += not make(list(x), list(y), better, 0.95).excludes(truth)
    # The approximations' own error is up to 0.01 here, at a relative error of the mean of 0.11.
    assert abs(hits / campaigns - 0.95) <= 0.01 + 3 * math.sqrt(0.05 * 0.95 / campaigns)


def _log_gap(variation: float) -> float:
    k = variation**-2
    return float(stats.gamma(k, scale=1 / k).expect(np.log))


def test_a_baseline_not_clear_of_zero_has_no_interval() -> None:
    baseline = _sample(1, 2, 6)
    baseline += 0.01 - baseline.min()
    wide = [0.001, 0.002, 9.0]
    assert stats.ttest_1samp(wide, 0).pvalue > 0.05
    with pytest.raises(UnboundedError, match="no upper bound"):
        fieller(baseline, wide, "lower", 0.95)
    assert fieller(baseline, wide, "lower", 0.2).high < math.inf
    assert delta_log(baseline, wide, "lower", 0.95).high < math.inf
    for make in (fieller, delta_log):
        with pytest.raises(UnboundedError, match="mean is 0"):
            make([1.0, 2.0], [0.0, 0.0], "lower", 0.95)


def test_a_cost_of_zero_is_a_value_and_a_rate_of_zero_is_none() -> None:
    some, none = [0.0, 1.0, 2.0, 1.0], [0.0, 0.0, 0.0]
    whole = [5.0, 5.5, 6.0]
    assert fieller(some, whole, "lower", 0.95).estimate == pytest.approx(1 / 5.5)
    assert fieller(some, whole, "lower", 0.95).low == 0
    interval = fieller(none, whole, "lower", 0.95)
    assert (interval.low, interval.estimate, interval.high) == (0, 0, 0)
    with pytest.raises(ValueError, match="mean is 0"):
        delta_log(none, whole, "lower", 0.95)
    with pytest.raises(ValueError, match="no ratio of 0"):
        welch_log(some, whole, "lower", 0.95)
    with pytest.raises(ValueError, match="no ratio of 0"):
        fieller(some, whole, "higher", 0.95)


@ALL
def test_no_spread_gives_a_point(make: Make) -> None:
    interval = make([3.0, 3.0, 3.0], [2.0, 2.0], "lower", 0.95)
    assert (interval.low, interval.estimate, interval.high) == pytest.approx((1.5, 1.5, 1.5))


@ALL
def test_a_million_values(make: Make) -> None:
    rng = np.random.default_rng(6)
    x, y = (list(rng.gamma(4, 0.25, 1_000_000)) for _ in range(2))
    interval = make(x, y, "lower", 0.999)
    assert not interval.excludes(1)
    assert interval.half_width < 0.005


@ALL
def test_bad_input_is_refused(make: Make) -> None:
    good = [1.0, 2.0]
    for bad, error, words in (
        ([1.0], TooFewError, "1 values, at least 2"),
        ([], TooFewError, "0 values"),
        ([1.0, -1.0], ValueError, "no ratio of -1"),
        ([1.0, math.nan], ValueError, "not finite"),
        ([1.0, math.inf], ValueError, "not finite"),
    ):
        for mine, theirs in ((bad, good), (good, bad)):
            with pytest.raises(error, match=words):
                make(mine, theirs, "lower", 0.95)
    with pytest.raises(ValueError, match="not between"):
        make(good, good, "lower", 95.0)


@given(st.integers(1, 40), st.integers(1, 40), st.data())
@settings(max_examples=50, deadline=None)
def test_two_shares_are_those_of_scipy(m: int, n: int, data: st.DataObject) -> None:
    a, b = data.draw(st.integers(0, m)), data.draw(st.integers(0, n))
    table = np.array([[a, m - a], [b, n - b]])
    theirs = float(stats.fisher_exact(table, alternative="greater").pvalue)
    assert more_often((a, m), (b, n)) == pytest.approx(theirs, rel=1e-9)
