"""Workload `sysbench-threads`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from ullage.runs.records import Metric
from ullage.workloads.base import counted
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
from ullage.workloads.output import ReportLine


class SysbenchThreadsParameters(LimitedParameters):
    """Threads, what one event is, and when to stop."""

    yields: int = Field(
        1000, ge=1, le=1_000_000, strict=True, description="lock, yield, unlock: so often an event"
    )
    locks: int = Field(8, ge=1, le=1_000_000, strict=True, description="mutexes they compete for")


class SysbenchThreads(Sysbench[SysbenchThreadsParameters]):
    """The scheduler: threads lock a mutex, yield the CPU and unlock it (`sysbench threads`).

    sysbench prints no rate for it; ours is its number of events divided by its total time, so it
    means the same with `time_s` and with `events`. `yields` and `locks` are not echoed, and so not
    verified.
    """

    name = "sysbench-threads"
    resource = "other"
    test = "threads"
    scaling = ("threads",)
    parameters_model = SysbenchThreadsParameters
    metrics = (
        Metric(
            name="events_per_second",
            unit="1/s",
            better="higher",
            primary=True,
            description="Events (each of `yields` rounds) done by all threads in a second.",
        ),
        TOTAL_TIME,
        *LATENCY,
    )

    def title(self, parameters: SysbenchThreadsParameters) -> str:
        """`thread switching, 2 threads`."""
        return f"thread switching, {counted(parameters.threads, 'thread')}"

    def duration_s(self, parameters: SysbenchThreadsParameters) -> float:
        """The time given, else about 0.5 µs a round."""
        if parameters.time_s is not None:
            return float(parameters.time_s)
        return (parameters.events or 0) * parameters.yields * 5e-7

    def options(self, parameters: SysbenchThreadsParameters) -> Sequence[str]:
        return (
            f"--thread-yields={parameters.yields}",
            f"--thread-locks={parameters.locks}",
            *limits(parameters.time_s, parameters.events),
        )

    def echo(self, parameters: SysbenchThreadsParameters) -> Sequence[ReportLine]:
        return STARTED

    def prove(self, parameters: SysbenchThreadsParameters, report: Mapping[str, float]) -> None:
        prove_limits(parameters, report)

    def figures(
        self, parameters: SysbenchThreadsParameters, report: Mapping[str, float]
    ) -> dict[str, float]:
        return {
            "events_per_second": report["events"] / report["total_time"],
            **total_time(parameters.time_s, report),
            **latency(report),
        }
