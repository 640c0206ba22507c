"""What is wrong in each attack: figures whose truth is known, and what may then not be said.

All noise is on the log scale, of mean 0 on every side: whatever one environment has of its own, its
true ratio to the baseline (of geometric means) is the one that is put on top. `e0` is the
environment under attack; it stands in each of the campaign's workloads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import special

from benchmarks.statistics.attacks.folders import Bools, Layout
from benchmarks.statistics.noise import Rng, ar1, skewed
from ullage.stats import Floats

QUIET, NOISY = 0.02, 0.04
"""White noise of a trial."""
E0 = 2
"""Place of the environment under attack."""
STATE = 0.04
"""Of an environment that switches between two, either way."""
BIAS = math.log(1.03)
Figures = tuple[Floats, Bools | None]
"""Times, and which trials were lost."""
Make = Callable[[Rng, Layout], Figures]


THREE, TEN, THIRTY = Layout(), Layout(2, 5), Layout(3, 10)


@dataclass(frozen=True)
class Attack:
    """One way to hurt."""

    name: str
    says: str
    make: Make
    layout: Layout = THREE
    truth: float = 1.0
    """True ratio of e0, in all workloads."""


def noise(rng: Rng, layout: Layout, scale: float = QUIET) -> Floats:
    """Of every trial, independent."""
    return scale * rng.standard_normal(layout.shape)


def clean(rng: Rng, layout: Layout, scale: float = QUIET) -> Figures:
    return np.exp(noise(rng, layout, scale)), None


def rare(rng: Rng, layout: Layout, share: float, times: float) -> Figures:
    """So many of the environment's trials take so many times as long."""
    logs = noise(rng, layout)
    hit = rng.random(logs[E0].shape) < share
    logs[E0] += math.log(times) * (hit - share)
    return np.exp(logs), None


def memory(rng: Rng, layout: Layout, phi: float) -> Figures:
    """The environment's noise is autoregressive from block to block, each workload's its own."""
    logs = noise(rng, layout)
    logs[E0] = ar1(rng, layout.workloads, layout.blocks, phi, 2 * QUIET)
    return np.exp(logs), None


def switching(rng: Rng, layout: Layout, last: int = 8) -> Figures:
    """The environment has two states, ± 4 %, each about so many blocks long."""
    logs = noise(rng, layout)
    begins = rng.random((layout.workloads, 1)) < 0.5
    turns = (rng.random((layout.workloads, layout.blocks)) < 1 / last).cumsum(axis=1) % 2
    logs[E0] += STATE * np.where(turns ^ begins, 1, -1)
    return np.exp(logs), None


def unequal(rng: Rng, layout: Layout, factor: float) -> Figures:
    """The environment's trials scatter so many times as much."""
    logs = noise(rng, layout)
    logs[E0] *= factor
    return np.exp(logs), None


def lossy(rng: Rng, layout: Layout, share: float) -> Figures:
    """The slowest of the environment's trials have no figure, as under a time limit."""
    logs = noise(rng, layout)
    limit = QUIET * float(special.ndtri(1 - share))
    lost = np.zeros(layout.shape, dtype=bool)
    lost[E0] = logs[E0] > limit
    return np.exp(logs), lost


def coarse(rng: Rng, layout: Layout) -> Figures:
    """A tool prints whole units. The baseline takes 20.35 each time: it prints 20, always."""
    values = 20.35 * np.exp(noise(rng, layout, 0.05))
    values[:2] = 20.35
    return np.round(values), None


def biased(rng: Rng, layout: Layout, scale: float) -> Figures:
    """The baseline's own slot is 3 % slower than it is; its second copy's is not."""
    logs = noise(rng, layout, scale)
    logs[0] += BIAS
    return np.exp(logs), None


def biased_copy(rng: Rng, layout: Layout) -> Figures:
    """The second copy's slot is 3 % slower."""
    logs = noise(rng, layout)
    logs[1] += BIAS
    return np.exp(logs), None


def skew(rng: Rng, layout: Layout, truth: float, amount: float) -> Figures:
    """All but e0 are as the baseline plus the margin; e0 too, with a skewed overhead of mean 0."""
    logs = noise(rng, layout, 0.005)
    logs[E0:] += math.log(truth)
    logs[E0] += amount * skewed(rng, layout.workloads, layout.blocks)
    return np.exp(logs), None


ATTACKS: tuple[Attack, ...] = (
    Attack("clean, family of 10", "white, 2 % a trial", clean, TEN),
    Attack("clean, family of 30", "the same", clean, THIRTY),
    *(
        Attack(
            f"4 % of trials × 2, {n} blocks",
            "in one environment, three workloads",
            partial(rare, share=0.04, times=2.0),
            Layout(blocks=n),
        )
        for n in (6, 12, 30)
    ),
    Attack(
        "5 % of trials × 1.5, family of 10",
        "in one environment, five workloads",
        partial(rare, share=0.05, times=1.5),
        TEN,
    ),
    Attack(
        "5 % of trials × 1.5, family of 30",
        "in one environment, ten workloads",
        partial(rare, share=0.05, times=1.5),
        THIRTY,
    ),
    *(
        Attack(
            f"AR {phi}, {n} blocks",
            "from block to block, in one environment",
            partial(memory, phi=phi),
            Layout(1, 1, n),
        )
        for phi in (0.5, 0.8)
        for n in (12, 30)
    ),
    *(
        Attack(
            f"switching every 8 blocks, {n} blocks",
            "± 4 %, in one environment",
            switching,
            Layout(1, 1, n),
        )
        for n in (12, 30)
    ),
    Attack(
        "unequal spread", "one environment scatters 4 times as much", partial(unequal, factor=4)
    ),
    Attack("slowest 9 % missing", "of one environment", partial(lossy, share=0.09)),
    Attack("slowest 3 % missing", "of one environment", partial(lossy, share=0.03)),
    *(
        Attack(
            f"coarse constant, {n} blocks",
            "the baseline's 20.35 is printed as 20, always; the environment's scatters by 5 %",
            coarse,
            Layout(1, 1, n),
        )
        for n in (12, 40)
    ),
    Attack("biased baseline 3 %, family of 10", "its own slot", partial(biased, scale=QUIET), TEN),
    Attack("biased baseline 3 %, twice the noise", "the same", partial(biased, scale=NOISY), TEN),
    Attack("slower second copy 3 %, family of 10", "its slot", biased_copy, TEN),
    Attack(
        "edge of the margin, family of 10, skew",
        "all are 2 % slower; one has a lognormal overhead (σ 1) besides",
        partial(skew, truth=1.02, amount=0.5),
        TEN,
        truth=1.02,
    ),
)
