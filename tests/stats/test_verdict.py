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
from ullage.stats.multiple import Correction
from ullage.stats.uncertainty import APART, SHARED, Floor, steps
from ullage.stats.unseen import SlowTrials
from ullage.stats.verdict import (
    Against,
    FamilyMember,
    PValues,
    blocks_to_settle,
    difference_p,
    equivalence_p,
    judge,
    p_values,
)

CORRECTIONS: tuple[Correction, ...] = ("holm", "benjamini-hochberg")


def test_p_values_are_scipys() -> None:
    x = np.random.default_rng(1).normal(0.01, 0.03, 14)
    m = moments(x)
    assert difference_p(m) == pytest.approx(stats.ttest_1samp(x, 0).pvalue)
    delta = math.log1p(MARGIN)
    upper = stats.ttest_1samp(x, delta, alternative="less").pvalue
    lower = stats.ttest_1samp(x, -delta, alternative="greater").pvalue
    assert equivalence_p(m, MARGIN) == pytest.approx(max(upper, lower))


@pytest.mark.parametrize(
    ("case", "verdict", "why"),
    [
        (case_of(1.12, 0.05, 12), "worse", "difference"),
        (case_of(1 / 1.12, 0.05, 12), "better", "difference"),
        (case_of(1.001, 0.01, 20), "equivalent", "within-margin"),
        (case_of(1.01, 0.005, 40), "equivalent", "within-margin"),
        (case_of(1.03, 0.2, 12), INC, "interval-too-wide"),
        (case_of(1.12, 0.01, 5), INC, "too-few-blocks"),
        (case_of(1.12, 0.05, 12, Floor(1.2, biased=False)), INC, "below-floor"),
        (case_of(1.12, 0.05, 12, Floor(1.1, biased=False)), "worse", "difference"),
        (case_of(1.001, 0.01, 20, Floor(1.05, biased=False)), "equivalent", "within-margin"),
        (case_of(1.001, 0.01, 20, Floor(1.05, biased=True)), INC, "floor-biased"),
        (case_of(1.001, 0.01, 20, Floor(1.012, biased=True)), "equivalent", "within-margin"),
        (case_of(1.001, 0.01, 20, Floor(1.016, biased=True)), INC, "floor-biased"),
        (case_of(1.001, 0.01, 20, systematic=0.012), "equivalent", "within-margin"),
        (case_of(1.001, 0.01, 20, systematic=0.016), INC, "systematic"),
        (case_of(1.12, 0.05, 12, systematic=0.08), "worse", "difference"),
        (case_of(1.12, 0.05, 12, systematic=0.1), INC, "systematic"),
        (case_of(1.12, 0.05, 12, Floor(1.2, biased=False), systematic=0.2), INC, "below-floor"),
        (case_of(1.001, 0.01, 20, Floor(1.016, biased=True), None, 0.016), INC, "floor-biased"),
        (case_of(1.03, 0.2, 12, systematic=0.5), INC, "interval-too-wide"),
        (FamilyMember(None, None, None), INC, "too-few-blocks"),
        (case_of(1.12, 0.05, 12, copy=1.10), "worse", "difference"),
        (case_of(1.12, 0.05, 12, copy=1.02), INC, "second-copy"),
        (case_of(1.12, 0.05, 12, copy=0.90), INC, "second-copy"),
        (case_of(1.001, 0.01, 20, copy=1.002), "equivalent", "within-margin"),
        (case_of(1.001, 0.01, 20, copy=1.03), INC, "second-copy"),
        (case_of(1.12, 0.05, 12, Floor(math.inf, biased=False)), INC, "no-copy"),
        (case_of(0.89, 0.05, 12, slow=SlowTrials(240, 0, 0.0)), "better", "difference"),
        (case_of(0.89, 0.05, 12, slow=SlowTrials(12, 0, 0.0)), INC, "unseen"),
        (case_of(1.12, 0.05, 12, slow=SlowTrials(12, 0, 0.0)), "worse", "difference"),
        (case_of(1.001, 0.01, 20, slow=SlowTrials(240, 0, 0.0)), "equivalent", "within-margin"),
        (case_of(1.001, 0.01, 20, slow=SlowTrials(240, 12, 0.7)), INC, "unseen"),
    ],
)
def test_verdicts(case: FamilyMember, verdict: str, why: str) -> None:
    judgement = judged(case)
    assert (judgement.verdict, judgement.why) == (verdict, why)


