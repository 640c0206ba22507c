"""The study `mpi-degradation`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ullage.experiments.studies import curves, measured
from ullage.experiments.studies.base import DerivedTable, Study, StudyPlan
from ullage.experiments.studies.mpi_degradation import communication

QUICK: Final = StudyPlan(name="mpi-degradation-quick", file="quick.yaml", minutes=6)
FULL: Final = StudyPlan(name="mpi-degradation-full", file="full.yaml", minutes=240)
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

    def tables(self) -> tuple[DerivedTable, ...]:
        """None: no figures of this study are published with us, only its method."""
        return ()

    def plans(self, quick: bool) -> tuple[StudyPlan, ...]:
        """One: everything is compared within its blocks."""
        return (QUICK if quick else FULL,)

    def fresh(self, runs: Mapping[str, Path]) -> tuple[DerivedTable, ...]:
        """By message size; round trips; overhead by what a program communicates (S3.1 to S3.4)."""
        run = measured.opened(next(iter(runs.values())))
        tables = (
            _messages(run),
            _round_trips(run),
            measured.ratios(
                run,
                [c for c in run.analysis.primary() if run.kind(c) in (PINGPONG, PING)],
                "verdicts-fresh",
                "Messages of all sizes, and round trips, with their verdicts",
            ),
            *communication.tables(run),
        )
        return tuple(table for table in tables if table is not None)


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
