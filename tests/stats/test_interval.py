from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from ullage.stats.interval import (
    ANALYTIC,
    THINNED,
    IntervalEstimate,
    TooFewError,
    bootstrap_interval,
    hodges_lehmann,
    log_ratio,
    moments,
    t_interval,
)
from ullage.stats.walsh import order_statistics

Make = Callable[[list[float], float], IntervalEstimate]
LOGS = st.lists(st.floats(-3, 3).map(lambda x: round(x, 6)), min_size=6, max_size=30)
POSITIVE = st.floats(1e-6, 1e6)


def _t(x: list[float], confidence: float) -> IntervalEstimate:
    return t_interval(x, confidence)


def _bootstrap(x: list[float], confidence: float) -> IntervalEstimate:
    return bootstrap_interval(x, confidence, seed=7, resamples=500)


def _robust(x: list[float], confidence: float) -> IntervalEstimate:
    return hodges_lehmann(x, confidence)


ALL = pytest.mark.parametrize("make", [_t, _bootstrap, _robust])


@given(POSITIVE, POSITIVE)
def test_orientation_above_one_is_worse(value: float, baseline: float) -> None:
    time = log_ratio(value, baseline, "lower")
    rate = log_ratio(value, baseline, "higher")
    assert time == -rate
    if value > baseline * (1 + 1e-9):
        assert time > 0, "a longer time is worse"


@given(POSITIVE, POSITIVE, st.floats(1e-3, 1e3))
def test_ratio_does_not_know_the_unit(value: float, baseline: float, factor: float) -> None:
    plain = log_ratio(value, baseline, "lower")
    assert log_ratio(value * factor, baseline * factor, "lower") == pytest.approx(plain, abs=1e-9)


@pytest.mark.parametrize(
    ("value", "baseline"),
    [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (math.nan, 1.0), (1.0, math.inf)],
)
def test_no_ratio_of_nothing(value: float, baseline: float) -> None:
    with pytest.raises(ValueError, match="no ratio"):
        log_ratio(value, baseline, "lower")


@ALL
@given(x=LOGS)
@settings(deadline=None)
def test_order_of_blocks_does_not_matter(make: Make, x: list[float]) -> None:
    shuffled = list(reversed(x))
    a, b = make(x, 0.9), make(shuffled, 0.9)
    assert (a.low, a.estimate, a.high) == pytest.approx((b.low, b.estimate, b.high), rel=1e-9)


@pytest.mark.parametrize("make", [_t, _robust])
@given(x=LOGS)
@settings(deadline=None)
def test_turning_the_comparison_round_inverts_the_interval(make: Make, x: list[float]) -> None:
    a, b = make(x, 0.9), make([-v for v in x], 0.9)
    assert 1 / b.high == pytest.approx(a.low, rel=1e-9)
    assert 1 / b.estimate == pytest.approx(a.estimate, rel=1e-9)
    assert 1 / b.low == pytest.approx(a.high, rel=1e-9)


@ALL
@given(x=LOGS, shift=st.floats(-2, 2))
@settings(deadline=None)
def test_a_known_factor_moves_the_interval_by_it(make: Make, x: list[float], shift: float) -> None:
    assume(max(x) - min(x) > 1e-3)
    a, b = make(x, 0.9), make([v + shift for v in x], 0.9)
    factor = math.exp(shift)
    assert b.low == pytest.approx(a.low * factor, rel=1e-6)
    assert b.high == pytest.approx(a.high * factor, rel=1e-6)


@ALL
@given(x=LOGS)
@settings(deadline=None)
def test_more_confidence_is_never_shorter(make: Make, x: list[float]) -> None:
    a, b = make(x, 0.8), make(x, 0.95)
    assert b.low <= a.low <= a.estimate <= a.high <= b.high


