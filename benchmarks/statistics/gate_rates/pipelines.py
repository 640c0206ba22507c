"""A pipeline in memory: its runs cut from a recording, and the gate's answer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.statistics.design import AGAIN, BASELINE, CONFIDENCE, MARGIN
from benchmarks.statistics.noise import Rng
from ullage.analysis.gate import Gate, judge, judge_pairs
from ullage.experiments.gate import until_shown
from ullage.plan import schedule
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import EnvironmentRecord, Metric, Resolved, WorkloadRecord
from ullage.stats import Floats

TRIAL_S: Final = 4.4
"""From one row of the recordings to the next."""
USUAL_S: Final = 600.0
"""`--extend 10m`, its default."""
SEEDS: Final = 50
"""Different orders; pipelines take them in turn."""
NEW, OLD, REFERENCE = "new", "old", "reference"
SECOND: Final = 1_000_000_000


@dataclass(frozen=True)
class Pipeline:
    """How a program is watched."""

    baselines: int
    """Runs of before, as long as the new one; 0: the old program runs beside the new one."""
    blocks: int
    """Of each run; the new one may be extended."""
    reference: bool = False
    """Another program, that nobody touches, runs in each block."""
    extend_s: float = USUAL_S
    """`--extend`."""

    @property
    def name(self) -> str:
        if not self.baselines:
            return "old and new in one run"
        runs = "1 baseline run" if self.baselines == 1 else f"{self.baselines} baseline runs"
        return f"{runs}, a reference" if self.reference else runs

    @property
    def workloads(self) -> tuple[str, ...]:
        if not self.baselines:
            return OLD, NEW
        return (NEW, REFERENCE) if self.reference else (NEW,)

    @property
    def per_block(self) -> int:
        """Trials: the baseline environment runs twice."""
        return 2 * len(self.workloads)

    @property
    def rows(self) -> int:
        """Of a recording that it takes at most."""
        return (self.baselines + 1) * self.blocks * self.per_block + self.extra

    @property
    def extra(self) -> int:
        """Trials that extending may add."""
        return int(self.extend_s / TRIAL_S)


@dataclass(frozen=True)
class Answer:
    """What a pipeline came to."""

    outcome: str
    seconds: float
    """Of the new run, all of its extensions counted."""


@dataclass(frozen=True)
class Noise:
    """Log times of the program, and of one that stands beside it, trial by trial."""

    program: Floats
    reference: Floats


def stretches(rng: Rng, turns: int, pipeline: Pipeline) -> list[int]:
    """Where each run begins, the new one last: in order of time, gaps by chance, none overlap."""
    one = pipeline.blocks * pipeline.per_block
    gaps = np.sort(rng.integers(0, turns - pipeline.rows + 1, pipeline.baselines + 1))
    return [int(gap) + i * one for i, gap in enumerate(gaps)]


@dataclass
class Runs:
    """The runs of one pipeline in one noise, made as far as they are asked for."""

    pipeline: Pipeline
    noise: Noise
    starts: Sequence[int]
    seed: int
    _trials_by_run: dict[tuple[int, float], list[Trial]] = field(default_factory=dict)

    def folder(self, number: int, blocks: int, slower: float = 1.0) -> RunFolder:
        """What the run of that number would have left of its first blocks."""
        trials = self._trials_by_run.setdefault((number, slower), [])
        per = self.pipeline.per_block
        for block in range(len(trials) // per, blocks):
            trials += self._block(number, block, slower)
        resolved = _resolved(self.pipeline.workloads)
        events = tuple(trials[: blocks * per])
        return RunFolder(Path("/nonexistent"), resolved, events, truncated=False)

    def _block(self, number: int, block: int, slower: float) -> Iterator[Trial]:
        pipeline = self.pipeline
        first = self.starts[number] + block * pipeline.per_block
        for trial in _block(pipeline.workloads, (self.seed + number) % SEEDS, block):
            column = self.noise.reference if trial.workload == REFERENCE else self.noise.program
            slow = slower if trial.workload == NEW else 1.0
            seconds = math.exp(column[first + trial.order]) * slow
            yield trial.model_copy(update={"metrics": {"seconds": seconds}})


def answer(runs: Runs, *, slower: float, line: float) -> Answer:
    """What the gate says of a program that has become so many times as slow."""
    pipeline = runs.pipeline
    before = [runs.folder(number, pipeline.blocks) for number in range(pipeline.baselines)]
    block_s, spent_s = pipeline.per_block * TRIAL_S, 0.0

    def judged(new: RunFolder, look: int) -> Gate:
        if not before:
            return judge_pairs(new, {NEW: OLD}, line, look=look)
        reference = REFERENCE if pipeline.reference else None
        return judge(new, before, line, reference=reference, look=look)

    def more(new: RunFolder, most: int, left_s: float) -> RunFolder:
        nonlocal spent_s
        blocks = len(new.complete_blocks)
        added = min(most - blocks, int(left_s / block_s))
        spent_s += added * block_s
        return runs.folder(pipeline.baselines, blocks + added, slower)

    first = runs.folder(pipeline.baselines, pipeline.blocks, slower)
    gate = until_shown(first, judged, more, pipeline.extend_s, now=lambda: spent_s)
    assert gate is not None
    return Answer(gate.outcome, pipeline.blocks * block_s + spent_s)


@cache
def _block(workloads: tuple[str, ...], seed: int, block: int) -> tuple[Trial, ...]:
    """Its trials without their figures, in the product's order."""
    slots = schedule.block(seed, block, (BASELINE, AGAIN), workloads)
    return tuple(
        Trial(
            trial=slot.trial,
            block=block,
            order=slot.order,
            position=slot.position,
            environment=slot.environment,
            workload=slot.workload,
            status="ok",
            epoch_ns=SECOND,
            start_ns=SECOND,
            end_ns=2 * SECOND,
            metrics={},
        )
        for slot in slots
    )


@cache
def _resolved(workloads: tuple[str, ...]) -> Resolved:
    metric = Metric(name="seconds", unit="s", better="lower", description="Time.", primary=True)
    return Resolved(
        ullage="0",
        run="pipeline",
        tag="ull-00000000",
        name="pipeline",
        seed=1,
        baseline=BASELINE,
        confidence=CONFIDENCE,
        margin=MARGIN,
        resources={},
        blocks={"min": 1, "max": 1, "until": None, "budget": None},
        environments=(
            EnvironmentRecord(key=BASELINE, label=BASELINE, provider="native"),
            EnvironmentRecord(key=AGAIN, label=AGAIN, provider="native", again_of=BASELINE),
        ),
        workloads=tuple(
            WorkloadRecord(
                key=key,
                workload="command",
                resource="other",
                title=key,
                parameters={},
                metrics=(metric,),
                duration_s=1.0,
            )
            for key in workloads
        ),
    )
