"""Rare slow trials: those that were met, and those that could not have been."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.stats.verdictkit import CONFIDENCE, MARGIN
from ullage.stats.interval import moments
from ullage.stats.unseen import SlowTrials, slow_trials, together
from ullage.stats.verdict import FamilyMember, judge, p_values


@pytest.mark.parametrize("n", [6, 12, 30, 1000])
def test_what_is_rarer_than_three_in_n_shows_in_none(n: int) -> None:
    """0.95 chance to meet one of that rate (the rule of three, Hanley & Lippman-Hand 1983)."""
    none = SlowTrials(n, 0, 0.0)
    assert 1 - (1 - none.rate) ** n == pytest.approx(0.95)
    assert none.unmet == pytest.approx(math.log(2) * none.rate)
    assert none.more == 0


def test_the_rate_of_those_that_were_met_has_an_upper_limit() -> None:
    """Clopper & Pearson (1934): 2 of 60, one-sided 95 %, is up to 10.1 %."""
    met = SlowTrials(60, 2, 0.4)
    assert met.rate == pytest.approx(0.101, abs=0.001)
    assert met.more == pytest.approx(met.rate * 0.4)
    assert SlowTrials(3, 3, 0.4).rate == 1


def test_slow_trials_are_told_from_noise() -> None:
    rng = np.random.default_rng(71)
    flagged = {
        n: np.mean([slow_trials(rng.normal(size=n)).met > 0 for _ in range(3000)]) for n in (6, 30)
    }
    assert flagged[6] == pytest.approx(1 / 15, abs=0.02)
    assert flagged[30] == pytest.approx(1 / 50, abs=0.01)
    x = rng.normal(0, 0.03, 40)
    x[[3, 17]] += math.log(2)
    assert slow_trials(x).met == 2
    assert slow_trials(x).excess == pytest.approx(math.log(2), abs=0.1)
    assert slow_trials(-x).met == 0, "fast ones are none"
    assert slow_trials([]) == SlowTrials(0, 0, 0.0)


def test_workloads_add_up_and_metrics_of_one_do_not() -> None:
    quiet, noisy = SlowTrials(12, 0, 0.0), SlowTrials(12, 1, 0.6)
    assert together([[quiet, noisy], [quiet]]) == SlowTrials(24, 1, 0.6)
    assert together([[noisy], [SlowTrials(10, 3, 0.2)]]).excess == pytest.approx(0.3)
    assert together([]) == SlowTrials(0, 0, 0.0)


def _campaign(
    rng: np.random.Generator, shape: tuple[int, int], rate: float, slower: float
) -> tuple[list[FamilyMember], list[str]]:
    """One environment whose mean log is as it should be, with rare slow trials."""
    times = math.log(slower) * ((rng.random(shape) < rate) - rate) + rng.normal(0, 0.01, shape)
    x = times - rng.normal(0, 0.01, shape)
    slow = together([[slow_trials(row)] for row in x])
    cases = [FamilyMember(m, p_values(m, MARGIN), None, slow=slow) for m in map(moments, x)]
    return cases, [j.verdict for j in judge(cases, MARGIN, CONFIDENCE)]


@pytest.mark.parametrize("n", [6, 12, 30])
def test_an_environment_of_rare_slow_trials_is_not_called_better(n: int) -> None:
    """4 % take twice as long; the ratio is 1. Before, 31 to 74 % of these had "better"."""
    rng = np.random.default_rng(72)
    verdicts = [_campaign(rng, (1, n), 0.04, 2.0)[1][0] for _ in range(400)]
    assert verdicts.count("better") / 400 <= 0.05


def test_so_few_trials_are_never_called_much_better() -> None:
    """What 12 blocks of one workload, 12 of four and 30 of four could not have met."""
    unmet = [math.exp(SlowTrials(n, 0, 0.0).unmet) for n in (12, 48, 120)]
    assert unmet == pytest.approx([1.166, 1.043, 1.017], abs=0.001)
    m = moments(math.log(1 / 1.15) + np.random.default_rng(77).normal(0, 0.001, 12))
    case = FamilyMember(m, p_values(m, MARGIN), None, slow=SlowTrials(12, 0, 0.0))
    (judgement,) = judge([case], MARGIN, CONFIDENCE)
    assert (judgement.verdict, judgement.why) == ("inconclusive", "unseen")


@pytest.mark.parametrize(("n", "family"), [(12, 10), (12, 30), (30, 10)])
def test_nor_in_a_family(n: int, family: int) -> None:
    """5 % take 1.5 times as long, in all workloads; any false claim in at most 10 %."""
    rng = np.random.default_rng(73)
    false = sum(
        bool({"better", "worse"} & set(_campaign(rng, (family, n), 0.05, 1.5)[1]))
        for _ in range(200)
    )
    assert false / 200 <= 0.10


@pytest.mark.parametrize("n", [6, 12, 30])
def test_nothing_on_the_edge_is_called_equivalent_for_slow_trials_that_it_missed(n: int) -> None:
    """Ten workloads whose ratio is the margin, 5 % of trials 1.5 times as long in environment."""
    rng = np.random.default_rng(74)
    campaigns, false = 200, 0
    for _ in range(campaigns):
        shape = (10, n)
        slow = math.log(1.5) * ((rng.random(shape) < 0.05) - 0.05)
        x = math.log1p(0.05) + slow + rng.normal(0, 0.014, shape)
        seen = together([[slow_trials(row)] for row in x])
        cases = [FamilyMember(m, p_values(m, 0.05), None, slow=seen) for m in map(moments, x)]
        false += any(j.verdict == "equivalent" for j in judge(cases, 0.05, CONFIDENCE))
    assert false / campaigns <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / campaigns)