def test_proven_small_is_equivalent_although_it_is_proven_to_exist() -> None:
    judgement = judged(case_of(1.01, 0.005, 40))
    assert judgement.adjusted.difference < 0.001
    assert judgement.verdict == "equivalent"


def test_equivalence_never_contradicts_the_printed_interval() -> None:
    """The TOST passes already with the 90 % interval inside; we want the printed one inside too."""
    n, delta = 16, math.log1p(MARGIN)
    for critical, verdict in ((2.14, "equivalent"), (2.10, "inconclusive")):
        m = moments_of(0.0, delta / critical * math.sqrt(n), n)  # t(15) at 97.5 % is 2.131
        assert equivalence_p(m, MARGIN) <= 0.05
        assert judged(FamilyMember(m, p_values(m, MARGIN), None)).verdict == verdict


def test_a_coarse_timer_decides_nothing() -> None:
    """Whole milliseconds: 10 against 11 in every block, for a true ratio of 1.01."""
    m = moments(np.full(12, math.log(1.1)))
    judgement = judged(FamilyMember(m, p_values(m, MARGIN), None))
    assert (judgement.verdict, judgement.why, judgement.blocks_to_settle) == (
        INC,
        "no-spread",
        None,
    )
    assert judgement.adjusted.difference == 0


@pytest.mark.parametrize("ratio", [1.0, 1.5])
@pytest.mark.parametrize("floor", [None, Floor(1.01, biased=True)])
def test_equal_units_decide_nothing(ratio: float, floor: Floor | None) -> None:
    case = case_of(ratio, 0.0, 8, floor)
    judgement = judged(case)
    assert (judgement.verdict, judgement.why, judgement.blocks_to_settle) == (
        INC,
        "no-spread",
        None,
    )
    assert blocks_to_settle(case, RULES, LEVELS) is None
    few = judged(case_of(ratio, 0.0, 5))
    assert (few.why, few.blocks_to_settle) == ("too-few-blocks", 1)


@given(st.floats(-0.5, 0.5), st.floats(0.001, 0.5), st.integers(2, 60))
def test_turning_it_round_turns_the_verdict(mean: float, deviation: float, n: int) -> None:
    opposite = {"worse": "better", "better": "worse"}
    judgements = []
    for sign in (1, -1):
        m = moments_of(sign * mean, deviation, n)
        judgements.append(judged(FamilyMember(m, p_values(m, MARGIN), None)))
    assert judgements[1].verdict == opposite.get(judgements[0].verdict, judgements[0].verdict)
    assert judgements[1].blocks_to_settle == judgements[0].blocks_to_settle


@given(st.lists(st.floats(-0.3, 0.3), min_size=6, max_size=20))
def test_a_difference_has_its_interval_on_one_side(x: list[float]) -> None:
    m = moments(x)
    verdict = judged(FamilyMember(m, p_values(m, MARGIN), None)).verdict
    interval = t_interval(x, CONFIDENCE)
    if verdict == "worse":
        assert interval.low > 1
    if verdict == "better":
        assert interval.high < 1
    if verdict == "equivalent":
        assert interval.low >= 1 / 1.02 - 1e-12
        assert interval.high <= 1.02 + 1e-12


def test_a_large_family_asks_for_more() -> None:
    case = case_of(1.05, 0.07, 12)
    assert judged(case).verdict == "worse"
    noise = [case_of(1.0, 0.2, 12)] * 19
    assert judge([case, *noise], MARGIN, CONFIDENCE)[0].verdict == "inconclusive"


def test_lost_comparisons_stay_in_the_family() -> None:
    case = case_of(1.05, 0.07, 12)
    lost = [FamilyMember(None, None, None)] * 19
    assert judge([case, *lost], MARGIN, CONFIDENCE)[0].verdict == "inconclusive"


