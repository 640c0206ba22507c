"""Trials that a slowdown needs to be found with power 0.8, at equal false-positive rates.

One environment, one workload. Sequential: n trials of the baseline, then n of the environment,
Welch's t. Ours: n blocks of baseline, its second copy and the environment, paired t; every trial is
counted, the second copy's too. For each n and noise, the critical value of either statistic is the
one that 5 % of campaigns at truth 1 exceed, so neither gains by claiming more than it may. The
product's own verdict (its nominal critical value, against either copy) stands beside them with the
false-positive rate that it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.statistics import design
from benchmarks.statistics.design import Plan, figures, log_ratios, many
from benchmarks.statistics.noise import Regime, Rng
from benchmarks.statistics.table import Share, share
from ullage.stats import LEAST_PAIRS, Floats

EFFECTS = (1.05, 1.10, 1.25)
POWER = 0.8
RATE = 0.05
MOST_TRIALS = 2400
LEAST = 3
"""Trials a side, or blocks, under which nobody should speak of a test."""
PER_BLOCK = 3
PER_PAIR = 2
Signed = Callable[[Floats, int], Floats]
"""From log times of many campaigns and n to a statistic, above 0 for a slower environment."""


@dataclass(frozen=True)
class SampleSize:
    """What one design needs."""

    trials: int | None
    """None: more than MOST_TRIALS."""
    false: Share | None = None
    """False claims at that number of trials; None: calibrated to RATE."""


@dataclass
class Row:
    """One regime and effect."""

    regime: Regime
    effect: float
    designs: dict[str, SampleSize] = field(default_factory=dict)

    def ratio(self, ours: str) -> tuple[float, str] | None:
        """Trials of one of ours to those of the sequential test, and whether that is a bound.

        None when neither gets there.
        """
        mine, theirs = self.designs[ours].trials, self.designs["sequential t"].trials
        if mine is None:
            return None if theirs is None else (MOST_TRIALS / theirs, "above ")
        if theirs is None:
            return mine / MOST_TRIALS, "below "
        return mine / theirs, ""


def counts(least: int, most: int) -> list[int]:
    """Every number up to 20, then steps of 7 %."""
    numbers = list(range(least, min(20, most) + 1))
    while numbers[-1] < most:
        numbers.append(min(most, max(numbers[-1] + 1, round(numbers[-1] * 1.07))))
    return numbers


def paired(ratios: Floats, n: int) -> Floats:
    """t of the first n log-ratios, campaigns × blocks → campaigns."""
    m = many(ratios[:, :n])
    # Recorded stretches can repeat: equal log-ratios, no error, and a t that is infinite.
    with np.errstate(divide="ignore"):
        t: Floats = m.mean / m.error
    return t


def sequential(series: Floats, n: int) -> Floats:
    """Welch's t of the second n log times against the first n."""
    after, before = series[:, n : 2 * n], series[:, :n]
    test = stats.ttest_ind_from_stats(
        after.mean(axis=1),
        after.std(axis=1, ddof=1),
        n,
        before.mean(axis=1),
        before.std(axis=1, ddof=1),
        n,
        equal_var=False,
    )
    return np.asarray(test.statistic)


def least_with_power(
    statistic: Signed, null: Floats, shifted: Callable[[int], Floats], ns: Iterable[int]
) -> int | None:
    """Smallest n at which the calibrated statistic finds the effect with power 0.8."""
    for n in ns:
        critical = float(np.quantile(np.abs(statistic(null, n)), 1 - RATE, method="higher"))
        if float(np.mean(statistic(shifted(n), n) > critical)) >= POWER:
            return n
    return None


def verdict_needs(null: Floats, ratios: Floats, effect: float) -> SampleSize:
    """Blocks after which the product says "worse" with power 0.8.

    ratios: campaigns × blocks × (second copy, environment) at truth 1; null: the same, others.
    """
    for n in counts(LEAST_PAIRS, ratios.shape[1]):
        verdicts = _verdicts(ratios[:, :n], effect)
        if float(np.mean(verdicts == design.WORSE)) >= POWER:
            false = _verdicts(null[:, :n], 1.0)
            return SampleSize(n * PER_BLOCK, share(design.differs(false)))
    return SampleSize(None)


def _verdicts(ratios: Floats, truth: float) -> NDArray[np.int8]:
    against = design.copies(ratios[:, :, None]).shifted(math.log(truth))
    return design.judged(against).verdicts[:, 0]


def run(regime: Regime, campaigns: int, seed: int) -> list[Row]:
    """All designs under one regime; the noise of calibration is not that of power."""
    rng = np.random.default_rng([seed, *regime.name.encode()])
    null, environment = _blocks(regime, rng, campaigns), _blocks(regime, rng, campaigns)
    null_line, other_line = _line(regime, rng, campaigns), _line(regime, rng, campaigns)
    rows = []
    for effect in EFFECTS:
        by = math.log(effect)
        n = least_with_power(
            paired,
            null[..., 1],
            partial(_raised, environment[..., 1], by=by),
            counts(LEAST, MOST_TRIALS // PER_BLOCK),
        )
        m = least_with_power(
            sequential,
            null_line,
            partial(_slower, other_line, by=by),
            counts(LEAST, MOST_TRIALS // PER_PAIR),
        )
        row = Row(regime, effect)
        row.designs["paired t"] = SampleSize(n and n * PER_BLOCK)
        row.designs["sequential t"] = SampleSize(m and m * PER_PAIR)
        row.designs["verdict"] = verdict_needs(null, environment, effect)
        rows.append(row)
    return rows


def _raised(ratios: Floats, n: int, by: float) -> Floats:
    return ratios[:, :n] + by


def _slower(series: Floats, n: int, by: float) -> Floats:
    slowed = series[:, : 2 * n].copy()
    slowed[:, n:] += by
    return slowed


def _blocks(regime: Regime, rng: Rng, campaigns: int) -> Floats:
    """Log-ratios, campaigns × blocks × (second copy, environment)."""
    plan = Plan(environments=("a",), workloads=("cpu",), blocks=MOST_TRIALS // PER_BLOCK)
    return log_ratios(figures(regime, rng, campaigns, plan, 1))[:, :, 0]


def _line(regime: Regime, rng: Rng, campaigns: int) -> Floats:
    """Log times one after the other."""
    return regime.series(rng, campaigns, MOST_TRIALS)
