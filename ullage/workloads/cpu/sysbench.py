"""What the five sysbench workloads share: the command, and the exact reading of its report.

The report of sysbench 1.0 echoes most of what it was asked for. Each workload therefore writes down
the report that its parameters must give, line by line; a report of any other work does not match
it.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, TypeVar

from pydantic import Field, model_validator

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
)
from ullage.workloads.output import ReportLine, line, output_of, quoted, read_lines

LATENCY = (
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
        description="95 % of the events took at most this long, by sysbench's histogram of "
        "logarithmic steps. Absent below its resolution of 10 µs.",
        resolution=1e-5,
    ),
    Metric(
        name="latency_max_s",
        unit="s",
        better="lower",
        description="Time of the longest event. Absent below sysbench's resolution of 10 µs.",
        resolution=1e-5,
    ),
)

TOTAL_TIME = Metric(
    name="total_time_s",
    unit="s",
    better="lower",
    description="Time that all the work took. Absent when the length was set by `time_s`.",
    resolution=1e-4,
)

STARTED = (line("Initializing worker threads..."), line("Threads started!"))
"""What stands before the figures."""

FileMode = Literal["seqwr", "seqrewr", "seqrd", "rndrd", "rndwr", "rndrw"]
FILE_MODES: Final[Mapping[FileMode, str]] = {
    "seqwr": "sequential write",
    "seqrewr": "sequential rewrite",
    "seqrd": "sequential read",
    "rndrd": "random read",
    "rndwr": "random write",
    "rndrw": "random read and write",
}
"""Of `fileio`: as titles have them."""

_HEAD = ReportLine(
    "sysbench 1.0.<n> (using system LuaJIT <version>)",
    re.compile(r"sysbench 1\.0\.[0-9]{1,3} \(using (system|bundled) LuaJIT [A-Za-z0-9.-]{1,40}\)"),
)
_TAIL = (
    line("General statistics:"),
    line("    total time:", ("total_time", 4), "s"),
    line("    total number of events:", ("events", 0)),
    line("Latency (ms):"),
    line("         min:", ("min_ms", 2)),
    line("         avg:", ("avg_ms", 2)),
    line("         max:", ("max_ms", 2)),
    line("         95th percentile:", ("p95_ms", 2)),
    line("         sum:", ("sum_ms", 2)),
    line("Threads fairness:"),
    line("    events (avg/stddev):", ("events_mean", 4), "/", ("events_deviation", 2)),
    line("    execution time (avg/stddev):", ("busy_mean", 4), "/", ("busy_deviation", 2)),
)


class SysbenchParameters(Parameters):
    """What every sysbench workload takes."""

    threads: int = Field(1, ge=1, le=4096, strict=True, description="threads that work at once")


class LimitedParameters(SysbenchParameters):
    """Work that ends after a time, or after a number of events."""

    time_s: int | None = Field(
        1, ge=1, le=86_400, strict=True, description="length in seconds: gives a rate"
    )
    events: int | None = Field(
        None,
        ge=1,
        le=2_000_000_000,
        strict=True,
        description="do so many events, however long they take (in place of `time_s`)",
    )

    @model_validator(mode="before")
    @classmethod
    def _one_limit(cls, data: Any) -> Any:
        return in_place_of_time(data, "events")

    @model_validator(mode="after")
    def _some_limit(self) -> LimitedParameters:
        if self.time_s is None and self.events is None:
            raise ValueError("give time_s or events")
        return self


S = TypeVar("S", bound=SysbenchParameters)


class Sysbench(Workload[S]):
    """A test of sysbench 1.0."""

    packages = ("sysbench",)
    source = (sources.SYSBENCH, sources.CMU_OVERHEAD)
    test: ClassVar[str]
    """sysbench's own name of the test."""

    def programs(self, parameters: S) -> Mapping[str, str]:
        return {"sysbench": "sysbench"}

    @abstractmethod
    def options(self, parameters: S) -> Sequence[str]:
        """The options of this test, the limits among them."""

    @abstractmethod
    def echo(self, parameters: S) -> Sequence[ReportLine]:
        """The lines between the random number generator's and the common statistics."""

    @abstractmethod
    def prove(self, parameters: S, report: Mapping[str, float]) -> None:
        """Raise InvalidTrialError unless the figures show that the work was done as asked."""

    @abstractmethod
    def figures(self, parameters: S, report: Mapping[str, float]) -> dict[str, float]:
        """The metrics of this test."""

    def tasks(self, parameters: S, context: Context) -> Sequence[Task]:
        """One process; the block's seed makes its random choices equal in all environments."""
        return (self.task(parameters, context, "run"),)

    def task(self, parameters: S, context: Context, command: str) -> Task:
        """`prepare`, `run` or `cleanup`, in the workspace."""
        argv = (
            "sysbench",
            self.test,
            f"--threads={parameters.threads}",
            f"--rand-seed={1 + context.seed % (2**31 - 2)}",
            *self.options(parameters),
            command,
        )
        timeout_s = 600.0 + 20 * self.duration_s(parameters)
        return Task("main", argv, cwd=context.workspace, timeout_s=timeout_s)

    def check(self, parameters: S, outputs: Outputs) -> None:
        """It ended well, said nothing else, reports what was asked for, and did it."""
        output = output_of(outputs, "main")
        if output.stderr.strip():
            first = output.stderr.strip().split("\n")[0]
            raise InvalidTrialError(f"sysbench complained: {quoted(first)}")
        report = self.report(parameters, output.stdout)
        for figure, complaint in (
            ("events", "no event was done"),
            ("total_time", "it took no time"),
        ):
            if not report[figure] > 0:
                raise InvalidTrialError(complaint)
        self.prove(parameters, report)

    def parse(self, parameters: S, outputs: Outputs) -> Figures:
        return {**self.figures(parameters, self.report(parameters, outputs["main"].stdout))}

    def facts(self, parameters: S, outputs: Outputs) -> dict[str, str]:
        return {"version": outputs["main"].stdout[:64].split(" (")[0]}

    def report(self, parameters: S, text: str) -> dict[str, float]:
        """Read the whole report, against the one that these parameters must give."""
        validates = "--validate=on" in self.options(parameters)
        return read_lines(
            text,
            (
                _HEAD,
                line("Running the test with following options:"),
                line(f"Number of threads: {parameters.threads}"),
                *([line("Validation checks: on.")] if validates else []),
                line("Initializing random number generator from seed (", ("seed", 0), ")."),
                *self.echo(parameters),
                *_TAIL,
            ),
        )


