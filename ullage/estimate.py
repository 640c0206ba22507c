"""How long a run will take: nominal lengths at first, then what runs on this host really took."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ullage.journal import put
from ullage.matrix import Matrix
from ullage.places import cache_dir
from ullage.plan import Plan
from ullage.runs import Trial

TRIAL_OVERHEAD_S = 0.05
LEARN = 0.3
"""Weight of the newest observation in the moving average."""


@dataclass(frozen=True)
class Estimate:
    """Seconds, for a whole plan."""

    provision_s: float
    block_s: float
    blocks_min: int
    blocks_max: int
    budget_s: float | None
    learned: bool
    """True when every cell's time comes from earlier runs on this host."""

    @property
    def least_s(self) -> float:
        """With the fewest blocks; they run whatever the budget is."""
        return self._with(self.blocks_min)

    @property
    def most_s(self) -> float:
        """With the most blocks, or at the end of the budget if that comes first."""
        most = self._with(self.blocks_max)
        return max(self.least_s, min(most, self.budget_s or most))

    def _with(self, blocks: int) -> float:
        return self.provision_s + blocks * self.block_s


class History:
    """Seconds that things took on this host, kept in the cache directory."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file or cache_dir() / "history.json"
        try:
            found = json.loads(self.file.read_text())
        except (OSError, ValueError):
            found = {}
        self.seconds: dict[str, float] = {
            str(k): float(v)
            for k, v in (found.items() if isinstance(found, dict) else ())
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
    """History key of one trial."""
    return f"trial/{provider}/{workload}"


def provision_key(provider: str) -> str:
    """History key of making one environment."""
    return f"provision/{provider}"


def estimate(plan: Plan, matrix: Matrix, history: History) -> Estimate:
    """Add up what each cell is expected to take."""
    block_s, learned = 0.0, True
    for load in matrix.loads:
        nominal = load.workload.duration_s(load.parameters) + TRIAL_OVERHEAD_S
        for environment in matrix.environments:
            seen = history.seconds.get(trial_key(environment.provider.name, load.key))
            learned &= seen is not None
            block_s += nominal if seen is None else seen
    provision_s = max(
        history.seconds.get(provision_key(provider.name), provider.provision_s)
        for provider in {environment.provider for environment in matrix.environments}
    )
    return Estimate(
        provision_s, block_s, plan.blocks.min, plan.blocks.max, plan.blocks.budget, learned
    )


def learn_from(history: History, providers: dict[str, str], trials: Iterable[Trial]) -> None:
    """Learn from the trials that worked; `providers` maps environment → provider."""
    for trial in trials:
        if trial.status == "ok":
            seconds = (trial.end_ns - trial.start_ns) / 1e9 + trial.overhead_s
            history.learn(trial_key(providers[trial.environment], trial.workload), seconds)
