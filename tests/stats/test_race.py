"""Looks of a race: where they lie, and that all together claim no more than one may."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ullage.stats import LEAST_PAIRS, Verdict
from ullage.stats.interval import moments, t_interval, t_quantile
from ullage.stats.multiple import Correction, adjust, best_share
from ullage.stats.power import chance_ahead
from ullage.stats.stop import UNLIKELY, LevelShares, Race, look_confidence
from ullage.stats.uncertainty import noise_floor
from ullage.stats.verdict import FamilyMember, PValues, judge, p_values, settled

CONFIDENCE, MARGIN = 0.95, 0.02
Ratios = NDArray[np.float64]


@given(st.integers(1, 200), st.floats(0.5, 0.999))
def test_all_looks_together_have_the_level_of_one(looks: int, confidence: float) -> None:
    spent = math.fsum(1 - look_confidence(confidence, k) for k in range(1, looks + 1))
    assert spent == pytest.approx((1 - confidence) * looks / (looks + 1), rel=1e-9)
    assert spent < 1 - confidence


@given(st.integers(1, 300), st.integers(0, 3000))
def test_looks_double_from_the_first_that_can_decide_to_the_last_block(
    least: int, more: int
) -> None:
    race = Race.between(least, least + more)
    looks = race.looks()
    assert looks[-1] == least + more
    assert looks[0] == min(least + more, max(least, LEAST_PAIRS))
    assert all(b == 2 * a for a, b in pairwise(looks[:-1]))
    assert all(a < b <= 2 * a for a, b in pairwise(looks))


@given(st.integers(6, 50), st.integers(0, 500), st.integers(0, 500), st.integers(1, 500))
def test_a_larger_most_moves_no_look_that_was(
    least: int, more: int, last: int, further: int
) -> None:
    """Taken up again: what was looked at stays, and the next look lies behind it."""
    before, after = (Race.between(least, least + m) for m in (more, more + further))
    kept = set(before.looks()[:-1])
    assert kept <= set(after.looks())
    following = after.next_look(last)
    assert following is None or following > last


@pytest.mark.parametrize("verdict", ["worse", "better", "equivalent"])
def test_who_has_left_counts_as_claimed_in_one_family_and_not_in_the_other(
    verdict: Verdict,
) -> None:
    """Of two that are left beside it, a difference then needs α/2, not α/3; so for equivalence."""
    rng = np.random.default_rng(5)
    noise = rng.standard_normal(12)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    floor = noise_floor([t_interval(noise * 1e-6, CONFIDENCE)])

    def member(p: float) -> FamilyMember:
        """One whose t test has that p-value."""
        m = moments(noise * 0.01)
        m = moments(noise * 0.01 + m.error * t_quantile(1 - p / 2, m.df))
        return FamilyMember(m, p_values(m, 1e-6), floor, pairs=12)

    just = member(0.05 / 2.5)
    other = member(0.5)
    decided = judge([settled(verdict), just, other], 1e-6, CONFIDENCE)[1].verdict
    assert decided == ("inconclusive" if verdict == "equivalent" else "worse")


def _race(ratios: Ratios, truth: float, looks: tuple[int, ...]) -> list[Verdict]:
    """Verdicts of one campaign, comparisons × blocks with the A/A first, by the product."""
    verdicts: list[Verdict] = ["inconclusive"] * (len(ratios) - 1)
    for number, blocks in enumerate(looks, start=1):
        confidence = look_confidence(CONFIDENCE, number)
        floor = noise_floor([t_interval(ratios[0, :blocks], confidence)])
        cases = []
        for series, verdict in zip(ratios[1:], verdicts, strict=True):
            m = moments(series[:blocks] + truth)
            cases.append(
                FamilyMember(m, p_values(m, MARGIN), floor, pairs=blocks)
                if verdict == "inconclusive"
                else settled(verdict)
            )
        judged = judge(cases, MARGIN, confidence)
        verdicts = [
            now.verdict if was == "inconclusive" else was
            for was, now in zip(verdicts, judged, strict=True)
        ]
    return verdicts


@pytest.mark.parametrize(("truth", "false"), [(1.0, {"worse", "better"}), (1.02, {"equivalent"})])
def test_false_claims_of_a_family_stay_below_the_level_over_all_looks(
    truth: float, false: set[str]
) -> None:
    """300 campaigns of five comparisons and four looks: at most 5 % and what chance adds."""
    rng = np.random.default_rng(20261125)
    looks = Race.between(6, 48).looks()
    campaigns, wrong = 300, 0
    for _ in range(campaigns):
        # The margin is a few standard errors wide, where false equivalence is likeliest.
        trials = rng.normal(0, 0.01, (7, looks[-1]))
        verdicts = _race(trials[1:] - trials[0], math.log(truth), looks)
        wrong += bool(false & set(verdicts))
    assert wrong <= 0.05 * campaigns + 2.5 * math.sqrt(0.05 * 0.95 * campaigns)
    assert looks == (6, 12, 24, 48)


def test_who_left_without_a_verdict_claims_nothing() -> None:
    """In neither family: what is left to the others is less, not more."""
    m = moments(np.array([0.9, 1.1, 1.0, 0.95, 1.05, 1.02]) * 0.1)
    case = FamilyMember(m, p_values(m, MARGIN), None, pairs=6)
    gone = settled("inconclusive")
    alone, beside = judge([case], MARGIN, CONFIDENCE)[0], judge([case, gone], MARGIN, CONFIDENCE)[0]
    assert beside.adjusted.difference == pytest.approx(2 * alone.adjusted.difference)
    assert judge([gone], MARGIN, CONFIDENCE)[0].adjusted == PValues(1.0, 1.0)


@pytest.mark.parametrize(("effect", "noise"), [(0.0, 0.05), (0.04, 0.05), (0.08, 0.05), (0, 0.008)])
def test_few_of_the_unlikely_would_get_a_verdict(effect: float, noise: float) -> None:
    """One comparison, looked at after 24 of 48 blocks, and then to the end all the same."""
    rng = np.random.default_rng(20261128)
    race, now = Race.between(6, 48), 24
    series = effect + noise * rng.standard_normal((600, 48))
    seen = series[:, :now]
    mean, error = seen.mean(axis=1), seen.std(axis=1, ddof=1) / math.sqrt(now)
    ahead = race.ahead(now, 3, CONFIDENCE, LevelShares(1.0, 1.0))
    chances = chance_ahead(mean, error, now, ahead, math.log1p(MARGIN))
    came = np.zeros(len(series), dtype=bool)
    for number, look in enumerate(race.looks(), start=1):
        if look > now:
            confidence = look_confidence(CONFIDENCE, number)
            for i, row in enumerate(series[:, :look]):
                m = moments(row)
                (judged,) = judge([FamilyMember(m, p_values(m, MARGIN), None)], MARGIN, confidence)
                came[i] |= judged.verdict != "inconclusive"
    unlikely = chances < UNLIKELY
    assert came[unlikely].sum() <= 0.05 * unlikely.sum() + 2
    assert unlikely.any() or effect or noise < MARGIN


def test_looks_ahead_have_their_levels() -> None:
    (look,) = Race.between(6, 24).ahead(12, 2, 0.95, LevelShares(0.5, 0.25))
    assert look.units == 12
    assert look.difference == pytest.approx(0.5 * 0.05 / 12)
    assert look.equivalence == pytest.approx(0.25 * 0.05 / 12)
    assert Race.between(6, 24).ahead(24, 3, 0.95, LevelShares(1, 1)) == ()


@pytest.mark.parametrize(("correction", "share"), [("holm", 1 / 4), ("benjamini-hochberg", 0.7)])
def test_the_share_that_is_left(correction: Correction, share: float) -> None:
    """All others rejected, the procedure asks no more than that."""
    assert best_share(10, 3, correction) == pytest.approx(share)
    for p, rejected in ((share * 0.05 * 0.999, True), (share * 0.05 * 1.001, False)):
        adjusted = adjust([p, *([0.0] * 6), *([1.0] * 3)], correction)
        assert (adjusted[0] <= 0.05) is rejected
