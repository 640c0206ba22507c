"""Racing in the truth machine: the product decides, and what is saved is counted right."""

from __future__ import annotations

import numpy as np

from benchmarks.statistics import racing
from benchmarks.statistics.noise import SYNTHETIC
from benchmarks.statistics.racing import DEMO, ENVIRONMENTS, FIRST, WORKLOADS, Raced, Savings
from ullage.stats.stop import Race

WHITE = next(regime for regime in SYNTHETIC if regime.name == "white")


def test_false_claims_over_all_looks_are_rare() -> None:
    """`claims` puts some of its campaigns to the product, too."""
    claims = racing.claims("white", [WHITE] * len(WORKLOADS), 300, seed=3)
    assert claims.different.at_most(0.05) and claims.equivalent.at_most(0.05)


def test_what_has_left_takes_no_time_and_its_baseline_stays_with_the_last() -> None:
    size = len(WORKLOADS) * len(ENVIRONMENTS)
    last = np.full((1, size), 6)
    last[0, 0] = 24
    no = np.zeros((1, size), dtype=bool)
    raced, unraced = racing.trials(Raced(no, no, no, last))
    assert raced == 6 * 4 * 5 + 18 * 3, "one environment, the baseline and its copy go on"
    assert unraced == 24 * 4 * 5


def test_a_large_difference_is_decided_at_the_first_look() -> None:
    rng = np.random.default_rng(1)
    ratios = racing.figures_of([WHITE] * len(WORKLOADS), rng, 5, DEMO)
    truths = np.full((len(WORKLOADS), len(ENVIRONMENTS)), np.log(5.0))
    raced = racing.race(ratios, truths, Race.between(FIRST, DEMO).looks(), 0.02)
    assert raced.different.all() and (raced.last == FIRST).all()


def test_where_few_are_ever_decided_there_is_no_time_to_all_verdicts() -> None:
    few = Savings("t", "emulated", 40, 300.0, 100.0, 400.0, 0.3, 0.29, 0.3)
    many = Savings("t", "emulated", 1536, 100.0, 100.0, 400.0, 0.95, 0.95, 0.99)
    result = racing.Result([few, many], [racing.claims("w", [WHITE] * 4, 50, 3)])
    first, likely, second, *_ = racing.figures(result)
    assert (first.holds, second.holds, second.value) == (None, True, 0.25)
    assert (likely.value, likely.holds) == (0.25, True)


def test_who_will_hardly_get_a_verdict_leaves_and_claims_nothing_more() -> None:
    rng = np.random.default_rng(2)
    ratios = racing.figures_of([WHITE] * len(WORKLOADS), rng, 40, DEMO)
    truths = np.zeros((len(WORKLOADS), len(ENVIRONMENTS)))
    truths[:, -1] = np.log(1.5)
    looks = Race.between(FIRST, DEMO).looks()
    whole = racing.race(ratios, truths, looks, 0.02)
    hasty = racing.race(ratios, truths, looks, 0.02, likely=True)
    assert not (hasty.different & ~whole.different).any()
    assert not (hasty.equivalent & ~whole.equivalent).any()
    assert hasty.unlikely.mean() > 0.5 and not whole.unlikely.any()
    assert racing.trials(hasty)[0] < 0.6 * racing.trials(whole)[0]


def test_few_of_those_would_have_got_one() -> None:
    claims = racing.claims("white", [WHITE] * len(WORKLOADS), 300, seed=3)
    assert claims.missed.of > 500 and claims.missed.value < 0.05
