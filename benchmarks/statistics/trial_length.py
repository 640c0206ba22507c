"""The length of a trial, on recorded noise: what longer trials cost, and what a pilot says of it.

A trial of k turns is the mean of k rows of the record, one after the other. A campaign takes a
stretch as it is, in blocks of the baseline, its second copy and an environment in random order; the
number of blocks is what the same time allows. Time for the same precision is in proportion to the
variance of the mean log-ratio over the campaigns. The pilot is the whole record, in trials of
PILOT turns; what it says is `ullage.stats.planning`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.statistics.noise import Rng
from benchmarks.statistics.table import Table
from benchmarks.statistics.traces import Trace
from ullage.stats import Floats
from ullage.stats.planning import best_length, memory

LENGTHS = (1, 2, 4, 8)
"""Turns of a trial."""
PILOT = 4
ROWS = 240
"""Of a campaign: eighteen minutes."""
LEAST_CAMPAIGNS = 50
"""Of fewer a variance says nothing."""
PER_BLOCK = 3
TURN_S = 4.4


@dataclass(frozen=True)
class Row:
    """One measure of one trace."""

    noise: str
    times: tuple[float, ...]
    """Time for the same precision with trials of LENGTHS, as a part of that with PILOT turns."""
    promised: float | None
    """The same for the shortest trials, as the pilot says; None: it is not sure of a memory."""


def variance(column: Floats, length: int, rng: Rng, campaigns: int) -> float:
    """Of the mean log-ratio of a campaign with trials of so many turns."""
    blocks = ROWS // (PER_BLOCK * length)
    starts = rng.integers(0, column.size - ROWS + 1, campaigns)
    rows = column[starts[:, None] + np.arange(blocks * PER_BLOCK * length)]
    trials = rows.reshape(campaigns, blocks, PER_BLOCK, length).mean(axis=3)
    order = np.argsort(rng.random(trials.shape), axis=2)
    drawn = np.take_along_axis(trials, order, axis=2)
    return float((drawn[..., 1] - drawn[..., 0]).mean(axis=1).var())


def predicted(column: Floats) -> float | None:
    """Time with trials of one turn as a part of that with PILOT turns, by the product."""
    trials = column[: column.size // PILOT * PILOT].reshape(-1, PILOT).mean(axis=1)
    places = LENGTHS[-1] - PILOT + 1
    stretches = [
        [(i * PILOT * TURN_S, float(trials[first + i])) for i in range(places)]
        for first in range(0, trials.size - places + 1, places)
    ]
    noise = memory(stretches, PILOT * TURN_S)
    if noise is None or not noise.sure:
        return None
    return best_length(noise, [TURN_S], PILOT * TURN_S, 0.0, (PER_BLOCK + 1) / 3)[1]


def run(traces: Sequence[Trace], campaigns: int, seed: int) -> list[Row]:
    """Every measure of every trace."""
    rows = []
    for trace in traces:
        for name, column in trace.columns.items():
            rng = np.random.default_rng([seed, *trace.name.encode(), *name.encode()])
            count = max(LEAST_CAMPAIGNS, campaigns)
            variances = [variance(column, length, rng, count) for length in LENGTHS]
            of_pilot = variances[LENGTHS.index(PILOT)]
            times = tuple(v / of_pilot for v in variances)
            rows.append(Row(f"{trace.name}: {name}", times, predicted(column)))
    return rows


def table(rows: Sequence[Row]) -> Table:
    """Relative to trials of PILOT turns."""
    result = Table(
        "Trial length",
        ["noise", *(f"{n} s" for n in LENGTHS), f"a pilot of {PILOT} s says of 1 s"],
        says="Time that the same precision takes with trials of so many seconds, as a part of that "
        f"with {PILOT}: where noise has a memory, many short pairs are worth more than few long "
        "ones. What the pilot promises is less than what comes where it is sure of a memory; where "
        "it is not, it says nothing. What starting takes is not in it.",
    )
    for row in rows:
        promise = "" if row.promised is None else f"{row.promised:.2f}"
        result.rows.append([row.noise, *(f"{time:.2f}" for time in row.times), promise])
    return result
