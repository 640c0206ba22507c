"""The clock from measurements of our own: its reads, its precision, how it is spread over nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ullage.experiments.clock import view
from ullage.experiments.clock.outcomes import ClockReader, MedianInterval, ReadCost
from ullage.experiments.clock.reports import CheckReport, CostReport, ScalingReport, name
from ullage.experiments.studies import clockfile
from ullage.experiments.studies.base import (
    Column,
    CsvRows,
    DerivedCell,
    DerivedRow,
    DerivedTable,
    Read,
    StudyFigure,
)
from ullage.experiments.studies.elastic_clock import fresh_check, fresh_ntp, fresh_ocean
from ullage.experiments.studies.elastic_clock.derived_clock import cost_ratio

_OVER: Final[tuple[ClockReader, ...]] = ("counter", "monotonic")
_THERE: Final = {"counter": "tsc", "monotonic": "monotonic", "rvec": "rvec"}
"""Ours → theirs."""
_KERNEL_CLOCK: Final = "hpet"
_OTHER_SOURCE: Final = (
    "there the kernel's clock was read from HPET, outside the processor, and here it is not"
)
_NODES: Final = (10, 1_000, 100_000, 1_000_000)


def tables(path: Path, read: Read) -> list[DerivedTable | None]:
    """Of a folder that a plan for the clock left."""
    record = clockfile.read(path)
    return [
        _cost(record.cost, read("clock2015_cost")) if record.cost else None,
        _precision(record.check) if record.check else None,
        fresh_check.loops(record.check) if record.check else None,
        fresh_check.loop_means(record.check) if record.check else None,
        fresh_check.cores(record.check) if record.check else None,
        _scaling(record.scaling) if record.scaling else None,
        fresh_check.clients(record.scaling) if record.scaling else None,
        fresh_ntp.corrections(record.ntp) if record.ntp else None,
        fresh_ntp.beside(record.ntp) if record.ntp else None,
        fresh_ocean.table(record.ocean) if record.ocean else None,
    ]


def _figure(interval: MedianInterval | None, scale: float = 1.0) -> StudyFigure:
    if interval is None:
        return StudyFigure(value=None, why="not measured here")
    return StudyFigure(
        value=interval.median / scale, low=interval.low / scale, high=interval.high / scale
    )


def _cost(report: CostReport, published: CsvRows) -> DerivedTable:
    """S4.8: ratios of the same round, beside the published ones."""

    def published_ratio(clock: ClockReader, over: ClockReader) -> StudyFigure:
        if clock not in _THERE:
            return StudyFigure(value=None, why="no such clock was published")
        if over == "monotonic" and report.measured.machine.clocksource != _KERNEL_CLOCK:
            return StudyFigure(value=None, why=_OTHER_SOURCE)
        return StudyFigure(value=cost_ratio(published, _THERE[clock], _THERE[over]))

    def cells(cost: ReadCost) -> tuple[DerivedCell, ...]:
        ratios = {ratio.over: ratio.ratio for ratio in cost.ratios}
        ours = tuple(_figure(ratios.get(over)) for over in _OVER)
        return (_figure(cost.ns), *ours, *(published_ratio(cost.clock, over) for over in _OVER))

    return DerivedTable(
        key="clock-cost-fresh",
        caption="What a read of each clock costs, here and there",
        of="clock",
        columns=(
            Column(title="a read", unit="ns", decimals=2),
            *(Column(title=f"÷ {view.NAMES[over]}", decimals=3) for over in _OVER),
            *(Column(title=f"÷ {view.NAMES[over]} there", decimals=2) for over in _OVER),
        ),
        rows=tuple(
            DerivedRow(label=view.NAMES[cost.clock], cells=cells(cost))
            for cost in sorted(report.measured.clocks, key=lambda cost: cost.ns.median)
        ),
        notes=(
            "Medians of interleaved rounds with 95 % intervals by order statistics; ratios are of "
            "the same round. Nanoseconds are of this machine and hour.",
        ),
    )


def _precision(report: CheckReport) -> DerivedTable:
    """S4.7, S4.8: is even the shortest piece of work told to take time?"""
    ecp = report.ecp
    return DerivedTable(
        key="clock-ecp-fresh",
        caption=f"Strictly increasing and precise? {ecp.additions} additions, "
        f"{ecp.iterations:,} times in each of {ecp.runs} runs",
        of="clock, thread",
        columns=(
            Column(title="median", unit="ns", decimals=1),
            Column(title="zero", decimals=0),
            Column(title="negative", decimals=0),
        ),
        rows=tuple(
            DerivedRow(
                label=f"{view.NAMES[elapsed.clock]}, {placed.placement.replace('-', ' ')}",
                cells=(
                    StudyFigure(value=elapsed.durations.p50_ns)
                    if elapsed.durations
                    else StudyFigure(value=None, why="no duration was measured"),
                    StudyFigure(value=float(elapsed.zero)),
                    StudyFigure(value=float(elapsed.backward)),
                ),
            )
            for placed in ecp.placements
            for elapsed in placed.clocks
        ),
        notes=(
            "A duration of zero, or a negative one, is the clock's fault: it is not precise.",
            "The tests found nothing against the clock."
            if report.kept
            else "The tests found the clock wrong on this machine.",
        ),
    )


def _scaling(report: ScalingReport) -> DerivedTable:
    """S4.10: until all nodes are synchronised, real and simulated, and the bound of the worst."""
    rows = []
    for stage in report.stages:
        for real in stage.real:
            rows.append(
                DerivedRow(
                    label=f"{stage.name}, {name(real.topology)}, {real.nodes} real",
                    cells=(
                        StudyFigure(value=sum(real.elapsed_ns) / len(real.elapsed_ns) / 1e6),
                        StudyFigure(value=sum(real.messages) / len(real.messages)),
                        StudyFigure(value=max(real.hard_ns) / 1e3),
                    ),
                )
            )
        for point in stage.simulated.points:
            if point.nodes in _NODES:
                rows.append(
                    DerivedRow(
                        label=f"{stage.name}, {name(point.topology)}, {point.nodes:,} simulated",
                        cells=(
                            _figure(point.total_ns, 1e6),
                            _figure(point.messages),
                            _figure(point.bound_ns, 1e3),
                        ),
                    )
                )
    return DerivedTable(
        key="clock-scaling-fresh",
        caption="Synchronising many nodes once: time, messages, bound of the worst node",
        of="network, topology, nodes",
        columns=(
            Column(title="all nodes", unit="ms", decimals=2),
            Column(title="messages", decimals=0),
            Column(title="bound", unit="µs", decimals=1),
        ),
        rows=tuple(rows),
        notes=(
            "Simulated from synchronisations measured here. One takes at most 1 ms and 200 "
            "messages, whatever the network does: the published rule for when to stop has no cap, "
            "and its 481 messages of 44.5 µs each did not fit into the millisecond that was "
            "claimed for a node.",
        ),
    )
