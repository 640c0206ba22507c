"""The clock put to the test on this machine: loops of known length, and who is before whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ullage.experiments.clock import view
from ullage.experiments.clock.outcomes import Loop, Timed
from ullage.experiments.clock.reports import CheckReport, ClientOrder, ScalingReport
from ullage.experiments.studies.base import Column, DerivedRow, DerivedTable, StudyFigure

_BINS: Final = 3
"""Of a histogram, whose first ones hold nearly all: as many as were told there."""
_QUANTILES: Final = (
    Column(title="25 %", unit="µs", decimals=3),
    Column(title="median", unit="µs", decimals=3),
    Column(title="75 %", unit="µs", decimals=3),
    Column(title="99 %", unit="µs", decimals=3),
    Column(title="most", unit="µs", decimals=1),
)


def loops(report: CheckReport) -> DerivedTable:
    """S4.8: how long loops of 10 K, 100 K and 1 M instructions take, by each clock."""
    return DerivedTable(
        key="clock-loops-fresh",
        caption="How long loops of known length take, by each clock",
        of="instructions, clock",
        columns=(
            *_QUANTILES,
            Column(title="fullest bin", unit="%", decimals=2),
            Column(title=f"fullest {_BINS} in a row", unit="%", decimals=2),
        ),
        rows=tuple(_loop_rows(report)),
        notes=(
            "Both clocks time the same runs of a loop, ours inside. A bin is a "
            f"{_per_decade(report)}th of a decade wide; the whole histograms are drawn by `ullage "
            "clock check --html`.",
            _witness(report),
            "Nothing stands beside: there the other clock was a card on PCIe whose read takes "
            "6.5 µs, and the width of a bin was not said.",
        ),
    )


def loop_means(report: CheckReport) -> DerivedTable | None:
    """Their means, by the counter of the processor."""
    loops_with_work = [loop for loop in report.loops.loops if loop.instructions]
    if not loops_with_work:
        return None
    return DerivedTable(
        key="clock-loop-means-fresh",
        caption="Loops of known length: means, by the processor's counter",
        of="instructions",
        columns=(
            Column(title="ours (now)", unit="µs", decimals=3),
            Column(title="deviation", unit="µs", decimals=3),
        ),
        rows=tuple(
            DerivedRow(
                label=f"{loop.instructions:,}",
                cells=(
                    StudyFigure(value=loop.rvec.durations.mean_ns / 1e3),
                    StudyFigure(value=loop.rvec.durations.sd_ns / 1e3),
                ),
            )
            for loop in loops_with_work
        ),
        notes=(
            "Nothing stands beside: what the 10 K of the loops there count was not said. 86.163 µs "
            "are some 200,000 cycles at 2.33 GHz: 20 for each of 10,000.",
        ),
    )


def _loop_rows(report: CheckReport) -> Iterator[DerivedRow]:
    for loop in report.loops.loops:
        length = f"{loop.instructions:,}" if loop.instructions else "none: the reads"
        for name, timed in _clocks(loop):
            took = timed.durations
            quantiles = (took.p25_ns, took.p50_ns, took.p75_ns, took.p99_ns, took.max_ns)
            yield DerivedRow(
                label=f"{length}, {name}",
                cells=(
                    *(StudyFigure(value=ns / 1e3) for ns in quantiles),
                    StudyFigure(value=_fullest(timed, 1)),
                    StudyFigure(value=_fullest(timed, _BINS)),
                ),
            )


def _clocks(loop: Loop) -> Iterator[tuple[str, Timed]]:
    yield view.NAMES["rvec"], loop.rvec
    yield view.NAMES["monotonic-raw"], loop.raw
    if loop.external is not None:
        yield "independent clock", loop.external


def _fullest(timed: Timed, bins: int) -> float:
    """Per cent of all values that so many neighbouring bins hold at most; there is no gap."""
    counts = [bin_.count for bin_ in timed.histogram.bins]
    together = (sum(counts[first : first + bins]) for first in range(len(counts)))
    return 100 * max(together, default=0) / timed.durations.count


def _per_decade(report: CheckReport) -> int:
    return report.loops.loops[0].rvec.histogram.per_decade if report.loops.loops else 0


def _witness(report: CheckReport) -> str:
    external = report.loops.external
    if external is None:
        return f"No clock with an oscillator of its own is here: {report.loops.raw_is}."
    return f"The independent clock is {external.device} ({external.name}): {external.why}."


def cores(report: CheckReport) -> DerivedTable | None:
    """S4.7: does a value of one core ever come before one that another has passed on?"""
    strict = report.strict
    if not strict.across:
        return None
    alone = strict.alone
    promised = "nothing" if strict.promised_ns is None else view.span(strict.promised_ns)
    notes = [
        "A core reads its clock and passes the value on; another reads and holds it against what "
        f"came. Ours promises {promised} between cores of this machine, the bare counter nothing.",
    ]
    if alone is not None:
        notes.append(
            f"By themselves {alone.threads} threads that were moved {alone.moves:,} times read "
            f"{alone.reads:,} values: {alone.backward:,} went back, {alone.equal:,} stood still."
        )
    return DerivedTable(
        key="clock-order-cores-fresh",
        caption="Who is before whom: time-stamps of two cores",
        of="clock",
        columns=(
            Column(title="comparisons", decimals=0),
            Column(title="went back", decimals=0),
            Column(title="by at most", unit="ns", decimals=0),
        ),
        rows=tuple(
            DerivedRow(
                label=view.NAMES[pair.clock],
                cells=(
                    StudyFigure(value=float(pair.comparisons)),
                    StudyFigure(value=float(pair.backward)),
                    StudyFigure(value=float(pair.worst_ns)),
                ),
            )
            for pair in strict.across
        ),
        notes=tuple(notes),
    )


def clients(report: ScalingReport) -> DerivedTable | None:
    """S4.10: two clients of one server, and whether their stamps are in order."""
    rows = [_client_row(stage.name, stage.order) for stage in report.stages if stage.order]
    if not rows:
        return None
    return DerivedTable(
        key="clock-order-clients-fresh",
        caption="Who is before whom: time-stamps of two clients of one server",
        of="network",
        columns=(
            Column(title="messages", decimals=0),
            Column(title="received before sent", decimals=0),
            Column(title="by at most", unit="µs", decimals=2),
            Column(title="quickest there", unit="µs", decimals=2),
            Column(title="quickest back", unit="µs", decimals=2),
            Column(title="clocks apart", unit="µs", decimals=2),
            Column(title="bound of both", unit="µs", decimals=2),
        ),
        rows=tuple(rows),
        notes=(
            "After one synchronisation each, the clients send each other messages in turn and "
            "stamp both ends: what is received was sent before, so its stamp must be the larger "
            "one. There one client was always first, which a clock behind by any time would pass.",
            "Clocks apart: half the difference between the quickest of both ways, which takes the "
            "ways to be alike.",
        ),
    )


def _client_row(network: str, order: ClientOrder) -> DerivedRow:
    there, back = order.shortest_ns
    bound = order.bound_ns
    return DerivedRow(
        label=network,
        cells=(
            StudyFigure(value=float(order.messages)),
            StudyFigure(value=float(order.backward)),
            StudyFigure(value=order.worst_ns / 1e3),
            StudyFigure(value=there / 1e3),
            StudyFigure(value=back / 1e3),
            StudyFigure(value=abs(there - back) / 2e3),
            StudyFigure(value=None, why="nothing is promised")
            if bound is None
            else StudyFigure(value=bound / 1e3),
        ),
    )
