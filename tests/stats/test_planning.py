from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.stats.interval import moments, t_interval
from ullage.stats.planning import (
    Aim,
    Outlook,
    decided_after,
    expected_units,
    half_width,
    outlook,
    reach,
    smallest,
)
from ullage.stats.stop import Race, StopRule
from ullage.stats.uncertainty import APART, SHARED
from ullage.stats.verdict import Against, FamilyMember, judge, p_values

SPREAD = st.floats(0.001, 0.5)


def _aim(
    least: int = 6,
    most: int = 40,
    target: float | None = None,
    family: int = 4,
    correlation: float = SHARED,
) -> Aim:
    return Aim(StopRule(least, most, target), 0.02, family, correlation)


def _look(spread: float, aim: Aim) -> Outlook:
    return outlook(spread, aim, (aim.rule.min_blocks, aim.rule.max_blocks))


def _rates(spread: float, n: int, effect: float, aim: Aim, campaigns: int) -> dict[str, float]:
    """Share of each verdict on the first of the family; the others have no effect."""
    rng, verdicts = np.random.default_rng(51), []
    null = FamilyMember(None, None, None)
    for _ in range(campaigns):
        baseline, again, environment, second = rng.normal(0, spread / math.sqrt(2), (4, n))
        a = again - (baseline if aim.correlation == SHARED else second)
        m = moments(effect + environment - baseline)
        p = p_values(m, aim.margin)
        copy = Against.of(moments(effect + environment - baseline - a), aim.margin)
        case = FamilyMember(m, p, None, copies=(copy,), correlation=aim.correlation)
        verdicts.append(judge([case, *[null] * (aim.family - 1)], aim.margin, 0.95)[0].verdict)
    return {verdict: verdicts.count(verdict) / campaigns for verdict in ("worse", "equivalent")}


@pytest.mark.parametrize("correlation", [SHARED, APART])
@pytest.mark.parametrize(("n", "family"), [(6, 1), (8, 1), (8, 16), (40, 1), (40, 16)])
def test_the_smallest_difference_gets_its_verdict_as_often_as_said(
    n: int, family: int, correlation: float
) -> None:
    """Judged by the product, against an A/A that shares the baseline's trials or has its own."""
    aim, campaigns = _aim(family=family, correlation=correlation), 2000
    effect = smallest(0.1, n, aim)
    share = _rates(0.1, n, effect, aim, campaigns)["worse"]
    error = math.sqrt(0.8 * 0.2 / campaigns)
    assert share == pytest.approx(0.8, abs=0.012 + 3 * error)


def test_a_duet_finds_less() -> None:
    """Its second copy is compared by way of two baselines."""
    solo, duet = (
        smallest(0.1, 12, _aim(correlation=correlation)) for correlation in (SHARED, APART)
    )
    assert 1.1 < duet / solo < 1.6


@pytest.mark.parametrize("family", [1, 8])
def test_equivalence_is_shown_as_often_as_said(family: int) -> None:
    aim, campaigns = _aim(family=family), 400
    predicted = reach(0.03, 40, aim).equivalence
    assert predicted is not None
    assert 0.2 < predicted < 0.99
    share = _rates(0.03, 40, 0.0, aim, campaigns)["equivalent"]
    # A biased A/A, which chance makes of 5 %, forbids some of it.
    assert predicted * 0.93 - 0.075 <= share <= predicted + 0.075


def test_the_interval_is_as_wide_as_said() -> None:
    aim = _aim(target=0.05)
    rng = np.random.default_rng(52)
    rows = rng.normal(0, 0.1, (2000, 12))
    widths = [t_interval(row, 0.95, aim.rule.widening).half_width for row in rows]
    # In quadrature, for it is the variance that is estimated without bias.
    observed = math.sqrt(np.mean(np.arcsinh(widths) ** 2))
    assert half_width(0.1, 12, aim) == pytest.approx(math.sinh(observed), rel=0.03)


@given(SPREAD, st.integers(1, 30), st.sampled_from([1, 4, 40]))
def test_more_units_show_more(spread: float, least: int, family: int) -> None:
    fewest, most = _look(spread, _aim(least, least + 20, family=family)).reaches
    if fewest.half_width is not None:
        assert most.half_width is not None
        assert most.half_width < fewest.half_width
    if fewest.difference is not None:
        assert most.difference is not None
        assert most.difference < fewest.difference
        assert most.difference > 0
    assert (fewest.difference is None) is (least < 6)
    assert (fewest.equivalence is None) is (least < 6)


