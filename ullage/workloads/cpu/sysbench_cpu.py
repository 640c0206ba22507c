"""Workload `sysbench-cpu`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pydantic import Field

from ullage.runs.records import Metric
from ullage.workloads.base import InvalidTrialError, counted
from ullage.workloads.cpu.sysbench import (
    LATENCY,
    STARTED,
    TOTAL_TIME,
    LimitedParameters,
    Sysbench,
    latency,
    limits,
    prove_limits,
    total_time,
)
from ullage.workloads.output import ReportLine, line


class SysbenchCpuParameters(LimitedParameters):
    """Threads, the size of one event, and when to stop."""

    prime: int = Field(
        10_000,
        ge=3,
        le=100_000_000,
        strict=True,
        description="one event tests every number up to this one for being prime",
    )


class SysbenchCpu(Sysbench[SysbenchCpuParameters]):
    """Integer arithmetic: primes by trial division, in threads that share nothing (`sysbench cpu`).

    With `time_s` (the default) it runs for that long and yields a rate; with `events` it does that
    much and yields a total time as well. The series of `cmu-overhead` (2015, of [the
    studies](../../guide/studies.md)) is `threads: x`, `prime: 50000 + 30000·x`, `events: 10000`.
    """

    name = "sysbench-cpu"
    resource = "cpu"
    test = "cpu"
    scaling = ("threads",)
    parameters_model = SysbenchCpuParameters
    metrics = (
        Metric(
            name="events_per_second",
            unit="1/s",
            better="higher",
            primary=True,
            description="Events done by all threads in a second.",
        ),
        TOTAL_TIME,
        *LATENCY,
    )

    def title(self, parameters: SysbenchCpuParameters) -> str:
        """`CPU, 2 threads`."""
        return f"CPU, {counted(parameters.threads, 'thread')}"

    def duration_s(self, parameters: SysbenchCpuParameters) -> float:
        """An event takes about 0.5 ms at a limit of 10 000, and grows with its power of 1.5."""
        if parameters.time_s is not None:
            return float(parameters.time_s)
        return (parameters.events or 0) * 5e-4 * math.pow(parameters.prime / 10_000, 1.5)

    def options(self, parameters: SysbenchCpuParameters) -> Sequence[str]:
        return (
            f"--cpu-max-prime={parameters.prime}",
            *limits(parameters.time_s, parameters.events),
        )

    def echo(self, parameters: SysbenchCpuParameters) -> Sequence[ReportLine]:
        return (
            line(f"Prime numbers limit: {parameters.prime}"),
            *STARTED,
            line("CPU speed:"),
            line("    events per second:", ("rate", 2)),
        )

    def prove(self, parameters: SysbenchCpuParameters, report: Mapping[str, float]) -> None:
        prove_limits(parameters, report)
        if not report["rate"] > 0:
            raise InvalidTrialError("fewer than 0.01 events per second: lower `prime`")

    def figures(
        self, parameters: SysbenchCpuParameters, report: Mapping[str, float]
    ) -> dict[str, float]:
        return {
            "events_per_second": report["rate"],
            **total_time(parameters.time_s, report),
            **latency(report),
        }
