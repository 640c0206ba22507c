"""A campaign as the run folder that it would have left, in memory: what `ullage show` reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.statistics.design import AGAIN, BASELINE, CONFIDENCE
from ullage.plan import schedule
from ullage.runs.events import Event, Finished, Reason, Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import (
    EnvironmentRecord,
    Metric,
    Price,
    Resolved,
    Resource,
    WorkloadRecord,
)
from ullage.stats import Floats

Bools = NDArray[np.bool_]
SECOND: Final = 1_000_000_000
RESOURCES: Final[tuple[Resource, ...]] = ("cpu", "memory", "disk", "network")
PRICE: Final = Price(per_hour=3600.0, currency="EUR")
"""A second costs one, so a bill is a time."""
SEEDS: Final = 50
"""Different orders; campaigns take them in turn."""


@dataclass(frozen=True)
class Layout:
    """What a campaign compares; the baseline and its second copy run as well."""

    environments: int = 2
    workloads: int = 3
    blocks: int = 12
    margin: float = 0.02

    @property
    def family(self) -> int:
        """Comparisons that are corrected together."""
        return self.environments * self.workloads

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the figures: environments (the baseline and its copy first), workloads, blocks."""
        return self.environments + 2, self.workloads, self.blocks


@lru_cache(maxsize=64)
def resolved(layout: Layout) -> Resolved:
    """The plan of such a run."""
    environments = (
        EnvironmentRecord(key=BASELINE, label=BASELINE, provider="native", price=PRICE),
        EnvironmentRecord(key=AGAIN, label=AGAIN, provider="native", again_of=BASELINE),
        *(
            EnvironmentRecord(key=f"e{i}", label=f"e{i}", provider="oci", price=PRICE)
            for i in range(layout.environments)
        ),
    )
    metric = Metric(name="time", unit="s", better="lower", description="Time.", primary=True)
    workloads = tuple(
        WorkloadRecord(
            key=f"w{i}",
            workload="work",
            resource=RESOURCES[i % len(RESOURCES)],
            title=f"w{i}",
            parameters={},
            metrics=(metric,),
            duration_s=1.0,
        )
        for i in range(layout.workloads)
    )
    return Resolved(
        ullage="0",
        run="campaign",
        tag="ull-00000000",
        name="campaign",
        seed=1,
        baseline=BASELINE,
        confidence=CONFIDENCE,
        margin=layout.margin,
        resources={},
        blocks={"min": layout.blocks, "max": layout.blocks, "until": None, "budget": None},
        environments=environments,
        workloads=workloads,
    )


@lru_cache(maxsize=64 * SEEDS)
def _templates(layout: Layout, seed: int) -> tuple[tuple[int, int, int, Trial], ...]:
    """(Environment, workload, block) of each trial, and the trial without its figure."""
    plan = resolved(layout)
    environments = [e.key for e in plan.environments]
    workloads = [w.key for w in plan.workloads]
    trials = []
    for block in range(layout.blocks):
        for slot in schedule.block(seed, block, environments, workloads):
            began = (block * len(environments) * len(workloads) + slot.order + 1) * SECOND
            trial = Trial(
                trial=f"b{block:03d}-t{slot.order:03d}",
                block=block,
                order=slot.order,
                position=slot.position,
                environment=slot.environment,
                workload=slot.workload,
                status="ok",
                epoch_ns=began,
                start_ns=began,
                end_ns=began + SECOND,
                metrics={},
            )
            place = environments.index(slot.environment), workloads.index(slot.workload), block
            trials.append((*place, trial))
    return tuple(trials)


def folder(layout: Layout, times: Floats, lost: Bools | None, seed: int) -> RunFolder:
    """The run with these figures, of `layout.shape`; lost: trials without one."""
    events: list[Event] = []
    for environment, workload, block, trial in _templates(layout, seed % SEEDS):
        at = environment, workload, block
        if lost is not None and lost[at]:
            failed = {"status": "failed", "reason": Reason(code="timeout", message="lost")}
            events.append(trial.model_copy(update=failed))
        else:
            events.append(trial.model_copy(update={"metrics": {"time": float(times[at])}}))
    last = events[-1]
    assert isinstance(last, Trial)
    events.append(Finished(epoch_ns=last.epoch_ns, seconds=1.0, reason="blocks"))
    return RunFolder(Path("/nonexistent"), resolved(layout), tuple(events), truncated=False)