@given(SPREAD, st.floats(0.005, 0.3))
def test_the_target_is_reached_with_what_is_said_and_not_before(
    spread: float, target: float
) -> None:
    aim = _aim(target=target)
    needed = _look(spread, aim).units_for_target
    if needed is None:
        assert half_width(spread, 10_000, aim) > target
    else:
        assert needed >= 6
        assert half_width(spread, needed, aim) <= target
        assert needed == 6 or half_width(spread, needed - 1, aim) > target


def test_without_a_target_there_is_no_number_for_it() -> None:
    assert _look(0.1, _aim()).units_for_target is None


def test_a_larger_family_needs_more() -> None:
    single, many = (_look(0.05, _aim(family=family)) for family in (1, 20))
    assert single.units_for_equivalence is not None
    assert many.units_for_equivalence is not None
    assert many.units_for_equivalence > single.units_for_equivalence
    assert many.reaches[1].difference is not None
    assert single.reaches[1].difference is not None
    assert many.reaches[1].difference > single.reaches[1].difference
    assert many.reaches[1].half_width == single.reaches[1].half_width


def test_the_level_is_that_of_the_first_step() -> None:
    assert _aim(family=20).level(6) == pytest.approx(0.0025)
    assert _aim(family=0).level(6) == pytest.approx(0.05)


def test_a_race_reckons_with_the_level_of_each_look() -> None:
    plain = _aim(most=48, family=5)
    raced = replace(plain, race=Race.between(6, 48))
    assert [raced.level(n) / plain.level(n) for n in (6, 12, 24, 48)] == pytest.approx(
        [1 / 2, 1 / 6, 1 / 12, 1 / 20]
    )
    assert raced.level(30) == raced.level(48), "a run that ends there looks there"
    for n in (6, 12, 24, 48):
        assert smallest(0.03, n, raced) > smallest(0.03, n, plain)
        assert half_width(0.03, n, raced) > half_width(0.03, n, plain)


@pytest.mark.parametrize("mean", [0.0, 0.05, 0.5])
def test_what_is_decided_by_a_look_is_so_at_every_later_one(mean: float) -> None:
    looks = [
        decided_after(mean, spread, replace(_aim(most=1536, family=5), race=Race.between(6, 1536)))
        for spread in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
    ]
    numbers = [math.inf if look is None else look for look in looks]
    assert numbers == sorted(numbers), "the noisier the later"
    assert numbers[0] == 6


def test_a_look_is_named_at_which_four_of_five_runs_are_decided() -> None:
    aim = replace(_aim(most=48), race=Race.between(6, 48))
    units = decided_after(0.05, 0.05, aim)
    assert units in {12, 24, 48}
    at = StopRule(6, 48, confidence=aim.confidence(units))
    rates = _rates(0.05, units, 0.05, Aim(at, aim.margin, aim.family), 400)
    assert rates["worse"] >= 0.8 - 3 * math.sqrt(0.8 * 0.2 / 400)


def test_no_spread_decides_nothing() -> None:
    look = _look(0.0, _aim(target=0.01))
    fewest = look.reaches[0]
    assert (fewest.difference, fewest.half_width, fewest.equivalence) == (None, 0, None)
    assert (look.units_for_target, look.units_for_equivalence) == (6, None)


def test_a_monstrous_spread_is_no_overflow() -> None:
    look = _look(500.0, _aim(target=0.01))
    for reached in look.reaches:
        assert reached.difference is not None
        assert math.isfinite(reached.difference)
    assert look.units_for_target is None


def test_the_widest_decides_where_the_run_is_expected_to_end() -> None:
    aim = _aim(target=0.03)
    needed = _look(0.05, aim).units_for_target
    assert needed is not None
    assert 6 < needed < 40
    assert expected_units([0.01, 0.05, 0.02], aim) == needed
    assert expected_units([0.01, 0.5], aim) == 40
    assert expected_units([], aim) == expected_units([0.01], _aim()) == 40


def test_runs_end_about_where_they_are_expected_to() -> None:
    rule = StopRule(6, 100, 0.05)
    aim = Aim(rule, 0.02, 1)
    rng, ends = np.random.default_rng(53), []
    for row in rng.normal(0, 0.1, (60, 100)):
        ends.append(next(n for n in range(6, 101) if rule.decide({"a": list(row[:n])}, n).stop))
    assert float(np.median(ends)) == pytest.approx(expected_units([0.1], aim), rel=0.2)