def test_false_differences_of_a_whole_report_stay_under_alpha() -> None:
    """400 reports of eight comparisons without any effect, against one shared A/A floor."""
    rng = np.random.default_rng(21)
    wrong = 0
    for _ in range(400):
        cases = []
        for row in rng.normal(0, 0.2, (8, 12)):
            m = moments(row)
            cases.append(FamilyMember(m, p_values(m, MARGIN), None))
        verdicts = {j.verdict for j in judge(cases, MARGIN, CONFIDENCE)}
        wrong += bool(verdicts & {"worse", "better"})
    assert wrong / 400 <= 0.05 + 3 * (0.05 * 0.95 / 400) ** 0.5


def test_false_equivalences_of_a_whole_report_stay_under_alpha() -> None:
    """The truth lies on the margin, where a false claim is most likely."""
    rng = np.random.default_rng(22)
    wrong = 0
    for _ in range(1500):
        cases = []
        for row in rng.normal(math.log1p(MARGIN), 0.01, (8, 12)):
            m = moments(row)
            cases.append(FamilyMember(m, p_values(m, MARGIN), None))
        wrong += "equivalent" in {j.verdict for j in judge(cases, MARGIN, CONFIDENCE)}
    assert wrong / 1500 <= 0.05 + 3 * (0.05 * 0.95 / 1500) ** 0.5


def test_both_uncertainties_together_must_leave_out_1() -> None:
    """Estimate 5 %, half width 4.2 %, systematic 0.9 %: above each alone, not above the two."""
    n = 12
    half, mean = 0.042, 0.05
    m = moments_of(mean, half / stats.t.ppf(0.975, n - 1) * math.sqrt(n), n)
    for systematic, why in ((0.0, "difference"), (0.007, "difference"), (0.009, "systematic")):
        judgement = judged(FamilyMember(m, p_values(m, MARGIN), None, systematic=systematic))
        assert judgement.why == why


@pytest.mark.parametrize("n", [12, 40, 100])
def test_a_constant_that_was_rounded_makes_no_claims(n: int) -> None:
    """Truth 1. The baseline's 20.45 is printed as 20, always; the environment's scatters by 5 %.

    With the root of the sum of squares in the place of the sum 9 to 12 of a hundred had a verdict.
    """
    campaigns, rng = 400, np.random.default_rng(24)
    claims = 0
    for _ in range(campaigns):
        figures = np.round(20.45 * np.exp(rng.normal(0, 0.05, n)))
        m = moments(np.log(figures / 20))
        systematic = steps(figures, np.full(n, 20.0)).expanded
        case = FamilyMember(m, p_values(m, MARGIN), None, systematic=systematic)
        claims += judged(case).verdict in ("worse", "better")
    assert claims / campaigns <= 0.05


@given(st.floats(-0.05, 0.05), st.floats(0.001, 0.03), st.integers(6, 40), st.floats(0, 0.03))
def test_equivalence_has_the_interval_and_the_systematic_part_inside(
    mean: float, deviation: float, n: int, systematic: float
) -> None:
    m = moments_of(mean, deviation, n)
    judgement = judged(FamilyMember(m, p_values(m, MARGIN), None, systematic=systematic))
    half = stats.t.ppf(0.975, n - 1) * m.error
    if judgement.verdict == "equivalent":
        assert abs(mean) + half + systematic <= math.log1p(MARGIN) + 1e-12
        assert judgement.adjusted.equivalence == pytest.approx(
            equivalence_p(m, math.expm1(math.log1p(MARGIN) - systematic)), rel=1e-6
        )
    if judgement.verdict in ("worse", "better"):
        assert abs(mean) > systematic


@given(st.floats(0, 0.2), st.floats(0.001, 0.2), st.integers(6, 40), st.floats(0, 0.1))
def test_what_no_repetition_shows_only_takes_claims_away(
    mean: float, deviation: float, n: int, systematic: float
) -> None:
    m = moments_of(mean, deviation, n)
    alone = judged(FamilyMember(m, p_values(m, MARGIN), None))
    both = judged(FamilyMember(m, p_values(m, MARGIN), None, systematic=systematic))
    # What is no longer equivalent may still differ: a proven difference, of unproven importance.
    allowed = {alone.verdict, INC} | ({"worse"} if alone.verdict == "equivalent" else set())
    assert both.verdict in allowed


