"""Whether sysbench did in `oltp` what was asked: InvalidTrialError where it did not."""

from __future__ import annotations

from ullage.workloads import oltp_report
from ullage.workloads.base import InvalidTrialError
from ullage.workloads.oltp_parameters import MIX, OltpParameters
from ullage.workloads.oltp_report import Report, Result
from ullage.workloads.outputs import quoted


def options(parameters: OltpParameters) -> list[tuple[str, int]]:
    """What is asked of sysbench's script."""
    names = ("tables", "table_size", "range_size", *MIX[parameters.test])
    return [(name, getattr(parameters, name)) for name in names]


def check_asked(parameters: OltpParameters, report: Report) -> None:
    """The test and its options, as sysbench understood them."""
    if report.test != parameters.test:
        raise InvalidTrialError(f"{parameters.test} was asked for, {quoted(report.test)} was done")
    for name, asked in (*options(parameters), ("threads", parameters.threads)):
        if (found := report.options.get(name)) != asked:
            raise InvalidTrialError(f"{name}: asked for {asked}, found {found}")


def check_counts(parameters: OltpParameters, report: Report, *, cut: bool) -> None:
    """The statements make the transactions; of a try that an error ended, a part was done."""
    counts = report.counts
    if counts.reconnects:
        raise InvalidTrialError(f"{counts.reconnects} connections were lost on the way")
    slack = oltp_report.slack(report, parameters.threads, cut=cut)
    least, most = counts.events - slack, counts.events + slack + counts.errors
    for what, found, each in (
        ("SELECTs", counts.reads, parameters.reads),
        ("statements", counts.queries, parameters.queries),
    ):
        if not least * each <= found <= most * each:
            raise InvalidTrialError(f"{found} {what} do not make {counts.events} transactions")


def check_work(parameters: OltpParameters, result: Result) -> None:
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
    if (told := sum(result.restarts.values())) != errors:
        raise InvalidTrialError(f"{errors} errors, but {told} transactions were begun anew")
