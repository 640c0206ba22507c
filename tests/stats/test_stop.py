from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special

from ullage.stats.interval import t_interval
from ullage.stats.stop import FIRST_LOOK, StopRule, widening

CALM = [0.010, 0.012, 0.009, 0.011, 0.010, 0.011, 0.012, 0.009]
WILD = [0.5, -0.4, 0.3, -0.2, 0.6, -0.5, 0.4, -0.3]


def test_stops_when_every_interval_is_narrow() -> None:
    rule = StopRule(6, 40, half_width=0.02)
    found = rule.decide({"a": CALM, "b": CALM}, 8)
    assert (found.stop, found.reason) == (True, "precision")
    assert found.widest_half_width is not None
    assert found.widest_half_width <= 0.02


def test_the_widest_comparison_decides() -> None:
    found = StopRule(6, 40, half_width=0.02).decide({"a": CALM, "b": WILD}, 8)
    assert (found.stop, found.reason, found.widest) == (False, None, "b")


def test_never_before_the_least_and_never_after_the_most() -> None:
    rule = StopRule(8, 12, half_width=0.02)
    assert not rule.decide({"a": CALM[:7]}, 7).stop
    assert rule.decide({"a": CALM}, 8).stop
    late = rule.decide({"a": WILD}, 12)
    assert (late.stop, late.reason) == (True, "blocks")


def test_without_a_target_all_blocks_are_run_and_nothing_is_corrected() -> None:
    rule = StopRule(6, 40)
    assert not rule.decide({"a": CALM}, 39).stop
    assert rule.decide({"a": CALM}, 40).reason == "blocks"
    assert rule.widening == 1


def test_a_cell_that_always_fails_does_not_keep_the_run_going() -> None:
    rule = StopRule(6, 40, half_width=0.02)
    assert rule.decide({"a": CALM, "dead": []}, 8).stop
    assert not rule.decide({"dead": []}, 8).stop, "nothing was measured at all"


def test_a_cell_that_often_fails_does() -> None:
    found = StopRule(6, 40, half_width=0.02).decide({"a": CALM, "ill": CALM[:3]}, 8)
    assert (found.stop, found.widest, found.widest_half_width) == (False, "ill", None)


def test_precision_is_not_looked_at_before_block_four() -> None:
    rule = StopRule(1, 40, half_width=0.5)
    assert not rule.decide({"a": CALM[:3]}, 3).stop
    assert rule.decide({"a": CALM[:FIRST_LOOK]}, FIRST_LOOK).stop


def test_nothing_before_the_first_block() -> None:
    found = StopRule(6, 40, half_width=0.02).decide({"a": []}, 0)
    assert (found.stop, found.widest_half_width) == (False, None)


@pytest.mark.parametrize(
    ("least", "most", "target"), [(0, 5, None), (6, 5, None), (6, 40, 0.0), (6, 40, math.inf)]
)
def test_impossible_rules_are_refused(least: int, most: int, target: float | None) -> None:
    with pytest.raises(ValueError, match=r"range|target"):
        StopRule(least, most, target)


def test_the_decision_looks_at_what_the_report_will_print() -> None:
    rule = StopRule(6, 40, half_width=0.02)
    printed = t_interval(CALM, rule.confidence, rule.widening)
    assert rule.decide({"a": CALM}, 8).widest_half_width == printed.half_width


@given(st.integers(1, 100))
def test_later_looks_cost_less(n: int) -> None:
    assert 1 < widening(n + 1) <= widening(n) <= widening(1) == widening(FIRST_LOOK)


def _coverage(noise: NDArray[np.float64], first: int, target: float, factor: float) -> float:
    """Share of campaigns whose interval holds the truth (0) at the block where they stop."""
    n = np.arange(1, noise.shape[1] + 1)
    mean = np.cumsum(noise, axis=1) / n
    squares = np.cumsum(noise**2, axis=1) - n * mean**2
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.sqrt(np.maximum(squares, 0) / (n - 1) / n)
    half = factor * special.stdtrit(np.maximum(n - 1, 1), 0.975) * error
    narrow = np.sinh(half) <= target
    narrow[:, : first - 1] = False
    narrow[:, -1] = True
    stopped = narrow.argmax(axis=1)
    rows = np.arange(noise.shape[0])
    return float(np.mean(np.abs(mean[rows, stopped]) <= half[rows, stopped]))


def _noise(kind: str, rng: np.random.Generator, campaigns: int, blocks: int) -> NDArray[np.float64]:
    """Log-ratios with standard deviation 0.2 and mean 0, as on a shared machine."""
    shape = (campaigns, blocks)
    if kind == "normal":
        return 0.2 * rng.standard_normal(shape)
    if kind == "heavy tails":
        return 0.2 * rng.standard_t(3, shape) / math.sqrt(3)
    # Pairs are seconds apart, in an order drawn anew for each block: what drift leaves in a pair is
    # small, and its sign is random. The spread itself grows over the run.
    left = rng.choice([-1.0, 1.0], shape) * 0.05
    return (0.15 + 0.1 * np.linspace(0, 1, blocks)) * rng.standard_normal(shape) + left


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "drift"])
@pytest.mark.parametrize("target", [0.04, 0.08, 0.1, 0.13, 0.2])
def test_coverage_holds_although_we_look_after_every_block(kind: str, target: float) -> None:
    campaigns, first = 6000, 6
    rng = np.random.default_rng(31)
    noise = _noise(kind, rng, campaigns, 150)
    least = 0.95 - 3 * math.sqrt(0.05 * 0.95 / campaigns)
    assert _coverage(noise, first, target, widening(first)) >= least


def test_without_the_correction_coverage_is_lost() -> None:
    """The simulation above can fail: the plain interval does."""
    noise = _noise("normal", np.random.default_rng(31), 6000, 150)
    assert min(_coverage(noise, 6, target, 1.0) for target in (0.08, 0.1, 0.13)) < 0.94


@pytest.mark.parametrize("first", [4, 10, 20])
def test_coverage_holds_for_other_first_looks(first: int) -> None:
    noise = _noise("normal", np.random.default_rng(32), 6000, 150)
    least = 0.95 - 3 * math.sqrt(0.05 * 0.95 / 6000)
    for target in (0.06, 0.09, 0.12, 0.16):
        assert _coverage(noise, first, target, widening(first)) >= least


def test_the_simulation_stops_where_the_rule_does() -> None:
    x = 0.2 * np.random.default_rng(33).standard_normal(60)
    rule = StopRule(6, 60, half_width=0.1)
    stopped = next(n for n in range(1, 61) if rule.decide({"a": list(x[:n])}, n).stop)
    for n in range(6, stopped + 1):
        narrow = math.log(t_interval(x[:n], 0.95, widening(6)).high) - float(np.mean(x[:n]))
        assert (math.sinh(narrow) <= 0.1) is (n == stopped)