def test_t_interval_is_scipys() -> None:
    x = [0.1, 0.3, -0.05, 0.2, 0.15, 0.12]
    reference = stats.ttest_1samp(x, 0).confidence_interval(0.95)
    interval = t_interval(x, 0.95)
    assert (math.log(interval.low), math.log(interval.high)) == pytest.approx(
        (reference.low, reference.high)
    )
    assert interval.estimate == pytest.approx(stats.gmean(np.exp(x)))
    assert interval.n == 6


def test_widening_multiplies_the_half_width() -> None:
    x = [0.1, 0.3, -0.05, 0.2]
    plain, wide = t_interval(x, 0.95), t_interval(x, 0.95, widen=1.2)
    assert math.log(wide.high / wide.low) == pytest.approx(1.2 * math.log(plain.high / plain.low))


def test_bootstrap_is_scipys_bca() -> None:
    rng = np.random.default_rng(3)
    x = rng.exponential(0.2, 40)
    reference = stats.bootstrap(
        (x,), np.mean, n_resamples=20_000, method="BCa", rng=np.random.default_rng(1)
    ).confidence_interval
    interval = bootstrap_interval(x, 0.95, seed=1, resamples=20_000)
    assert math.log(interval.low) == pytest.approx(reference.low, abs=0.004)
    assert math.log(interval.high) == pytest.approx(reference.high, abs=0.004)


def test_bootstrap_is_the_same_again_for_the_same_seed() -> None:
    x = np.random.default_rng(9).normal(size=40)
    assert bootstrap_interval(x, 0.95, seed=5) == bootstrap_interval(x, 0.95, seed=5)
    assert bootstrap_interval(x, 0.95, seed=5) != bootstrap_interval(x, 0.95, seed=6)


@pytest.mark.parametrize("shape", ["normal", "exponential", "log-normal", "t with 3 df"])
def test_the_analytic_bootstrap_is_the_drawn_one_at_the_switch(shape: str) -> None:
    """Of `ANALYTIC` values with one more: within a tenth of a standard error of 40,000 resamples.

    Their own bounds scatter by 0.02 standard errors, up to twice that on the long side.
    """
    rng = np.random.default_rng(8)
    n = ANALYTIC + 1
    x = {
        "normal": rng.normal(size=n),
        "exponential": rng.exponential(size=n),
        "log-normal": np.exp(rng.normal(size=n)),
        "t with 3 df": rng.standard_t(3, n),
    }[shape]
    reference = stats.bootstrap(
        (x,), np.mean, n_resamples=40_000, method="BCa", rng=np.random.default_rng(2), batch=4000
    ).confidence_interval
    interval = bootstrap_interval(x, 0.95, seed=1)
    assert "analytic" in interval.method
    assert "analytic" not in bootstrap_interval(x[1:], 0.95, seed=1).method
    error = float(stats.sem(x))
    assert math.log(interval.low) == pytest.approx(reference.low, abs=0.1 * error)
    assert math.log(interval.high) == pytest.approx(reference.high, abs=0.1 * error)


def test_the_analytic_bootstrap_covers_on_skewed_data() -> None:
    """Exponential, 300 values; where t misses on one side mostly, it misses on both alike."""
    rng, campaigns = np.random.default_rng(12), 4000
    missed = {"bootstrap": [0, 0], "t": [0, 0]}
    for row in rng.exponential(size=(campaigns, 300)):
        for name, interval in (
            ("bootstrap", bootstrap_interval(row, 0.95, seed=1)),
            ("t", t_interval(row, 0.95)),
        ):
            missed[name][0] += interval.low > math.e
            missed[name][1] += interval.high < math.e
    noise = 3 * math.sqrt(0.95 * 0.05 / campaigns)
    assert abs(sum(missed["bootstrap"]) / campaigns - 0.05) <= noise
    lopsided = {name: abs(low - high) for name, (low, high) in missed.items()}
    assert lopsided["bootstrap"] < lopsided["t"]


