"""Our design, as the product does it: blocks in a balanced random order, pairs, t, A/A, Holm, stop.

The order is `ullage.plan.schedule.block`'s own; the widening and the least number of pairs are the
product's. Means, intervals and verdicts are computed for thousands of campaigns at once, by the
product's formulas; `proof` puts the product's own functions to the same data and compares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from benchmarks.statistics.noise import Regime, Rng
from ullage.plan import schedule
from ullage.stats import LEAST_PAIRS, Floats
from ullage.stats.interval import IntervalEstimate, collapse, moments, t_interval
from ullage.stats.stop import FIRST_LOOK, StopRule
from ullage.stats.verdict import Against, FamilyMember, judge, p_values

CONFIDENCE = 0.95
MARGIN = 0.02
"""The product's own defaults (docs/method/statistics.md)."""
BASELINE, AGAIN = "native", "native~again"
SEEDS = 500
"""Different orders; campaigns take them in turn."""
VERDICTS = ("inconclusive", "worse", "better", "equivalent")
INCONCLUSIVE, WORSE, BETTER, EQUIVALENT = range(4)
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
    """What a campaign of ours runs."""

    environments: tuple[str, ...] = ("a", "b")
    """Those that are compared; the baseline and its second copy run as well."""
    workloads: tuple[str, ...] = ("cpu", "memory", "disk")
    blocks: int = 12

    @property
    def cells(self) -> int:
        """Trials of a block."""
        return len(self.workloads) * (len(self.environments) + 2)

    @property
    def family(self) -> int:
        """Comparisons that Holm corrects for; the A/A ones are outside of it."""
        return len(self.workloads) * len(self.environments)


@lru_cache(maxsize=16)
def slots(plan: Plan, seeds: int) -> Ints:
    """The slot of each trial: seeds × blocks × workloads × environments (baseline, again, …)."""
    environments = (BASELINE, AGAIN, *plan.environments)
    column = {name: i for i, name in enumerate(environments)}
    row = {name: i for i, name in enumerate(plan.workloads)}
    slot_of_trial = np.empty((seeds, plan.blocks, len(row), len(column)), dtype=np.int64)
    for seed in range(seeds):
        for number in range(plan.blocks):
            for slot in schedule.block(seed, number, environments, plan.workloads):
                place = number * plan.cells + slot.order
                slot_of_trial[seed, number, row[slot.workload], column[slot.environment]] = place
    return slot_of_trial


def figures(
    regime: Regime, rng: Rng, campaigns: int, plan: Plan, blocks_per_generation: int | None = None
) -> Floats:
    """Log times of all trials at truth 1: campaigns × blocks × workloads × environments.

    blocks_per_generation: instances are made anew after so many blocks; None: once for all.
    """
    series = regime.series(rng, campaigns, plan.blocks * plan.cells)
    seeds = min(SEEDS, campaigns)
    order = slots(plan, seeds)[np.arange(campaigns) % seeds]
    logs = np.take_along_axis(series, order.reshape(campaigns, -1), axis=1).reshape(order.shape)
    logs[..., 2:] *= regime.lopsided
    if regime.instance:
        logs += _instances(regime, rng, order.shape, blocks_per_generation or plan.blocks)
    return logs


