"""Doubts about the pairs as a series: each has a run that deserves it, and one that does not."""

import math

import numpy as np
import pytest
from scipy import signal

from tests.analysis.doubtkit import doubted, draft
from ullage.analysis.doubts import series
from ullage.stats import Floats

SERIES = {"drift", "warm-up", "autocorrelated", "bimodal"}


def noisy(n: int, spread: float = 0.02, seed: int = 1) -> Floats:
    """Log-ratios with no more than noise."""
    return np.random.default_rng(seed).normal(0, spread, n)


def codes(logs: Floats, generations: list[int] | None = None) -> set[str]:
    return set(doubted(draft(np.exp(logs), np.ones(len(logs)), generations=generations))) & SERIES


def test_plain_noise_raises_none() -> None:
    assert codes(noisy(24)) == set()


def test_drift() -> None:
    comparison = draft(np.exp(noisy(16) + 0.02 * np.arange(16)), np.ones(16))
    doubt = doubted(comparison)["drift"]
    assert doubt.message.startswith("The ratio rises during the run (rank correlation with time +")


def test_six_blocks_of_many_comparisons_never_drift() -> None:
    """Two of 720 orders are as straight: not under a level that five comparisons share."""
    straight = draft(np.exp(0.02 * np.arange(6)), np.ones(6))
    assert "drift" in doubted(straight, 0.05 / 4)
    assert "drift" not in doubted(straight, 0.05 / 5)


def test_warm_up_of_the_ratio_and_what_it_is_without() -> None:
    x = noisy(16, 0.005)
    x[:2] += 0.3
    doubt = doubted(draft(np.exp(x), np.ones(16)))["warm-up"]
    assert doubt.message.startswith("The first 2 pairs differ from the rest by a ratio of 1.35")
    later = math.exp(x[2:].mean())
    assert f" Without: {later:.4f} (" in doubt.message


def test_one_cold_pair() -> None:
    x = noisy(16, 0.005)
    x[0] += 1.0
    assert "The first pair differs" in doubted(draft(np.exp(x), np.ones(16)))["warm-up"].message


def test_a_warm_up_of_both_sides_goes_out_of_the_ratio() -> None:
    base = np.exp(noisy(16, 0.005, 2))
    base[:3] *= 1.5
    assert codes(noisy(16, 0.005)) == set()
    assert set(doubted(draft(np.exp(noisy(16, 0.005)) * base, base))) & SERIES == set()


def test_an_interval_without_the_first_makings() -> None:
    """Pairs are left out, makings are what counts: eight pairs of four less two are three."""
    x = noisy(16, 0.002)
    x[:2] += 0.3
    comparison = draft(np.exp(x), np.ones(16), generations=[n // 2 for n in range(16)])
    message = doubted(comparison)["warm-up"].message
    units = x[2:].reshape(7, 2).mean(axis=1)
    assert f" Without: {math.exp(units.mean()):.4f} (" in message


def test_autocorrelation_and_what_the_interval_should_be() -> None:
    noise = np.random.default_rng(3).normal(0, 0.02, 40)
    x = signal.lfilter([1.0], [1.0, -0.9], noise)
    doubt = doubted(draft(np.exp(x), np.ones(40)))["autocorrelated"]
    assert "40 pairs tell as much as about" in doubt.message
    assert "times as wide" in doubt.message


def test_makings_that_are_independent_are_not_autocorrelated() -> None:
    """Pairs of one making are alike; the interval counts makings, so nothing is lost."""
    rng = np.random.default_rng(4)
    makings = np.repeat(rng.normal(0, 0.1, 12), 4) + rng.normal(0, 0.005, 48)
    assert "autocorrelated" in codes(makings)
    assert "autocorrelated" not in codes(makings, [n // 4 for n in range(48)])


def test_two_groups() -> None:
    rng = np.random.default_rng(5)
    x = np.where(rng.permutation(24) < 10, 0.3, 0.0) + rng.normal(0, 0.01, 24)
    message = doubted(draft(np.exp(x), np.ones(24)))["bimodal"].message
    assert message.startswith("The ratios stand in two groups: 58.3 % near ")
    assert "41.7 % near 1.34" in message


def test_one_outlier_is_no_second_group() -> None:
    x = noisy(24)
    x[11] += 1
    doubts = doubted(draft(np.exp(x), np.ones(24)))
    assert set(doubts) & SERIES == set()
    assert doubts["outliers"].message.startswith("1 of 24 pairs lie far from the others (block 11)")
    assert " Without: " in doubts["outliers"].message


@pytest.mark.parametrize("step", [0.005, 0.02])
def test_rounded_figures_are_no_groups(step: float) -> None:
    """Heaps of equal figures come from the tool's digits, not from two states of the machine."""
    rng = np.random.default_rng(6)
    mine, theirs = (np.round(rng.normal(1, 0.01, 60) / step) * step for _ in range(2))
    assert set(doubted(draft(mine, theirs))) & SERIES == set()


def test_curves_are_looked_at_by_their_mean() -> None:
    x = noisy(20) + 0.03 * np.arange(20)
    curves = [[(1.0, math.exp(v)), (2.0, 3 * math.exp(v))] for v in x]
    flat = [[(1.0, 1.0), (2.0, 3.0)]] * 20
    assert "drift" in doubted(draft(curves, flat))


def test_of_few_pairs_nothing_is_said() -> None:
    assert codes(np.array([0.0, 1.0, 2.0, 3.0, 4.0])) == set()
    assert codes(np.array([])) == set()


@pytest.mark.parametrize("tails", ["normal", "heavy"])
def test_alarms_on_clean_runs(tails: str) -> None:
    """Of 60 runs of 12 comparisons, alarms in no more than one in twenty, all tests together."""
    rng, runs = np.random.default_rng(7), 60
    alarms = 0
    for _ in range(runs):
        noise = rng.standard_normal((12, 14)) if tails == "normal" else rng.standard_t(3, (12, 14))
        alarms += any(doubted_series(row, 0.05 / 12) for row in 0.03 * noise)
    assert alarms / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)


def doubted_series(x: Floats, alpha: float) -> set[str]:
    doubts = series.doubts(draft(np.exp(x), np.ones(x.size)), alpha)
    return {doubt.code for doubt in doubts if doubt is not None}