def test_a_bound_of_the_bootstrap_beyond_its_pole_is_infinite_not_turned_round() -> None:
    x = np.zeros(ANALYTIC + 1)
    x[0] = 1.0
    interval = bootstrap_interval(x, 1 - 1e-12, seed=1)
    assert interval.low <= interval.estimate < interval.high == math.inf


def test_hodges_lehmann_inverts_wilcoxons_test() -> None:
    """Inside the interval the signed-rank test accepts, outside it rejects."""
    x = np.random.default_rng(4).normal(0.1, 0.2, 15)
    interval = hodges_lehmann(x, 0.95)
    low, high = math.log(interval.low), math.log(interval.high)
    for inside in (low + 1e-9, high - 1e-9):
        assert stats.wilcoxon(x - inside, method="exact").pvalue > 0.05
    for outside in (low - 1e-9, high + 1e-9):
        assert stats.wilcoxon(x - outside, method="exact").pvalue <= 0.05


def test_hodges_lehmann_of_many_values_agrees_with_all_walsh_averages() -> None:
    x = np.random.default_rng(5).normal(0.1, 0.2, 1501)
    interval = hodges_lehmann(x, 0.95)
    walsh = np.sort((x[:, None] + x[None, :])[np.triu_indices(x.size)] / 2)
    assert math.log(interval.estimate) == pytest.approx(float(np.median(walsh)), abs=1e-7)
    assert interval.low < interval.estimate < interval.high
    assert interval.low == pytest.approx(t_interval(x, 0.95).low, rel=0.005)


@pytest.mark.parametrize("n", [8, 12, 50, 60, 61, 150])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_depth_is_that_of_scipys_signed_rank_distribution(n: int, confidence: float) -> None:
    """Exact and by series: the bounds are as deep as the exact test allows, and no deeper.

    Integers −1 … −n turned positive until the positive ranks sum to W⁺ give SciPy's P(W⁺ ≤ w).
    """
    x = np.random.default_rng(n).normal(size=n)
    low = math.log(hodges_lehmann(x, confidence).low)
    walsh = np.sort((x[:, None] + x[None, :])[np.triu_indices(n)] / 2)
    depth = 1 + int(np.argmin(np.abs(walsh - low)))
    tail = (1 - confidence) / 2
    assert _signed_rank_cdf(n, depth - 1) <= tail < _signed_rank_cdf(n, depth)


def _signed_rank_cdf(n: int, total: int) -> float:
    signed = -np.arange(1.0, n + 1)
    for rank in range(n, 0, -1):
        if rank <= total:
            signed[rank - 1] = rank
            total -= rank
    return float(stats.wilcoxon(signed, alternative="less", method="exact").pvalue)


