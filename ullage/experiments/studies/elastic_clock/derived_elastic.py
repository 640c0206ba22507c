"""What follows from the published figures of elasticity: bandwidths, times, shares, watts."""

from __future__ import annotations

import math
from typing import Final

from ullage.analysis.comparison.rounding import share
from ullage.experiments.studies.base import (
    Column,
    CsvRows,
    DerivedRow,
    DerivedTable,
    Read,
    StudyFigure,
    decimals,
    number,
)
from ullage.stats.interval import t_quantile

CONFIDENCE: Final = 0.95
RUNS: Final = 10
"""Repetitions of the blocking experiment. They are not among the published figures, but follow from
them: see `nearest_deviation`."""
CEILING_MBPS: Final = "896"
"""As the document has it: what its network card carried."""
RATING_W: Final = 865.0
"""Of the uninterruptible power supply."""
LOADS: Final = (("busy", "33.002", "285.467"), ("idle", "14.263", "123.375"))
"""The server, its load in percent of that rating, and the watts, both as printed."""


def tables(read: Read) -> tuple[DerivedTable, ...]:
    blocking = read("elastic2015_blocking")
    return (
        _bandwidth(read("elastic2015_streaming")),
        _allocation(read("elastic2015_allocation")),
        _blocked(blocking),
        _deviations(blocking),
        _watts(),
    )


def _bandwidth(rows: CsvRows) -> DerivedTable:
    """S4.1: clients × bitrate, all streams of the host together."""

    def cells(row: dict[str, str]) -> tuple[StudyFigure, ...]:
        clients = float(row["vms"]) * float(row["clients_per_vm"])
        total = clients * float(row["stream_Mbps"])
        full = math.isclose(total, number(CEILING_MBPS))
        return (
            StudyFigure(value=clients, printed=row["clients_total"]),
            StudyFigure(value=total, printed=CEILING_MBPS if full else None),
            StudyFigure(value=100 * total / number(CEILING_MBPS)),
        )

    return DerivedTable(
        key="bandwidth",
        caption="Streams that one host sustained, and what they come to",
        of="technique, instances",
        columns=(
            Column(title="clients", decimals=0),
            Column(title="aggregate bandwidth", unit="Mbit/s", decimals=1),
            Column(title="of the ceiling", unit="%", decimals=1),
        ),
        rows=tuple(
            DerivedRow(label=f"{row['technique']}, {row['vms']}", cells=cells(row)) for row in rows
        ),
        notes=(
            "All rows of native and LXC, and KVM with four and eight guests, stop at one figure: "
            "the network card's. They are not equal, they were not told apart: whoever reaches the "
            "ceiling may be any amount better. Only Xen, and KVM with one and two guests, show a "
            "limit of their own.",
            "Half and quarter clients (60.5, 30.25) are a total divided by the guests, no "
            "measurement of one guest.",
        ),
    )


def _allocation(rows: CsvRows) -> DerivedTable:
    """S4.2: mean ± t·s/√n, and each over the quickest by Fieller's theorem."""
    quickest = min(rows, key=lambda row: float(row["mean_s"]))
    ours = [
        DerivedRow(
            label=f"{row['hypervisor']} on {row['platform']}",
            cells=(mean_of(row), ratio_of(row, quickest)),
        )
        for row in rows
    ]
    return DerivedTable(
        key="allocation",
        caption="Time to allocate one instance, from mean, deviation and number of runs",
        of="hypervisor, platform",
        columns=(
            Column(title="mean", unit="s", decimals=3),
            Column(title="over the quickest", decimals=3),
        ),
        rows=tuple(ours),
        notes=(
            f"Intervals are {share(CONFIDENCE)}: Student's t for a mean, Fieller's (1954) for a "
            "ratio, from 20 runs each. They hold what those runs show of chance, and nothing of "
            "another hour, another host or another installation.",
            "OpenStack's 30 s of network contextualisation were left out there. With them KVM on "
            "OpenStack takes 40.7 s, and OpenNebula 1.46 times as long, not 5.54 times.",
        ),
    )


