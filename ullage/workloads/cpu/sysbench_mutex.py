"""Workload `sysbench-mutex`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from ullage.runs.records import Metric
from ullage.workloads.base import InvalidTrialError, counted
from ullage.workloads.cpu.sysbench import (
    LATENCY,
    STARTED,
    Sysbench,
    SysbenchParameters,
    latency,
    limits,
)
from ullage.workloads.output import ReportLine


class SysbenchMutexParameters(SysbenchParameters):
    """Threads, and the work of each."""

    mutexes: int = Field(
        4096, ge=1, le=1_000_000, strict=True, description="mutexes to choose from"
    )
    locks: int = Field(
        50_000, ge=1, le=100_000_000, strict=True, description="locks that each thread takes"
    )
    loops: int = Field(
        10_000, ge=0, le=100_000_000, strict=True, description="empty loops before each lock"
    )


class SysbenchMutex(Sysbench[SysbenchMutexParameters]):
    """Locks: every thread takes a number of mutexes, chosen at random (`sysbench mutex`).

    The work is fixed, so its figure is the time it takes. One event is all the work of one thread.
    `mutexes`, `locks` and `loops` are not echoed by sysbench, and so not verified.
    """

    name = "sysbench-mutex"
    resource = "other"
    test = "mutex"
    parameters_model = SysbenchMutexParameters
    metrics = (
        Metric(
            name="total_time_s",
            unit="s",
            better="lower",
            primary=True,
            description="Time until the last thread had taken all its locks.",
            resolution=1e-4,
        ),
        *LATENCY,
    )

    def title(self, parameters: SysbenchMutexParameters) -> str:
        """`mutexes, 2 threads`."""
        return f"mutexes, {counted(parameters.threads, 'thread')}"

    def duration_s(self, parameters: SysbenchMutexParameters) -> float:
        """About 0.4 ns an empty loop and 20 ns a lock, one thread after another."""
        thread_s = parameters.locks * (2e-8 + 4e-10 * parameters.loops)
        return parameters.threads * thread_s

    def options(self, parameters: SysbenchMutexParameters) -> Sequence[str]:
        """The work; sysbench ends by itself when it is done."""
        return (
            f"--mutex-num={parameters.mutexes}",
            f"--mutex-locks={parameters.locks}",
            f"--mutex-loops={parameters.loops}",
            *limits(None, None),
        )

    def echo(self, parameters: SysbenchMutexParameters) -> Sequence[ReportLine]:
        return STARTED

    def prove(self, parameters: SysbenchMutexParameters, report: Mapping[str, float]) -> None:
        if report["events"] != parameters.threads:
            raise InvalidTrialError(
                f"{report['events']:.0f} of {parameters.threads} threads did their work"
            )

    def figures(
        self, parameters: SysbenchMutexParameters, report: Mapping[str, float]
    ) -> dict[str, float]:
        return {"total_time_s": report["total_time"], **latency(report)}
