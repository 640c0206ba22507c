"""`ullage clock ocean`: an ocean model's times under each clock."""

from __future__ import annotations

from ullage.experiments.clock import view as words
from ullage.experiments.clock.lab import Advance, Bar
from ullage.experiments.clock.ocean import conditions, judging
from ullage.experiments.clock.ocean.outcome import (
    OURS,
    STOCK,
    OceanOptions,
    OceanReport,
    OceanSeries,
)
from ullage.experiments.clock.view import ClockSection, View, table
from ullage.report.views import Table
from ullage.stats.interval import TooFewError, t_interval

_HEADS = ("run", "deviation", "÷ stock", "÷ ours", "clocks apart", "runs", "failed")


def check(options: OceanOptions) -> None:
    """Raise what this host lacks for it. HOST_MISSING, PROGRAM_MISSING."""
    from ullage.experiments.clock.ocean import experiment

    experiment.check(options.mpi)


def measure(progress: Bar, options: OceanOptions) -> OceanReport:
    """Every variant in turn, with each number of ranks. HOST_MISSING, PROGRAM_MISSING."""
    # A page is written where no MPI is.
    from ullage.experiments.clock.ocean import experiment

    stages: dict[int, Advance] = {}

    def advance(ranks: int, done: int, of: int) -> None:
        if ranks not in stages:
            stages[ranks] = progress.stage(f"the ocean program, {ranks} ranks")
            progress.say(f"the ocean program, {ranks} ranks: {of} runs")
        stages[ranks](done, of)

    return experiment.measure(options, advance)


def view(report: OceanReport) -> View:
    """A table for each number of ranks."""
    return View(
        "An ocean model under each clock",
        tuple(_answer(series) for series in report.series),
        (
            ClockSection(
                "Run times of the program",
                lines=(
                    *(f"Left out: {name}: {why}" for name, why in report.left_out.items()),
                    *conditions.lines(report),
                ),
                tables=tuple(_table(series) for series in report.series),
            ),
            ClockSection(
                "Made with",
                lines=(
                    f"{report.cpus} processors",
                    *(f"{program}: {how}" for program, how in report.versions.items()),
                ),
            ),
        ),
    )


def _answer(series: OceanSeries) -> str:
    judged, _ = judging.verdicts(series, [OURS])
    verdict = judged[OURS].verdict or "no verdict"
    ratio = _ratio(series, OURS, STOCK)
    return f"{series.ranks} ranks: with our clock the run takes {ratio} times as long: {verdict}."


def _table(series: OceanSeries) -> Table:
    rows = [_row(series, name) for name in series.variants]
    return table(f"{series.ranks} ranks", ("variant", *_HEADS), rows)


def _row(series: OceanSeries, name: str) -> tuple[str, ...]:
    totals = judging.median(series, name, "total_s")
    apart = judging.median(series, name, "skew_after_s")
    deviation = judging.deviation(series, name)
    return (
        name,
        "–" if totals is None else words.span(1e9 * totals.estimate),
        "–" if deviation is None else words.span(1e9 * deviation),
        _ratio(series, name, STOCK),
        _ratio(series, name, OURS),
        "–" if apart is None else words.span(1e9 * apart.estimate),
        str(len(series.values(name, "total_s"))),
        str(len(series.failures(name))),
    )


def _ratio(series: OceanSeries, name: str, base: str) -> str:
    if name == base:
        return "1"
    try:
        interval = t_interval(judging.log_ratios(series, name, "total_s", base), judging.CONFIDENCE)
    except TooFewError:
        return "–"
    return f"{interval.estimate:.3f} ({interval.low:.3f} to {interval.high:.3f})"