def mean_of(row: dict[str, str]) -> StudyFigure:
    """A mean with its interval by Student's t."""
    mean, n = float(row["mean_s"]), int(row["runs"])
    half = t_quantile(0.5 + CONFIDENCE / 2, n - 1) * float(row["stddev_s"]) / math.sqrt(n)
    return StudyFigure(value=mean, low=mean - half, high=mean + half)


def ratio_of(row: dict[str, str], over: dict[str, str]) -> StudyFigure:
    """Ratio of two means with Fieller's interval (1954, J. R. Stat. Soc. B 16:175), of summaries.

    The two were measured apart, so their errors are independent; degrees of freedom are those of
    the smaller sample, which is to the safe side of Welch–Satterthwaite.
    """
    if row is over:
        return StudyFigure(value=1.0)
    a, b = float(row["mean_s"]), float(over["mean_s"])
    n, m = int(row["runs"]), int(over["runs"])
    spread_a, spread_b = float(row["stddev_s"]) ** 2 / n, float(over["stddev_s"]) ** 2 / m
    t = t_quantile(0.5 + CONFIDENCE / 2, min(n, m) - 1)
    g = t * t * spread_b / (b * b)
    if g >= 1:
        return StudyFigure(value=a / b, why="the mean below the line is not clear of 0")
    half = t * math.sqrt(spread_a * (1 - g) + (a / b) ** 2 * spread_b) / b
    return StudyFigure(value=a / b, low=(a / b - half) / (1 - g), high=(a / b + half) / (1 - g))


def _blocked(rows: CsvRows) -> DerivedTable:
    """S4.4: PcBl = blocked / requests, of the means over the runs."""

    def cells(row: dict[str, str]) -> tuple[StudyFigure, ...]:
        requests, mean = float(row["requests_received_mean"]), float(row["blocked_mean"])
        least, most = int(row["blocked_best"]), int(row["blocked_worst"])
        inside = least <= mean <= most
        agrees = StudyFigure(value=100 * mean / requests, printed=row["blocked_pct"])
        return (
            agrees if agrees.agrees else agrees.model_copy(update={"why": _SHIFTED}),
            StudyFigure(value=mean),
            StudyFigure(
                value=float(least), why="" if inside else f"the mean {mean:g} lies below it"
            ),
            StudyFigure(value=float(most)),
        )

    return DerivedTable(
        key="blocked",
        caption="Viewers blocked by allocation latency, of those who asked",
        of="platform, viewers, patience",
        columns=(
            Column(title="PcBl", unit="%", decimals=3),
            Column(title="blocked", decimals=3),
            Column(title="best run", decimals=0),
            Column(title="worst run", decimals=0),
        ),
        rows=tuple(DerivedRow(label=label(row), cells=cells(row)) for row in rows),
        notes=(
            "Nine of ten percentages follow from the printed means. Xen on OpenStack with 400 "
            "viewers does not: 3.441 of 398.8 are 0.86 %, not 2.11 %, and 3.441 lies below the "
            "best run. See the next table.",
            "KVM on OpenStack with 200 viewers and a patience of 120 s: the text prints 25 as the "
            "best run; the figure's run has 2, which is what stands here. A best run of 25 cannot "
            "have a mean of 4.1.",
            "Some experiments count fewer requests than viewers (199.2 of 200, 390.3 of 400): not "
            "everybody was heard, and the shares are of those who were.",
        ),
    )


_SHIFTED: Final = "the printed mean is a deviation: 2.11 % of 398.8 are 8.4"


def label(row: dict[str, str]) -> str:
    """`kvm on openstack, 400, 60 s`."""
    where = f"{row['hypervisor']} on {row['platform']}"
    return f"{where}, {row['clients']}, {row['patience_s']} s"


