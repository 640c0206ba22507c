"""sysbench's five tests, and a TCP stream, by one program of ours for Linux and for Windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, model_validator

from ullage.host import binaries
from ullage.runs.records import Metric
from ullage.workloads import sources
from ullage.workloads.base import (
    Context,
    Figures,
    InvalidTrialError,
    Outputs,
    Parameters,
    Task,
    Workload,
    counted,
)
from ullage.workloads.cpu.sysbench import in_place_of_time
from ullage.workloads.output import Count, ExactReportPart, Seconds, output_of
from ullage.workloads.output import read as read_report

PROGRAM: Final = "ullage-basics"
Test = Literal["cpu", "memory", "threads", "mutex", "fileio", "stream"]
_PRIMES: Final = {10_000: 1228, 20_000: 2261, 80_000: 7836}
"""Limit → how many primes there are from 3 on: known, so that the work is known to be done."""
_TITLES: Final[Mapping[Test, str]] = {
    "cpu": "CPU",
    "memory": "memory",
    "threads": "thread switches",
    "mutex": "mutexes",
    "fileio": "files",
    "stream": "TCP stream",
}


class BasicsParameters(Parameters):
    """Which test, by how many threads, for how long."""

    test: Test = Field(
        "cpu", description="sysbench's name of it; `stream`: TCP from the program to itself"
    )
    threads: int = Field(1, ge=1, le=4096, strict=True, description="threads that work at once")
    time_s: int | None = Field(
        1, ge=1, le=86_400, strict=True, description="length in seconds; `mutex` has none"
    )
    events: int | None = Field(
        None,
        ge=1,
        le=2_000_000_000,
        strict=True,
        description="do so many events, however long they take (in place of `time_s`)",
    )
    prime: int = Field(
        10_000, ge=3, le=10_000_000, strict=True, description="`cpu`: primes below this, per event"
    )

    @model_validator(mode="before")
    @classmethod
    def _one_limit(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("test") == "mutex":
            if data.get("events") is not None or data.get("time_s") is not None:
                raise ValueError("mutex does one event a thread: leave out time_s and events")
            return {**data, "time_s": None}
        return in_place_of_time(data, "events")


class BasicsReport(ExactReportPart):
    """The line of JSON that the program prints."""

    version: str
    test: Test
    threads: Count
    time_s: Count | None
    events_wanted: Count | None
    seed: Count
    events: Count
    seconds: Seconds
    busy_s: Seconds
    longest_s: Seconds
    p95_s: Seconds | None = None
    """Older programs do not tell it."""
    result: Count
    prime: Count | None = None
    block: Count | None = None
    read: bool | None = None
    yields: Count | None = None
    locks: Count | None = None
    mutexes: Count | None = None
    loops: Count | None = None
    files: Count | None = None
    total: Count | None = None
    mode: str | None = None
    flush: Count | None = None


class Basics(Workload[BasicsParameters]):
    """sysbench's tests and a TCP stream, one program on Linux and Windows (`ullage-basics`).

    sysbench has no build for Windows. This program of ours has its algorithms and its counts: the
    primes below a limit by division, a block of 1 KiB of memory written in order, a mutex taken and
    given back 1000 times with a yield in between, 50 000 locks of 4096 mutexes with 10 000 empty
    loops before each, blocks of 16 KiB read at random from 16 files of 64 MiB in all. So a
    comparison of two systems is one of the same program. [How near it is to
    sysbench](../../guide/windows.md#the-program) is said there.

    `stream` is no test of sysbench's: each thread sends blocks of 64 KiB over TCP to a receiver in
    the same program, at 127.0.0.1, which holds every byte against what was to be sent, and whose
    count and sum are held against the sender's; the time ends when the last byte is acknowledged
    so. It is the network stack of one system, not a network.
    """

    name = "basics"
    resource = "cpu"
    packages = ()
    source = (sources.SYSBENCH, sources.CMU_OVERHEAD)
    scaling = ("threads",)
    parameters_model = BasicsParameters
    metrics = (
        Metric(
            name="events_per_second",
            unit="1/s",
            better="higher",
            primary=True,
            description="Events done by all threads in a second.",
        ),
        Metric(
            name="latency_avg_s",
            unit="s",
            better="lower",
            description="Mean time of one event: the sum of all times, divided by their number.",
        ),
        Metric(
            name="latency_p95_s",
            unit="s",
            better="lower",
            description="So long or shorter are 95 % of the events, within 1 %; none below 1 µs.",
        ),
        Metric(
            name="latency_max_s",
            unit="s",
            better="lower",
            description="Time of the longest event.",
        ),
        Metric(
            name="bytes_per_second",
            unit="B/s",
            better="higher",
            description="`stream`: bytes that arrived, as they were sent, in a second.",
        ),
    )

    def title(self, parameters: BasicsParameters) -> str:
        """`CPU by ullage-basics, 2 threads`."""
        return f"{_TITLES[parameters.test]} by {PROGRAM}, {counted(parameters.threads, 'thread')}"

    def duration_s(self, parameters: BasicsParameters) -> float:
        """An event takes about a millisecond; a thread of `mutex` a quarter of a second."""
        if parameters.time_s is not None:
            return float(parameters.time_s)
        return (parameters.events or 0) * 1e-3 if parameters.events else 0.25 * parameters.threads

    def files(self, parameters: BasicsParameters) -> Mapping[str, Path]:
        return {PROGRAM: binaries.program(PROGRAM)}

    def tasks(self, parameters: BasicsParameters, context: Context) -> Sequence[Task]:
        """One process, in the workspace."""
        limits: list[str] = []
        if parameters.time_s is not None:
            limits = [f"--time={parameters.time_s}"]
        elif parameters.events is not None:
            limits = [f"--events={parameters.events}"]
        own = [f"--prime={parameters.prime}"] if parameters.test == "cpu" else []
        argv = (
            f"./{PROGRAM}",
            f"--threads={parameters.threads}",
            f"--seed={context.seed % (1 << 31)}",
            *limits,
            parameters.test,
            *own,
        )
        timeout_s = 600.0 + 20 * self.duration_s(parameters)
        return (Task("main", argv, cwd=context.workspace, timeout_s=timeout_s),)

    def check(self, parameters: BasicsParameters, outputs: Outputs) -> None:
        """It did what was asked for, as much as was asked for, and found what there is to find."""
        output = output_of(outputs, "main")
        report = _report(outputs)
        wanted = (parameters.test, parameters.threads, parameters.time_s, parameters.events)
        echo = (report.test, report.threads, report.time_s, report.events_wanted)
        if wanted != echo:
            raise InvalidTrialError(f"{wanted} was asked for, {echo} was done")
        if report.events < 1 or not report.seconds > 0:
            raise InvalidTrialError("no event was done")
        if report.seconds > output.seconds:
            raise InvalidTrialError(
                f"it says that it worked for {report.seconds:g} s, and ran for {output.seconds:g} s"
            )
        if report.busy_s > 1.001 * report.seconds * report.threads:
            raise InvalidTrialError(
                f"its events took {report.busy_s:g} s, and all of it {report.seconds:g} s"
            )
        _prove_limit(parameters, report)
        _prove_result(parameters, report)

    def parse(self, parameters: BasicsParameters, outputs: Outputs) -> Figures:
        report = _report(outputs)
        figures: Figures = {
            "events_per_second": report.events / report.seconds,
            "latency_avg_s": report.busy_s / report.events,
            "latency_max_s": report.longest_s,
        }
        if report.p95_s is not None:
            figures["latency_p95_s"] = report.p95_s
        if parameters.test == "stream":
            figures["bytes_per_second"] = report.result / report.seconds
        return figures

    def facts(self, parameters: BasicsParameters, outputs: Outputs) -> dict[str, str]:
        return {"version": f"{PROGRAM} {_report(outputs).version}"}


def _report(outputs: Outputs) -> BasicsReport:
    return read_report(BasicsReport, outputs["main"].stdout, PROGRAM)


def _prove_limit(parameters: BasicsParameters, report: BasicsReport) -> None:
    wanted = parameters.threads if parameters.test == "mutex" else parameters.events
    if wanted is not None and report.events != wanted:
        raise InvalidTrialError(f"{wanted} events were asked for, {report.events} were done")
    if parameters.time_s is not None and report.seconds < 0.99 * parameters.time_s:
        raise InvalidTrialError(
            f"{parameters.time_s} s were asked for, it ended after {report.seconds:g} s"
        )


def _prove_result(parameters: BasicsParameters, report: BasicsReport) -> None:
    """What all events have found, where it is known."""
    of_one_event = {
        "cpu": _PRIMES.get(parameters.prime),
        "memory": report.block,
        "threads": report.yields,
        "mutex": report.locks,
        "fileio": report.block,
        "stream": report.block,
    }[parameters.test]
    if of_one_event is not None and report.result != of_one_event * report.events:
        total = of_one_event * report.events
        raise InvalidTrialError(f"{report.events} events must find {total}, not {report.result}")
