"""A study's plan for the clock: what `ullage clock` measures, one after another, and kept.

```yaml
name: elastic-clock-time-quick
measure: [check, cost, scaling]
quick: true
```
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ullage.common import sums
from ullage.common.fields import Fields, checked
from ullage.common.files import put
from ullage.common.signals import orderly
from ullage.common.yamlfile import read
from ullage.experiments.clock import check as checking
from ullage.experiments.clock import cost, scaling
from ullage.experiments.clock.lab import Bar
from ullage.experiments.clock.ntp import report as disciplining
from ullage.experiments.clock.ntp.outcome import NtpOptions, PollingInterval
from ullage.experiments.clock.ocean import report as sailing
from ullage.experiments.clock.ocean.outcome import Noise, OceanOptions, Ranks
from ullage.experiments.studies.clockfile import FILE, ClockRecord, is_one
from ullage.host import clock
from ullage.runs import writer
from ullage.runs.records import PLAN

ClockCommand = Literal["check", "cost", "scaling", "ntp", "ocean"]


class ClockPlan(Fields):
    name: str = Field(description="becomes part of the folder's name")
    measure: Annotated[tuple[ClockCommand, ...], Field(min_length=1)] = Field(
        description="commands of `ullage clock`"
    )
    quick: bool = Field(False, description="each in its short form")
    intervals: Annotated[tuple[PollingInterval, ...], Field(min_length=1)] = Field(
        (0.0,), description="of `ntp`: polling intervals in seconds"
    )
    observe_s: float = Field(
        150.0,
        ge=20,
        le=14_400,
        allow_inf_nan=False,
        description="of `ntp`: seconds at each of them",
    )
    ranks: Annotated[tuple[Ranks, ...], Field(min_length=1, max_length=16)] = Field(
        (2,), description="of `ocean`: numbers of MPI processes"
    )
    runs: int = Field(
        10, ge=2, le=1000, description="of `ocean`: with each clock and number of processes"
    )
    steps: int = Field(200, ge=2, le=1_000_000, description="of `ocean`: of the model")
    poll: int = Field(0, ge=0, le=10, description="of `ocean`: chrony polls every 2^poll seconds")
    noise: tuple[Noise, ...] = Field(
        (), max_length=16, description="of `ocean`: daemons' periods and bursts, µs"
    )

    def ocean(self) -> OceanOptions:
        """What the ocean experiment is asked."""
        return OceanOptions(
            ranks=self.ranks, runs=self.runs, steps=self.steps, poll=self.poll, noise=self.noise
        )


def load(file: Path) -> ClockPlan:
    """Read and check a plan; a fault names its line."""
    document = read(file)
    return checked(ClockPlan, document.data, document, ())


def check(file: Path) -> None:
    """Raise what is wrong with the plan, with this host's clock, or what the plan lacks here.

    CLOCK_NOT_BUILT, HOST_MISSING, HOST_NEEDS_ROOT, PROGRAM_MISSING among others.
    """
    plan = load(file)
    clock.check_distortion()
    clock.require()
    if "ntp" in plan.measure:
        disciplining.check()
    if "ocean" in plan.measure:
        sailing.check(plan.ocean())


def run(folder: Path) -> None:
    """Measure what the plan in a folder says, unless that was done; as `ullage clock` raises."""
    if is_one(folder):
        return
    plan = load(folder / PLAN)
    with orderly(), Bar() as bar:
        record = ClockRecord(
            name=plan.name,
            check=checking.measure(bar, quick=plan.quick) if "check" in plan.measure else None,
            cost=cost.measure(bar, quick=plan.quick) if "cost" in plan.measure else None,
            scaling=scaling.measure(bar, quick=plan.quick, processes=None)
            if "scaling" in plan.measure
            else None,
            ntp=disciplining.measure(
                bar, NtpOptions(intervals_s=plan.intervals, observe_s=plan.observe_s)
            )
            if "ntp" in plan.measure
            else None,
            ocean=sailing.measure(bar, plan.ocean()) if "ocean" in plan.measure else None,
        )
    with writer.disk_full_as_error(folder):
        put(folder / FILE, sums.sealed(record.model_dump_json(indent=1).encode()))
