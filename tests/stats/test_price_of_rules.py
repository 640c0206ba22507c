"""What careful verdicts cost, and what they do not see: figures of `docs/method/statistics.md`.

Normal noise on the log scale. Every environment is judged with its memory and its slow trials, and
against either copy of the baseline, as `ullage.analysis` does.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.stats.verdictkit import CONFIDENCE, MARGIN
from ullage.stats import Floats, Verdict
from ullage.stats.interval import moments
from ullage.stats.memory import course, widening
from ullage.stats.unseen import slow_trials, together
from ullage.stats.verdict import Against, FamilyMember, judge, p_values

Rng = np.random.Generator
USUAL, QUIET = 0.03, 0.01
"""Noise of a trial."""


def members(native: Floats, again: Floats, environment: Floats) -> list[FamilyMember]:
    """One environment's comparisons; log times, a row for each workload."""
    rows = environment - native
    widen = widening(course(row) for row in rows)
    slow = together([[slow_trials(row)] for row in rows])
    cases = []
    for row, copy in zip(rows, environment - again, strict=True):
        m = moments(row, widen)
        second = Against.of(moments(copy, widen), MARGIN)
        cases.append(FamilyMember(m, p_values(m, MARGIN), None, (second,), m.n, slow=slow))
    return cases


def first_verdict(cases: list[FamilyMember]) -> Verdict:
    return judge(cases, MARGIN, CONFIDENCE)[0].verdict


def chance(
    verdict: Verdict, ratio: float, environments: int, workloads: int, blocks: int, campaigns: int
) -> float:
    """Of that verdict on a workload of which one environment has this ratio; all others are 1."""
    rng, hits = np.random.default_rng(76), 0
    for _ in range(campaigns):
        native, again, *times = rng.normal(0, USUAL, (2 + environments, workloads, blocks))
        times[0][0] += math.log(ratio)
        hits += first_verdict([m for t in times for m in members(native, again, t)]) == verdict
    return hits / campaigns


ALONE, OF_TWELVE = (1, 1), (3, 4)
PRICE: list[tuple[Verdict, float, tuple[int, int], int, float]] = [
    ("worse", 1.05, ALONE, 6, 0.45),
    ("worse", 1.05, ALONE, 12, 0.66),
    ("worse", 1.05, ALONE, 30, 0.98),
    ("worse", 1.10, ALONE, 6, 0.98),
    ("worse", 1.10, ALONE, 12, 0.95),
    ("better", 1 / 1.05, ALONE, 30, 0.0),
    ("better", 1 / 1.10, ALONE, 12, 0.0),
    ("better", 1 / 1.10, ALONE, 30, 0.74),
    ("worse", 1.05, OF_TWELVE, 12, 0.34),
    ("better", 1 / 1.10, OF_TWELVE, 12, 0.85),
]
"""Each by 1,000 campaigns, of one of twelve by 250."""


@pytest.mark.parametrize(("verdict", "ratio", "shape", "blocks", "expected"), PRICE)
def test_the_chance_of_a_verdict_is_what_the_docs_say(
    verdict: Verdict, ratio: float, shape: tuple[int, int], blocks: int, expected: float
) -> None:
    campaigns = 200 if shape == ALONE else 40
    slack = 0.02 + 3 * math.sqrt(expected * (1 - expected) / campaigns)
    assert chance(verdict, ratio, *shape, blocks, campaigns) == pytest.approx(expected, abs=slack)


def rare(rng: Rng, shape: tuple[int, ...]) -> Floats:
    """4 % of the trials take twice as long; of mean 0."""
    slower: Floats = np.where(rng.random(shape) < 0.04, math.log(2), 0.0) - 0.04 * math.log(2)
    return slower


def slow_in_one(rng: Rng, workloads: int, blocks: int) -> bool:
    """The environment's first workload alone has slow trials: is it called better?"""
    native, again, times = rng.normal(0, QUIET, (3, workloads, blocks))
    times[0] += rare(rng, (blocks,))
    return first_verdict(members(native, again, times)) == "better"


def slow_baseline(rng: Rng, workloads: int, blocks: int) -> bool:
    """Both copies of the baseline have slow trials: is any workload called worse?"""
    native, again, times = rng.normal(0, QUIET, (3, workloads, blocks))
    native += rare(rng, native.shape)
    again += rare(rng, again.shape)
    judged = judge(members(native, again, times), MARGIN, CONFIDENCE)
    return any(judgement.verdict == "worse" for judgement in judged)


Count = Callable[[Rng, int, int], bool]
UNSEEN: list[tuple[Count, int, int, float]] = [
    (slow_in_one, 12, 12, 0.43),
    (slow_in_one, 4, 30, 0.30),
    (slow_baseline, 1, 12, 0.34),
    (slow_baseline, 4, 12, 0.84),
    (slow_baseline, 1, 30, 0.10),
    (slow_baseline, 4, 30, 0.30),
]


@pytest.mark.parametrize(("misjudged", "workloads", "blocks", "expected"), UNSEEN)
def test_slow_trials_that_are_not_seen_are_as_often_misjudged_as_the_docs_say(
    misjudged: Count, workloads: int, blocks: int, expected: float
) -> None:
    campaigns, rng = 100, np.random.default_rng(75)
    share = sum(misjudged(rng, workloads, blocks) for _ in range(campaigns)) / campaigns
    slack = 0.02 + 3 * math.sqrt(expected * (1 - expected) / campaigns)
    assert share == pytest.approx(expected, abs=slack)
