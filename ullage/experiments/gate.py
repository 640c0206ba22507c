"""A run for a gate: gone on with, twice as long each time, while nothing is shown."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ullage.analysis.gate import Gate
from ullage.engine import resolved
from ullage.engine.progress import Progress
from ullage.experiments.run import run_plan
from ullage.plan.matrix import Matrix
from ullage.plan.schema import Plan
from ullage.runs.reader import RunFolder

MOST_LOOKS: Final = 8
"""Each has twice the blocks of the one before."""


def other_work(cells: Matrix, baseline: RunFolder) -> bool:
    """Whether a plan is of other work than a run was: told before anything is started."""
    planned = [(case.key, case.workload.name, resolved.parameters(case)) for case in cells.cases]
    recorded = [(w.key, w.workload, w.parameters) for w in baseline.resolved.workloads]
    return planned != recorded or [(e.key, e.provider.name) for e in cells.environments] != [
        (e.key, e.provider) for e in baseline.resolved.environments
    ]


def extended(
    plan: Plan,
    cells: Matrix,
    folder: Path,
    progress: Progress,
    *,
    judged: Callable[[RunFolder, int], Gate],
    within_s: float,
) -> Gate | None:
    """What the run in `folder` shows; it goes on until it shows something or the time is over.

    judged: of a run, at the k-th look; 0: the only one. within_s: of all that is added. None: it
    was interrupted.
    """
    ends = time.monotonic() + within_s
    gate = judged(RunFolder.open(folder), 1 if within_s > 0 else 0)
    for look in range(2, MOST_LOOKS + 1):
        left_s = ends - time.monotonic()
        undecided = [f for f in gate.figures if f.outcome == "inconclusive"]
        if gate.outcome != "inconclusive" or left_s <= 0:
            break
        if all(figure.baseline_limits for figure in undecided):
            break
        run = RunFolder.open(folder)
        longer = {
            "max": 2 * max(1, len(run.complete_blocks)),
            "budget": run.spent_s + left_s,
        }
        blocks = plan.blocks.model_copy(update=longer)
        more = plan.model_copy(update={"blocks": blocks})
        if run_plan(more, cells, folder, progress, resume=True) is None:
            return None
        gate = judged(RunFolder.open(folder), look)
    return gate
