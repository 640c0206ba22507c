"""What follows from the published figures of the clock: reads, corrections, the ocean program."""

from __future__ import annotations

from typing import Final

from ullage.experiments.studies.base import (
    Column,
    CsvRows,
    DerivedRow,
    DerivedTable,
    Read,
    StudyFigure,
)

COST_RATIOS: Final = {("rvec", "tsc"): "1.63", ("rvec", "monotonic"): "0.73"}
"""As printed: clock over clock."""
_NAMES: Final = {"tsc": "TSC", "monotonic": "CLOCK_MONOTONIC", "rvec": "RVEC"}


def tables(read: Read) -> tuple[DerivedTable, ...]:
    ocean = read("clock2015_pop")
    return (
        _cost(read("clock2015_cost")),
        _loops(read("clock2015_loops")),
        _corrections(read("clock2015_ntp")),
        _ocean(ocean),
        _speedup(ocean),
    )


def cost_ratio(rows: CsvRows, clock: str, over: str) -> float:
    """One mean over another."""
    means = {row["clock"]: float(row["mean_ns"]) for row in rows}
    return means[clock] / means[over]


def _cost(rows: CsvRows) -> DerivedTable:
    """S4.8: what one read costs, over the counter's and the kernel's clock."""
    bases = ("tsc", "monotonic")

    def cells(row: dict[str, str]) -> tuple[StudyFigure, ...]:
        clock = row["clock"]
        ratios = (
            StudyFigure(value=cost_ratio(rows, clock, base), printed=COST_RATIOS.get((clock, base)))
            for base in bases
        )
        varies = StudyFigure(value=100 * float(row["stddev_ns"]) / float(row["mean_ns"]))
        return (StudyFigure(value=float(row["mean_ns"])), *ratios, varies)

    return DerivedTable(
        key="clock-cost",
        caption="What a read of each clock costs",
        of="clock",
        columns=(
            Column(title="mean", unit="ns", decimals=0),
            *(Column(title=f"÷ {_NAMES[base]}", decimals=3) for base in bases),
            Column(title="coefficient of variation", unit="%", decimals=2),
        ),
        rows=tuple(DerivedRow(label=_NAMES[row["clock"]], cells=cells(row)) for row in rows),
        notes=(
            "257 ns are many times what the instruction takes on machines of then and now, so the "
            "loop or the call around a read was probably timed with it. What is the same in all "
            "three brings both ratios nearer to 1 than those of the reads themselves.",
        ),
    )


_APART: Final = {"10000": "6.505", "100000": "6.543", "1000000": "6.642"}
"""µs by which the card's means are longer, as printed."""


def _loops(rows: CsvRows) -> DerivedTable:
    """S4.8: the same loops by the counter and by a card; their difference."""
    first = rows[0]

    def cells(row: dict[str, str]) -> tuple[StudyFigure, ...]:
        tsc = float(row["tsc_mean_us"])
        apart = float(row["gps_mean_us"]) - tsc
        grown = apart - (float(first["gps_mean_us"]) - float(first["tsc_mean_us"]))
        longer = tsc - float(first["tsc_mean_us"])
        return (
            StudyFigure(value=tsc),
            StudyFigure(value=100 * float(row["tsc_stddev_us"]) / tsc),
            StudyFigure(value=apart, printed=_APART[row["loop"]]),
            StudyFigure(value=1e6 * grown / longer)
            if longer
            else StudyFigure(value=None, why="it is the first"),
        )

    return DerivedTable(
        key="clock-loops",
        caption="Loops of three lengths, by the processor's counter and by a card on PCIe",
        of="loop",
        columns=(
            Column(title="TSC", unit="µs", decimals=3),
            Column(title="coefficient of variation", unit="%", decimals=2),
            Column(title="card longer by", unit="µs", decimals=3),
            Column(title="grown since the first", unit="ppm", decimals=0),
        ),
        rows=tuple(DerivedRow(label=f"{int(row['loop']):,}", cells=cells(row)) for row in rows),
        notes=(
            "The difference is the read of the card, and is said not to grow: from the shortest to "
            "the longest loop it grows by 0.137 µs in 7.77 ms, 18 ppm. How many values the longer "
            "loops had was not said, so whether a mean grows by chance cannot be judged; it is no "
            "proof that the clocks do not drift.",
        ),
    )


