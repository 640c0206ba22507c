"""How many more blocks would settle what is open."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.stats.verdictkit import (
    CONFIDENCE,
    INC,
    LEVELS,
    MARGIN,
    RULES,
    case_of,
    judged,
    moments_of,
)
from ullage.stats.interval import moments, t_interval
from ullage.stats.uncertainty import APART, SHARED, Floor, noise_floor
from ullage.stats.verdict import LEAST_PAIRS, FamilyMember, blocks_to_settle, judge, p_values


def test_blocks_to_settle_a_difference_is_the_textbook_sample_size() -> None:
    """Effect 0.5 standard deviations, power 0.8, α 0.05: 34 pairs (Cohen 1988)."""
    assert blocks_to_settle(case_of(math.exp(0.1), 0.2, 10), RULES, LEVELS) == 34 - 10


def test_blocks_to_settle_an_equivalence_reaches_its_power() -> None:
    more = blocks_to_settle(case_of(1.0, 0.05, 10), RULES, LEVELS)
    assert more is not None
    rng = np.random.default_rng(3)
    settled = 0
    for row in rng.normal(0, 0.05, (600, 10 + more)):
        m = moments(row)
        settled += judged(FamilyMember(m, p_values(m, MARGIN), None)).verdict != "inconclusive"
    assert settled / 600 == pytest.approx(0.8, abs=0.07)


@given(st.floats(0.001, 0.3), st.floats(0.01, 0.3), st.integers(6, 60))
def test_an_effect_half_as_noisy_needs_no_more_blocks(
    mean: float, deviation: float, n: int
) -> None:
    noisy = blocks_to_settle(case_of(math.exp(mean), deviation, n), RULES, LEVELS)
    calm = blocks_to_settle(case_of(math.exp(mean), deviation / 2, n), RULES, LEVELS)
    if noisy is not None:
        assert calm is not None
        assert calm <= noisy


def test_an_effect_under_a_biased_floor_cannot_be_settled() -> None:
    biased = case_of(1.05, 0.02, 12, Floor(1.09, biased=True), again=0.08)
    assert judged(biased).why == "below-floor"
    assert judged(biased).blocks_to_settle is None
    honest = case_of(1.05, 0.02, 12, Floor(1.09, biased=False), again=0.01)
    assert judged(honest).blocks_to_settle is not None


def test_what_is_decided_needs_nothing() -> None:
    assert judged(case_of(1.12, 0.05, 12)).blocks_to_settle is None


@pytest.mark.parametrize("n", [0, 2, 5])
def test_too_few_blocks_says_how_many_are_the_least(n: int) -> None:
    case = case_of(1.1, 0.1, n) if n else FamilyMember(None, None, None)
    assert judged(case).blocks_to_settle == LEAST_PAIRS - n


def test_a_curve_that_crosses_cannot_be_settled() -> None:
    """3 % slower at one end and 3 % faster at the other: its mean says nothing about the ends."""
    ends = moments_of(0.03, 0.004, 20), moments_of(-0.03, 0.004, 20)
    middle = moments_of(0.0, 0.002, 20)
    p = p_values(ends[0], MARGIN)
    judgement = judged(FamilyMember(middle, p, None, along=ends))
    assert (judgement.verdict, judgement.blocks_to_settle) == (INC, None)


def test_a_curve_needs_what_its_weakest_coordinate_needs() -> None:
    middle, end = moments_of(0.0, 0.02, 8), moments_of(0.01, 0.04, 8)
    needed = [
        blocks_to_settle(FamilyMember(m, p_values(m, MARGIN), None, along=along), RULES, LEVELS)
        for m, along in ((middle, ()), (middle, (middle, end)))
    ]
    assert needed[0] is not None
    assert needed[1] is not None
    # The normal's sample size for a one-sided test at 0.05, in the room that the end leaves.
    room = math.log1p(MARGIN) - 0.01
    normal = ((stats.norm.isf(0.05) + stats.norm.isf(0.2)) * 0.04 / room) ** 2
    assert needed[1] + 8 == pytest.approx(normal, rel=0.05)
    assert needed[1] > needed[0]


@pytest.mark.parametrize("correlation", [SHARED, APART])
def test_blocks_to_settle_a_difference_above_a_floor_reach_their_power(correlation: float) -> None:
    rng, effect, spread = np.random.default_rng(24), 0.1, 0.1
    m, null = moments_of(effect, spread, 6), moments_of(0.0, spread, 6)
    floor = Floor(1.15, biased=False)
    case = FamilyMember(m, p_values(m, MARGIN), floor, null, correlation=correlation)
    more = blocks_to_settle(case, RULES, LEVELS)
    assert more is not None
    n, campaigns, hits = 6 + more, 1500, 0
    for _ in range(campaigns):
        base, environment, again, second = rng.normal(0, spread / math.sqrt(2), (4, n))
        a = again - (base if correlation == SHARED else second)
        x = moments(effect + environment - base)
        again_floor = noise_floor([t_interval(a, CONFIDENCE)], correlation)
        hits += judged(FamilyMember(x, p_values(x, MARGIN), again_floor)).verdict == "worse"
    # The fewest blocks with at least 0.8; one more is worth up to 0.03 here.
    error = 3 * math.sqrt(0.16 / campaigns)
    assert 0.797 - error <= hits / campaigns <= 0.83 + error


def test_no_number_of_blocks_reduces_the_systematic_part() -> None:
    hidden = judged(case_of(1.05, 0.02, 12, systematic=0.06))
    assert (hidden.why, hidden.blocks_to_settle) == ("systematic", None)
    judgement = judged(case_of(1.05, 0.06, 12, systematic=0.04))
    plain = judged(case_of(1.05, 0.08, 12))
    assert (judgement.why, plain.why) == ("systematic", "interval-too-wide")
    assert judgement.blocks_to_settle is not None


def test_blocks_to_settle_allow_for_the_systematic_part() -> None:
    needed = [
        blocks_to_settle(case_of(1.0, 0.05, 10, systematic=part), RULES, LEVELS)
        for part in (0.0, 0.01, 0.021)
    ]
    assert needed[0] is not None
    assert needed[1] is not None
    # Half of the margin is left: four times the blocks.
    assert (needed[1] + 10) / (needed[0] + 10) == pytest.approx(4.0, rel=0.1)
    assert needed[2] is None


def test_blocks_to_settle_know_what_the_others_leave() -> None:
    """With the others decided, Holm asks less of the last one."""
    open_case = case_of(1.05, 0.1, 12)
    settled = [case_of(1.5, 0.05, 12)] * 9
    alone = judged(open_case).blocks_to_settle
    last = judge([open_case, *settled], MARGIN, CONFIDENCE)[0].blocks_to_settle
    noise = [case_of(1.0, 0.3, 12)] * 9
    first = judge([open_case, *noise], MARGIN, CONFIDENCE)[0].blocks_to_settle
    assert alone is not None
    assert first is not None
    assert last == alone
    assert first > alone
