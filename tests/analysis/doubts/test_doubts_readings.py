"""Doubts about what was computed, and about makings and steps: what no other test raises."""

import numpy as np
import pytest

from tests.analysis.doubtkit import doubted, draft
from ullage.analysis.comparison import pairing
from ullage.stats.interval import t_quantile

NOISE = np.random.default_rng(1).normal(1, 0.01, 24)


def test_coarse_figures() -> None:
    coarse = [0.24e-3, *[0.23e-3] * 7]
    doubt = doubted(draft(coarse, 0.2e-3 * NOISE[:8]))["coarse"]
    assert doubt.message.startswith("The figures of qemu-kvm come in steps of 4.32 % of their mean")
    assert "the ratio may be off by 2.16 %" in doubt.message


def test_coarse_figures_that_noise_averages() -> None:
    noisy = np.round(np.random.default_rng(2).normal(1, 0.05, 24), 2)
    assert "coarse" not in doubted(draft(noisy, NOISE))


def test_steps_that_are_small_against_the_margin() -> None:
    """0.5 % of the figures: told at a margin of 1 %, not at one of 5 %."""
    coarse = [2.01, *[2.0] * 7]
    assert "coarse" in doubted(draft(coarse, NOISE[:8], margin=0.01))
    assert "coarse" not in doubted(draft(coarse, NOISE[:8], margin=0.05))


def test_fine_figures() -> None:
    assert "coarse" not in doubted(draft(NOISE, NOISE[::-1]))


@pytest.mark.parametrize(("pairs", "expected"), [(12, False), (24, True)])
def test_a_bootstrap_that_disagrees_is_heard_when_it_is_long_enough(
    pairs: int, expected: bool
) -> None:
    """The t interval just reaches 1 and the bootstrap's, which is shorter, does not."""
    noise = np.random.default_rng(5).normal(0, 1, pairs)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    edge = 0.97 * t_quantile(0.975, pairs - 1) / pairs**0.5
    comparison = draft(np.exp(0.01 * (noise + edge)), np.ones(pairs))
    shorter = pairing.bootstrap(comparison.units, 0.95, seed=1)
    assert shorter is not None
    assert shorter.low > 1
    assert ("bootstrap-disagrees" in doubted(comparison)) is expected


@pytest.mark.parametrize(("makings", "expected"), [(1, False), (2, True), (5, True), (6, False)])
def test_few_generations(makings: int, expected: bool) -> None:
    comparison = draft(NOISE, NOISE[::-1], generations=[n * makings // 24 for n in range(24)])
    doubts = doubted(comparison)
    assert ("few-generations" in doubts) is expected
    assert "too-few-blocks" not in doubts
    if expected:
        says = f"The instances were made {makings} times, and the interval counts these, not the 24"
        assert doubts["few-generations"].message.startswith(says)


def test_too_few_blocks_is_not_said_twice() -> None:
    doubts = doubted(draft(NOISE[:4], NOISE[4:8], generations=[0, 0, 1, 1]))
    assert "too-few-blocks" in doubts
    assert "few-generations" not in doubts


def test_every_doubt_has_an_advice() -> None:
    """Whatever is found in figures that have everything wrong with them."""
    x = np.concatenate([[9.0, 9.1], np.where(np.arange(22) < 11, 1.0, 2.0), [1e6]])
    doubts = doubted(draft(x + 0.01 * np.arange(25), np.ones(25)))
    assert len(doubts) >= 4
    for doubt in doubts.values():
        assert doubt.message.endswith(".")
        assert doubt.advice.endswith(".")
