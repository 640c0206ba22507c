"""What stood beside each variant's runs, in words: its name only says what was asked."""

from __future__ import annotations

from collections.abc import Iterator

from ullage.experiments.clock import view as words
from ullage.experiments.clock.ocean.outcome import (
    CHRONY,
    OURS,
    NoiseDone,
    OceanReport,
    OceanSeries,
    noise_name,
)


def lines(report: OceanReport) -> Iterator[str]:
    """A line for each kind of variant that has runs with figures."""
    yield from _line("Exchanges of chronyd during the runs", map(_exchanges, report.series))
    for bursts in report.options.noise:
        name = noise_name(bursts)
        yield from _line(
            name[0].upper() + name[1:], (_bursts(series, name) for series in report.series)
        )
    yield from _line("Our clock did not call itself global", map(_doubtful, report.series))


def _line(subject: str, parts: Iterator[str]) -> Iterator[str]:
    text = "; ".join(filter(None, parts))
    if text:
        yield f"{subject}: {text}."


def _exchanges(series: OceanSeries) -> str:
    counts = list(series.values(CHRONY, "exchanges").values())
    if not counts:
        return ""
    total = f"{sum(counts):,.0f} in {len(counts)} runs, {counts.count(0)} of them without any"
    return f"with {series.ranks} processes {total}"


def _bursts(series: OceanSeries, name: str) -> str:
    daemons = [t.noise for t in series.trials if t.variant == name and t.noise is not None]
    if not daemons:
        return ""
    count = sum(daemon.bursts for daemon in daemons)
    mean_s = sum(daemon.bursts * daemon.length_mean_s for daemon in daemons) / max(count, 1)
    overruns = sum(daemon.overruns for daemon in daemons)
    return (
        f"with {series.ranks} processes {count:,} bursts of {words.span(1e9 * mean_s)} on average"
        f" in {len(daemons)} runs, {overruns:,} left out as the one before had not ended,"
        f" {_priority(daemons)}"
    )


def _priority(daemons: list[NoiseDone]) -> str:
    usual = sum(daemon.fifo == 0 for daemon in daemons)
    if usual == 0:
        return "before all usual processes"
    often = "" if usual == len(daemons) else f" in {usual} of them"
    return f"by the usual scheduler{often}, for want of root: it waits for its turn"


def _doubtful(series: OceanSeries) -> str:
    flags = list(series.values(OURS, "wtime_is_global").values())
    doubtful = flags.count(0)
    return f"with {series.ranks} processes in {doubtful} of {len(flags)} runs" if doubtful else ""
