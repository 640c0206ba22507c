"""A/A on real records: the same machine against itself, as our design would have run it.

A campaign takes a stretch of a trace as it is. Each measure is a workload; the trials of a workload
take its rows one after the other, in the order of `ullage.plan.schedule`: with four environments
and four measures a block takes 16 trials in the record as in a run. Both environments, the baseline
and its second copy are the same machine, so every difference that is claimed is false.

What is random is the order (a seed per campaign) and where the stretch begins. Stretches overlap: a
trace of 327 rows has only six of 48 rows that do not, so campaigns of one trace are not independent
and the interval of their share is that of the orders, not of other hours. The worst of the disjoint
stretches is given beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.statistics import design, peers
from benchmarks.statistics.campaign import PROVEN
from benchmarks.statistics.design import Bools, Ints, Plan, log_ratios
from benchmarks.statistics.noise import Rng
from benchmarks.statistics.table import Share, share
from benchmarks.statistics.traces import Trace
from ullage.plan import schedule
from ullage.stats import Floats


@dataclass(frozen=True)
class Null:
    """What one trace gave."""

    trace: str
    family: int
    rows: int
    """Of a campaign."""
    disjoint: int
    """Stretches that do not overlap."""
    holm: Share
    """Campaigns in which any t test rejects after Holm."""
    verdict: Share
    """Campaigns in which any comparison is called worse or better."""
    worst: Share
    """The worst of the disjoint stretches, by `holm`."""
    sequential: Share
    """Single comparisons that Welch's t test calls different, one environment after the other."""
    sequential_any: Share
    """Campaigns in which it does so for any of the same family."""


def rows(plan: Plan, seeds: int) -> Ints:
    """Row of each trial: seeds × blocks × workloads × environments (baseline, again, …)."""
    environments = (design.BASELINE, design.AGAIN, *plan.environments)
    count = len(environments)
    row_of_trial = np.empty((seeds, plan.blocks, len(plan.workloads), count), dtype=np.int64)
    for seed in range(seeds):
        for number in range(plan.blocks):
            for slot in schedule.block(seed, number, environments, plan.workloads):
                at = plan.workloads.index(slot.workload), environments.index(slot.environment)
                row_of_trial[seed, number, at[0], at[1]] = number * count + slot.position
    return row_of_trial


def campaigns(trace: Trace, plan: Plan, starts: Ints, order: Ints) -> Floats:
    """Log-ratios: campaigns × blocks × workloads × environments, the second copy first."""
    at = starts[:, None, None, None] + order
    columns = [trace.columns[workload][at[:, :, i]] for i, workload in enumerate(plan.workloads)]
    return log_ratios(np.stack(columns, axis=2))


def run(trace: Trace, count: int, seed: int) -> Null:
    """So many campaigns out of one trace."""
    rng = np.random.default_rng(seed)
    plan = Plan(environments=("a", "b"), workloads=tuple(trace.columns), blocks=12)
    length = plan.blocks * (len(plan.environments) + 2)
    order = rows(plan, count)
    ratios = campaigns(trace, plan, rng.integers(0, trace.turns - length + 1, count), order)
    design.proof(ratios[:PROVEN], (1.0,))
    judged = design.judged(design.copies(ratios))
    claimed = design.differs(judged.verdicts)
    disjoint = trace.turns // length
    begin = np.arange(count) % disjoint * length
    fixed = campaigns(trace, plan, begin, order)
    judged_there = design.judged(design.copies(fixed))
    rejected = np.asarray(judged_there.rejected.any(axis=1))
    stretches = [share(rejected[begin == first * length]) for first in range(disjoint)]
    outcome = in_sequence(trace, plan, rng, count)
    return Null(
        trace=trace.name,
        family=plan.family,
        rows=length,
        disjoint=disjoint,
        holm=share(judged.rejected.any(axis=1)),
        verdict=share(claimed.any(axis=1)),
        worst=max(stretches, key=lambda stretch: stretch.value),
        sequential=share(outcome),
        sequential_any=share(outcome.any(axis=1)),
    )


def in_sequence(trace: Trace, plan: Plan, rng: Rng, count: int) -> Bools:
    """Claims of Welch's t test: every environment 12 rows, one after the other; none in between.

    The workloads of a row follow each other, so each environment's turn is shorter here than if one
    workload came after the other: drift has less time to do harm.
    """
    n, environments = plan.blocks, len(plan.environments)
    starts = rng.integers(0, trace.turns - n * (environments + 1) + 1, count)
    window = starts[:, None] + np.arange(n * (environments + 1))
    claims = []
    for workload in plan.workloads:
        times = np.exp(trace.columns[workload][window]).reshape(count, environments + 1, n)
        claims += [peers.welch(times[:, 1 + e], times[:, 0]) != 0 for e in range(environments)]
    return np.stack(claims, axis=1)
