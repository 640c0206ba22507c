"""What chrony does to a guest's clock, and how far off that clock and ours are meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

from ullage.experiments.clock.ntp.outcome import CLOCKS, IntervalOutcome, NtpReport
from ullage.experiments.studies.base import (
    Column,
    DerivedCell,
    DerivedRow,
    DerivedTable,
    StudyFigure,
)


def corrections(report: NtpReport) -> DerivedTable:
    """S4.12: the corrections that chrony makes while it runs."""

    def cells(mean_ns: float | None) -> tuple[DerivedCell, ...]:
        if mean_ns is None:
            return (StudyFigure(value=None, why="chrony made no correction that counts"),)
        return (StudyFigure(value=mean_ns / 1e3),)

    intervals = report.measured.intervals
    return DerivedTable(
        key=_key("clock-ntp", intervals),
        caption="Corrections of an NTP daemon that has settled, by the interval between two polls",
        of="interval, s",
        columns=(Column(title="mean", unit="µs", decimals=2),),
        rows=tuple(
            DerivedRow(
                label=f"{interval.asked_s:g}",
                cells=cells(interval.applied.mean_ns if interval.applied else None),
            )
            for interval in intervals
        ),
        notes=(
            "Here chrony disciplines the clock of an emulated guest whose oscillator is wrong by a "
            "known amount, and its corrections are seen from outside. It polls each 2^n seconds.",
            "The published figures stand in their own table and not here: there a client was "
            "started anew for each correction, 200 times 20 of them at each interval (28 days at "
            "600 s), which is another experiment than a daemon that goes on.",
        ),
    )


def beside(report: NtpReport) -> DerivedTable | None:
    """S4.12: chrony's clock and ours in one guest, over the same seconds, by the same exchanges."""
    intervals = report.measured.intervals
    rows = tuple(row for interval in intervals for row in _clock_rows(interval))
    if not rows:
        return None
    return DerivedTable(
        key=_key("clock-beside", intervals),
        caption="How far off a guest's clock is: disciplined by chrony, and ours beside it",
        of="interval of chrony, s, and clock",
        columns=(
            Column(title="learned for", unit="s", decimals=0),
            Column(title="then watched for", unit="s", decimals=0),
            Column(title="exchanges", decimals=0),
            Column(title="median", unit="µs", decimals=2),
            Column(title="90 %", unit="µs", decimals=2),
            Column(title="most", unit="µs", decimals=2),
            Column(title="its own bound", unit="µs", decimals=2),
            Column(title="the judge's bound", unit="µs", decimals=2),
        ),
        rows=rows,
        notes=(
            "One guest whose oscillator is wrong by "
            f"{report.measured.options.frequency_error_ppm:g} ppm, one time to learn, one time to "
            "be watched: chrony polls on and steers the clock, ours exchanges nothing after it has "
            "learned. Each is held against the host's clock that it follows, by exchanges that "
            "neither has seen, each wrong by no more than half its round trip: what is below the "
            "judge's bound is not told apart for certain.",
            "After one exchange ours knows no rate, and is off by that of the oscillator times the "
            "seconds since; with those until chrony had settled it knows it. Correcting it is for "
            "afterwards: a time-stamp's way back, and no clock to be read meanwhile.",
            "Nothing published stands beside: there NTP's clients were started anew for each "
            "correction, and no clock was held against a third.",
        ),
    )


def _clock_rows(interval: IntervalOutcome) -> Iterator[DerivedRow]:
    held = interval.beside
    if interval.beside_why is not None:
        missing = StudyFigure(value=None, why=interval.beside_why)
        yield DerivedRow(label=f"{interval.asked_s:g}, not compared", cells=(missing,) * 8)
    for errors in held.errors if held is not None else ():
        assert held is not None
        off = errors.off
        yield DerivedRow(
            label=f"{interval.asked_s:g}, {CLOCKS[errors.clock]}",
            cells=(
                StudyFigure(value=(interval.settled_ns or 0) / 1e9),
                StudyFigure(value=(held.until_ns - held.from_ns) / 1e9),
                StudyFigure(value=float(off.count)),
                *(StudyFigure(value=ns / 1e3) for ns in (off.p50_ns, off.p90_ns, off.max_ns)),
                StudyFigure(value=None, why="chrony's own was not read")
                if errors.bound_ns is None
                else StudyFigure(value=errors.bound_ns / 1e3),
                StudyFigure(value=errors.judge_ns / 1e3),
            ),
        )


def _key(name: str, intervals: list[IntervalOutcome]) -> str:
    """Runs of several plans stand on one page: each by its intervals."""
    return "-".join([name, *(f"{interval.asked_s:g}" for interval in intervals), "fresh"])
