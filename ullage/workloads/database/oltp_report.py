"""Reading what sysbench prints with the script `oltp.lua`: text, a histogram, and JSON.

The text and the histogram are sysbench's own; the JSON has every figure of its final report, not
rounded, and the options as it understood them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from pydantic import Field

from ullage.runs.records import Curve
from ullage.workloads import output
from ullage.workloads.base import InvalidTrialError
from ullage.workloads.cpu.sysbench import STARTED
from ullage.workloads.database.oltp_parameters import MIX, OltpParameters
from ullage.workloads.output import (
    SAMPLES_ABOVE,
    DoubleCount,
    ExactReportPart,
    Seconds,
    check_echoes,
    check_length,
    line,
    quoted,
    read_lines,
)

QUANTILES: Final = (0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999)
LONGEST_S: Final = 100.0
"""sysbench's histogram ends here: what takes longer is counted as this long."""
_NEAR_S: Final = 0.97 * LONGEST_S
"""What falls into the steps that end within a hundredth of that took so long at least."""

_HEAD: Final = re.compile(
    r"(sysbench 1\.0\.[0-9]{1,3}) \(using (?:system|bundled) LuaJIT [\w.-]{1,40}\)", re.ASCII
)
_BIN: Final = re.compile(r" {0,11}([0-9]{1,9}\.[0-9]{3}) \|[* ]{40} ([0-9]{1,15})", re.ASCII)
_MOST_RESTARTS: Final = 1 << 15
"""Lines: one a thread and SQLSTATE."""


class EventCounts(ExactReportPart):
    events: DoubleCount
    """Transactions done."""
    reads: DoubleCount
    writes: DoubleCount
    other: DoubleCount
    """BEGIN, COMMIT, and statements that changed no row."""
    errors: DoubleCount
    """Statements that failed, and had their transaction begun anew."""
    reconnects: DoubleCount

    @property
    def queries(self) -> int:
        """Statements that did not fail."""
        return self.reads + self.writes + self.other


class ReportTimes(ExactReportPart):
    time_total: Seconds
    """Since the start."""
    time_interval: Seconds
    """Since the report before."""
    latency_min: Seconds
    latency_avg: Seconds
    latency_max: Seconds
    latency_pct: Seconds
    """The 95th percentile."""
    latency_sum: Seconds


class SysbenchReport(ExactReportPart):
    """One report of sysbench."""

    test: str
    options: dict[str, DoubleCount]
    """As it understood them."""
    counts: EventCounts
    seconds: ReportTimes


class Restarts(ExactReportPart):
    """How often a thread began a transaction anew for one reason."""

    state: str = Field(pattern=r"^[0-9A-Z]{5}$")
    count: DoubleCount


class _ReportLine(ExactReportPart):
    report: SysbenchReport


class _RestartsLine(ExactReportPart):
    restarts: Restarts


class _LongLine(ExactReportPart):
    long: tuple[Seconds, ...] = Field(max_length=1 << 16)


@dataclass(frozen=True)
class OltpResult:
    """All that a run of sysbench told."""

    version: str
    warmup: SysbenchReport | None
    report: SysbenchReport
    """Of the measured time."""
    bins: Sequence[tuple[float, int]]
    """Time of a transaction in s, in ascending steps of 1.8 % → how many took it."""
    restarts: dict[str, int]
    """SQLSTATE → how often a transaction was begun anew for it, the warm-up included."""
    long: Sequence[float] = ()
    """Times in s, ascending, of all transactions from 95 s on, the warm-up's included."""

    @property
    def transactions(self) -> int:
        """Of the measured time and the warm-up."""
        warmup = self.warmup.counts.events if self.warmup else 0
        return warmup + self.report.counts.events


def read(text: str, threads: int, warmup_s: int) -> OltpResult:
    """The whole output, against the one that these options must give. Raises InvalidTrialError."""
    check_length(text)
    reports: list[SysbenchReport] = []
    restarts: dict[str, int] = {}
    bins: list[tuple[float, int]] = []
    text_lines: list[str] = []
    long: list[float] = []
    for number, content in enumerate(text.split("\n"), 1):
        if content.startswith('{"report"'):
            reports.append(output.read(_ReportLine, content, f"line {number}").report)
        elif content.startswith('{"restarts"'):
            restart = output.read(_RestartsLine, content, f"line {number}").restarts
            restarts[restart.state] = restarts.get(restart.state, 0) + restart.count
        elif content.startswith('{"long"'):
            long += output.read(_LongLine, content, f"line {number}").long
        elif bin_match := _BIN.fullmatch(content):
            bins.append((float(bin_match[1]) / 1000, int(bin_match[2])))
        else:
            text_lines.append(content.rstrip())
    head = _HEAD.fullmatch(text_lines[0]) if text_lines else None
    if head is None:
        raise InvalidTrialError(f"not a report of sysbench 1.0: it begins {quoted(text[:80])}")
    _read_text(text_lines[1:], threads, warmup_s)
    if len(reports) != 1 + bool(warmup_s):
        raise InvalidTrialError(f"{len(reports)} reports, where {1 + bool(warmup_s)} were due")
    return OltpResult(
        version=head[1],
        warmup=reports[0] if warmup_s else None,
        report=reports[-1],
        bins=bins,
        restarts=restarts,
        long=sorted(long),
    )


def curve(result: OltpResult) -> Curve:
    """Quantile → time of a transaction in s, as far as the number of samples supports."""
    total = sum(count for _, count in result.bins)
    upto = list(accumulate(count for _, count in result.bins))
    points: list[tuple[float, float]] = []
    for quantile in QUANTILES:
        if total * (1 - quantile) < SAMPLES_ABOVE:
            break
        at = next(i for i, count in enumerate(upto) if count >= quantile * total)
        seconds: float | None = result.bins[at][0]
        if not within_histogram(result.bins[at][0]):
            seconds = beyond(result, quantile)
        if seconds is None:
            break
        points.append((quantile, seconds))
    return points


