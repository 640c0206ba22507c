from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import signal, special

from ullage.stats.interval import t_interval
from ullage.stats.stop import FIRST_LOOK, StopRule, widening

CALM = [0.010, 0.012, 0.009, 0.011, 0.010, 0.011, 0.012, 0.009]
WILD = [0.5, -0.4, 0.3, -0.2, 0.6, -0.5, 0.4, -0.3]


def test_stops_when_every_interval_is_narrow() -> None:
    rule = StopRule(6, 40, half_width=0.02)
    decision = rule.decide({"a": CALM, "b": CALM}, 8)
    assert (decision.stop, decision.reason) == (True, "precision")
    assert decision.widest_half_width is not None
    assert decision.widest_half_width <= 0.02


def test_the_widest_comparison_decides() -> None:
    decision = StopRule(6, 40, half_width=0.02).decide({"a": CALM, "b": WILD}, 8)
    assert (decision.stop, decision.reason, decision.widest) == (False, None, "b")


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
    decision = StopRule(6, 40, half_width=0.02).decide({"a": CALM, "ill": CALM[:3]}, 8)
    assert (decision.stop, decision.widest, decision.widest_half_width) == (False, "ill", None)


def test_precision_is_not_looked_at_before_block_four() -> None:
    rule = StopRule(1, 40, half_width=0.5)
    assert not rule.decide({"a": CALM[:3]}, 3).stop
    assert rule.decide({"a": CALM[:FIRST_LOOK]}, FIRST_LOOK).stop


def test_nothing_before_the_first_block() -> None:
    decision = StopRule(6, 40, half_width=0.02).decide({"a": []}, 0)
    assert (decision.stop, decision.widest_half_width) == (False, None)


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
    """Log-ratios with standard deviation about 0.2 and mean 0, as on a shared machine."""
    shape = (campaigns, blocks)
    z = rng.standard_normal(shape)
    if kind == "normal":
        return 0.2 * z
    if kind == "heavy tails":
        return 0.2 * rng.standard_t(3, shape) / math.sqrt(3)
    if kind == "skew":
        return 0.2 * (rng.exponential(1, shape) - 1)
    if kind == "halves":
        return np.where(np.arange(blocks) < 10, 0.2, 0.1) * z
    if kind == "autocorrelated":
        steps = 0.2 * math.sqrt(0.75) * z
        steps[:, 0] /= math.sqrt(0.75)
        return signal.lfilter([1.0], [1.0, -0.5], steps, axis=1)
    # Pairs are seconds apart, in an order drawn anew for each block: what drift leaves in a pair is
    # small, and its sign is random. The spread itself grows over the run.
    signs = rng.choice([-1.0, 1.0], shape) * 0.05
    return (0.15 + 0.1 * np.linspace(0, 1, blocks)) * z + signs


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "drift", "halves"])
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


def _exact_coverage(
    rng: np.random.Generator, first: int, confidence: float, target: float
) -> tuple[float, float]:
    """Coverage of normal log-ratios with a spread of 1, and its Monte-Carlo error.

    Given the block where it stops, the mean is still normal with its own variance, as it does not
    depend on the path of the spread; so the chance of covering is added up, not a yes or no.
    """
    campaigns, blocks = 3000, 160
    x = rng.standard_normal((campaigns, blocks))
    n = np.arange(1, blocks + 1)
    squares = np.cumsum(x**2, axis=1) - np.cumsum(x, axis=1) ** 2 / n
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.sqrt(np.maximum(squares, 0) / (n - 1) / n)
    half = widening(first) * special.stdtrit(np.maximum(n - 1, 1), 0.5 + confidence / 2) * error
    narrow = np.sinh(half) <= target
    narrow[:, : first - 1] = False
    narrow[:, -1] = True
    stopped = narrow.argmax(axis=1)
    reached = half[np.arange(campaigns), stopped] * np.sqrt(stopped + 1)
    chance = 2 * special.ndtr(reached) - 1
    return float(chance.mean()), float(chance.std() / math.sqrt(campaigns))


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("first", [4, 6, 10, 20])
def test_coverage_holds_for_other_levels_and_first_looks(first: int, confidence: float) -> None:
    rng = np.random.default_rng(32)
    for target in (0.3, 0.45, 0.6, 0.9):
        covered, error = _exact_coverage(rng, first, confidence, target)
        assert covered >= confidence - 3 * error


@pytest.mark.parametrize("target", [0.08, 0.13])
def test_coverage_holds_where_the_widest_of_several_decides(target: float) -> None:
    """Four comparisons that share the baseline's trials."""
    campaigns, first, blocks = 2000, 6, 80
    rng = np.random.default_rng(34)
    x = rng.standard_normal((campaigns, 4, blocks)) - rng.standard_normal((campaigns, 1, blocks))
    x *= 0.2 / math.sqrt(2)
    n = np.arange(1, blocks + 1)
    mean = np.cumsum(x, axis=2) / n
    squares = np.cumsum(x**2, axis=2) - n * mean**2
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.sqrt(np.maximum(squares, 0) / (n - 1) / n)
    half = widening(first) * special.stdtrit(np.maximum(n - 1, 1), 0.975) * error
    narrow = (np.sinh(half) <= target).all(axis=1)
    narrow[:, : first - 1] = False
    narrow[:, -1] = True
    at = narrow.argmax(axis=1)[:, None, None]
    covered = np.abs(np.take_along_axis(mean, at, 2)) <= np.take_along_axis(half, at, 2)
    assert covered.mean() >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / campaigns)


@pytest.mark.parametrize(
    ("kind", "least", "most"), [("skew", 0.84, 0.92), ("autocorrelated", 0.72, 0.8)]
)
def test_what_no_widening_mends_is_known(kind: str, least: float, most: float) -> None:
    """These need their own warnings: a plain interval from 12 blocks fails there as well."""
    noise = _noise(kind, np.random.default_rng(35), 6000, 150)
    assert least < min(_coverage(noise, 6, target, widening(6)) for target in (0.08, 0.1)) < most
    assert _coverage(noise[:, :12], 12, 1e-6, 1.0) < 0.93, "a fixed number of blocks"


def test_the_simulation_stops_where_the_rule_does() -> None:
    x = 0.2 * np.random.default_rng(33).standard_normal(60)
    rule = StopRule(6, 60, half_width=0.1)
    stopped = next(n for n in range(1, 61) if rule.decide({"a": list(x[:n])}, n).stop)
    for n in range(6, stopped + 1):
        narrow = math.log(t_interval(x[:n], 0.95, widening(6)).high) - float(np.mean(x[:n]))
        assert (math.sinh(narrow) <= 0.1) is (n == stopped)
