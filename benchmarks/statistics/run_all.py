"""The whole machine: every regime, every trace, on several processes."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from benchmarks.statistics import (
    aa_traces,
    campaign,
    doc_claims,
    racing,
    sample_size,
    trial_length,
)
from benchmarks.statistics.aa_traces import Null
from benchmarks.statistics.attacks import counts, limits
from benchmarks.statistics.attacks.counts import Struck
from benchmarks.statistics.attacks.limits import Limit
from benchmarks.statistics.attacks.regimes import ATTACKS, Attack
from benchmarks.statistics.attacks.totals import TIMES, Bills, Paid
from benchmarks.statistics.campaign import Outcome
from benchmarks.statistics.doc_claims import DocClaim
from benchmarks.statistics.noise import SYNTHETIC, Regime, recorded
from benchmarks.statistics.sample_size import Row
from benchmarks.statistics.traces import Trace, all_traces

SEED = 20261121
T = TypeVar("T")


@dataclass(frozen=True)
class Size:
    """How much is simulated."""

    campaigns: int
    """Per regime and design."""
    calibration: int
    """Per regime, for each of calibration and power."""
    aa_traces: int
    """A/A campaigns per trace."""
    doc_claims: int
    """Runs for each of the figures that the docs say besides."""
    attacks: int
    """Campaigns of each attack, which the product analyses one by one: 2 to 60 ms each."""
    bills: int
    """Campaigns of totals."""


FULL = Size(
    campaigns=10_000,
    calibration=4_000,
    aa_traces=2_000,
    doc_claims=1_000,
    attacks=10_000,
    bills=10_000,
)
QUICK = Size(campaigns=300, calibration=300, aa_traces=200, doc_claims=40, attacks=50, bills=500)


@dataclass
class Results:
    """Everything that the tables are made of."""

    size: Size
    outcomes: list[Outcome] = field(default_factory=list)
    sample_sizes: list[Row] = field(default_factory=list)
    nulls: list[Null] = field(default_factory=list)
    doc_claims: list[DocClaim] = field(default_factory=list)
    struck: list[Struck] = field(default_factory=list)
    paid: list[Paid] = field(default_factory=list)
    races: list[racing.Result] = field(default_factory=list)
    lengths: list[trial_length.Row] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)


def comparable(regime: Regime) -> bool:
    """Whether trials needed can be compared: making instances costs what is not modelled here."""
    return not regime.instance and regime.lopsided == 1


def run(size: Size, jobs: int) -> Results:
    """Run it all. Results are the same for any number of jobs."""
    traces = all_traces()
    regimes = [*SYNTHETIC, *(regime for trace in traces for regime in recorded(trace))]
    pairs = [regime for regime in regimes if comparable(regime)]
    tasks: list[tuple[str, Callable[[], object]]] = [
        *((f"{r.name}, campaigns", _Campaign(r, size.campaigns)) for r in regimes),
        *((f"{r.name}, trials needed", _SampleSizes(r, size.calibration)) for r in pairs),
        *((f"{t.name}, A/A", _AATraces(t, size.aa_traces)) for t in traces),
        ("trial length", partial(trial_length.run, traces, size.calibration, SEED + 5)),
        ("racing", partial(racing.run, traces, size.campaigns, SEED + 4)),
        *(
            (part.__name__, doc_claims.Task(part, size.doc_claims, SEED + 3))
            for part in doc_claims.PARTS
        ),
        *((attack.name, _Strike(attack, size.attacks)) for attack in ATTACKS),
        ("limits of memory", partial(limits.limits, size.doc_claims, SEED + 4)),
        *(
            (f"totals, {times.name}", Bills(i, size.bills, SEED + 5))
            for i, times in enumerate(TIMES)
        ),
    ]
    done = in_processes(tasks, jobs)
    results = Results(size)
    for result in done:
        if isinstance(result, Outcome):
            results.outcomes.append(result)
        elif isinstance(result, Null):
            results.nulls.append(result)
        elif isinstance(result, Struck):
            results.struck.append(result)
        elif isinstance(result, racing.Result):
            results.races.append(result)
        else:
            assert isinstance(result, list)
            results.sample_sizes += [row for row in result if isinstance(row, Row)]
            results.doc_claims += [claim for claim in result if isinstance(claim, DocClaim)]
            results.paid += [paid for paid in result if isinstance(paid, Paid)]
            results.limits += [row for row in result if isinstance(row, Limit)]
            results.lengths += [row for row in result if isinstance(row, trial_length.Row)]
    return results


@dataclass(frozen=True)
class _Campaign:
    regime: Regime
    campaigns: int

    def __call__(self) -> Outcome:
        return campaign.run(self.regime, self.campaigns, SEED)


@dataclass(frozen=True)
class _SampleSizes:
    regime: Regime
    campaigns: int

    def __call__(self) -> list[Row]:
        return sample_size.run(self.regime, self.campaigns, SEED + 1)


@dataclass(frozen=True)
class _Strike:
    attack: Attack
    campaigns: int

    def __call__(self) -> Struck:
        return counts.strike(self.attack, self.campaigns, SEED + 4)


@dataclass(frozen=True)
class _AATraces:
    trace: Trace
    campaigns: int

    def __call__(self) -> Null:
        return aa_traces.run(self.trace, self.campaigns, SEED + 2)


def attacked(campaigns: int, only: str, jobs: int) -> Results:
    """The attacks alone whose names hold these words, as `run` would make them."""
    chosen = [attack for attack in ATTACKS if only in attack.name]
    tasks = [(attack.name, _Strike(attack, campaigns)) for attack in chosen]
    struck = [s for s in in_processes(tasks, jobs) if isinstance(s, Struck)]
    return Results(replace(FULL, attacks=campaigns), struck=struck)


def in_processes(tasks: Sequence[tuple[str, Callable[[], object]]], jobs: int) -> list[object]:
    """Results in the order of the tasks; the first that fails ends it all."""
    began = time.monotonic()
    # Each process would start a thread per core for products of matrices of twelve rows.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        futures = {pool.submit(task): (i, name) for i, (name, task) in enumerate(tasks)}
        results: dict[int, object] = {}
        for future in as_completed(futures):
            i, name = futures[future]
            if future.exception() is not None:
                pool.shutdown(cancel_futures=True)
            results[i] = future.result()
            at = f"{len(results)}/{len(tasks)}, {time.monotonic() - began:.0f} s: {name}"
            print(f"\r{at:<79}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return [results[i] for i in range(len(tasks))]