def test_a_curve_must_be_equivalent_all_along_with_the_systematic_part() -> None:
    middle, end = moments_of(0.0, 0.004, 20), moments_of(0.01, 0.004, 20)
    p = p_values(end, MARGIN)
    assert p.equivalence <= 0.05
    assert judged(FamilyMember(middle, p, None, along=(middle, end))).verdict == "equivalent"
    assert judged(FamilyMember(middle, p, None, systematic=0.005, along=(middle, end))).verdict == (
        "equivalent"
    )
    assert (
        judged(FamilyMember(middle, p, None, systematic=0.012, along=(middle, end))).verdict == INC
    )
    assert judged(FamilyMember(middle, p, None, systematic=0.012)).verdict == "equivalent"


def test_repeated_looks_ask_for_more_blocks() -> None:
    m = moments(np.random.default_rng(2).normal(0.02, 0.1, 12))
    wide = moments(np.random.default_rng(2).normal(0.02, 0.1, 12), 1.15)
    plain, paid = (
        blocks_to_settle(FamilyMember(wider, p_values(wider, MARGIN), None), RULES, LEVELS)
        for wider in (m, wide)
    )
    assert plain is not None
    assert paid is not None
    assert (paid + 12) / (plain + 12) == pytest.approx(1.15**2, rel=0.15)


def test_benjamini_and_hochberg_find_more_where_much_differs() -> None:
    cases = [case_of(1.05, 0.04 + 0.004 * i, 12) for i in range(10)]
    worse = {
        correction: [j.verdict for j in judge(cases, MARGIN, CONFIDENCE, correction)].count("worse")
        for correction in CORRECTIONS
    }
    assert worse["benjamini-hochberg"] > worse["holm"]


def test_one_comparison_is_judged_alike_by_both_corrections() -> None:
    case = case_of(1.05, 0.065, 12)
    holm, hochberg = (judge([case], MARGIN, CONFIDENCE, correction) for correction in CORRECTIONS)
    assert holm == hochberg


def test_more_is_asked_of_one_of_several_questions() -> None:
    first = case_of(1.05, 0.07, 12)
    alone, *_ = judge([first], MARGIN, CONFIDENCE)
    among, *_ = judge([first, *[case_of(1.0, 0.2, 12)] * 9], MARGIN, CONFIDENCE)
    assert (alone.verdict, among.verdict, among.why) == ("worse", INC, "correction")


def test_a_verdict_agrees_with_an_interval_that_is_longer_on_the_far_side() -> None:
    """As Fieller's is: the side that is asked is that of 1."""
    m = moments_of(math.log(1.05), 0.12, 12)
    p = PValues(0.01, 0.9)
    assert judged(FamilyMember(m, p, None)).verdict == INC
    assert judged(FamilyMember(m, p, None, sides=(0.03, 0.09))).verdict == "worse"
    assert judged(FamilyMember(m, p, None, sides=(0.06, 0.09))).verdict == INC
    better = moments_of(-math.log(1.05), 0.12, 12)
    assert judged(FamilyMember(better, p, None, sides=(0.09, 0.03))).verdict == "better"


@pytest.mark.parametrize("noise", [0.02, 0.04])
@pytest.mark.parametrize("correlation", [SHARED, APART])
def test_a_biased_baseline_makes_no_false_claims_in_a_family(
    noise: float, correlation: float
) -> None:
    """The first copy is 3 % off, in ten comparisons that differ by nothing.

    With the floor of before 9 to 50 of a hundred such families held a false claim.
    """
    campaigns, family, n = 300, 10, 12
    rng = np.random.default_rng(23)
    false = 0
    for _ in range(campaigns):
        base, again, environment, second = rng.normal(0, 0.02, (4, family, n))
        environment *= noise / 0.02
        x = environment - base - 0.03
        a = again - (base if correlation == SHARED else second) - 0.03
        cases = []
        for of, null in zip(x, a, strict=True):
            m = moments(of)
            copy = Against.of(moments(of - null), MARGIN)
            cases.append(FamilyMember(m, p_values(m, MARGIN), None, copies=(copy,)))
        verdicts = {j.verdict for j in judge(cases, MARGIN, CONFIDENCE)}
        false += bool(verdicts & {"worse", "better"})
    assert false / campaigns <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / campaigns)