def _deviations(rows: CsvRows) -> DerivedTable:
    """Can the printed means and deviations be those of so many whole numbers?"""
    return DerivedTable(
        key="blocked-deviations",
        caption=f"The printed deviations, if blocked viewers were counted in {RUNS} runs",
        of="platform, viewers, patience",
        columns=(
            Column(title="mean", decimals=1),
            Column(title="nearest deviation possible", decimals=4),
        ),
        rows=tuple(_possible(row) for row in rows),
        notes=(
            "Blocked viewers are whole, so the mean of n runs is a multiple of 1/n and n times its "
            "square plus n deviations squared is a whole number of the parity of the sum (GRIM, "
            "Brown & Heathers 2017; GRIMMER, Anaya 2016). All means are tenths but the one that "
            "cannot be one, and seven deviations are the root of the mean square of ten whole "
            "numbers to their last digit. So there were ten runs, although it is not said, and the "
            "division was by n.",
            "Xen on OpenStack with 400 viewers: with the mean 8.4 of its percentage, 3.441, which "
            "is printed as the mean, is such a deviation. 1.47, which is printed as the deviation, "
            "is none: ten numbers from 5 to 13 deviate by 1.79 at least. It may be that of the "
            "398.8 requests. So the row probably means 8.4 ± 3.441 blocked of 398.8 ± 1.47.",
            "KVM on OpenNebula: 3.112 was printed for the requests too and belongs to neither in "
            "ten runs; 25.505 fits ten runs when divided by n − 1.",
        ),
    )


def _possible(row: dict[str, str]) -> DerivedRow:
    requests, printed = float(row["requests_received_mean"]), row["blocked_stddev"]
    mean = float(row["blocked_mean"])
    if not whole(mean * RUNS):
        mean = round(float(row["blocked_pct"]) / 100 * requests * RUNS) / RUNS
    nearest = StudyFigure(value=nearest_deviation(mean, number(printed), RUNS), printed=printed)
    if not nearest.agrees:
        why = f"no {RUNS} whole numbers with the mean {mean:g} deviate by {printed}"
        nearest = nearest.model_copy(update={"why": why})
    elif not spread_fits(row):
        why = f"{RUNS} numbers from the best run to the worst deviate by more"
        nearest = nearest.model_copy(update={"why": why})
    return DerivedRow(label=label(row), cells=(StudyFigure(value=mean), nearest))


def whole(value: float) -> bool:
    """Is it a whole number, but for the rounding of floats?"""
    return math.isclose(value, round(value), rel_tol=0, abs_tol=1e-6)


def spread_fits(row: dict[str, str]) -> bool:
    """Is the deviation at least the least that its range allows, (worst − best) / √(2n)?

    The least is reached by one value at each end and all others in the middle.
    """
    width = float(row["blocked_worst"]) - float(row["blocked_best"])
    slack = 0.5 * 10.0 ** -decimals(row["blocked_stddev"])
    return number(row["blocked_stddev"]) + slack >= width / math.sqrt(2 * RUNS)


def nearest_deviation(mean: float, deviation: float, n: int) -> float:
    """The standard deviation (divided by n) nearest to one, of n whole numbers with that mean.

    With the sum S = n·mean, Σx² is a whole number of the parity of S, as x² and x are of one
    parity; the deviation is √(Σx²/n − mean²).
    """
    total = round(n * mean)
    sum_of_squares = n * deviation**2 + total**2 / n
    squares = total + 2 * round((sum_of_squares - total) / 2)
    candidates = (q / n - (total / n) ** 2 for q in (squares - 2, squares, squares + 2))
    return min((math.sqrt(v) for v in candidates if v >= 0), key=lambda s: abs(s - deviation))


def _watts() -> DerivedTable:
    """S4.6: load × rating."""
    rows = [
        DerivedRow(
            label=load_name,
            cells=(
                StudyFigure(value=number(load)),
                StudyFigure(value=number(load) / 100 * RATING_W, printed=watts),
            ),
        )
        for load_name, load, watts in LOADS
    ]
    busy, idle = (number(load) / 100 * RATING_W for _, load, _ in LOADS)
    rows.append(DerivedRow(label="above idle", cells=("", StudyFigure(value=busy - idle))))
    return DerivedTable(
        key="watts",
        caption="Power of the host, from the load of its power supply",
        of="host",
        columns=(
            Column(title="load", unit="%", decimals=3),
            Column(title="power", unit="W", decimals=3),
        ),
        rows=tuple(rows),
        notes=(
            f"Load times the rating of {RATING_W:g} W. Six digits are printed; a power supply that "
            "tells its load in whole percents knows 8.65 W, and what stands above idle is what the "
            "work took.",
        ),
    )
