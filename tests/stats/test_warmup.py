"""Do the first values differ?"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import signal

from ullage.stats.interval import TooFewError
from ullage.stats.series_checks import WARM_UP_MOST, warm_up

DRAWS = ("standard_normal", "t3", "lognormal", "contaminated")


def draw(rng: np.random.Generator, kind: str, n: int) -> np.ndarray:
    if kind == "t3":
        return rng.standard_t(3, n)
    if kind == "lognormal":
        return np.exp(0.5 * rng.standard_normal(n))
    if kind == "contaminated":
        return rng.standard_normal(n) * np.where(rng.random(n) < 0.1, 5, 1)
    return rng.standard_normal(n)


@pytest.mark.parametrize("kind", DRAWS)
@pytest.mark.parametrize("n", [8, 12, 30, 100])
def test_no_more_alarms_than_the_level(n: int, kind: str) -> None:
    rng, times = np.random.default_rng(n), 1500
    p = np.array([warm_up(draw(rng, kind, n)).p_value for _ in range(times)])
    for level in (0.05, 0.005):
        assert np.mean(p <= level) <= level + 3 * math.sqrt(level * (1 - level) / times)


@pytest.mark.parametrize(
    ("first", "size", "n"), [(1, 40.0, 12), (2, 14.0, 12), (3, 8.0, 12), (4, 5.0, 24)]
)
def test_a_step_at_the_start_is_found_with_its_length(first: int, size: float, n: int) -> None:
    """The more values, the smaller the step that stands out: in standard deviations."""
    rng, hits = np.random.default_rng(first), 0
    for _ in range(200):
        x = rng.standard_normal(n)
        x[:first] += size
        start = warm_up(x)
        hits += start.p_value < 0.01 and start.first == first
        assert start.distance == pytest.approx(size, abs=5)
    assert hits >= 160


def test_both_directions() -> None:
    x = np.concatenate([[9.0, 9.3, 8.9], np.random.default_rng(1).standard_normal(11)])
    up, down = warm_up(x), warm_up(-x)
    assert (up.first, up.p_value, up.distance) == (down.first, down.p_value, -down.distance)


def test_the_rule_in_full() -> None:
    """p = 2 · (n/4 rounded down) · P(T₂ > z)ᵏ, z by the mean absolute deviation of the rest."""
    later = [0.0, 1.0, -1.0, 2.0, -2.0, 0.0]
    scale = math.sqrt(math.pi / 2 * 6 / 5) * 1.0
    z = 8 / scale
    tail = 0.5 - z / (2 * math.sqrt(2 + z * z))  # Student's t with 2 degrees, in closed form
    start = warm_up([9.0, 8.0, *later])
    assert start.first == 2
    assert start.p_value == pytest.approx(2 * 2 * tail**2)
    assert start.distance == 8.5


def test_an_outlier_elsewhere_is_no_warm_up() -> None:
    x = np.random.default_rng(2).standard_normal(16)
    x[7] += 50
    assert warm_up(x).p_value > 0.05


def test_a_machine_that_wanders_is_not_said_to_warm_up() -> None:
    """A first-order autoregression of 0.9 begins apart from its median more often than not."""
    noise = np.random.default_rng(5).standard_normal((300, 60))
    series = signal.lfilter([1.0], [1.0, -0.9], noise, axis=1)
    assert sum(warm_up(x).p_value < 0.01 for x in series) <= 6


def test_a_late_step_is_no_warm_up() -> None:
    x = np.random.default_rng(3).standard_normal(40)
    x[20:] += 10
    assert warm_up(x).p_value > 0.01


@given(st.lists(st.floats(-1e9, 1e9), min_size=8, max_size=60))
def test_any_series_gets_an_answer(values: list[float]) -> None:
    start = warm_up(values)
    assert 0 <= start.p_value <= 1
    assert 0 <= start.first <= min(len(values) // 4, WARM_UP_MOST)


def test_no_spread_no_warm_up() -> None:
    assert warm_up([2.0] * 10).p_value == 1
    assert warm_up([9.0] + [2.0] * 10).p_value == 1, "the rest tells nothing of a distance"


def test_too_few() -> None:
    with pytest.raises(TooFewError):
        warm_up([1.0] * 7)
