from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from ullage.stats.power import (
    MOST_BLOCKS,
    Claim,
    blocks_for_difference,
    blocks_for_equivalence,
    least,
    power_difference,
    power_equivalence,
    power_of_both,
    smallest_claim,
)
from ullage.stats.uncertainty import APART, SHARED, between_copies, random_part

SPREAD = st.floats(0.001, 0.5)
UNITS = st.integers(2, 300)
LEVEL = st.sampled_from([0.1, 0.05, 0.05 / 16])


@pytest.mark.parametrize("n", [4, 6, 12, 40, 1000])
@pytest.mark.parametrize("level", [0.2, 0.05, 0.05 / 16])
def test_a_difference_has_scipys_noncentral_t(n: int, level: float) -> None:
    critical = special.stdtrit(n - 1, 1 - level / 2)
    for shift in (0.5, 1.0, 2.0, 3.0, 5.0):
        missed = special.nctdtr(n - 1, shift, critical) - special.nctdtr(n - 1, shift, -critical)
        power = power_difference(shift / math.sqrt(n), 1.0, n, level)
        assert power == pytest.approx(1 - missed, abs=1e-9)


def test_a_difference_has_the_figures_of_the_books() -> None:
    """G*Power's manual: d = 0.625 one-tailed, 30 for a power of 0.95; Cohen (1988): 34 for d = 0.5.

    A one-tailed test at 0.05 is the upper half of a two-tailed one at 0.1.
    """
    assert blocks_for_difference(0.625, 1.0, 0.1, power=0.95) == 30
    assert blocks_for_difference(0.1, 0.2, 0.05) == 34


@pytest.mark.parametrize(("cv", "n", "power"), [(0.25, 24, 0.7391155), (0.3, 40, 0.815845)])
def test_equivalence_has_the_figures_of_powertost(cv: float, n: int, power: float) -> None:
    """`power.TOST(CV, n)` of the R package PowerTOST: 80 to 125 %, a true ratio of 0.95, 2 × 2.

    That design has n − 2 degrees of freedom and the error s·√(2/n), s² = log(1 + CV²).
    """
    k = n - 1
    spread = math.sqrt(math.log1p(cv**2) * 2 * k / n)
    chance = power_equivalence(math.log(0.95), spread, math.log(1.25), k, 0.05)
    assert chance == pytest.approx(power, abs=1e-6)


@pytest.mark.parametrize(
    ("effect", "spread", "n", "level", "widen"),
    [(0.0, 0.02, 8, 0.05, 1.0), (0.008, 0.02, 20, 0.025, 1.0), (-0.01, 0.03, 60, 0.05, 1.15)],
)
def test_simulation_agrees(
    effect: float, spread: float, n: int, level: float, widen: float
) -> None:
    campaigns, delta = 20_000, math.log1p(0.02)
    x = np.random.default_rng(12).normal(effect, spread, (campaigns, n))
    mean, error = np.abs(x.mean(axis=1)), widen * x.std(axis=1, ddof=1) / math.sqrt(n)
    same = np.mean((delta - mean) / error >= stats.t.isf(level, n - 1))
    differs = np.mean(mean / error >= stats.t.isf(level / 2, n - 1))
    for observed, predicted in (
        (same, power_equivalence(effect, spread, delta, n, level, widen=widen)),
        (differs, power_difference(effect, spread, n, level, widen=widen)),
    ):
        assert observed == pytest.approx(
            predicted, abs=3.5 * math.sqrt(predicted * (1 - predicted) / campaigns)
        )


@given(st.floats(0, 0.3), SPREAD, UNITS, LEVEL)
def test_power_is_a_chance_and_grows(effect: float, spread: float, n: int, level: float) -> None:
    power = power_difference(effect, spread, n, level)
    assert 0 <= power <= 1
    assert power >= level - 1e-2 * (n < 4) - 1e-9, "a test rejects at least as often as by chance"
    if n >= 4:
        assert power_difference(effect * 1.5, spread, n, level) >= power - 1e-9
        assert power_difference(effect, spread, n + 5, level) >= power - 1e-9
        assert power_difference(effect, spread, n, level, widen=1.2) <= power + 1e-9


@given(st.floats(0, 0.05), SPREAD, st.floats(0.005, 0.1), st.integers(4, 300), LEVEL)
def test_equivalence_is_likelier_with_more_room(
    effect: float, spread: float, delta: float, n: int, level: float
) -> None:
    power = power_equivalence(effect, spread, delta, n, level)
    assert 0 <= power <= 1
    assert power_equivalence(-effect, spread, delta, n, level) == power
    assert power_equivalence(effect, spread, delta * 1.2, n, level) >= power - 1e-9
    if effect >= delta:
        assert power <= level + 1e-9, "a false claim is as seldom as the level says"


