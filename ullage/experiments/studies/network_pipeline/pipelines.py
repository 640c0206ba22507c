"""dedup and ferret on more and more threads (S5.6): speed-up, and what bounds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ullage.analysis.comparison.rounding import share
from ullage.experiments.studies.base import Column, DerivedRow, DerivedTable, StudyFigure
from ullage.experiments.studies.measured import StudiedRun
from ullage.experiments.studies.within import Term, environments, label, product, workloads
from ullage.runs.records import WorkloadRecord

PIPELINES: Final = ("dedup", "ferret")
THROUGHPUT: Final = "throughput"


@dataclass(frozen=True)
class PipelineByThreads:
    """One pipeline with one source of its input, by threads of its middle stages."""

    name: str
    keys: dict[int, str]
    """Threads → key of the workload."""


def series(run: StudiedRun) -> list[PipelineByThreads]:
    by_name: dict[str, dict[int, str]] = {}
    for kind in PIPELINES:
        for record in workloads(run.folder, kind):
            by_name.setdefault(_name(record), {})[_threads(record)] = record.key
    return [PipelineByThreads(name, dict(sorted(keys.items()))) for name, keys in by_name.items()]


def _name(record: WorkloadRecord) -> str:
    return f"{record.workload} from {'disk' if _from_disk(record) else 'memory'}"


def _threads(record: WorkloadRecord) -> int:
    return int(record.parameters["threads"])


def _from_disk(record: WorkloadRecord) -> bool:
    return str(record.parameters["source"]) == "disk"


def speedups(run: StudiedRun, key: str) -> DerivedTable | None:
    """How many times as fast each is as with its fewest threads, block by block."""
    pipelines = [pipeline for pipeline in series(run) if len(pipeline.keys) > 1]
    if not pipelines:
        return None
    counts = sorted(set().union(*(pipeline.keys for pipeline in pipelines)))
    fewest = counts[0]
    compared = [count for count in counts if count != fewest]
    rows = [
        DerivedRow(
            label=f"{label(run.folder, environment)}, {pipeline.name}",
            cells=tuple(
                product(
                    run,
                    (
                        Term(1, environment, pipeline.keys.get(count, ""), THROUGHPUT),
                        Term(-1, environment, pipeline.keys.get(fewest, ""), THROUGHPUT),
                    ),
                )
                for count in compared
            ),
        )
        for environment in environments(run.folder)
        for pipeline in pipelines
    ]
    return DerivedTable(
        key=key,
        caption=f"Pipelines: times as fast as with {fewest} in each middle stage",
        of="environment, pipeline",
        columns=tuple(Column(title=f"{count} threads", decimals=3) for count in compared),
        rows=tuple(rows),
        notes=(
            f"Of throughputs of the same block, with {share(run.analysis.confidence)} intervals, "
            "not corrected for their number. An instance has as many CPUs as the plan gives it: "
            "more threads than that can only hide waiting.",
        ),
    )


def bound(run: StudiedRun, key: str) -> DerivedTable | None:
    """CPU time and time in calls for the disk, of a second of the pipeline."""
    records = [record for kind in PIPELINES for record in workloads(run.folder, kind)]
    if not records:
        return None
    return DerivedTable(
        key=key,
        caption="What bounds the pipelines: CPUs busy, and time in calls for the disk, in a second",
        of="environment, pipeline, threads",
        columns=(Column(title="CPUs", decimals=3), Column(title="disk", decimals=3)),
        rows=tuple(
            DerivedRow(
                label=f"{label(run.folder, environment)}, {_name(record)}, {_threads(record)}",
                cells=(
                    _busy(run, environment, record, "cpu_seconds"),
                    _busy(run, environment, record, "io_seconds")
                    if _from_disk(record)
                    else "no disk",
                ),
            )
            for environment in environments(run.folder)
            for record in records
        ),
        notes=(
            "CPU time, and time within calls that read, write and flush, over the time of the "
            "pipeline. Near the CPUs that an instance has: bound by them; disk near 1: bound by "
            "the disk. Far below both: it waited for CPUs that others of the host had. In an "
            "emulated VM both are as the guest counts them.",
        ),
    )


def _busy(run: StudiedRun, environment: str, record: WorkloadRecord, metric: str) -> StudyFigure:
    """Seconds of a kind over those of the pipeline, which are its work over its throughput."""
    terms = (
        Term(1, environment, record.key, metric),
        Term(1, environment, record.key, THROUGHPUT),
    )
    return product(run, terms, scale=1 / _work(record))


def _work(record: WorkloadRecord) -> float:
    """What throughput × seconds comes to: bytes of input, or queries."""
    return float(record.parameters["size" if record.workload == "dedup" else "queries"])
