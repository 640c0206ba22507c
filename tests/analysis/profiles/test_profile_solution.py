"""Weights from slow-downs: known ones are found again, and their intervals hold them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.profilekit import CROSS, THREE, measured
from ullage.analysis.profiles.solution import LogSlowdowns, interval, not_slowed, solve
from ullage.stats.interval import TooFewError

shares = st.tuples(*(st.floats(0, 1) for _ in THREE)).filter(lambda drawn: sum(drawn) <= 1)


@given(shares)
def test_without_noise_the_weights_are_those_that_it_was_made_with(
    truth: tuple[float, ...],
) -> None:
    estimates = solve(measured(truth), 0.95)
    assert estimates.groups == tuple((resource,) for resource in THREE)
    assert estimates.shares == pytest.approx(truth, abs=1e-6)
    assert estimates.raw == pytest.approx(truth, abs=1e-6)
    assert estimates.merged == ()


@given(st.floats(0, 1), st.floats(1.2, 20))
def test_one_resource_is_the_sensitivity(weight: float, slower: float) -> None:
    estimates = solve(measured([weight], cross=[[slower]], resources=["cpu"]), 0.95)
    assert estimates.shares[0] == pytest.approx(weight, abs=1e-6)


@pytest.mark.parametrize("blocks", [4, 8])
@pytest.mark.parametrize("truth", [(0.6, 0.1, 0.2), (0.05, 0.0, 0.9)])
def test_intervals_hold_the_truth_as_often_as_they_say(
    truth: tuple[float, ...], blocks: int
) -> None:
    rng = np.random.default_rng(5)
    covered: list[bool] = []
    sums: list[bool] = []
    for _ in range(800):
        estimates = solve(measured(truth, blocks=blocks, noise=0.04, seed=rng), 0.95)
        of_groups = [
            sum(truth[THREE.index(resource)] for resource in group) for group in estimates.groups
        ]
        covered += list(np.abs(estimates.raw - of_groups) <= estimates.halves(0.95))
        whole = estimates.half(np.ones(len(estimates.groups)), 0.95)
        sums.append(abs(estimates.raw.sum() - sum(truth)) <= whole)
    # Four standard errors of such a share, and what is lost by linearising.
    assert 0.92 <= np.mean(covered) <= 0.98
    assert 0.92 <= np.mean(sums) <= 0.98


def test_shares_are_never_negative_where_noise_says_so() -> None:
    clipped = 0
    for seed in range(40):
        estimates = solve(measured((0.9, 0.0, 0.0), noise=0.1, blocks=5, seed=seed), 0.95)
        assert (estimates.shares >= 0).all()
        clipped += int((estimates.raw < 0).any())
    assert clipped > 5


def test_resources_that_are_slowed_alike_are_one() -> None:
    cross = [[4.0, 4.0, 1.0], [2.0, 2.001, 1.0], [1.0, 1.0, 4.0]]
    estimates = solve(measured((0.5, 0.2, 0.1), cross=cross, noise=0.01), 0.95)
    assert estimates.groups == (("cpu", "memory"), ("disk",))
    assert estimates.shares == pytest.approx([0.7, 0.1], abs=0.05)
    (why,) = estimates.merged
    assert why.startswith("CPU and memory cannot be told apart: ")


def test_resources_whose_intervals_trade_places_are_one() -> None:
    """The neighbour slows the memory a little, and the noise is as large."""
    cross = [[4.0, 4.0], [1.0, 1.15]]
    merged = [
        solve(measured((0.6, 0.2), cross=cross, resources=THREE[:2], noise=0.1, seed=seed), 0.95)
        for seed in range(20)
    ]
    whole = [estimates for estimates in merged if estimates.groups == (("cpu", "memory"),)]
    assert len(whole) > 10
    assert any("gains the other loses" in text for estimates in whole for text in estimates.merged)
    assert np.mean([estimates.shares[0] for estimates in whole]) == pytest.approx(0.8, abs=0.15)


def test_a_probe_of_another_resource_counts_only_when_it_is_surely_slower() -> None:
    """Noise in what a hindrance does not touch must not come into the weights."""
    free = measured((0.0, 0.0, 0.5), cross=CROSS, noise=0.0)
    noisy = free.probes.copy()
    noisy[:, 2, 0] += np.array([0.3, -0.3, 0.2, -0.2, 0.1, -0.1])
    estimates = solve(LogSlowdowns(free.resources, free.command, noisy), 0.95)
    assert estimates.shares == pytest.approx([0, 0, 0.5], abs=1e-9)


def test_what_is_not_slowed_by_its_own_hindrance_is_told() -> None:
    cross = [[4.0, 4.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.5]]
    every = measured((0.5, 0.2, 0.1), cross=cross, noise=0.02)
    assert set(not_slowed(every, 0.95)) == {"memory"}
    remaining = every.only(["cpu", "disk"])
    assert remaining.command.shape == (6, 2) and remaining.probes.shape == (6, 2, 2)
    assert solve(remaining, 0.95).shares == pytest.approx([0.7, 0.1], abs=0.1)


def test_too_little_and_what_is_no_number_is_refused() -> None:
    with pytest.raises(TooFewError):
        solve(measured((0.5, 0.1, 0.1), blocks=1), 0.95)
    broken = measured((0.5, 0.1, 0.1))
    broken.command[0, 0] = math.nan
    with pytest.raises(ValueError, match="not finite"):
        solve(broken, 0.95)
    with pytest.raises(ValueError, match="confidence"):
        solve(measured((0.5, 0.1, 0.1)), 1.0)


def test_the_interval_of_a_slowdown_is_students() -> None:
    logs = np.log([2.0, 2.2, 1.8])
    ratio, low, high = interval(logs, 0.95)
    assert ratio == pytest.approx(float(np.exp(logs.mean())))
    # t(2) at 97.5 % is 4.3027
    half = 4.302653 * float(np.std(logs, ddof=1)) / math.sqrt(3)
    assert (low, high) == pytest.approx((ratio * math.exp(-half), ratio * math.exp(half)))