def in_place_of_time(data: Any, limit: str) -> Any:
    """Let `limit` take the place of the default `time_s`; refuse both together."""
    if isinstance(data, dict) and data.get(limit) is not None:
        if data.get("time_s") is not None:
            raise ValueError(f"give time_s or {limit}, not both")
        return {**data, "time_s": None}
    return data


def limits(time_s: int | None, events: int | None) -> tuple[str, str]:
    """The options that end the work; work of a given size may take a day."""
    return f"--time={time_s or 86_400}", f"--events={events or 0}"


def prove_limits(parameters: LimitedParameters, report: Mapping[str, float]) -> None:
    """It lasted the time, or did the events, that were asked for."""
    if parameters.events is not None and report["events"] != parameters.events:
        raise InvalidTrialError(
            f"{parameters.events} events were asked for, {report['events']:.0f} were done"
        )
    if parameters.time_s is not None:
        prove_time(parameters.time_s, report)


def prove_time(time_s: int, report: Mapping[str, float]) -> None:
    """It did not end early."""
    if report["total_time"] < 0.99 * time_s:
        raise InvalidTrialError(
            f"{time_s} s were asked for, it ended after {report['total_time']} s"
        )


def total_time(timed: int | None, report: Mapping[str, float]) -> dict[str, float]:
    """The total time, where it is a result and was not given."""
    return {} if timed is not None else {"total_time_s": report["total_time"]}


def latency(report: Mapping[str, float]) -> dict[str, float]:
    """The latencies that are not below sysbench's resolution (0.01 ms)."""
    seconds = {
        "latency_avg_s": report["sum_ms"] / 1000 / report["events"],
        "latency_p95_s": report["p95_ms"] / 1000,
        "latency_max_s": report["max_ms"] / 1000,
    }
    return {name: value for name, value in seconds.items() if value > 0}


def size(value: float, gap: str = "") -> str:
    """A size as sysbench prints it, `16KiB`: five significant digits in the largest binary unit."""
    unit = ""
    for larger in ("Ki", "Mi", "Gi", "Ti"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.5g}{gap}{unit}B"
