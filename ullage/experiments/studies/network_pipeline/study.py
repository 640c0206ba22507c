"""The study `network-pipeline`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ullage.experiments.studies import curves, measured
from ullage.experiments.studies.base import DerivedRow, DerivedTable, Study, StudyFigure, StudyPlan
from ullage.experiments.studies.measured import StudiedRun
from ullage.experiments.studies.network_pipeline import creating, derived, pipelines

QUICK: Final = (
    StudyPlan(name="network-pipeline-quick", file="quick.yaml", minutes=4),
    StudyPlan(name="network-pipeline-pipelines-quick", file="quick-pipelines.yaml", minutes=1.5),
    StudyPlan(name="network-pipeline-create-quick", file="quick-create.yaml", minutes=1),
)
FULL: Final = (
    StudyPlan(name="network-pipeline-full", file="full.yaml", minutes=200),
    StudyPlan(name="network-pipeline-pipelines-full", file="full-pipelines.yaml", minutes=100),
    StudyPlan(name="network-pipeline-create-full", file="full-create.yaml", minutes=90),
    StudyPlan(name="network-pipeline-files-full", file="full-files.yaml", minutes=90),
)


class NetworkPipeline(Study):
    """Networks of private clouds, and pipelines on threads."""

    name = "network-pipeline"
    title = "Network and pipeline applications in private clouds"
    question = (
        "What do containers and VMs cost in network throughput, latency and connections, in making "
        "instances, and in programs that are pipelines?"
    )
    source = "a study of network and pipeline applications in private clouds, 2017"
    needs = ("root", "the image", "`make programs`", "2 CPUs and 6 GiB")

    def tables(self) -> tuple[DerivedTable, ...]:
        """Making instances; TestDFSIO over one link and over two."""
        return derived.tables(self.published)

    def plans(self, quick: bool) -> tuple[StudyPlan, ...]:
        """The network; pipelines; making instances; in full also Hadoop's files."""
        return QUICK if quick else FULL

    def fresh(self, runs: Mapping[str, Path]) -> tuple[DerivedTable, ...]:
        """S5.1, S5.2, S5.4, S5.6 and S5.8, of those that were run."""
        tables: list[DerivedTable | None] = []
        for name, path in runs.items():
            run = measured.opened(path)
            tables += [*_network(run), *_pipelines(run)]
            tables += creating.tables(run, name, self.published)
            tables.append(_files(run, derived.times(self.published)))
        return tuple(table for table in tables if table is not None)


def _network(run: StudiedRun) -> list[DerivedTable | None]:
    """S5.1 and S5.2."""
    netpipe = [c for c in run.analysis.comparisons if run.kind(c) == "netpipe"]
    return [
        curves.table(
            run,
            [c for c in netpipe if c.metric == "throughput"],
            "throughput-fresh",
            "NetPIPE: throughput of TCP, by the size of a message",
            ("Mbit/s", 1e6),
        ),
        curves.table(
            run,
            [c for c in netpipe if c.metric == "latency"],
            "latency-fresh",
            "NetPIPE: latency of TCP, by the size of a message",
            ("µs", 1e-6),
        ),
        measured.ratios(
            run,
            [c for c in run.analysis.primary() if run.kind(c) == "connections"],
            "connections-fresh",
            "TCP connections made and ended in a second",
        ),
    ]


def _pipelines(run: StudiedRun) -> list[DerivedTable | None]:
    """S5.6."""
    return [
        measured.ratios(
            run,
            [c for c in run.analysis.primary() if run.kind(c) in pipelines.PIPELINES],
            "pipelines-fresh",
            "Pipelines: dedup and ferret",
        ),
        pipelines.speedups(run),
        pipelines.bound(run),
    ]


def _files(run: StudiedRun, there_s: dict[str, dict[int, float]]) -> DerivedTable | None:
    """S5.8 without bonding: how much more several instances do at once than one."""
    comparisons = [c for c in run.analysis.primary() if run.kind(c) == "testdfsio"]
    table = measured.ratios(
        run, comparisons, "files-fresh", "TestDFSIO in several instances at once"
    )
    if table is None:
        return None
    single_link = there_s[derived.SINGLE]
    published = tuple(
        DerivedRow(
            label=f"single link there, {count} at once",
            cells=(StudyFigure(value=t / single_link[1]), "–"),
        )
        for count, t in single_link.items()
    )
    note = "There: the time of so many at once over that of one, on a single link."
    return table.model_copy(
        update={"rows": (*table.rows, *published), "notes": (*table.notes, note)}
    )