@given(SPREAD, st.integers(4, 300), LEVEL, st.sampled_from([0.5, 0.8, 0.95]))
def test_the_smallest_effect_is_found_with_just_that_power(
    spread: float, n: int, level: float, power: float
) -> None:
    unit = spread / math.sqrt(n)
    shift = smallest_claim(lambda s: power_difference(s * unit, spread, n, level), power)
    assert power_difference(shift * unit, spread, n, level) == pytest.approx(power, abs=1e-6)


@given(st.floats(0.005, 0.5), SPREAD, LEVEL)
def test_blocks_are_the_fewest(effect: float, spread: float, level: float) -> None:
    def differs(n: int) -> float:
        return power_difference(effect, spread, n, level)

    def same(n: int) -> float:
        return power_equivalence(0.0, spread, effect, n, level)

    for blocks, power in (
        (blocks_for_difference(effect, spread, level), differs),
        (blocks_for_equivalence(0.0, spread, effect, level), same),
    ):
        if blocks is None:
            assert power(MOST_BLOCKS) < 0.8
        else:
            assert power(blocks) >= 0.8
            assert blocks == 2 or power(blocks - 1) < 0.8


def test_what_cannot_be_shown_has_no_number_of_blocks() -> None:
    assert blocks_for_difference(0.0, 0.1, 0.05) is None
    assert blocks_for_difference(1e-6, 0.1, 0.05) is None
    assert blocks_for_equivalence(0.02, 0.1, 0.0198, 0.05) is None


def test_without_spread_everything_is_seen_at_once() -> None:
    assert blocks_for_difference(0.01, 0.0, 0.05) == 2
    assert blocks_for_equivalence(0.01, 0.0, 0.0198, 0.05) == 2
    assert power_equivalence(0.03, 0.0, 0.0198, 6, 0.05) == 0


@pytest.mark.parametrize(("spread", "n"), [(-0.1, 6), (math.nan, 6), (math.inf, 6), (0.1, 1)])
def test_nonsense_is_refused(spread: float, n: int) -> None:
    with pytest.raises(ValueError, match="spread"):
        power_difference(0.1, spread, n, 0.05)
    with pytest.raises(ValueError, match="spread"):
        power_equivalence(0.1, spread, 0.02, n, 0.05)


@pytest.mark.parametrize("n", [6, 7, 12, 40, 10_000])
@pytest.mark.parametrize("level", [0.05, 0.05 / 16])
def test_one_claim_is_the_t_test(n: int, level: float) -> None:
    critical = stats.t.isf(level / 2, n - 1)
    for shift in (2.0, 3.0, 4.0, 6.0):
        predicted = power_of_both(Claim(shift, lambda u: critical * u), None, n - 1, 0.0)
        assert predicted == pytest.approx(
            power_difference(shift, math.sqrt(n), n, level), abs=0.003
        )


@pytest.mark.parametrize("effect", [0.0, 0.01])
def test_one_claim_of_equivalence_is_the_tost(effect: float) -> None:
    critical, error = stats.t.isf(0.05, 19), 0.04 / math.sqrt(20)
    claim = Claim.equivalence(effect, 0.03, error, critical)
    exact = power_equivalence(effect, 0.04, 0.03, 20, 0.05)
    assert power_of_both(claim, None, 19, 0.0) == pytest.approx(exact, abs=0.003)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("n", "level"), [(6, 0.05), (6, 0.05 / 16), (20, 0.05)])
@pytest.mark.parametrize("bias", [0.0, 1.0, -0.5])
def test_simulated_claims_against_both_copies_agree(
    shared: bool, n: int, level: float, bias: float
) -> None:
    """Trials of equal noise; bias: of the second copy, in standard errors."""
    campaigns, shift = 40_000, 5.5
    rng = np.random.default_rng(13)
    base, environment, again, beside = rng.normal(0, math.sqrt(0.5), (4, campaigns, n))
    x = shift / math.sqrt(n) + environment - base
    y = x - bias / math.sqrt(n) - again + (base if shared else beside)
    critical = stats.t.isf(level / 2, n - 1)
    observed = np.mean(
        [v.mean(axis=1) > critical * v.std(axis=1, ddof=1) / math.sqrt(n) for v in (x, y)],
        axis=0,
    )
    correlation = SHARED if shared else APART
    first, second = (
        Claim(s, lambda u: critical * u) for s in (shift, (shift - bias) / random_part(correlation))
    )
    predicted = power_of_both(first, second, n - 1, between_copies(correlation))
    both = float(np.mean(observed == 1))
    assert predicted == pytest.approx(both, abs=0.006 + 3.5 * math.sqrt(0.25 / campaigns))


@given(st.integers(2, MOST_BLOCKS), st.integers(2, 50))
def test_least_finds_the_step(step: int, first: int) -> None:
    assert least(lambda n: float(n >= step), first=first) == max(step, first)


def test_least_gives_up() -> None:
    assert least(lambda n: 0.79) is None
