"""What runs in each trial: the command, and a probe of each resource."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from pydantic import Field

from ullage.experiments.profile import probe
from ullage.runs.records import Curve, Metric, Resource, Scalar
from ullage.workloads.base import Context, InvalidTrialError, Output, Parameters, Task, Workload
from ullage.workloads.command import CommandParameters, OwnCommand
from ullage.workloads.output import output_of, quoted

SCRIPT: Final = str(Path(probe.__file__).resolve())
PYTHON: Final = (sys.executable, "-I", "-S")
SECONDS: Final = Metric(
    name="seconds",
    unit="s",
    better="lower",
    primary=True,
    description="Time of a fixed amount of work on the resource, without the start of the probe.",
)


class Profiled(OwnCommand):
    """The command, where its owner calls it, with the owner's environment variables.

    These stand in no file of the run: they may hold secrets.
    """

    def __init__(self, directory: Path, variables: Mapping[str, str]) -> None:
        self.directory, self.variables = directory, variables

    def tasks(self, parameters: CommandParameters, context: Context) -> Sequence[Task]:
        return (
            Task(
                "main",
                tuple(parameters.argv),
                env=self.variables,
                cwd=str(self.directory),
                timeout_s=parameters.timeout_s,
            ),
        )


class ProbeParameters(Parameters):
    arguments: tuple[str, ...] = Field((), description="what the probe is asked for")


class ProbeWorkload(Workload[ProbeParameters]):
    """A fixed amount of work on one resource."""

    packages = ()
    parameters_model = ProbeParameters
    metrics = (SECONDS,)

    def duration_s(self, parameters: ProbeParameters) -> float:
        """They are made to be of this length."""
        return PROBE_S

    def tasks(self, parameters: ProbeParameters, context: Context) -> Sequence[Task]:
        return (Task("main", argv(self.resource, *self.arguments(parameters, context))),)

    def arguments(self, parameters: ProbeParameters, context: Context) -> Sequence[str]:
        return parameters.arguments

    def check(self, parameters: ProbeParameters, outputs: Mapping[str, Output]) -> None:
        _seconds(output_of(outputs, "main").stdout)

    def parse(
        self, parameters: ProbeParameters, outputs: Mapping[str, Output]
    ) -> dict[str, Scalar | Curve]:
        return {SECONDS.name: _seconds(outputs["main"].stdout)}


class CpuProbe(ProbeWorkload):
    """Digests of a block in the nearest cache."""

    name = "probe-cpu"
    resource: ClassVar[Resource] = "cpu"


class MemoryProbe(ProbeWorkload):
    """Copies that no cache holds."""

    name = "probe-memory"
    resource: ClassVar[Resource] = "memory"


class NetworkProbe(ProbeWorkload):
    """Messages of the command's own mean size over the loopback, there and back."""

    name = "probe-network"
    resource: ClassVar[Resource] = "network"


class DiskProbe(ProbeWorkload):
    """Requests of the command's own mean size, past the page cache."""

    name = "probe-disk"
    resource: ClassVar[Resource] = "disk"

    def prepare(self, parameters: ProbeParameters, context: Context) -> Sequence[Task]:
        """Write the file that they go to."""
        return (Task("main", argv("disk-file", _file(context))),)

    def arguments(self, parameters: ProbeParameters, context: Context) -> Sequence[str]:
        return (_file(context), *parameters.arguments)


PROBE_S: Final = 0.4
"""Seconds of a probe that nothing slows."""
PROBES: Final[Mapping[Resource, ProbeWorkload]] = {
    workload.resource: workload
    for workload in (CpuProbe(), MemoryProbe(), DiskProbe(), NetworkProbe())
}


def argv(kind: str, *arguments: str) -> tuple[str, ...]:
    return (*PYTHON, SCRIPT, kind, *arguments)


def _file(context: Context) -> str:
    return f"{context.workspace}/{DISK_FILE}"


DISK_FILE: Final = "probe"


def times(text: str) -> tuple[float, float]:
    """What a probe prints: seconds of the work, and of the whole probe on a CPU. ValueError."""
    elapsed, on_cpu = map(float, text.split())
    return elapsed, on_cpu


def _seconds(text: str) -> float:
    try:
        seconds = times(text)[0]
    except ValueError:
        raise InvalidTrialError(f"no time: {quoted(text, 80)}") from None
    if not 0 < seconds < 1e6:
        raise InvalidTrialError(f"the probe says that it took {seconds} s")
    return seconds
