"""How long a run will take: nominal lengths at first, then what runs on this host really took."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ullage.common.files import cache_dir, put
from ullage.plan.matrix import Case, Environment, Matrix
from ullage.plan.schema import Plan
from ullage.runs.events import Trial

TRIAL_OVERHEAD_S = 0.05
LEARN = 0.3
"""Weight of the newest observation in the moving average."""


@dataclass(frozen=True)
class TimeEstimate:
    """Seconds, for a whole plan."""

    provision_s: float
    """To make all instances, once."""
    block_s: float
    blocks_min: int
    blocks_max: int
    budget_s: float | None
    learned: bool
    """True when every cell's time comes from earlier runs on this host."""
    blocks_each: int | None = None
    """The instances are made anew after so many blocks; None: they are made once."""

    @property
    def least_s(self) -> float:
        """With the fewest blocks; they run whatever the budget is."""
        return self.seconds(self.blocks_min)

    @property
    def most_s(self) -> float:
        """With the most blocks, or at the end of the budget if that comes first."""
        most = self.seconds(self.blocks_max)
        return max(self.least_s, min(most, self.budget_s or most))

    @property
    def blocks_reached(self) -> int:
        """The most blocks that the plan and its budget allow, in whole generations."""
        allowed = range(self.blocks_min, self.blocks_max + 1, self.blocks_each or 1)
        if self.budget_s is None:
            return allowed[-1]
        return allowed[max(0, bisect_right(allowed, self.budget_s, key=self.seconds) - 1)]

    def seconds(self, blocks: int) -> float:
        """With so many blocks, the making of the instances included."""
        generations = math.ceil(blocks / self.blocks_each) if self.blocks_each else 1
        return max(1, generations) * self.provision_s + blocks * self.block_s


class DurationHistory:
    """Seconds that things took on this host, kept in the cache directory."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file or cache_dir() / "history.json"
        try:
            stored = json.loads(self.file.read_text())
        except (OSError, ValueError):
            stored = {}
        self.seconds: dict[str, float] = {
            str(k): float(v)
            for k, v in (stored.items() if isinstance(stored, dict) else ())
            if isinstance(v, int | float)
        }

    def learn(self, key: str, seconds: float) -> None:
        """Fold one observation into the moving average."""
        old = self.seconds.get(key)
        self.seconds[key] = seconds if old is None else old + LEARN * (seconds - old)

    def save(self) -> None:
        """Write it; a cache that cannot be written is no error."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            put(self.file, json.dumps(self.seconds, indent=1).encode())
        except OSError:
            return


def trial_key(provider: str, workload: str) -> str:
    """History key of a trial that does its work once."""
    return f"trial/{provider}/{workload}"


def provision_key(provider: str) -> str:
    """History key of making one environment."""
    return f"provision/{provider}"


def estimate(plan: Plan, matrix: Matrix, history: DurationHistory) -> TimeEstimate:
    """Add up what each cell is expected to take.

    Both trials of a duet run at the same time, so the pair takes what the slower one takes.
    """
    learned = True

    def trial_s(environment: Environment, case: Case) -> float:
        nonlocal learned
        learned_s = history.seconds.get(trial_key(environment.provider.name, case.key))
        learned &= learned_s is not None
        once = (
            case.workload.duration_s(case.parameters) + TRIAL_OVERHEAD_S
            if learned_s is None
            else learned_s
        )
        return once * plan.repeat.iterations

    block_s = sum(
        max(
            trial_s(matrix.environment(slot.environment), matrix.case(slot.workload))
            for slot in turn
        )
        for turn in matrix.turns(0, 0)
    )
    provision_s = max(
        history.seconds.get(provision_key(provider.name), provider.provision_s)
        for provider in {environment.provider for environment in matrix.environments}
    )
    blocks = plan.blocks
    return TimeEstimate(
        provision_s,
        block_s,
        blocks.min,
        blocks.max,
        blocks.budget,
        learned,
        plan.repeat.instances,
    )


def learn_from(
    history: DurationHistory, providers: dict[str, str], trials: Iterable[Trial]
) -> None:
    """Learn from the trials that worked; `providers` maps environment → provider."""
    for trial in trials:
        if trial.status == "ok":
            seconds = (trial.end_ns - trial.start_ns) / 1e9 + trial.overhead_s
            once = seconds / max(1, len(trial.iterations))
            history.learn(trial_key(providers[trial.environment], trial.workload), once)