def _instances(
    regime: Regime, rng: Rng, shape: tuple[int, ...], blocks_per_generation: int
) -> Floats:
    campaigns, blocks, *cell = shape
    makings = -(-blocks // blocks_per_generation)
    effects = regime.instance * rng.standard_normal((campaigns, makings, *cell))
    return np.repeat(effects, blocks_per_generation, axis=1)[:, :blocks]


def log_ratios(log_times: Floats) -> Floats:
    """Every environment's log-ratio to the baseline, the second copy first; above 0 is worse."""
    ratios: Floats = log_times[..., 1:] - log_times[..., :1]
    return ratios


def generations(ratios: Floats, blocks_per_generation: int) -> Floats:
    """Means by generation along axis 1, as `ullage.stats.interval.collapse` makes them."""
    campaigns, blocks, *cell = ratios.shape
    makings = blocks // blocks_per_generation
    shape = (campaigns, makings, blocks_per_generation, *cell)
    means: Floats = ratios.reshape(shape).mean(axis=2)
    return means


@dataclass(frozen=True)
class Many:
    """Mean and standard error of many series of log-ratios, all of the same length."""

    n: int
    mean: Floats
    error: Floats
    """Times the widening."""

    def half(self, confidence: float = CONFIDENCE) -> Floats:
        """Half of the t interval's width on the log scale."""
        return float(special.stdtrit(self.n - 1, 0.5 + confidence / 2)) * self.error

    def covers(self, log_truth: float, confidence: float = CONFIDENCE) -> Bools:
        """Whether the t interval holds the truth."""
        return np.abs(self.mean - log_truth) <= self.half(confidence)

    def shifted(self, log_truth: Floats | float) -> Many:
        """The same noise under another truth."""
        return Many(self.n, self.mean + log_truth, self.error)


def many(ratios: Floats, widen: float = 1.0) -> Many:
    """Moments along axis 1 (blocks, or generations)."""
    n = ratios.shape[1]
    return Many(n, ratios.mean(axis=1), widen * ratios.std(axis=1, ddof=1) / math.sqrt(n))


def holm(p: Floats) -> Floats:
    """Holm's adjusted p-values of families, one per row."""
    order = np.argsort(p, axis=1, kind="stable")
    stepped = np.take_along_axis(p, order, axis=1) * np.arange(p.shape[1], 0, -1)
    adjusted = np.empty_like(p)
    capped = np.minimum(np.maximum.accumulate(stepped, axis=1), 1.0)
    np.put_along_axis(adjusted, order, capped, axis=1)
    return adjusted


@dataclass(frozen=True)
class Judged:
    """Verdicts of families, campaigns × comparisons."""

    verdicts: NDArray[np.int8]
    rejected: Bools
    """The t test against the first copy rejects after Holm, whatever the second and margin say."""


def differs(verdicts: NDArray[np.int8]) -> Bools:
    """Where worse or better is said."""
    return np.isin(verdicts, (WORSE, BETTER))


@dataclass(frozen=True)
class Copies:
    """Every comparison with the baseline, and with its second copy in its place."""

    first: Many
    second: Many

    def shifted(self, log_truth: Floats | float) -> Copies:
        """The same noise under another truth."""
        return Copies(self.first.shifted(log_truth), self.second.shifted(log_truth))


def copies(ratios: Floats, widen: float = 1.0) -> Copies:
    """Of log-ratios to the baseline, the second copy first in the last axis."""
    mine = ratios[..., 1:]
    return Copies(many(mine, widen), many(mine - ratios[..., :1], widen))


@dataclass(frozen=True, slots=True)
class Gone:
    """Comparisons that left a race: campaigns × comparisons, each with its claim made."""

    different: Bools
    equivalent: Bools
    neither: Bools
    """Without a claim."""


def judged(
    against: Copies,
    margin: float = MARGIN,
    confidence: float = CONFIDENCE,
    gone: Gone | None = None,
) -> Judged:
    """Verdicts on campaigns × workloads × environments: what holds against either copy.

    The family is all comparisons of a campaign, workload by workload. Without the allowance for
    rare slow trials (`ullage.stats.unseen`), which only takes claims away.
    """
    alpha, delta = 1 - confidence, math.log1p(margin)
    first = against.first
    shape = (first.mean.shape[0], -1)
    plain = unequal = equal = outermost = np.zeros_like(first.mean.reshape(shape))
    for of in (against.first, against.second):
        mean, error = np.abs(of.mean).reshape(shape), of.error.reshape(shape)
        p = np.minimum(1.0, 2 * special.stdtr(of.n - 1, -mean / error))
        plain = p if of is first else plain
        unequal = np.maximum(unequal, p)
        equal = np.maximum(equal, special.stdtr(of.n - 1, -(delta - mean) / error))
        outermost = np.maximum(outermost, mean + of.half(confidence).reshape(shape))
    sides = (first.mean * against.second.mean).reshape(shape)
    unequal = np.where(sides > 0, unequal, 1.0)
    if gone is not None:
        # Who has left counts with its claim made and the other not.
        unequal = np.where(gone.different, 0.0, unequal)
        unequal = np.where(gone.equivalent | gone.neither, 1.0, unequal)
        equal = np.where(gone.equivalent, 0.0, equal)
        equal = np.where(gone.different | gone.neither, 1.0, equal)
    verdicts = np.full(plain.shape, INCONCLUSIVE, dtype=np.int8)
    if first.n < LEAST_PAIRS:
        return Judged(verdicts, np.zeros(plain.shape, dtype=bool))
    clear = np.abs(first.mean).reshape(shape) > first.half(confidence).reshape(shape)
    different = (holm(unequal) <= alpha) & clear
    worse = first.mean.reshape(shape) > 0
    verdicts[different & worse], verdicts[different & ~worse] = WORSE, BETTER
    verdicts[(holm(equal) <= alpha) & (outermost <= delta)] = EQUIVALENT
    return Judged(verdicts, holm(plain) <= alpha)


def stopped(ratios: Floats, rule: StopRule, widen: float | None = None) -> Ints:
    """Blocks after which each campaign stops: campaigns × blocks × comparisons → campaigns.

    The widest comparison decides. `widen` replaces the rule's own correction: the machine must see
    what happens without it.
    """
    assert rule.half_width is not None
    blocks = ratios.shape[1]
    n = np.arange(1, blocks + 1)[:, None]
    mean = np.cumsum(ratios, axis=1) / n
    squares = np.maximum(np.cumsum(ratios**2, axis=1) - n * mean**2, 0.0)
    factor = rule.widening if widen is None else widen
    with np.errstate(divide="ignore", invalid="ignore"):
        error = factor * np.sqrt(squares / (n - 1) / n)
        half = special.stdtrit(np.maximum(n - 1, 1), 0.5 + rule.confidence / 2) * error
    narrow = (np.sinh(half) <= rule.half_width).all(axis=2)
    narrow[:, : max(rule.min_blocks, FIRST_LOOK) - 1] = False
    narrow[:, min(blocks, rule.max_blocks) - 1 :] = True
    last: Ints = narrow.argmax(axis=1) + 1
    return last


def until(ratios: Floats, blocks: Ints, widen: float) -> dict[int, tuple[Ints, Many]]:
    """Campaigns that stopped at the same block, with their moments: by number of blocks."""
    by_blocks = {}
    for n in np.unique(blocks):
        rows = np.flatnonzero(blocks == n)
        by_blocks[int(n)] = (rows, many(ratios[rows, :n], widen))
    return by_blocks


class DisagreementError(Exception):
    """What is computed for many campaigns at once is not what the product says of one."""


def product(
    ratios: Floats, per: int = 1, widen: float = 1.0, margin: float = MARGIN
) -> tuple[list[IntervalEstimate], list[str]]:
    """One campaign (blocks × workloads × environments, the second copy first) by the product.

    per: blocks per generation. Intervals and verdicts, workload by workload.
    """
    groups = [schedule.generation(block, per) for block in range(len(ratios))]
    intervals: list[IntervalEstimate] = []
    cases: list[FamilyMember] = []
    for workload in range(ratios.shape[1]):
        again = collapse(ratios[:, workload, 0], groups)
        for environment in range(1, ratios.shape[2]):
            values = collapse(ratios[:, workload, environment], groups)
            m = moments(values, widen)
            intervals.append(t_interval(values, CONFIDENCE, widen))
            p = p_values(m, margin)
            other = Against.of(moments(values - again, widen), margin)
            cases.append(FamilyMember(m, p, None, (other,), pairs=len(values)))
    return intervals, [judgement.verdict for judgement in judge(cases, margin, CONFIDENCE)]


def proof(
    ratios: Floats,
    truths: Sequence[float],
    per: int = 1,
    widen: float = 1.0,
    margin: float = MARGIN,
) -> None:
    """Check campaigns against the product. DisagreementError when a bound or a verdict differs.

    ratios: campaigns × blocks × workloads × environments at truth 1, the second copy first; the
    truths are put on the first environment after it. per: blocks per generation.
    """
    for truth in truths:
        shifted = ratios.copy()
        shifted[..., 1] += math.log(truth)
        units = generations(shifted, per)
        against = copies(units, widen)
        of = against.first
        verdicts = judged(against, margin).verdicts
        low = np.exp(of.mean - of.half()).reshape(verdicts.shape)
        high = np.exp(of.mean + of.half()).reshape(verdicts.shape)
        for i in range(len(shifted)):
            intervals, verdicts_there = product(shifted[i], per, widen, margin)
            theirs = np.array([(interval.low, interval.high) for interval in intervals])
            mine = np.stack([low[i], high[i]], axis=1)
            if verdicts_there != [VERDICTS[code] for code in verdicts[i]] or not np.allclose(
                theirs, mine, rtol=1e-12, atol=0
            ):
                raise DisagreementError(
                    f"campaign {i}, truth {truth}: {verdicts_there}, {theirs}; {mine}"
                )
