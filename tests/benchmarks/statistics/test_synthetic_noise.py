"""The noise is what it says: its moments, its correlation, and its truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from benchmarks.statistics import noise
from benchmarks.statistics.noise import SYNTHETIC, Regime
from ullage.stats import Floats

BY_NAME = {regime.name: regime for regime in SYNTHETIC}


def sample(name: str, campaigns: int, slots: int) -> Floats:
    return BY_NAME[name].series(np.random.default_rng(5), campaigns, slots)


def lag_one(x: Floats) -> float:
    return float(np.corrcoef(x[:, :-1].ravel(), x[:, 1:].ravel())[0, 1])


@pytest.mark.parametrize("regime", SYNTHETIC, ids=lambda regime: regime.name)
def test_one_value_per_slot_and_the_same_again_for_the_same_seed(regime: Regime) -> None:
    one, again = (regime.series(np.random.default_rng(1), 7, 30) for _ in range(2))
    assert one.shape == (7, 30)
    assert np.isfinite(one).all()
    np.testing.assert_array_equal(one, again)


@pytest.mark.parametrize("regime", SYNTHETIC, ids=lambda regime: regime.name)
def test_campaigns_are_not_the_same_noise(regime: Regime) -> None:
    series = regime.series(np.random.default_rng(1), 50, 30)
    assert len(np.unique(series[:, 0])) > 40


@pytest.mark.parametrize(
    ("name", "scale"), [("white", 0.05), ("AR(1)", 0.05), ("t3", 0.03 * math.sqrt(3))]
)
def test_mean_and_standard_deviation(name: str, scale: float) -> None:
    series = sample(name, 40_000, 8)
    # The mean of a campaign of AR(1) varies almost as one of its values does.
    assert abs(series.mean()) < 4 * scale / math.sqrt(40_000)
    assert series.std() == pytest.approx(scale, rel=0.05)


def test_white_is_normal() -> None:
    assert stats.kstest(sample("white", 300, 10).ravel() / 0.05, "norm").pvalue > 0.01


def test_t3_is_student() -> None:
    assert stats.kstest(sample("t3", 300, 10).ravel() / 0.03, stats.t(3).cdf).pvalue > 0.01


def test_drift_rises_or_falls_by_a_fifth_in_ten_minutes() -> None:
    series = sample("linear drift", 400, 601)
    slopes = [float(np.polyfit(np.arange(601), x, 1)[0]) * 600 for x in series]
    np.testing.assert_allclose(np.abs(slopes), 0.2, atol=0.02)
    assert 0.4 < np.mean(np.array(slopes) > 0) < 0.6


def test_the_walk_spreads_with_the_root_of_time() -> None:
    series = sample("random walk", 20_000, 101)
    assert series[:, 100].var() - series[:, 0].var() == pytest.approx(100 * 0.01**2, rel=0.06)


def test_speeds_are_those_of_our_machine() -> None:
    series = sample("speeds", 2000, 200)
    levels = -np.log(np.array(noise.SPEEDS))
    levels -= levels.mean()
    nearest = np.abs(series[..., None] - levels).argmin(axis=-1)
    shares = np.bincount(nearest.ravel()) / nearest.size
    np.testing.assert_allclose(shares, 1 / 3, atol=0.02)
    # White noise of 2 % on levels that are over 20 % apart: the nearest one is the right one.
    stays = np.mean(nearest[:, 1:] == nearest[:, :-1])
    assert stays == pytest.approx(1 - 1 / noise.STAY, abs=0.01)


def test_outliers_are_doublings_and_on_one_side() -> None:
    series = sample("outliers", 2000, 100)
    assert np.mean(series > 0.35) == pytest.approx(0.02, abs=0.002)
    assert np.median(series[series > 0.35]) == pytest.approx(math.log(2), abs=0.005)
    assert not (series < -0.35).any()


def test_autocorrelation() -> None:
    assert lag_one(sample("AR(1)", 2000, 50)) == pytest.approx(0.9, abs=0.02)
    assert abs(lag_one(sample("white", 2000, 50))) < 0.01


def test_pink_noise_falls_as_one_over_f_and_has_its_spread() -> None:
    series = noise.pink(np.random.default_rng(2), 3000, 512)
    power = np.mean(np.abs(np.fft.rfft(series * np.hanning(512), axis=1)) ** 2, axis=0)
    f = np.arange(8, 128)
    slope = float(np.polyfit(np.log(f), np.log(power[8:128]), 1)[0])
    assert slope == pytest.approx(-1, abs=0.05)
    assert math.sqrt(float(np.mean(series**2))) == pytest.approx(0.05, rel=0.05)


def test_a_step_lasts_a_block() -> None:
    series = sample("steps", 4000, 24)
    within = np.corrcoef(series[:, 0], series[:, 11])[0, 1]
    assert within == pytest.approx(0.1**2 / (0.1**2 + 0.03**2), abs=0.03)
    assert abs(np.corrcoef(series[:, 11], series[:, 12])[0, 1]) < 0.05


def test_skewed_noise_never_helps_and_has_no_mean() -> None:
    series = sample("skewed", 20_000, 10)
    assert series.min() > -noise.SKEWED_MEAN
    assert stats.skew(series.ravel()) > 2
    assert abs(series.mean()) < 4 * series.std() / math.sqrt(series.size)


def test_the_mean_of_the_skewed_is_that_of_an_integral() -> None:
    def integrand(z: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.log1p(0.03 * np.exp(z)) * stats.norm.pdf(z)

    z = np.linspace(-10, 10, 200_001)
    assert pytest.approx(float(np.trapezoid(integrand(z), z)), rel=1e-9) == noise.SKEWED_MEAN
