"""How long a trial should be: the line is found, and followed the right way."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ullage.stats.planning import FURTHER, LEAST_BLOCKS, TrialNoise, best_length, memory

Stretches = list[list[tuple[float, float]]]
PIECE = 0.1
"""Seconds of one step of the noise that is made."""


def figures_of(
    white: float, walk: float, length: float, blocks: int = 60, trials: int = 5
) -> NDArray[np.float64]:
    """Figures of trials of that length, one after the other: blocks × trials."""
    rng = np.random.default_rng(7)
    pieces = round(length / PIECE)
    shape = (blocks, trials * pieces)
    noise = rng.normal(0, math.sqrt(white / PIECE), shape)
    noise += np.cumsum(rng.normal(0, math.sqrt(walk * PIECE), shape), axis=1)
    figures: NDArray[np.float64] = noise.reshape(blocks, trials, pieces).mean(axis=2)
    return figures


def stretches(figures: NDArray[np.float64], length: float) -> Stretches:
    return [[(i * length, float(x)) for i, x in enumerate(block)] for block in figures]


@pytest.mark.parametrize("length", [1.0, 4.0])
def test_white_noise_and_a_walk_are_told_apart(length: float) -> None:
    noise = memory(stretches(figures_of(0.01, 0.002, length, blocks=400), length), length)
    assert noise is not None and noise.sure
    assert noise.walk == pytest.approx(0.002, rel=0.3)
    assert noise.white == pytest.approx(0.01, rel=0.5)


def test_noise_without_a_memory_is_seldom_said_to_have_one() -> None:
    figures = figures_of(0.01, 0.0, 1.0, blocks=200 * 20)
    sure = [
        noise.sure
        for first in range(0, len(figures), 20)
        if (noise := memory(stretches(figures[first : first + 20], 1.0), 1.0)) is not None
    ]
    assert len(sure) == 200
    assert sum(sure) <= 0.05 * 200 + 3 * math.sqrt(0.05 * 0.95 * 200)


def test_what_is_promised_of_shorter_trials_comes() -> None:
    """The variance of a pair of them, made anew, in the same time."""
    noise = memory(stretches(figures_of(0.01, 0.004, 4.0, blocks=400), 4.0), 4.0)
    assert noise is not None
    best, time = best_length(noise, [1.0], now=4.0, rest=0.0, apart=1.0)

    def variance(length: float) -> float:
        pairs = figures_of(0.01, 0.004, length, blocks=4000, trials=2)
        return float((pairs[:, 1] - pairs[:, 0]).var())

    assert best == 1.0
    assert time == pytest.approx(variance(1.0) * 1.0 / (variance(4.0) * 4.0), rel=0.25)


@given(
    st.floats(1e-6, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 5.0), st.sampled_from([2, 5, 10, 60])
)
def test_the_best_is_never_worse_than_today(
    white: float, walk: float, rest: float, now: float
) -> None:
    lengths = [1.0, 2.0, 5.0, 10.0]
    best, time = best_length(TrialNoise(white, walk, sure=True), lengths, now, rest, 2.0)
    assert best in {now, *lengths} and 0 < time <= 1
    assert now / FURTHER <= best <= now * FURTHER


def test_time_around_a_trial_speaks_for_longer_ones() -> None:
    noise = TrialNoise(white=0.01, walk=0.001, sure=True)
    lengths = [1.0, 2.0, 4.0, 8.0]
    chosen = [best_length(noise, lengths, 8.0, rest, 2.0)[0] for rest in (0.0, 1.0, 10.0)]
    assert chosen == sorted(chosen) and chosen[0] == 1.0 < chosen[-1]


def test_few_blocks_tell_nothing() -> None:
    few = stretches(figures_of(0.01, 0.01, 1.0, blocks=LEAST_BLOCKS - 1), 1.0)
    assert memory(few, 1.0) is None
    assert memory([stretch[:2] for stretch in few * 3], 1.0) is None, "two trials make no line"
