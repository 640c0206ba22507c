"""Recordings with made-up noise and a truth that is known exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.statistics.injection.recording import About, Fixed, Part, Recording, Row
from benchmarks.statistics.injection.session import BASELINE, SLOW, case, injected, percents
from benchmarks.statistics.injection.sizes import CAMPAIGN
from benchmarks.statistics.injection.workloads import LOADS, scaled
from ullage.engine import resolved as records
from ullage.plan import schedule
from ullage.plan.matrix import Case, Environment, Matrix
from ullage.runs.records import Resolved

WORK = 1000
Noise = Callable[[int], np.ndarray]
"""So many log times, one after the other."""


def white(sd: float, seed: int) -> Noise:
    return lambda count: np.random.default_rng([seed, count]).normal(0, sd, count)


def wandering(step: float, sd: float, seed: int) -> Noise:
    """A random walk, and white noise on it: neighbours are alike, the far apart are not."""

    def noise(count: int) -> np.ndarray:
        rng = np.random.default_rng([seed, count])
        return np.cumsum(rng.normal(0, step, count)) + rng.normal(0, sd, count)

    return noise


def resolved(environments: Sequence[Environment], cases: Sequence[Case]) -> Resolved:
    matrix = Matrix(BASELINE, tuple(environments), tuple(cases))
    return Resolved(
        ullage="0",
        run="r",
        tag="u0000000",
        name="made-up",
        seed=1,
        baseline=BASELINE,
        confidence=0.95,
        margin=0.02,
        resources={},
        blocks={"min": 6, "max": 6},
        environments=tuple(records.environment(e, matrix, None) for e in environments),
        workloads=tuple(records.workload(cell) for cell in cases),
    )


class Maker:
    """Makes the rows of one recording; `bias` adds to an environment's log time."""

    def __init__(self, workloads: int = 1, bias: dict[str, float] | None = None) -> None:
        self.cases = [case(w, WORK) for w in LOADS[:workloads]]
        self.bias = bias or {}
        self.now = 0
        about = About(
            size="made up",
            block=CAMPAIGN,
            works={cell.key: WORK for cell in self.cases},
            units={cell.key: "units" for cell in self.cases},
            fixed={cell.key: Fixed(seconds=1e-4, trial_seconds=0.2) for cell in self.cases},
        )
        self.recording = Recording(about)

    def blocks(self, name: str, blocks: int, noise: Noise) -> None:
        environments = injected()
        self.recording.about.resolved[name] = resolved(environments, self.cases)
        keys = [e.key for e in environments]
        truth = percents(environments)
        slots = [
            slot
            for number in range(blocks)
            for slot in schedule.block(7, number, keys, [cell.key for cell in self.cases])
        ]
        for slot, wobble in zip(slots, noise(len(slots)), strict=True):
            log = wobble + self.bias.get(slot.environment, 0.0)
            self._row("blocks", name, slot, truth[slot.environment], log)

    def sequence(self, name: str, stretches: int, stretch: int, noise: Noise) -> None:
        wobbles = iter(noise(stretches * stretch))
        for number in range(stretches):
            for block in range(stretch):
                slot = schedule.block(7, block, [BASELINE], [self.cases[0].key])[0]
                percent = SLOW if number % 2 else 100
                self._row("sequence", f"{name}/{number}", slot, percent, float(next(wobbles)))

    def _row(self, part: Part, run: str, slot: schedule.Slot, percent: int, log: float) -> None:
        seconds = 0.2 * percent / 100 * math.exp(log)
        self.now += round((seconds + 0.02) * 1e9)
        self.recording.rows.append(
            Row(
                part=part,
                run=run,
                block=slot.block,
                order=slot.order,
                position=slot.position,
                environment=slot.environment,
                workload=slot.workload,
                percent=percent,
                nominal=WORK,
                status="ok",
                seconds=seconds,
                work=scaled(WORK, percent),
                epoch_ns=self.now,
                start_ns=self.now,
                end_ns=self.now + round(seconds * 1e9),
            )
        )
