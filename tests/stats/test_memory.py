"""Intervals of an environment that keeps a state from block to block, and of those that do not."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import signal

from ullage.stats import Floats
from ullage.stats.interval import moments, t_quantile
from ullage.stats.memory import LEAST, course, widening

Shape = tuple[int, int, int]
Noise = Callable[[np.random.Generator, Shape], Floats]
"""From generator and (campaigns, comparisons of one environment, blocks) to log times."""
NOISE = 0.03


def white(rng: np.random.Generator, shape: Shape) -> Floats:
    return NOISE * rng.standard_normal(shape)


def remembering(rng: np.random.Generator, shape: Shape, phi: float = 0.5) -> Floats:
    """First-order."""
    shocks = white(rng, shape) * math.sqrt(1 - phi * phi)
    shocks[..., 0] /= math.sqrt(1 - phi * phi)
    filtered: Floats = signal.lfilter([1.0], [1.0, -phi], shocks, axis=-1)
    return filtered


def remembering_long(rng: np.random.Generator, shape: Shape) -> Floats:
    return remembering(rng, shape, 0.8)


def remembering_twice_as_noisy(rng: np.random.Generator, shape: Shape) -> Floats:
    return 2 * remembering(rng, shape)


def heavy(rng: np.random.Generator, shape: Shape) -> Floats:
    return NOISE * rng.standard_t(3, shape)


def _covered(environment: Noise, baseline: Noise, comparisons: int, blocks: int) -> float:
    """Share of 95 % intervals that hold the truth."""
    campaigns = 1200
    rng = np.random.default_rng(61)
    shape = (campaigns, comparisons, blocks)
    ratios = environment(rng, shape) - baseline(rng, shape)
    hits = 0
    for campaign in ratios:
        m = moments(campaign[0], widening(course(x) for x in campaign))
        hits += abs(m.mean) <= t_quantile(0.975, m.df) * m.error
    return hits / campaigns


@pytest.mark.parametrize("noise", [remembering, remembering_twice_as_noisy])
@pytest.mark.parametrize("blocks", [12, 30])
@pytest.mark.parametrize("comparisons", [1, 4])
def test_memory_of_one_environment_is_covered(noise: Noise, comparisons: int, blocks: int) -> None:
    """At least 92 % (the plain t interval has 78 to 86)."""
    assert _covered(noise, white, comparisons, blocks) >= 0.92 - 3 * 0.0078


@pytest.mark.parametrize(("blocks", "least", "most"), [(12, 0.83, 0.91), (30, 0.86, 0.94)])
def test_a_long_memory_is_seen_too_small(blocks: int, least: float, most: float) -> None:
    assert least <= _covered(remembering_long, white, 4, blocks) <= most


@pytest.mark.parametrize("noise", [white, heavy])
@pytest.mark.parametrize(("comparisons", "blocks"), [(1, 12), (4, 12), (4, 30)])
def test_independent_blocks_are_covered_as_they_should_be(
    noise: Noise, comparisons: int, blocks: int
) -> None:
    covered = _covered(noise, noise, comparisons, blocks)
    assert 0.93 - 3 * 0.0063 <= covered <= 0.975 + 3 * 0.0045


def test_several_comparisons_cost_an_environment_without_memory_little() -> None:
    rng = np.random.default_rng(62)
    mean = [
        np.mean([widening(course(x) for x in campaign) for campaign in rng.normal(size=shape)])
        for shape in ((600, 1, 12), (600, 4, 12), (600, 4, 30))
    ]
    assert mean == pytest.approx([1.55, 1.20, 1.09], abs=0.05)


def test_what_both_sides_share_is_no_memory() -> None:
    rng = np.random.default_rng(63)
    shared = np.cumsum(rng.normal(0, 0.05, 40))
    x = (shared + rng.normal(0, NOISE, 40)) - (shared + rng.normal(0, NOISE, 40))
    assert widening([course(x)]) < 1.3
    assert widening([course(shared)]) > 2


def test_few_values_and_equal_ones_tell_nothing() -> None:
    slow = np.sin(np.arange(LEAST - 1) / 4)
    assert course(slow) is None
    assert course(np.full(20, 0.1)) is None
    assert widening([None, course(slow)]) == 1
    assert widening([]) == 1


def test_the_order_of_the_blocks_matters_and_the_scale_does_not() -> None:
    slow = np.sin(np.arange(40) / 8)
    assert widening([course(5 * slow + 3)]) == pytest.approx(widening([course(slow)]))
    shuffled = np.random.default_rng(64).permutation(slow)
    assert widening([course(shuffled)]) < widening([course(slow)])


def test_long_series_are_thinned_to_the_same_answer() -> None:
    rng = np.random.default_rng(65)
    x = remembering(rng, (1, 1, 100_000))[0, 0]
    assert widening([course(x)]) == pytest.approx(math.sqrt(3), rel=0.15)
