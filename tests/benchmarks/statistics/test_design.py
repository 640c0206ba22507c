"""What is computed for thousands of campaigns at once is what the product says of each."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from benchmarks.statistics import design
from benchmarks.statistics.design import (
    AGAIN,
    BASELINE,
    DisagreementError,
    Plan,
    figures,
    generations,
    log_ratios,
    many,
    proof,
    slots,
    stopped,
)
from benchmarks.statistics.noise import SYNTHETIC, Regime
from ullage.plan import schedule
from ullage.stats import Floats
from ullage.stats.interval import collapse
from ullage.stats.multiple import holm
from ullage.stats.stop import StopRule, widening

BY_NAME = {regime.name: regime for regime in SYNTHETIC}
PLAN = Plan(blocks=12)


def ratios(name: str, campaigns: int, plan: Plan = PLAN, per: int | None = None) -> Floats:
    return log_ratios(figures(BY_NAME[name], np.random.default_rng(8), campaigns, plan, per))


def test_the_order_is_the_schedule_of_the_product() -> None:
    order = slots(PLAN, 3)
    environments = (BASELINE, AGAIN, *PLAN.environments)
    assert order.shape == (3, 12, 3, 4)
    for seed in range(3):
        for number in range(12):
            block = schedule.block(seed, number, environments, PLAN.workloads)
            for slot in block:
                at = PLAN.workloads.index(slot.workload), environments.index(slot.environment)
                assert order[seed, number, *at] == number * PLAN.cells + slot.order
        assert sorted(order[seed].ravel()) == list(range(12 * PLAN.cells))


def test_a_trial_has_the_noise_of_its_moment() -> None:
    ramp = Regime(
        "ramp", "", lambda _rng, campaigns, n: np.tile(np.arange(n) * 1.0, (campaigns, 1))
    )
    drawn = figures(ramp, np.random.default_rng(1), 4, PLAN)
    np.testing.assert_array_equal(drawn, slots(PLAN, 4))


def test_instances_share_their_effect_until_they_are_made_anew() -> None:
    still = Regime("still", "", lambda _rng, campaigns, n: np.zeros((campaigns, n)), instance=0.02)
    rng = np.random.default_rng(1)
    once, anew = figures(still, rng, 500, PLAN), figures(still, rng, 500, PLAN, 2)
    assert (once == once[:, :1]).all()
    assert (anew[:, ::2] == anew[:, 1::2]).all()
    assert (anew[:, 1:-1:2] != anew[:, 2::2]).all()
    assert anew.std() == pytest.approx(0.02, rel=0.03)


def test_only_the_environments_are_lopsided() -> None:
    plain = dataclasses.replace(BY_NAME["white"], lopsided=1.0)
    double = dataclasses.replace(plain, lopsided=2.0)
    one, two = (figures(series, np.random.default_rng(1), 5, PLAN) for series in (plain, double))
    np.testing.assert_array_equal(two[..., :2], one[..., :2])
    np.testing.assert_array_equal(two[..., 2:], 2 * one[..., 2:])


def test_generations_are_the_product_s_collapsed_means() -> None:
    drawn = ratios("white", 3)
    means = generations(drawn, 3)
    groups = np.arange(12) // 3
    np.testing.assert_allclose(means[1, :, 2, 1], collapse(drawn[1, :, 2, 1], groups), rtol=1e-12)


def test_holm_is_the_product_s() -> None:
    p = np.random.default_rng(4).random((50, 6)) ** 3
    np.testing.assert_allclose(design.holm(p), [holm(list(row)) for row in p], rtol=1e-15)


@pytest.mark.parametrize(
    ("name", "truth", "per", "widen", "margin"),
    [
        ("white", 1.0, 1, 1.0, 0.02),
        ("white", 1.1, 1, 1.0, 0.02),
        ("white", 1.05, 1, widening(6), 0.02),
        ("speeds", 1.25, 1, 1.0, 0.02),
        ("outliers", 0.9, 1, 1.0, 0.02),
        ("AR(1)", 1.0, 1, 1.0, 0.02),
        ("AR(1)", 1.01, 1, 1.0, 0.05),
        ("instances", 1.05, 2, 1.0, 0.02),
        # Made once, instances make the copies differ: both must be seen in both kinds of verdict.
        ("instances", 1.0, 1, 1.0, 0.05),
    ],
)
def test_intervals_and_verdicts_are_the_product_s(
    name: str, truth: float, per: int, widen: float, margin: float
) -> None:
    proof(ratios(name, 40, per=per if per > 1 else None), (truth,), per, widen, margin)


def test_every_verdict_is_among_those_that_were_compared() -> None:
    drawn = ratios("AR(1)", 40)
    seen = {
        int(code)
        for truth in (0.9, 1.0, 1.1)
        for code in design.judged(
            design.copies(drawn).shifted(math.log(truth)), 0.05
        ).verdicts.ravel()
    }
    assert seen == {design.INCONCLUSIVE, design.WORSE, design.BETTER, design.EQUIVALENT}


def test_five_blocks_decide_nothing() -> None:
    drawn = ratios("white", 5)[:, :5]
    proof(drawn, (1.0, 3.0))
    assert not design.judged(design.copies(drawn).shifted(1.0)).verdicts.any()


def test_the_proof_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = ratios("white", 3)
    monkeypatch.setattr(design, "LEAST_PAIRS", 13)
    with pytest.raises(DisagreementError, match="campaign 0"):
        proof(drawn, (1.5,))
    monkeypatch.undo()
    monkeypatch.setattr(design, "collapse", lambda values, _groups: values[1:])
    with pytest.raises(DisagreementError):
        proof(drawn, (1.0,))


@pytest.mark.parametrize("comparisons", [1, 6])
@pytest.mark.parametrize("name", ["white", "outliers"])
def test_campaigns_stop_where_the_rule_does(name: str, comparisons: int) -> None:
    plan = Plan(blocks=20)
    drawn = ratios(name, 30, plan)[..., 1:].reshape(30, 20, -1)[..., :comparisons]
    rule = StopRule(6, 20, 0.05)
    for campaign, last in zip(drawn, stopped(drawn, rule), strict=True):
        for n in range(1, int(last) + 1):
            series = {str(i): list(campaign[:n, i]) for i in range(comparisons)}
            assert rule.decide(series, n).stop is (n == int(last))


def test_campaigns_that_stopped_together_keep_their_own_moments() -> None:
    drawn = ratios("white", 20, Plan(blocks=20))
    rule = StopRule(6, 20, 0.04)
    at = stopped(drawn[:, :, 0, 1:2], rule)
    by_count = design.until(drawn[..., 1:], at, rule.widening)
    assert sorted(np.concatenate([rows for rows, _ in by_count.values()])) == list(range(20))
    for n, (rows, of) in by_count.items():
        alone = many(drawn[rows[0]][None, :n, :, 1:], rule.widening)
        np.testing.assert_allclose(of.error[0], alone.error[0], rtol=1e-12)
