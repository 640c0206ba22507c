"""sysbench's five tests, and a TCP stream, by one program of ours for Linux and for Windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ullage.host import binaries
from ullage.runs.records import Metric
from ullage.workloads import sources
from ullage.workloads.base import (
    Context,
    Figures,
    InvalidTrialError,
    Outputs,
    Task,
    Workload,
    counted,
)
from ullage.workloads.cpu.basics_parameters import MIB, BasicsParameters, Test
from ullage.workloads.cpu.basics_report import (
    BasicsReport,
    prove_asked,
    prove_limit,
    prove_result,
)
from ullage.workloads.cpu.sysbench import FILE_MODES, size
from ullage.workloads.output import output_of
from ullage.workloads.output import read as read_report

PROGRAM: Final = "ullage-basics"
_TITLES: Final[Mapping[Test, str]] = {
    "cpu": "CPU",
    "memory": "memory",
    "threads": "thread switches",
    "mutex": "mutexes",
    "fileio": "files through the cache",
    "stream": "TCP stream",
}
_CLOCKS_S: Final = 0.01
"""So much may a guest's own clock, by which the program goes, and the controller's be apart."""
_DISK_RATE: Final = 100.0 * MIB
"""Bytes in a second, for estimates."""


class Basics(Workload[BasicsParameters]):
    """sysbench's tests and a TCP stream, one program on Linux and Windows (`ullage-basics`).

    sysbench has no build for Windows. This program of ours has its algorithms and its counts: the
    primes below a limit by division, a block of 1 KiB of memory written in order, a mutex taken and
    given back 1000 times with a yield in between, 50 000 locks of 4096 mutexes with 10 000 empty
    loops before each, blocks of 16 KiB read at random from 16 files of 64 MiB in all; sizes and the
    six modes of `fileio` can be asked for. So a comparison of two systems is one of the same
    program. [How near it is to sysbench](../../guide/windows.md#the-program) is said there.

    `fileio` makes its files in each trial, before the time begins, and reads and writes through the
    page cache: with files that fit into memory it is the system's cache, not a disk.

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
        what = [_TITLES[parameters.test]]
        if parameters.test == "fileio":
            what.append(FILE_MODES[parameters.mode])
        if parameters.block_size is not None:
            what.append(f"blocks of {size(parameters.block_size, ' ')}")
        return f"{', '.join(what)} by {PROGRAM}, {counted(parameters.threads, 'thread')}"

    def duration_s(self, parameters: BasicsParameters) -> float:
        """An event takes about a millisecond; a thread of `mutex` a quarter of a second."""
        if parameters.test == "mutex":
            return 0.25 * parameters.threads
        of_event, before = 1e-3, 0.0
        if parameters.test == "fileio":
            of_event += (parameters.block or 0) / _DISK_RATE
            before = parameters.total_size / _DISK_RATE
        if parameters.time_s is not None:
            return before + parameters.time_s
        return before + (parameters.events or 0) * of_event

    def files(self, parameters: BasicsParameters) -> Mapping[str, Path]:
        return {PROGRAM: binaries.program(PROGRAM)}

    def tasks(self, parameters: BasicsParameters, context: Context) -> Sequence[Task]:
        """One process, in the workspace."""
        limits: list[str] = []
        if parameters.time_s is not None:
            limits = [f"--time={parameters.time_s}"]
        elif parameters.events is not None:
            limits = [f"--events={parameters.events}"]
        argv = (
            f"./{PROGRAM}",
            f"--threads={parameters.threads}",
            f"--seed={context.seed % (1 << 31)}",
            *limits,
            parameters.test,
            *_own_options(parameters),
        )
        timeout_s = 600.0 + 20 * self.duration_s(parameters)
        return (Task("main", argv, cwd=context.workspace, timeout_s=timeout_s),)

    def check(self, parameters: BasicsParameters, outputs: Outputs) -> None:
        """It did what was asked for, as much as was asked for, and found what there is to find."""
        output = output_of(outputs, "main")
        report = _report(outputs)
        prove_asked(parameters, report)
        if report.events < 1 or not report.seconds > 0:
            raise InvalidTrialError("no event was done")
        if report.seconds > 1.01 * output.seconds + _CLOCKS_S:
            raise InvalidTrialError(
                f"it says that it worked for {report.seconds:g} s, and ran for {output.seconds:g} s"
            )
        if report.busy_s > 1.001 * report.seconds * report.threads:
            raise InvalidTrialError(
                f"its events took {report.busy_s:g} s, and all of it {report.seconds:g} s"
            )
        prove_limit(parameters, report)
        prove_result(parameters, report)

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


def _own_options(parameters: BasicsParameters) -> Sequence[str]:
    """Those of its test."""
    block = [] if parameters.block is None else [f"--block={parameters.block}"]
    if parameters.test == "cpu":
        return [f"--prime={parameters.prime}"]
    if parameters.test == "fileio":
        return [
            *block,
            f"--files={parameters.files}",
            f"--total={int(parameters.total_size)}",
            f"--mode={parameters.mode}",
        ]
    return block
