"""How many trials does 5 % take, in our order and in that of other tools?

Ours: blocks of baseline, second copy and environment, paired t on log-ratios. Theirs: n trials of
the baseline, then n of the environment, Welch's t on log times. Both are taken from recorded trials
in the order in which they ran, the exact factor of each trial removed: what is left is noise, and a
slowdown of 5 % is 5 % put back. For each n, every stretch of the record is one try. The critical
value of either statistic is what 5 % of the tries exceed without a slowdown, so neither gains by
claiming more than it may.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy import stats

from benchmarks.statistics.injection.recording import Recording, Row, folder
from benchmarks.statistics.injection.truth import follows
from ullage.analysis.overhead import analyse
from ullage.stats import Floats

EFFECT = 1.05
POWER = 0.8
RATE = 0.05
PER_BLOCK = 3
"""Baseline, its second copy, environment: all are counted."""
PER_PAIR = 2
LEAST_TRIES = 8
"""Stretches that do not overlap: with fewer, no 5 % can be seen."""
LEAST_N = 2
"""With fewer there is no spread."""
GROUP = 12
"""Tries that begin within so many trials of each other are drawn together by the bootstrap."""
RESAMPLES = 400

Statistic = Callable[[Floats, int, float], Floats]
"""(series, n, log of the effect) → t of every stretch, above 0 for a slower environment."""


def paired(log_ratios: Floats, n: int, effect: float) -> Floats:
    """Paired t of n successive log-ratios: mean / (s/√n)."""
    x = sliding_window_view(log_ratios + effect, n)
    return _t(x.mean(axis=1), x.var(axis=1, ddof=1) / n)


def sequential(log_times: Floats, n: int, effect: float) -> Floats:
    """Welch's t of n trials against the n before them."""
    x = sliding_window_view(log_times, 2 * n)
    old, new = x[:, :n], x[:, n:] + effect
    return _t(
        new.mean(axis=1) - old.mean(axis=1), (new.var(axis=1, ddof=1) + old.var(axis=1, ddof=1)) / n
    )


def _t(difference: Floats, variance: Floats) -> Floats:
    """No difference without spread is no evidence: 0. (Tools print few digits: it happens.)"""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = difference / np.sqrt(variance)
    return np.where(np.isnan(t), 0.0, t)


