"""A run for a gate: gone on with, twice as long each time, while nothing is shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ullage.analysis.gate import Gate, pair_keys
from ullage.engine import resolved
from ullage.engine.progress import Progress
from ullage.experiments.run import run_plan
from ullage.plan.matrix import Matrix
from ullage.plan.schema import Plan
from ullage.runs.reader import RunFolder

MOST_LOOKS: Final = 8
"""Each has twice the blocks of the one before."""
Judged = Callable[[RunFolder, int], Gate]
"""Of a run, at the k-th look; 0: the only one."""


def other_work(cells: Matrix, baseline: RunFolder) -> bool:
    """Whether a plan is of other work than a run was: told before anything is started."""
    planned = [(case.key, case.workload.name, resolved.parameters(case)) for case in cells.cases]
    recorded = [(w.key, w.workload, w.parameters) for w in baseline.resolved.workloads]
    return planned != recorded or [(e.key, e.provider.name) for e in cells.environments] != [
        (e.key, e.provider) for e in baseline.resolved.environments
    ]


def named_pairs(cells: Matrix, pairs: Mapping[str, str], plan: Path) -> None:
    """GATE_NO_PAIR for a name that the plan does not have: told before anything is started."""
    pair_keys([(case.key, case.name) for case in cells.cases], pairs, plan)


def extended(
    plan: Plan,
    cells: Matrix,
    folder: Path,
    progress: Progress,
    *,
    judged: Judged,
    within_s: float,
) -> Gate | None:
    """What the run in `folder` shows; it goes on until it shows something or the time is over.

    within_s: of all that is added. None: it was interrupted.
    """

    def more(run: RunFolder, most: int, left_s: float) -> RunFolder | None:
        longer = {"max": most, "budget": run.spent_s + left_s}
        blocks = plan.blocks.model_copy(update=longer)
        going_on = plan.model_copy(update={"blocks": blocks})
        if run_plan(going_on, cells, folder, progress, resume=True) is None:
            return None
        return RunFolder.open(folder)

    return until_shown(RunFolder.open(folder), judged, more, within_s)


def until_shown(
    run: RunFolder,
    judged: Judged,
    more: Callable[[RunFolder, int, float], RunFolder | None],
    within_s: float,
    now: Callable[[], float] = time.monotonic,
) -> Gate | None:
    """Look after look, each at twice the blocks.

    more: the run with up to so many blocks in all, if they end within the seconds; None: it was
    interrupted, as is then all of this.
    """
    ends = now() + within_s
    gate = judged(run, 1 if within_s > 0 else 0)
    for look in range(2, MOST_LOOKS + 1):
        left_s = ends - now()
        undecided = [f for f in gate.figures if f.outcome == "inconclusive"]
        if gate.outcome != "inconclusive" or left_s <= 0:
            break
        if all(figure.baseline_limits for figure in undecided):
            break
        blocks = len(run.complete_blocks)
        longer = more(run, 2 * max(1, blocks), left_s)
        if longer is None:
            return None
        if len(longer.complete_blocks) == blocks:
            break  # what is left is too short for one more
        run = longer
        gate = judged(run, look)
    return gate
