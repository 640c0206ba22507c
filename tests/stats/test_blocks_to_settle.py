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
from ullage.stats import LEAST_PAIRS
from ullage.stats.interval import moments
from ullage.stats.uncertainty import APART, SHARED, Floor, random_part
from ullage.stats.unseen import SlowTrials
from ullage.stats.verdict import Against, FamilyMember, blocks_to_settle, judge, p_values


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


def test_what_one_copy_does_not_show_cannot_be_settled() -> None:
    biased = case_of(1.05, 0.02, 12, copy=0.97)
    assert judged(biased).why == "second-copy"
    assert judged(biased).blocks_to_settle is None
    assert judged(case_of(1.05, 0.02, 12, copy=1.01)).blocks_to_settle is not None


def test_without_figures_of_the_second_copy_no_blocks_are_promised() -> None:
    judgement = judged(case_of(1.05, 0.02, 12, Floor(math.inf, biased=False)))
    assert (judgement.why, judgement.blocks_to_settle) == ("no-copy", None)


def test_better_needs_trials_that_would_have_met_slow_ones() -> None:
    judgement = judged(case_of(0.9, 0.02, 12, slow=SlowTrials(12, 0, 0.0)))
    assert judgement.why == "unseen"
    more = judgement.blocks_to_settle
    assert more is not None
    enough = case_of(0.9, 0.02, 12 + more, slow=SlowTrials(12 + more, 0, 0.0))
    assert judged(enough).verdict == "better"


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
def test_blocks_to_settle_a_difference_from_both_copies_reach_their_power(
    correlation: float,
) -> None:
    rng, effect, spread = np.random.default_rng(24), 0.1, 0.1
    m, second = (
        moments_of(effect, part, 6) for part in (spread, spread * random_part(correlation))
    )
    copies = (Against.of(second, MARGIN),)
    case = FamilyMember(m, p_values(m, MARGIN), None, copies=copies, correlation=correlation)
    more = blocks_to_settle(case, RULES, LEVELS)
    assert more is not None
    n, campaigns, hits = 6 + more, 1500, 0
    for _ in range(campaigns):
        base, environment, again, beside = rng.normal(0, spread / math.sqrt(2), (4, n))
        x = effect + environment - base
        copy = moments(x - again + (base if correlation == SHARED else beside))
        of = moments(x)
        member = FamilyMember(of, p_values(of, MARGIN), None, copies=(Against.of(copy, MARGIN),))
        hits += judged(member).verdict == "worse"
    # The fewest blocks with at least 0.8; one more is worth up to 0.03 here.
    error = 3 * math.sqrt(0.16 / campaigns)
    assert 0.797 - error <= hits / campaigns <= 0.84 + error


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