@dataclass(frozen=True)
class Design:
    """A statistic with the noise that it meets."""

    statistic: Statistic
    series: tuple[tuple[int, Floats], ...]
    """Each with the number of its run: those of one run share a baseline."""
    span: int
    """Elements of the series for n = 1."""
    per_n: int
    """Trials for n = 1."""

    @property
    def most(self) -> int:
        """Largest n for which the record has tries enough."""
        longest = max((s.size for _, s in self.series), default=0) // self.span
        total = sum(s.size for _, s in self.series) // self.span
        return min(longest, total // LEAST_TRIES)

    def tries(self, n: int, effect: float) -> tuple[Floats, NDArray[np.intp]]:
        """t of every stretch, and the group that it is drawn with."""
        t, group = [], []
        for run, series in self.series:
            if series.size >= n * self.span:
                values = self.statistic(series, n, effect)
                t.append(values)
                group.append(run * 10_000 + np.arange(values.size) // GROUP)
        return np.concatenate(t), np.concatenate(group)


@dataclass(frozen=True)
class TrialsNeeded:
    """Trials that a design needs."""

    trials: int | None
    """For power 0.8 at a false-positive rate of 5 %; None: more than `most`."""
    most: int
    """The most that the record can tell of."""
    low: int | None
    """95 % of resampled records need at least so many …"""
    high: int | None
    """… and at most so many; None: more than `most`."""
    nominal_rate: float
    """False positives at that n (or the most) of the same test with its own critical value."""

    @property
    def bound(self) -> int:
        """What is needed, or the least that it can be."""
        return self.most if self.trials is None else self.trials


def trials_needed(design: Design, effect: float = EFFECT, seed: int = 1) -> TrialsNeeded:
    """Smallest n with the power, by counting; its interval by a bootstrap over groups of tries."""
    tries = Tries.of(design, effect)
    least = tries.least()
    rng = np.random.default_rng(seed)
    drawn = sorted(tries.drawn(rng).least() or math.inf for _ in range(RESAMPLES))
    low, high = (drawn[round(q * (RESAMPLES - 1))] for q in (0.025, 0.975))
    at = design.most if least is None else least
    return TrialsNeeded(
        trials=None if least is None else least * design.per_n,
        most=design.most * design.per_n,
        low=None if math.isinf(low) else int(low) * design.per_n,
        high=None if math.isinf(high) else int(high) * design.per_n,
        nominal_rate=_nominal_rate(tries.null[at - LEAST_N], at, design.span),
    )


@dataclass(frozen=True)
class Tries:
    """Statistics of all stretches, for each n from LEAST_N on."""

    null: list[Floats]
    """Without a slowdown."""
    slow: list[Floats]
    group: list[NDArray[np.intp]]
    """What each is drawn with, from 0."""

    @classmethod
    def of(cls, design: Design, effect: float) -> Tries:
        """ValueError when the record is too short for any n."""
        ns = range(LEAST_N, design.most + 1)
        if not ns:
            raise ValueError("too few trials to say how many are needed")
        tries = [design.tries(n, 0.0) for n in ns]
        names = np.unique(tries[0][1])
        return cls(
            null=[t for t, _ in tries],
            slow=[design.tries(n, math.log(effect))[0] for n in ns],
            group=[np.searchsorted(names, group) for _, group in tries],
        )

    def least(self) -> int | None:
        """Smallest n whose calibrated statistic finds the slowdown with power 0.8."""
        for n, (null, slow) in enumerate(zip(self.null, self.slow, strict=True), start=LEAST_N):
            if null.size == 0:
                return None
            critical = float(np.quantile(np.abs(null), 1 - RATE, method="higher"))
            if float(np.mean(slow > critical)) >= POWER:
                return n
        return None

    def drawn(self, rng: np.random.Generator) -> Tries:
        """The same for a record whose groups are drawn with replacement."""
        count = int(self.group[0].max()) + 1
        times = np.bincount(rng.integers(0, count, count), minlength=count)
        return Tries(
            null=[np.repeat(t, times[g]) for t, g in zip(self.null, self.group, strict=True)],
            slow=[np.repeat(t, times[g]) for t, g in zip(self.slow, self.group, strict=True)],
            group=[np.repeat(g, times[g]) for g in self.group],
        )


def _nominal_rate(null: Floats, n: int, span: int) -> float:
    """Share beyond Student's own 5 %: n − 1 degrees of freedom, 2n − 2 of two samples."""
    df = (n - 1) * span
    return float(np.mean(np.abs(null) > stats.t.ppf(1 - RATE / 2, df)))


def of_blocks(recording: Recording, workload: str) -> Design:
    """Log-ratios of all environments to the baseline, as the product pairs them."""
    series = []
    for run, (name, rows) in enumerate(recording.of("blocks")):
        of_workload = [row for row in rows if row.workload == workload]
        truths = {row.environment: math.log(row.percent / 100) for row in of_workload}
        analysis = analyse(folder(recording.about.resolved[name], of_workload))
        series += [
            (run, np.array([math.log(p.ratio) - truths[c.environment] for p in c.points]))
            for c in (*analysis.comparisons, *analysis.again)
            if c.primary
        ]
    return Design(paired, tuple(series), 1, PER_BLOCK)


def of_sequences(recording: Recording, workload: str) -> Design:
    """Log times of one trial after the other, joined over the stretches of a sequence."""
    series: list[list[float]] = []
    last: Row | None = None
    for _, rows in recording.of("sequence"):
        of_workload = [row for row in rows if row.workload == workload and row.seconds is not None]
        if not of_workload:
            continue
        if last is None or not follows(last, of_workload[0]):
            series.append([])
        series[-1] += [
            math.log(row.seconds * 100 / row.percent) for row in of_workload if row.seconds
        ]
        last = of_workload[-1]
    return Design(sequential, tuple(enumerate(map(np.array, series))), 2, PER_PAIR)