@pytest.mark.parametrize("shape", ["normal", "log-normal", "rounded"])
def test_thinning_hardly_moves_the_robust_interval(shape: str) -> None:
    """By under a fiftieth of its half-width: 40,001 values more than `THINNED`."""
    x = np.random.default_rng(13).normal(0.1, 0.2, THINNED + 40_001)
    x = {"normal": x, "log-normal": np.exp(5 * x), "rounded": np.round(x, 2)}[shape]
    interval = hodges_lehmann(x, 0.95)
    assert "quantiles" in interval.method
    n, total = x.size, x.size * (x.size + 1) // 2
    deviation = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    depth = round(n * (n + 1) / 4 - 1.959964 * deviation)
    low, high, middle = order_statistics(np.sort(x), (depth, total + 1 - depth, total // 2))
    near = 0.02 * (high - low) / 2 + 1e-12
    assert math.log(interval.low) == pytest.approx(low, abs=near)
    assert math.log(interval.high) == pytest.approx(high, abs=near)
    assert math.log(interval.estimate) == pytest.approx(middle, abs=near)


def test_one_wild_block_hardly_moves_the_robust_estimate() -> None:
    calm = [0.01, 0.02, 0.03, 0.02, 0.01, 0.02, 0.03]
    wild = [*calm[:-1], 5.0]
    assert hodges_lehmann(wild, 0.9).estimate == pytest.approx(1.02, abs=0.02)
    assert t_interval(wild, 0.9).estimate > 1.5


@pytest.mark.parametrize(("n", "enough"), [(5, False), (6, True)])
def test_hodges_lehmann_needs_six_for_95_percent(n: int, enough: bool) -> None:
    x = [0.1 * i for i in range(n)]
    if enough:
        interval = hodges_lehmann(x, 0.95)
        assert (interval.low, interval.high) == pytest.approx((math.exp(x[0]), math.exp(x[-1])))
    else:
        with pytest.raises(TooFewError):
            hodges_lehmann(x, 0.95)


@ALL
def test_equal_values_give_a_point(make: Make) -> None:
    interval = make([0.1] * 8, 0.95)
    assert interval.low == pytest.approx(interval.high)
    assert interval.estimate == pytest.approx(math.exp(0.1))


def test_rounding_noise_is_not_spread() -> None:
    assert moments([0.1 + 0.2, 0.3, 0.3]).deviation == 0


@ALL
@pytest.mark.parametrize("values", [[], [0.1]])
def test_one_value_has_no_interval(make: Make, values: list[float]) -> None:
    with pytest.raises(TooFewError):
        make(values, 0.95)


@pytest.mark.parametrize("make", [_t, _bootstrap])
def test_two_values_have_one(make: Make) -> None:
    interval = make([0.1, 0.3], 0.95)
    assert interval.estimate == pytest.approx(math.exp(0.2))
    assert interval.low < interval.estimate < interval.high


@ALL
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_refused(make: Make, bad: float) -> None:
    with pytest.raises(ValueError, match=r"value 3 of 8 is (nan|inf), not finite"):
        make([0.1, 0.2, bad, *[0.1] * 5], 0.95)


def test_a_ratio_beyond_floats_meets_no_target() -> None:
    for mean, estimate in ((-1400.0, 0.0), (1400.0, math.inf)):
        interval = t_interval([mean, mean + 1], 0.95)
        assert (interval.estimate, interval.half_width) == (estimate, math.inf)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0])
def test_confidence_is_a_share(confidence: float) -> None:
    with pytest.raises(ValueError, match="not between"):
        t_interval([0.1, 0.2], confidence)


@pytest.mark.parametrize("tails", ["normal", "heavy"])
def test_t_interval_covers_the_truth(tails: str) -> None:
    """12 blocks, standard deviation 0.2 as on a shared machine, with drift that both have."""
    rng = np.random.default_rng(11)
    campaigns, blocks, truth = 4000, 12, math.log(1.12)
    shape = (campaigns, blocks, 2)
    noise = rng.standard_normal(shape) if tails == "normal" else rng.standard_t(3, shape) / 3**0.5
    machine = np.linspace(0, 1, blocks)[None, :, None] + 0.3 * rng.standard_normal(
        (campaigns, blocks, 1)
    )
    series = machine + 0.2 / math.sqrt(2) * noise
    pairs = series[:, :, 0] + truth - series[:, :, 1]
    hits = sum(not t_interval(row, 0.95).excludes(math.exp(truth)) for row in pairs)
    assert 0.93 <= hits / campaigns <= 0.97


def test_a_million_blocks_are_no_trouble() -> None:
    x = np.random.default_rng(2).normal(0.1, 0.2, 1_000_000)
    interval = t_interval(x, 0.95)
    assert not interval.excludes(math.exp(0.1))
    assert bootstrap_interval(x, 0.95, seed=1).half_width == pytest.approx(
        interval.half_width, rel=0.01
    )
    # Of normal values the pseudo-median's standard error is √(π/3) times the mean's.
    assert hodges_lehmann(x, 0.95).half_width == pytest.approx(
        interval.half_width * math.sqrt(math.pi / 3), rel=0.01
    )
