"""What a plan would do, without doing it: cells, order and time."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.markup import escape

from ullage import schedule
from ullage.console import stdout
from ullage.estimate import Estimate, History, estimate
from ullage.matrix import Matrix
from ullage.plan import Plan
from ullage.quantities import format_seconds


def show(plan: Plan, matrix: Matrix, *, as_json: bool) -> None:
    """Print the cells, the order of the first block and the estimated time."""
    expected = estimate(plan, matrix, History())
    seed = plan.seed or 0
    environments = [environment.key for environment in matrix.environments]
    workloads = [load.key for load in matrix.loads]
    order = schedule.block(seed, 0, environments, workloads)
    if as_json:
        json.dump(_as_dict(expected, environments, workloads, order, plan), sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    stdout.print(f"{len(environments)} environments × {len(workloads)} workloads")
    stdout.print(f"  environments: {escape(', '.join(environments))}", soft_wrap=True)
    for load in matrix.loads:
        stdout.print(f"  {escape(load.key)}: {escape(load.workload.title(load.parameters))}")
    drawn = "" if plan.seed is not None else " (the seed is drawn at the start; this is seed 0's)"
    stdout.print(f"order of the first block{drawn}:")
    for slot in order:
        stdout.print(f"  {slot.order + 1:3} {escape(slot.workload)} in {escape(slot.environment)}")
    stdout.print(_time(expected, plan))


def _time(expected: Estimate, plan: Plan) -> str:
    source = "from earlier runs here" if expected.learned else "nominal; it learns from each run"
    return (
        f"time: {format_seconds(expected.least_s)} for {plan.blocks.min} blocks, at most "
        f"{format_seconds(expected.most_s)} for {plan.blocks.max}; {source}"
    )


def _as_dict(
    expected: Estimate,
    environments: list[str],
    workloads: list[str],
    order: tuple[schedule.Slot, ...],
    plan: Plan,
) -> dict[str, Any]:
    return {
        "environments": environments,
        "workloads": workloads,
        "seed": plan.seed,
        "order": [[slot.workload, slot.environment] for slot in order],
        "provision_s": expected.provision_s,
        "block_s": expected.block_s,
        "least_s": expected.least_s,
        "most_s": expected.most_s,
        "learned": expected.learned,
    }