def _corrections(rows: CsvRows) -> DerivedTable:
    """S4.12: how far NTP moved the clock at each poll, and the rate that this would be."""
    mean = {row["interval_s"]: float(row["mean_adjustment_us"]) for row in rows}

    def cells(row: dict[str, str]) -> tuple[StudyFigure, ...]:
        seconds = float(row["interval_s"])
        mean_us, spread = mean[row["interval_s"]], float(row["stddev_us"])
        ppm = (
            StudyFigure(value=mean_us / seconds)
            if seconds
            else StudyFigure(value=None, why="no time between")
        )
        return (
            StudyFigure(value=mean_us),
            StudyFigure(value=mean_us / mean["0"]),
            StudyFigure(value=100 * spread / mean_us),
            ppm,
        )

    return DerivedTable(
        key="clock-ntp",
        caption="Corrections that NTP made, by the interval between two polls",
        of="interval, s",
        columns=(
            Column(title="mean correction", unit="µs", decimals=2),
            Column(title="over that at 0 s", decimals=2),
            Column(title="coefficient of variation", unit="%", decimals=1),
            Column(title="correction ÷ interval", unit="ppm", decimals=2),
        ),
        rows=tuple(DerivedRow(label=row["interval_s"], cells=cells(row)) for row in rows),
        notes=(
            "An oscillator with a constant error would be corrected by as many parts per million "
            "at any interval. 66 at 10 s and 17 at 600 s cannot both be the oscillator: at short "
            "intervals most of a correction is NTP's own noise, of which half a millisecond is "
            "there with no interval at all.",
        ),
    )


def _ocean(rows: CsvRows) -> DerivedTable:
    """S4.11: the time of the ocean program with NTP and with the global clock."""

    def cells(row: dict[str, str]) -> tuple[StudyFigure, ...]:
        if not row["rgap_s"]:
            gone = "neither time is published, only their difference"
            missing = StudyFigure(value=None, why=gone)
            return (
                missing,
                missing,
                StudyFigure(value=None, printed=row["difference_s"], why=gone),
            )
        rgap, ntp = float(row["rgap_s"]), float(row["ntp_s"])
        return (
            StudyFigure(value=ntp / rgap),
            StudyFigure(value=100 * (ntp - rgap) / rgap),
            StudyFigure(value=ntp - rgap, printed=row["difference_s"]),
        )

    return DerivedTable(
        key="clock-pop",
        caption="POP: its time with NTP against its time with RGAP",
        of="processes",
        columns=(
            Column(title="NTP ÷ RGAP", decimals=4),
            Column(title="longer by", unit="%", decimals=2),
            Column(title="longer by", unit="s", decimals=3),
        ),
        rows=tuple(DerivedRow(label=row["mpi_processes"], cells=cells(row)) for row in rows),
        notes=(
            "These are means of ten runs, and the deviation with NTP is said to be 8.8 times that "
            "with RGAP; neither deviation is printed, so no interval can be given, and whether 0.8 "
            "to 2 % are more than chance cannot be told. “2 %” is the best of the four, and the "
            "“5 to 19 s” hold 4.536.",
            "NTP's times for 16 to 48 processes are not printed: that for 16 follows from the "
            "difference.",
        ),
    )


def _speedup(rows: CsvRows) -> DerivedTable:
    """The same times against the number of processes."""
    timed = [row for row in rows if row["rgap_s"]]
    first = timed[0]

    def cells(row: dict[str, str]) -> tuple[StudyFigure, ...]:
        more = float(row["mpi_processes"]) / float(first["mpi_processes"])
        ups = [float(first[clock]) / float(row[clock]) for clock in ("rgap_s", "ntp_s")]
        return (*(StudyFigure(value=up) for up in ups), StudyFigure(value=100 * ups[0] / more))

    return DerivedTable(
        key="clock-pop-speedup",
        caption=f"POP: times as fast as with {first['mpi_processes']} processes",
        of="processes",
        columns=(
            Column(title="with RGAP", decimals=3),
            Column(title="with NTP", decimals=3),
            Column(title="efficiency with RGAP", unit="%", decimals=1),
        ),
        rows=tuple(DerivedRow(label=row["mpi_processes"], cells=cells(row)) for row in timed),
        notes=(
            "16 processes take half as long again as 12, with either clock: something else than "
            "the clock decides about these times.",
        ),
    )
