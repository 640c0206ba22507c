"""A pipeline in memory: its runs cut from a recording, and the gate's answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


def answer(
    pipeline: Pipeline,
    noise: Noise,
    starts: Sequence[int],
    *,
    slower: float,
    line: float,
    seed: int,
) -> Answer:
    """What the gate says of a program that has become so many times as slow."""

    def run(number: int, blocks: int) -> RunFolder:
        slow = slower if number == pipeline.baselines else 1.0
        rows = Noise(noise.program[starts[number] :], noise.reference[starts[number] :])
        return folder(pipeline, rows, blocks, slower=slow, seed=seed + number)

    before = [run(number, pipeline.blocks) for number in range(pipeline.baselines)]
    spent_s = 0.0

    def judged(new: RunFolder, look: int) -> Gate:
        if not before:
            return judge_pairs(new, {NEW: OLD}, line, look=look)
        reference = REFERENCE if pipeline.reference else None
        return judge(new, before, line, reference=reference, look=look)

    def more(new: RunFolder, most: int, left_s: float) -> RunFolder:
        nonlocal spent_s
        block_s = pipeline.per_block * TRIAL_S
        blocks = len(new.complete_blocks)
        added = min(most - blocks, int(left_s / block_s))
        spent_s += added * block_s
        return run(pipeline.baselines, blocks + added)

    first = run(pipeline.baselines, pipeline.blocks)
    gate = until_shown(first, judged, more, pipeline.extend_s, now=lambda: spent_s)
    assert gate is not None
    return Answer(gate.outcome, pipeline.blocks * pipeline.per_block * TRIAL_S + spent_s)


def folder(pipeline: Pipeline, noise: Noise, blocks: int, *, slower: float, seed: int) -> RunFolder:
    """The run that the first rows of this noise would have left."""
    events = []
    for block in range(blocks):
        for trial in _block(pipeline.workloads, seed % SEEDS, block):
            row = block * pipeline.per_block + trial.order
            column = noise.reference if trial.workload == REFERENCE else noise.program
            seconds = float(np.exp(column[row])) * (slower if trial.workload == NEW else 1.0)
            events.append(trial.model_copy(update={"metrics": {"seconds": seconds}}))
    resolved = _resolved(pipeline.workloads)
    return RunFolder(Path("/nonexistent"), resolved, tuple(events), truncated=False)


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
