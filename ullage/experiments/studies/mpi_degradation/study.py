"""The study `mpi-degradation`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ullage.analysis.comparison.model import Comparison, CurvePoint
from ullage.experiments.studies import curves, measured
from ullage.experiments.studies.base import (
    Column,
    DerivedRow,
    DerivedTable,
    Study,
    StudyChart,
    StudyFigure,
    StudyPlan,
)
from ullage.experiments.studies.mpi_degradation import communication

QUICK: Final = StudyPlan(name="mpi-degradation-quick", file="quick.yaml", minutes=6)
FULL: Final = (
    StudyPlan(name="mpi-degradation-full", file="full.yaml", minutes=240),
    StudyPlan(name="mpi-degradation-exact-full", file="full-exact.yaml", minutes=420),
    StudyPlan(name="mpi-degradation-kernels-full", file="full-kernels.yaml", minutes=1500),
    StudyPlan(
        name="mpi-degradation-kernels-pair-full", file="full-kernels-pair.yaml", minutes=1300
    ),
)
SMALL: Final = 64 << 10
"""Bytes: up to here the paper looks at its curves, the sizes that science codes send."""
PINGPONG, PING = "mpi-pingpong", "flood-ping"
MICROSECONDS: Final = ("µs", 1e-6)


class MpiDegradation(Study):
    """Message passing in a private cloud: what a message costs, and what programs feel of it."""

    name = "mpi-degradation"
    title = "How virtual networks degrade message passing"
    question = (
        "How much slower is an MPI message between VMs or containers, and a program that sends it?"
    )
    source = "a study of MPI in a private cloud, 2012"
    needs = (
        "root",
        "the image",
        "2 CPUs",
        "0.5 GiB for each of 12 instances",
    )

    charts = (
        StudyChart(title="e1000 over virtio, by size", published="", columns=(),
                   fresh="conclusion", fresh_columns=("time of e1000 over virtio",),
                   fresh_along="rows"),
        StudyChart(title="Messages: times as long as the baseline, by size", published="",
                   columns=(), fresh="messages-", fresh_along="rows"),
    )  # fmt: skip

    def tables(self) -> tuple[DerivedTable, ...]:
        """None: no figures of this study are published with us, only its method."""
        return ()

    def plans(self, quick: bool) -> tuple[StudyPlan, ...]:
        """One; in full also the published repetitions of every size, and larger kernels."""
        return (QUICK,) if quick else FULL

    def fresh(self, runs: Mapping[str, Path]) -> tuple[DerivedTable, ...]:
        """By message size; round trips; overhead by what a program communicates (S3.1 to S3.4)."""
        tables: list[DerivedTable | None] = []
        for name, path in runs.items():
            run, part = measured.opened(path), measured.part(self, runs, name)
            of_run = (
                _messages(run),
                _conclusion(run),
                _round_trips(run),
                measured.ratios(
                    run,
                    [c for c in run.analysis.primary() if run.kind(c) in (PINGPONG, PING)],
                    "verdicts-fresh",
                    "Messages of all sizes, and round trips, with their verdicts",
                ),
                *communication.tables(run),
            )
            tables += [_named(table, part) for table in of_run if table is not None]
        return tuple(table for table in tables if table is not None)


def _named(table: DerivedTable, part: str) -> DerivedTable:
    """With a key of its own among the tables of several runs."""
    key = f"{table.key.removesuffix('-fresh')}{part}-fresh"
    return table.model_copy(update={"key": key})


def _conclusion(run: measured.StudiedRun) -> DerivedTable | None:
    """The paper's own: e1000 degrades less than virtio, 1 B to 64 KiB. Asked of each size."""
    curves_by_nic = {
        nic: {point.coordinate: point for point in c.curve}
        for c in run.analysis.comparisons
        if run.kind(c) == PINGPONG and c.metric == "one_way_time" and not c.no_verdict
        for nic in [_nic(run, c)]
    }
    virtio, e1000 = curves_by_nic.get("virtio"), curves_by_nic.get("e1000")
    if not virtio or not e1000:
        return None
    sizes = sorted(size for size in virtio.keys() & e1000.keys() if size <= SMALL)
    figures = [_over(e1000[size], virtio[size]) for size in sizes]
    less = sum(figure.high is not None and figure.high < 1 for figure in figures)
    more = sum(figure.low is not None and figure.low > 1 for figure in figures)
    return DerivedTable(
        key="conclusion-fresh",
        caption="The paper's conclusion, “e1000 degrades less than virtio”: e1000 over virtio",
        of="message size",
        columns=(Column(title="time of e1000 over virtio", decimals=3),),
        rows=tuple(
            DerivedRow(label=curves.size(size), cells=(figure,))
            for size, figure in zip(sizes, figures, strict=True)
        ),
        notes=(
            f"Below 1 e1000 is quicker. Of {len(sizes)} sizes from 1 B to 64 KiB it is quicker "
            f"for certain at {less} and slower for certain at {more}"
            + (": the conclusion holds here." if less == len(sizes) else _NOT_HERE),
            "Each interval is made of the two bands of the table of messages, which hold along all "
            "sizes, so it is wider than one of a direct comparison.",
        ),
    )


_NOT_HERE: Final = ": the conclusion does not hold at all sizes here."


def _nic(run: measured.StudiedRun, c: Comparison) -> str:
    environment = next(e for e in run.folder.resolved.environments if e.key == c.environment)
    return str(environment.factors.get("nic", ""))


def _over(above: CurvePoint, below: CurvePoint) -> StudyFigure:
    """One ratio to the baseline over another, bounded by the bands of both."""
    bands = (above.low, above.high, below.low, below.high)
    if None in bands:
        return StudyFigure(value=above.ratio / below.ratio, why="one block has no spread")
    assert above.low and above.high and below.low and below.high
    return StudyFigure(
        value=above.ratio / below.ratio,
        low=above.low / below.high,
        high=above.high / below.low,
    )


def _messages(run: measured.StudiedRun) -> DerivedTable | None:
    """S3.1 and S3.2: degradation by message size, a column for each environment and NIC model."""
    comparisons = [
        c
        for c in run.analysis.comparisons
        if run.kind(c) == PINGPONG and c.metric == "one_way_time"
    ]
    return curves.table(
        run, comparisons, "messages-fresh", "Time of an MPI message, by its size", MICROSECONDS
    )


def _round_trips(run: measured.StudiedRun) -> DerivedTable | None:
    """S3.3: the distribution of round trips."""
    comparisons = [c for c in run.analysis.comparisons if run.kind(c) == PING and c.metric == "rtt"]
    return curves.table(
        run,
        comparisons,
        "round-trips-fresh",
        "Round trips of a flood ping, by quantile",
        MICROSECONDS,
    )
