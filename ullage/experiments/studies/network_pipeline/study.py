"""The study `network-pipeline`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ullage.experiments.studies import curves, measured
from ullage.experiments.studies.base import Coverage, DerivedTable, Study, StudyChart, StudyPlan
from ullage.experiments.studies.measured import StudiedRun
from ullage.experiments.studies.network_pipeline import creating, derived, files, pipelines

QUICK: Final = (
    StudyPlan(name="network-pipeline-quick", file="quick.yaml", minutes=4),
    StudyPlan(name="network-pipeline-pipelines-quick", file="quick-pipelines.yaml", minutes=1.5),
    StudyPlan(name="network-pipeline-create-quick", file="quick-create.yaml", minutes=1),
    StudyPlan(name="network-pipeline-cloud-quick", file="quick-cloud.yaml", minutes=8, cloud=True),
)
FULL: Final = (
    StudyPlan(name="network-pipeline-full", file="full.yaml", minutes=330),
    StudyPlan(name="network-pipeline-links-full", file="full-links.yaml", minutes=60),
    StudyPlan(name="network-pipeline-vhost-full", file="full-vhost.yaml", minutes=270),
    StudyPlan(name="network-pipeline-pipelines-full", file="full-pipelines.yaml", minutes=150),
    StudyPlan(
        name="network-pipeline-pipelines-disks-full",
        file="full-pipelines-disks.yaml",
        minutes=200,
        disks=True,
    ),
    StudyPlan(name="network-pipeline-create-full", file="full-create.yaml", minutes=90),
    StudyPlan(name="network-pipeline-cloud-full", file="full-cloud.yaml", minutes=25, cloud=True),
    StudyPlan(
        name="network-pipeline-cloud-many-full",
        file="full-cloud-many.yaml",
        minutes=120,
        cloud=True,
    ),
    StudyPlan(name="network-pipeline-files-full", file="full-files.yaml", minutes=150, disk_gib=60),
    StudyPlan(name="network-pipeline-yarn-full", file="full-yarn.yaml", minutes=60, disk_gib=30),
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
    needs = (
        "root",
        "the image",
        "`make programs`",
        "2 CPUs and 6 GiB",
        "a disk and a folder of NFS, for `--disk`",
    )

    charts = (
        StudyChart(title="TestDFSIO: work of several at once, over that of one",
                   published="together", columns=("single link", "bonded"), along="rows",
                   fresh="files-together", fresh_columns=("2 copies", "3 copies"),
                   fresh_along="columns"),
        StudyChart(title="Making instances at once", published="create", columns=("time",),
                   fresh="network-pipeline", fresh_columns=("2", "4", "8", "16"),
                   fresh_along="columns"),
        StudyChart(title="TCP: how many times less than the baseline, by size of message",
                   published="", columns=(), fresh="throughput", fresh_along="rows"),
        StudyChart(title="TCP: how many times as long as the baseline, by size of message",
                   published="", columns=(), fresh="latency", fresh_along="rows"),
        StudyChart(title="Pipelines: how many times as fast with more threads", published="",
                   columns=(), fresh="speedups", fresh_along="columns"),
    )  # fmt: skip

    def tables(self) -> tuple[DerivedTable, ...]:
        """Making instances; TestDFSIO over one link and over two."""
        return derived.tables(self.published)

    def plans(self, quick: bool) -> tuple[StudyPlan, ...]:
        """The network; pipelines; making instances; in full also Hadoop's files."""
        return QUICK if quick else FULL

    def coverage(self) -> tuple[Coverage, ...]:
        """Of TestDFSIO over one link."""
        return (
            Coverage(
                of="making instances", file="network2017_create", columns=("create_s",), fresh=0,
                missing="those clouds, with KVM: `--cloud` asks yours",
            ),
            Coverage(
                of="TestDFSIO", file="network2017_testdfsio", columns=("time_s",), fresh=3,
                missing="a switch that speaks LACP, for 802.3ad",
            ),
        )  # fmt: skip

    def fresh(self, runs: Mapping[str, Path]) -> tuple[DerivedTable, ...]:
        """S5.1, S5.2, S5.4, S5.6 and S5.8, of those that were run."""
        tables: list[DerivedTable | None] = []
        for name, path in runs.items():
            run = measured.opened(path)
            tables += [
                *_network(run, self._part(runs, name, _NETWORK)),
                *_pipelines(run, self._part(runs, name, _PIPELINES)),
            ]
            tables += creating.tables(run, name, self.published if name in _CLOUDS else None)
            single_link = derived.times(self.published)[derived.SINGLE]
            tables += files.tables(run, self._part(runs, name, _FILES), single_link)
        return tuple(table for table in tables if table is not None)

    def _part(self, runs: Mapping[str, Path], name: str, of: frozenset[str]) -> str:
        """Of the keys of tables that several of these plans have."""
        return measured.part(self, {plan: runs[plan] for plan in runs if plan in of}, name)


_CLOUDS: Final = frozenset(plan.name for plan in (*QUICK, *FULL) if plan.cloud)
_NETWORK: Final = frozenset(f"network-pipeline{part}-full" for part in ("", "-links", "-vhost"))
_PIPELINES: Final = frozenset(f"network-pipeline-pipelines{part}-full" for part in ("", "-disks"))
_FILES: Final = frozenset(f"network-pipeline-{part}-full" for part in ("files", "yarn"))


def _network(run: StudiedRun, part: str) -> list[DerivedTable | None]:
    """S5.1 to S5.3, and streams over several links (S5.7)."""
    netpipe = [c for c in run.analysis.comparisons if run.kind(c) == "netpipe"]
    return [
        curves.table(
            run,
            [c for c in netpipe if c.metric == "throughput"],
            f"throughput{part}-fresh",
            "NetPIPE: throughput of TCP, by the size of a message",
            ("Mbit/s", 1e6),
        ),
        curves.table(
            run,
            [c for c in netpipe if c.metric == "latency"],
            f"latency{part}-fresh",
            "NetPIPE: latency of TCP, by the size of a message",
            ("µs", 1e-6),
        ),
        _connections(run, part),
        measured.ratios(
            run,
            [c for c in run.analysis.primary() if run.kind(c) == "iperf3"],
            f"streams{part}-fresh",
            "TCP in one stream and in several, over one link and over several that are one",
        ),
    ]


_UPERF: Final = (
    "There it was uperf, which prints operations a second: a connect and a disconnect are one "
    "each, so a connection is two, and the study does not say which it printed. Its server has a "
    "thread for each of the client's; ours has one for each of its cores, and closes first. Of "
    "theirs no figure is known, and ratios of ours are not theirs."
)


def _connections(run: StudiedRun, part: str) -> DerivedTable | None:
    """S5.2."""
    ratios = measured.ratios(
        run,
        [c for c in run.analysis.primary() if run.kind(c) == "connections"],
        f"connections{part}-fresh",
        "TCP connections made and ended in a second",
    )
    return ratios and ratios.model_copy(update={"notes": (*ratios.notes, _UPERF)})


def _pipelines(run: StudiedRun, part: str) -> list[DerivedTable | None]:
    """S5.6."""
    return [
        measured.ratios(
            run,
            [c for c in run.analysis.primary() if run.kind(c) in pipelines.PIPELINES],
            f"pipelines{part}-fresh",
            "Pipelines: dedup and ferret",
        ),
        pipelines.speedups(run, f"speedups{part}-fresh"),
        pipelines.bound(run, f"bound{part}-fresh"),
    ]
