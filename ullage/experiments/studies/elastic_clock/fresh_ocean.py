"""An ocean model under each clock: run times and their deviations, with 4 to 48 processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ullage.experiments.clock.ocean import conditions, judging
from ullage.experiments.clock.ocean.outcome import (
    AGAIN,
    CHRONY,
    OURS,
    STOCK,
    OceanReport,
    OceanSeries,
)
from ullage.experiments.studies.base import (
    Column,
    DerivedCell,
    DerivedRow,
    DerivedTable,
    StudyFigure,
)
from ullage.stats.interval import t_interval

_NAMES: Final = {
    STOCK: "the library's clock",
    AGAIN: "the library's clock again",
    CHRONY: "chronyd beside it",
    OURS: "our clock",
}
_FAILED: Final = "no run gave a figure"
_LONE: Final = "fewer than two runs gave a figure"
_FEW: Final = "fewer than two pairs of runs"


def table(report: OceanReport) -> DerivedTable:
    """S4.11: a row for each number of processes and clock."""
    options = report.options
    return DerivedTable(
        key="-".join(["clock-ocean", *map(str, options.ranks), "fresh"]),
        caption=f"An ocean model of {options.steps:,} steps under each clock, {options.runs} runs "
        f"each, on {report.cpus} processors of one host",
        of="processes, clock",
        columns=(
            Column(title="run", unit="s", decimals=3),
            Column(title="÷ the library's", decimals=3),
            Column(title="verdict"),
            Column(title="÷ ours", decimals=3),
            Column(title="deviation", unit="s", decimals=4),
            Column(title="deviation ÷ ours", decimals=2),
            Column(title="clocks apart", unit="µs", decimals=2),
            Column(title="runs", decimals=0),
            Column(title="failed", decimals=0),
        ),
        rows=tuple(row for series in report.series for row in _rows(series)),
        notes=tuple(_notes(report)),
    )


def _rows(series: OceanSeries) -> Iterator[DerivedRow]:
    compared = [name for name in series.variants if name not in (STOCK, AGAIN)]
    judged, _ = judging.verdicts(series, compared)
    for name in series.variants:
        verdict = judged[name].verdict or "no verdict" if name in judged else ""
        apart = judging.median(series, name, "skew_after_s")
        yield DerivedRow(
            label=f"{series.ranks}, {_NAMES.get(name, name)}",
            cells=(
                _median(series, name),
                _ratio(series, name, STOCK),
                str(verdict),
                _ratio(series, name, OURS),
                _deviation(series, name),
                _deviation_ratio(series, name),
                StudyFigure(value=None, why=_FAILED)
                if apart is None
                else StudyFigure(value=1e6 * apart.estimate),
                StudyFigure(value=float(len(series.values(name, "total_s")))),
                StudyFigure(value=float(len(series.failures(name)))),
            ),
        )


def _median(series: OceanSeries, name: str) -> StudyFigure:
    totals = judging.median(series, name, "total_s")
    if totals is None:
        return StudyFigure(value=None, why=_FAILED)
    return StudyFigure(value=totals.estimate, low=totals.low, high=totals.high)


def _ratio(series: OceanSeries, name: str, base: str) -> DerivedCell:
    if name == base:
        return ""
    ratios = judging.log_ratios(series, name, "total_s", base)
    if len(ratios) < 2:
        return StudyFigure(value=None, why=_FEW)
    interval = t_interval(ratios, judging.CONFIDENCE)
    return StudyFigure(value=interval.estimate, low=interval.low, high=interval.high)


def _deviation(series: OceanSeries, name: str) -> StudyFigure:
    value = judging.deviation(series, name)
    return StudyFigure(value=value, why="" if value is not None else _LONE)


def _deviation_ratio(series: OceanSeries, name: str) -> DerivedCell:
    if name == OURS:
        return ""
    ratio = judging.deviation_ratio(series, name, OURS)
    if ratio is None:
        return StudyFigure(value=None, why=_FEW)
    return StudyFigure(value=ratio.value, low=ratio.low, high=ratio.high)


def _notes(report: OceanReport) -> Iterator[str]:
    every_s = 2**report.options.poll
    yield (
        "Runs take turns in random blocks; run times are medians by CLOCK_MONOTONIC_RAW, ratios "
        "are of the same block, and those of deviations have the interval of an F test, which "
        "takes the times for normal. Clocks apart: the ranks' after the last step, as the program "
        "sees them, median."
    )
    if CHRONY not in report.left_out:
        yield (
            f"chronyd polls a server on this host every {every_s} s with `-x`: it exchanges and "
            "filters, and leaves the one clock alone. So this is what a daemon takes from the "
            "program, and nothing of what its corrections would do to time-stamps; a run in which "
            "it exchanged nothing has only the daemon asleep beside it."
        )
    yield from conditions.lines(report)
    yield (
        "Nothing published stands beside: there POP ran 36,000 steps on four nodes, whose clocks "
        "NTP set every 10 s: 1.008 to 1.020 times as long as with RGAP, and a deviation 8.8 times "
        "as large."
    )
    many = [series.ranks for series in report.series if series.ranks > report.cpus]
    if many:
        yield (
            f"With {', '.join(map(str, many))} processes on {report.cpus} processors ranks wait "
            "for their turn more than for each other: the times are the scheduler's."
        )
    for name, why in report.left_out.items():
        yield f"Left out: {_NAMES.get(name, name)}: {why}."
    yield from _failures(report)


def _failures(report: OceanReport) -> Iterator[str]:
    for series in report.series:
        for name in series.variants:
            reasons = series.failures(name)
            if reasons:
                where = f"{series.ranks} processes, {_NAMES.get(name, name)}"
                yield f"Failed with {where}: {reasons[0]}"
