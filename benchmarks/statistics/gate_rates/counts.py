"""A thousand pipelines of each kind, counted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import numpy as np

from benchmarks.statistics.gate_rates.pipelines import (
    Answer,
    Noise,
    Pipeline,
    Runs,
    answer,
    stretches,
)
from benchmarks.statistics.noise import WHITE, Rng
from benchmarks.statistics.table import Share
from benchmarks.statistics.traces import Trace, segments
from ullage.analysis.gate import WRONG_FAIL
from ullage.stats import Floats
from ullage.stats.interval import t_quantile
from ullage.stats.memory import course

SLOWER: Final = 1.05
LINES: Final = (0.0, 0.03)
CAUGHT: Final = 0.9
BLOCKS: Final = (6, 12, 20)
PIPELINES: Final = (
    *(Pipeline(1, blocks) for blocks in BLOCKS),
    *(Pipeline(3, blocks) for blocks in BLOCKS),
    *(Pipeline(1, blocks, reference=True) for blocks in BLOCKS),
    *(Pipeline(0, blocks) for blocks in (*BLOCKS, 40)),
    Pipeline(0, 20, extend_s=3600.0),
)
WHITE_NAME: Final = f"white, {WHITE:.0%}".replace("%", " %")
OTHER: Final = {"cpu": "memory"}
"""The program that stands beside it as a reference: `cpu`, beside itself another."""
MOST: Final = 100_000


@dataclass(frozen=True)
class Tried:
    """Pipelines of one kind, in one noise, at one line."""

    noise: str
    pipeline: Pipeline
    line: float
    same: Mapping[str, Share]
    """Outcome → share of the pipelines in which nothing changed."""
    slow: Mapping[str, Share]
    """The same of those whose program became `SLOWER`."""
    caught: Mapping[str, Share]
    """Program → share of its regressions that were caught."""
    same_s: float
    slow_s: float
    """Mean seconds of the new run."""


@dataclass(frozen=True)
class Task:
    """One kind of pipeline in one noise, at all lines; for a process."""

    noise: Trace | None
    """None: white noise."""
    pipeline: Pipeline
    count: int
    seed: int

    def __call__(self) -> list[Tried]:
        """All lines judge the same pipelines, unchanged and slower."""
        name = WHITE_NAME if self.noise is None else self.noise.name
        rng = np.random.default_rng([self.seed, *f"{name} {self.pipeline}".encode()])
        same: dict[float, list[Answer]] = {line: [] for line in LINES}
        slow: dict[float, list[tuple[str, Answer]]] = {line: [] for line in LINES}
        for number in range(self.count):
            program, noise, starts = self._drawn(rng, number)
            runs = Runs(self.pipeline, noise, starts, number)
            for line in LINES:
                same[line].append(answer(runs, slower=1.0, line=line))
                slow[line].append((program, answer(runs, slower=SLOWER, line=line)))
        return [_tried(name, self.pipeline, line, same[line], slow[line]) for line in LINES]

    def _drawn(self, rng: Rng, number: int) -> tuple[str, Noise, list[int]]:
        """A program, taken in turn, and where its runs stand.

        One run that is longer than the recording is made of segments of it, as `traces.segments`
        does.
        """
        rows = self.pipeline.rows
        if self.noise is None:
            program, beside = WHITE * rng.standard_normal((2, rows))
            return "any", Noise(program, beside), stretches(rng, rows, self.pipeline)
        columns = list(self.noise.columns)
        name = columns[number % len(columns)]
        column = self.noise.columns[name]
        if rows > self.noise.turns:
            assert not self.pipeline.baselines
            series = segments(column, rng, 1, rows)[0]
            return name, Noise(series, series), [0]
        noise = Noise(column, self.noise.columns[OTHER.get(name, columns[0])])
        return name, noise, stretches(rng, self.noise.turns, self.pipeline)


def _tried(
    noise: str,
    pipeline: Pipeline,
    line: float,
    same: Sequence[Answer],
    slow: Sequence[tuple[str, Answer]],
) -> Tried:
    return Tried(
        noise=noise,
        pipeline=pipeline,
        line=line,
        same=_shares(same),
        slow=_shares([verdict for _, verdict in slow]),
        caught={
            program: _shares([s for p, s in slow if p == program])["worse"]
            for program in dict.fromkeys(program for program, _ in slow)
        },
        same_s=fmean(verdict.seconds for verdict in same),
        slow_s=fmean(verdict.seconds for _, verdict in slow),
    )


def _shares(answers: Sequence[Answer]) -> dict[str, Share]:
    outcomes = Counter(verdict.outcome for verdict in answers)
    return {
        outcome: Share(outcomes[outcome], len(answers))
        for outcome in ("worse", "inconclusive", "within")
    }


@dataclass(frozen=True)
class Need:
    """What old and new in one run need of one program's noise, by a formula."""

    noise: str
    program: str
    deviation: float
    """Of the log-ratio of a block."""
    variance: float
    """Of its mean, as a multiple of what independent blocks would have."""
    blocks: Mapping[float, int | None]
    """Line → blocks that catch `SLOWER` with a chance of 90 % at the only look; None: over MOST."""


def needs(trace: Trace, seed: int) -> list[Need]:
    """Of the whole recording, in blocks of four trials, old and new in turn by chance."""
    rng = np.random.default_rng([seed, *trace.name.encode()])
    rows = []
    for name, column in trace.columns.items():
        ratios = _ratios(column, rng)
        memory = course(ratios)
        variance = 1.0 if memory is None else max(1.0, memory.variance)
        deviation = float(ratios.std(ddof=1))
        spread = deviation * math.sqrt(variance)
        rows.append(Need(trace.name, name, deviation, variance, _blocks(spread)))
    return rows


def _ratios(column: Floats, rng: Rng) -> Floats:
    """New and old back to back, twice each."""
    blocks = column[: column.size // 4 * 4].reshape(-1, 2, 2).mean(axis=2)
    signs = rng.choice([-1.0, 1.0], len(blocks))
    ratios: Floats = signs * (blocks[:, 1] - blocks[:, 0])
    return ratios


def _blocks(spread: float) -> dict[float, int | None]:
    return {line: _enough(spread, math.log(SLOWER) - math.log1p(line)) for line in LINES}


def _enough(spread: float, beyond: float) -> int | None:
    """The fewest whose t test finds what lies so far beyond the line with a chance of `CAUGHT`."""
    n = 6
    while n < MOST:
        least = t_quantile(1 - WRONG_FAIL, n - 1) + t_quantile(CAUGHT, n - 1)
        if least * spread / math.sqrt(n) <= beyond:
            return n
        n = max(n + 1, round(n * 1.01))
    return None
