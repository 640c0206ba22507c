"""Runs the trials: through the real engine, with matrices made by hand."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.progress import FaultsOnly
from benchmarks.statistics.injection.provider import Paced, PacedOptions
from benchmarks.statistics.injection.recording import About, Fixed, Recording
from benchmarks.statistics.injection.sizes import CAMPAIGN, Size
from benchmarks.statistics.injection.workloads import (
    LOADS,
    PERCENTS,
    STEP,
    Scaled,
    ScaledParameters,
)
from ullage.common.quantities import Bytes
from ullage.engine.engine import Engine
from ullage.environments.base import Provider
from ullage.environments.placement import Resources
from ullage.host import facts
from ullage.plan.factors import AGAIN
from ullage.plan.matrix import Case, Environment, Matrix
from ullage.plan.schema import Blocks, EnvironmentPlan, Plan, WorkloadPlan
from ullage.runs import writer
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder

BASELINE: Final = "native"
RESOURCES: Final = Resources(cpus=1, memory=Bytes(256 << 20))
PILOT_BLOCKS = 5
TINY: Final = "-tiny"
SLOW: Final = 105
"""Percent of the slowed stretches of a sequence."""


def environment(
    key: str, provider: Provider, again_of: str | None = None, resources: Resources = RESOURCES
) -> Environment:
    """One of a matrix."""
    return Environment(
        key=key,
        name=again_of or key,
        provider=provider,
        factors={},
        resources=resources,
        instances=1,
        again_of=again_of,
    )


def paced(key: str, percent: int = 100, again_of: str | None = None) -> Environment:
    """A native one with a factor; the baseline writes the files that all share."""
    options = PacedOptions(percent=percent, prepares=key == BASELINE)
    return environment(key, Paced(options), again_of)


def baseline() -> tuple[Environment, ...]:
    """The baseline, and its second copy."""
    return paced(BASELINE), paced(BASELINE + AGAIN, again_of=BASELINE)


def factor_key(percent: int) -> str:
    """`x1.05`."""
    return f"x{percent / 100:.2f}"


def injected() -> tuple[Environment, ...]:
    """The baseline, its copy, and one environment for each factor."""
    return (*baseline(), *(paced(factor_key(percent), percent) for percent in PERCENTS))


def case(workload: Scaled, work: int, key: str | None = None) -> Case:
    """A workload with its nominal amount."""
    return Case(
        key=key or workload.name,
        name=workload.name,
        workload=workload,
        parameters=ScaledParameters(work=work),
        factors={},
    )


def percents(environments: Sequence[Environment]) -> dict[str, int]:
    """Environment → its percent."""
    return {
        environment.key: environment.provider.options.percent
        for environment in environments
        if isinstance(environment.provider.options, PacedOptions)
    }


@dataclass
class Session:
    """One call: what to run, where, and what was recorded."""

    size: Size
    runs: Path
    """Where the engine's run folders go."""
    recording: Recording
    saved: Callable[[Recording], None] = lambda _: None
    """Called whenever a run has been added."""

    def run(
        self,
        name: str,
        environments: Sequence[Environment],
        cases: Sequence[Case],
        blocks: int,
        allow: Sequence[str] = (),
    ) -> RunFolder:
        """One run of the engine."""
        plan = Plan.model_validate(
            {
                "name": name.replace("/", "-"),
                "baseline": BASELINE,
                "resources": RESOURCES,
                "image": "host",
                "environments": {e.key: EnvironmentPlan(provider="native") for e in environments},
                "workloads": [WorkloadPlan(name=case.key) for case in cases],
                "blocks": Blocks(min=blocks, max=blocks),
                "allow": list(allow),
            }
        )
        matrix = Matrix(BASELINE, tuple(environments), tuple(cases))
        folder = writer.new_folder(self.runs, plan.name)
        asyncio.run(Engine(plan, matrix, folder, FaultsOnly()).run())
        return RunFolder.open(folder)

    def cases(self, times: int = 1) -> dict[str, Case]:
        """All workloads, with so many times their nominal work."""
        return {w.name: case(w, times * self.recording.about.works[w.name]) for w in LOADS}

    def rounds(self) -> None:
        """Blocks and sequences in turn, so that both orders meet the same hour."""
        for number in range(self.size.rounds):
            self._blocks(f"blocks-{number}")
            for case in self.cases().values():
                self._sequence(f"{case.key}-{number}", case)
            print(f"round {number + 1} of {self.size.rounds} is done", file=sys.stderr)

    def _blocks(self, name: str) -> None:
        environments = injected()
        folder = self.run(name, environments, list(self.cases().values()), self.size.blocks)
        self.recording.add("blocks", name, folder, percents(environments))
        self.saved(self.recording)

    def _sequence(self, name: str, case: Case) -> None:
        """Stretches of ×1.00 and ×1.05 in turn, each with a new instance, as other tools do."""
        for number in range(self.size.stretches):
            # Whatever its factor is, it is the only environment of its run.
            alone = (paced(BASELINE, SLOW if number % 2 else 100),)
            folder = self.run(f"sequence-{name}-{number}", alone, [case], self.size.stretch)
            self.recording.add("sequence", f"{name}/{number}", folder, percents(alone))
        self.saved(self.recording)


def begin(size: Size, runs: Path, saved: Callable[[Recording], None]) -> Session:
    """A short run first: how much work makes a trial of the wanted length, and what is fixed."""
    units = {workload.name: workload.unit for workload in LOADS}
    about = About(size=size.name, block=CAMPAIGN, works={}, units=units, host=facts.facts())
    session = Session(size, runs, Recording(about), saved)
    cases = [case(w, w.first_guess) for w in LOADS]
    cases += [case(w, STEP, w.name + TINY) for w in LOADS]
    trials = session.run("pilot", [paced(BASELINE)], cases, PILOT_BLOCKS).trials
    for workload in LOADS:
        guessed, tiny = (_seconds(trials, workload.name + suffix) for suffix in ("", TINY))
        steps = size.trial_s * workload.first_guess / guessed / STEP
        about.works[workload.name] = max(STEP, round(steps) * STEP)
        per_unit = (guessed - tiny) / (workload.first_guess - STEP)
        fixed = tiny - STEP * per_unit
        about.fixed[workload.name] = Fixed(seconds=fixed, trial_seconds=size.trial_s)
    return session


def _seconds(trials: Sequence[Trial], workload: str) -> float:
    metrics = [t.metrics.get("seconds") for t in trials if t.workload == workload]
    values = [value for value in metrics if isinstance(value, float)]
    if not values:
        raise RuntimeError(f"no trial of {workload} went well; see above")
    return median(values)
