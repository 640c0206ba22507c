"""The step of a tool's figures, and when it matters."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.stats.uncertainty import NOT_AVERAGED, averaged, dithered, half_step, quantum, steps

STEPS = st.sampled_from([1.0, 0.01, 1e-3, 1e-5, 7.0, 0.01 * 1024**2, 1 / 3, 1e-3 * 1e-6])
COUNTS = st.lists(st.integers(1, 60_000), min_size=4, max_size=60)


@given(COUNTS, STEPS)
def test_of_multiples_it_is_their_greatest_common_divisor(counts: list[int], step: float) -> None:
    measured = quantum([n * step for n in counts])
    if len(set(counts)) == 1:
        assert measured is None
    else:
        assert measured == pytest.approx(math.gcd(*counts) * step, rel=1e-9)


@pytest.mark.parametrize(("n", "most"), [(4, 5), (6, 1), (30, 0)])
def test_values_without_a_step_have_none(n: int, most: int) -> None:
    """Four numbers have one within rounding error now and then, and then it is next to nothing."""
    rng = np.random.default_rng(1)
    steps = [quantum(np.exp(rng.normal(0, 0.1, n))) for _ in range(3000)]
    by_chance = [step for step in steps if step is not None]
    assert len(by_chance) <= most
    assert all(step < 1e-4 for step in by_chance)


def test_what_a_tool_prints() -> None:
    milliseconds = [0.23, 0.24, 0.23, 0.23, 0.26, 0.24]
    assert quantum([x / 1e3 for x in milliseconds]) == pytest.approx(1e-5)
    rates = [4510.58, 4486.92, 4511.78, 4510.99]
    assert quantum(rates) is None, "steps of 2e-6 of the value do not matter"
    means = [0.00022218068535825546, 0.0002212405848471422, 0.0002212624584717608, 0.000222329]
    assert quantum(means) is None


@pytest.mark.parametrize("values", [[], [5.0], [5.0, 5.0, 5.0], [1.0, 2.0], [0.3, 0.7, 1.9]])
def test_too_little_to_tell(values: list[float]) -> None:
    assert quantum(values) is None


def test_zeros_and_signs() -> None:
    assert quantum([0.0, 0.0, 3.0, -6.0, 9.0, 15.0]) == pytest.approx(3.0)
    assert quantum([0.0] * 5) is None
    with pytest.raises(ValueError, match="finite"):
        quantum([1.0, math.inf])


def test_many_values() -> None:
    rng = np.random.default_rng(2)
    assert quantum(rng.integers(1, 30_000, 1_000_000) * 0.01) == pytest.approx(0.01)


@pytest.mark.parametrize("deviation", [0.51, 0.7, 1.5])
def test_half_a_step_of_noise_averages_rounding_out(deviation: float) -> None:
    """The claim behind NOT_AVERAGED, at the worst place of the mean: a quarter of a step."""
    rng = np.random.default_rng(3)
    rounded = np.round(rng.normal(0.25, deviation, 2_000_000))
    assert averaged(rounded.std(), 1.0)
    claimed = math.exp(-2 * (math.pi * deviation) ** 2) / math.pi
    error = 3.5 * rounded.std() / math.sqrt(rounded.size)
    assert abs(rounded.mean() - 0.25) <= claimed + error


def test_less_noise_does_not() -> None:
    rounded = np.round(np.random.default_rng(4).normal(0.25, 0.2, 100_000))
    assert not averaged(rounded.std(), 1.0)
    assert abs(rounded.mean() - 0.25) > 0.1
    assert math.isclose(NOT_AVERAGED, 1 / math.sqrt(3))


def test_dithering_undoes_rounding_in_distribution() -> None:
    rng = np.random.default_rng(5)
    exact = rng.normal(100, 2, 20_000)
    restored = dithered(np.round(exact), 1.0, seed=7)
    assert np.array_equal(restored, dithered(np.round(exact), 1.0, seed=7))
    assert np.unique(restored).size == exact.size
    assert np.max(np.abs(restored - np.round(exact))) <= 0.5
    assert restored.var() == pytest.approx(exact.var() + 2 / 12, rel=0.03)
    assert np.array_equal(dithered(exact, None, seed=7), exact)


NOISY = [20.0, 21.0, 20.0, 22.0, 19.0, 21.0, 20.0, 23.0]


def test_a_constant_is_not_perfect() -> None:
    both = steps(NOISY, [20.0] * 8)
    assert both.environment == 0
    assert both.baseline == pytest.approx(1 / 20)
    assert both.expanded == pytest.approx(2 * half_step(1 / 20) / math.sqrt(3))
    fine = steps([20.35, 20.4173, 20.9, 21.77, 19.5, 20.0001], [20.0] * 6)
    assert (fine.environment, fine.baseline) == (0, 0)


def test_no_noise_makes_a_quantile_finer_than_its_step() -> None:
    assert steps(NOISY, NOISY).environment == 0
    assert steps(NOISY, NOISY, averages=False).environment == pytest.approx(8 / 166)


def test_coarse_times_told_as_rates() -> None:
    """Whole milliseconds as operations a second: 50 and 47.619…"""
    both = steps([1000 / x for x in NOISY], [50.0] * 8)
    assert both.baseline == pytest.approx(1 / 20)


def test_what_is_known_of_the_tool_counts_where_figures_do_not_show_it() -> None:
    assert steps([5.0] * 6, [5.0] * 6).environment == 0
    assert steps([5.0] * 6, [5.0] * 6, known=1.0).baseline == pytest.approx(1 / 5)
    assert steps([], [1.0]).baseline == 0


def test_half_a_step_goes_further_down_than_up() -> None:
    assert half_step(0.05) == pytest.approx(math.log(20 / 19.5))
    assert half_step(2.0) == math.inf


def test_sparse_steps_among_many_are_seen() -> None:
    """Where the few that are looked at first are all alike they prove nothing."""
    sparse = np.full(100_000, 20.0)
    sparse[17] = 21.0
    assert steps(sparse, np.full(100_000, 20.0)).baseline == pytest.approx(1 / 20)
    fine = np.random.default_rng(7).lognormal(0, 0.05, 100_000)
    assert steps(fine, fine).expanded == 0


def test_missing_figures_have_no_step() -> None:
    holes = [*NOISY, math.nan, math.nan]
    assert steps(holes, [20.0] * 10) == steps(NOISY, [20.0] * 10)
    assert steps([math.nan], [1.0]).expanded == 0