def beyond(result: OltpResult, quantile: float) -> float | None:
    """A quantile out of the histogram, of the times that were told one by one.

    None where it is not sure that these are those that the histogram has at its end: some may be of
    the warm-up, or in the step before, or the output is from before they were told.
    """
    total = sum(count for _, count in result.bins)
    clamped = sum(count for value, count in result.bins if not within_histogram(value))
    surely, perhaps = (sum(s >= least for s in result.long) for least in (LONGEST_S, _NEAR_S))
    # Of a warm-up, and of no step that is told: any of them may then be one of the others.
    doubtful = result.warmup is not None and perhaps != clamped
    if not clamped > 0 or not surely <= clamped <= perhaps or doubtful:
        return None
    at = math.ceil(quantile * total) - (total - clamped) - 1
    return result.long[len(result.long) - clamped :][at] if at >= 0 else None


def within_histogram(seconds: float) -> bool:
    """A time out of the histogram is one, and not its end."""
    return 0 < seconds < 0.99 * LONGEST_S


def count_slack(report: SysbenchReport, threads: int, *, cut: bool) -> float:
    """How many transactions a report may have counted in one place and not in another.

    Each thread has one under way. At a report on the way (`cut`) sysbench reads its counters, its
    timers and its histogram one after another, while the threads go on: a hundredth more.
    """
    return threads + 0.01 * report.counts.events if cut else 0


def check_histogram(result: OltpResult, threads: int) -> None:
    """It counts the transactions. Steps below 0.05 ms may look equal: three places are printed."""
    values = [value for value, _ in result.bins]
    if values != sorted(values) or not all(value > 0 for value in values):
        raise InvalidTrialError("the steps of the latency histogram do not ascend")
    counted = sum(count for _, count in result.bins)
    events = result.report.counts.events
    if abs(counted - events) > count_slack(result.report, threads, cut=result.warmup is not None):
        raise InvalidTrialError(f"the histogram counts {counted} of {events} transactions")


def check_times(report: SysbenchReport, threads: int, *, cut: bool) -> None:
    """The latencies of a report fit each other, and its transactions."""
    seconds, events = report.seconds, report.counts.events
    if not 0 < seconds.latency_min <= seconds.latency_avg <= seconds.latency_max:
        raise InvalidTrialError("the mean latency does not lie between the extremes")
    timed = seconds.latency_sum / seconds.latency_avg
    if abs(timed - events) > count_slack(report, threads, cut=cut) + 1e-3 * events:
        raise InvalidTrialError(
            f"{events} transactions of {seconds.latency_avg} s are not {seconds.latency_sum} s"
        )


def _read_text(lines: Sequence[str], threads: int, warmup_s: int) -> None:
    warmup = (line("[ ", ("checkpoint", 0), "s ] Checkpoint report:"),) if warmup_s else ()
    read_lines(
        "\n".join(lines),
        (
            line("Running the test with following options:"),
            line(f"Number of threads: {threads}"),
            *([line(f"Report checkpoint(s) at {warmup_s} seconds")] if warmup_s else []),
            line("Initializing random number generator from seed (", ("seed", 0), ")."),
            *STARTED,
            *warmup,
            line("Latency histogram (values are in milliseconds)"),
            line("       value  ------------- distribution ------------- count"),
        ),
    )


def options(parameters: OltpParameters) -> list[tuple[str, int]]:
    names = ("tables", "table_size", "range_size", *MIX[parameters.test])
    return [(name, getattr(parameters, name)) for name in names]


def check_echoed(parameters: OltpParameters, report: SysbenchReport) -> None:
    """The test and its options, as sysbench understood them."""
    requested = (*options(parameters), ("threads", parameters.threads))
    check_echoes(
        ("test", parameters.test, report.test),
        *((name, value, report.options.get(name)) for name, value in requested),
    )


def check_counts(parameters: OltpParameters, report: SysbenchReport, *, cut: bool) -> None:
    """The statements make the transactions; of a try that an error ended, a part was done."""
    counts = report.counts
    if counts.reconnects:
        raise InvalidTrialError(f"{counts.reconnects} connections were lost on the way")
    slack = count_slack(report, parameters.threads, cut=cut)
    least, most = counts.events - slack, counts.events + slack + counts.errors
    for kind, counted, per_transaction in (
        ("SELECTs", counts.reads, parameters.reads),
        ("statements", counts.queries, parameters.queries),
    ):
        if not least * per_transaction <= counted <= most * per_transaction:
            raise InvalidTrialError(f"{counted} {kind} do not make {counts.events} transactions")


def check_work(parameters: OltpParameters, result: OltpResult) -> None:
    """As many as asked for, or as long; and every error was told of."""
    events, seconds = result.report.counts.events, result.report.seconds
    if parameters.events is not None and events != parameters.events:
        raise InvalidTrialError(f"{parameters.events} events were asked for, {events} were done")
    if not seconds.time_interval > 0:
        raise InvalidTrialError("it took no time")
    if parameters.time_s is not None and seconds.time_interval < 0.9 * parameters.time_s:
        raise InvalidTrialError(
            f"{parameters.time_s} s were asked for, {seconds.time_interval} s were measured"
        )
    errors = result.report.counts.errors + (result.warmup.counts.errors if result.warmup else 0)
    if (restarts := sum(result.restarts.values())) != errors:
        raise InvalidTrialError(f"{errors} errors, but {restarts} transactions were begun anew")
