"""The study `flash-energy`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ullage.analysis.comparison.model import Comparison
from ullage.experiments.studies import measured
from ullage.experiments.studies.base import (
    Column,
    Coverage,
    CsvRows,
    DerivedCell,
    DerivedRow,
    DerivedTable,
    Read,
    Study,
    StudyChart,
    StudyFigure,
    StudyPlan,
)
from ullage.experiments.studies.flash_energy import derived
from ullage.runs.records import EnvironmentRecord

QUICK: Final = (
    StudyPlan(name="flash-energy-quick", file="quick.yaml", minutes=10),
    StudyPlan(name="flash-energy-disks-quick", file="disks-quick.yaml", minutes=9, disks=True),
)
FULL: Final = (
    StudyPlan(name="flash-energy-full", file="full.yaml", minutes=155),
    StudyPlan(name="flash-energy-disks-full", file="disks-full.yaml", minutes=900, disks=True),
    *(
        StudyPlan(
            name=f"flash-energy-disks-mpi{processes}-full",
            file=f"disks-mpi{processes}-full.yaml",
            minutes=200,
            disks=True,
        )
        for processes in (2, 3)
    ),
)


class FlashEnergy(Study):
    """Storage under VMs: what it costs in time and in energy."""

    name = "flash-energy"
    title = "What storage under VMs costs in time and energy"
    question = (
        "What does the disk under a VM, its format and its cache cost in time, watts and joules?"
    )
    source = "a study of flash storage under four KVM guests, 2012"
    needs = ("root", "the image", "1 CPU and 1 GiB for each of 4 VMs", "two disks, for `--disk`")

    charts = (
        StudyChart(title="Mean power", published="power", columns=("mean power",),
                   fresh="energy", fresh_columns=("mean power",)),
        StudyChart(title="MPI-IO: the single figure", published="mpi-io", columns=("b_eff_io",),
                   along="rows", fresh="disks", fresh_columns=("ratio",)),
        StudyChart(title="Database: deadlocks for each transaction", published="database",
                   columns=("deadlocks for each",), fresh="deadlocks",
                   fresh_columns=("deadlocks for each",)),
    )  # fmt: skip

    def tables(self) -> tuple[DerivedTable, ...]:
        """Power and energy, with what cannot be recovered of them; then each test's own figures."""
        return derived.tables(self.published)

    def plans(self, quick: bool) -> tuple[StudyPlan, ...]:
        """Formats and caches on one disk; the disks that are named with `--disk`."""
        return QUICK if quick else FULL

    def coverage(self) -> tuple[Coverage, ...]:
        """Of hard disk and SSD with the swap on the SSD, where a host has both kinds of disk."""
        return (
            Coverage(
                of="b_eff_io, rates", file="flash2012_beffio", columns=tuple(_RATES.values()),
                fresh=24, missing=_DISKS,
            ),
            Coverage(
                of="database, times and deadlocks", file="flash2012_oltp",
                columns=("total_time_s", "deadlocks"), fresh=4, missing=_DISKS,
            ),
            Coverage(
                of="database, statements", file="flash2012_statements",
                columns=derived.STATEMENTS, fresh=4,
                missing=f"{_DISKS}; other: a sysbench that counts as 0.4.12",
            ),
            Coverage(
                of="web, times of a reply", file="flash2012_httperf",
                columns=("reply_response_ms",), fresh=8, missing=_DISKS,
            ),
            Coverage(
                of="energy", file="flash2012_energy", columns=("energy_J",), fresh=0,
                missing="nothing: they are of windows longer than the tests, and so of no setting",
            ),
        )  # fmt: skip

    def fresh(self, runs: Mapping[str, Path]) -> tuple[DerivedTable, ...]:
        """Ratios of the work, deadlocks beside it, and energy; the published where it is alike."""
        tables: list[DerivedTable | None] = []
        for name, path in runs.items():
            run = measured.opened(path)
            part = measured.part(self, runs, name)
            tables += [
                measured.ratios(
                    run,
                    [c for c in run.analysis.comparisons if c.primary or c.metric in _SHOWN],
                    f"disks{part}-fresh",
                    "Disks under a VM",
                    _published_columns(run, self.published),
                ),
                _deadlocks(run, f"deadlocks{part}-fresh", self.published("flash2012_oltp")),
                _statements(run, f"statements{part}-fresh", self.published),
                measured.energies(
                    run, f"energy{part}-fresh", "Energy and power over exactly each trial's window"
                ),
            ]
        return tuple(table for table in tables if table is not None)


_DISKS: Final = "the host's swap on a hard disk, an ioDrive"
_RATES: Final = {
    "b_eff_io": "b_eff_io_MBps",
    "write": "write_MBps",
    "rewrite": "rewrite_MBps",
    "read": "read_MBps",
}
_SHOWN: Final = frozenset({*_RATES, "deadlocks", "reply_time"})
"""Shown beside the primary metrics."""
_MPI_IO: Final[Mapping[str, Any]] = {
    "peer": "each",
    "file_system": "nfs",
    "shared_pointers": False,
    "memory": 1 << 30,
    "time_s": 200,
}
_OLTP: Final[Mapping[str, Any]] = {
    "database": "mariadb",
    "test": "read_write",
    "client": "host",
    "servers": "each",
    "threads": 400,
    "events": 1000,
    "tables": 1,
    "table_size": 10_000,
    "index_updates": 25,
    "distinct_ranges": 25,
    "sum_ranges": 25,
}
_WEB: Final[Mapping[str, Any]] = {
    "mode": "sessions",
    "document": 177,
    "sessions": 4,
    "calls": 15,
    "think_s": 10.0,
}
_HDD, _SSD = ("hdd", "ssd"), ("ssd", "ssd")
"""The published image and swap disks that two disks of ours can be beside: the swap is the same."""


def _published_columns(run: measured.StudiedRun, read: Read) -> measured.PublishedColumns:
    """SSD against hard disk, for the very same test; nothing beside formats and caches."""
    environments = {e.key: e for e in run.folder.resolved.environments}

    def cells(c: Comparison) -> tuple[DerivedCell, ...]:
        pair = (_disk(environments[c.baseline]), _disk(environments[c.environment]))
        value = None
        if pair == ("hdd", "ssd"):
            value = _published(c, run.kind(c), run.parameters(c), read)
        why = "" if value is not None else "nothing was published for this setting"
        return (StudyFigure(value=value, why=why),)

    return measured.PublishedColumns((Column(title="SSD for hard disk there", decimals=3),), cells)


def _disk(environment: EnvironmentRecord) -> str:
    """`hdd` or `ssd` of a VM with a qcow2 image on it; empty for all else, one that is swapped."""
    disk = environment.options.get("disk")
    if environment.provider != "qemu" or environment.emulated or not isinstance(disk, dict):
        return ""
    if disk.get("format") != "qcow2" or environment.options.get("swap"):
        return ""
    return _turning(environment.treatments.get("data on", ""))


def _turning(treatment: str) -> str:
    """By what the run saw of the disk: `/mnt/ssd: ext4 on /dev/sdb1, not rotational`."""
    if treatment.endswith(", not rotational"):
        return "ssd"
    return "hdd" if treatment.endswith(", rotational") else ""


def _published(c: Comparison, kind: str, parameters: Mapping[str, Any], read: Read) -> float | None:
    """SSD over hard disk, above 1 worse, of the same test; None where it was not made so."""
    if kind == "b-eff-io" and c.metric in _RATES and _MPI_IO.items() <= parameters.items():
        of = _by_disks(read("flash2012_beffio"), str(parameters["ranks"]))
        return float(of[_HDD][_RATES[c.metric]]) / float(of[_SSD][_RATES[c.metric]])
    if kind == "oltp" and _OLTP.items() <= parameters.items():
        of = _by_disks(read("flash2012_oltp"))
        if c.metric == "transactions_per_second":
            return float(of[_SSD]["total_time_s"]) / float(of[_HDD]["total_time_s"])
        if c.metric == "deadlocks":
            return float(of[_SSD]["deadlocks"]) / float(of[_HDD]["deadlocks"])
    if kind == "httperf" and c.metric == "reply_time" and _WEB.items() <= parameters.items():
        times = read("flash2012_httperf")
        ssd, hdd = (
            sum(float(row["reply_response_ms"]) for row in times if _of(row) == disks)
            for disks in (_SSD, _HDD)
        )
        return ssd / hdd
    return None


def _of(row: dict[str, str]) -> tuple[str, str]:
    return row["image_disk"], row["swap_disk"]


def _by_disks(rows: CsvRows, processes: str | None = None) -> dict[tuple[str, str], dict[str, str]]:
    return {_of(row): row for row in rows if row.get("processes") == processes}


def _statements(run: measured.StudiedRun, key: str, read: Read) -> DerivedTable | None:
    """Of each kind for a transaction; rows of there where the test is the published one."""
    of = {
        (c.environment, c.workload, c.metric): c
        for c in run.analysis.comparisons
        if run.kind(c) == "oltp" and not c.again
    }
    names = [f"{kind}_per_transaction" for kind in derived.STATEMENTS]
    rows: list[DerivedRow] = []
    for workload in dict.fromkeys(w for _, w, metric in of if metric == names[0]):
        places = [e for e, own, metric in of if (own, metric) == (workload, names[0])]
        for number, environment in enumerate([places[0], *places]):
            kinds = [of.get((environment, workload, name)) for name in names]
            rows.append(_comparisons_row(kinds, baseline=number == 0))
    if not rows:
        return None
    done = {_of(row): float(row["transactions"]) for row in read("flash2012_oltp")}
    rows += [
        DerivedRow(
            label=f"{derived.disks(*_of(row))} there",
            cells=_statements_there(row, done[_of(row)]),
        )
        for row in read("flash2012_statements")
        if _as_published(run)
    ]
    return DerivedTable(
        key=key,
        caption="Database: statements for each transaction",
        of="environment and work",
        columns=tuple(Column(title=kind, decimals=2) for kind in derived.STATEMENTS),
        rows=tuple(rows),
        notes=(
            "What was begun in vain has read and written too, so they go with the deadlocks. Rows "
            "of there only where the test is the published one. Statements that changed no row are "
            "among the others here, and not there: any that there were count as writes there.",
        ),
    )


def _statements_there(row: dict[str, str], done: float) -> tuple[DerivedCell, ...]:
    """Reads and writes as they were published."""
    reads, writes, _ = derived.per_transaction(row, done)
    other = StudyFigure(value=None, why="there BEGIN and COMMIT alone were counted as others")
    return StudyFigure(value=reads), StudyFigure(value=writes), other


def _as_published(run: measured.StudiedRun) -> bool:
    return any(_OLTP.items() <= w.parameters.items() for w in run.folder.resolved.workloads)


def _deadlocks(run: measured.StudiedRun, key: str, published: CsvRows) -> DerivedTable | None:
    """Transactions, and what each cost in vain: a throughput alone hides who waits for whom."""
    of = {
        (c.environment, c.workload, c.metric): c
        for c in run.analysis.comparisons
        if run.kind(c) == "oltp" and not c.again
    }
    rows: list[DerivedRow] = []
    for workload in dict.fromkeys(workload for _, workload, _ in of):
        places = [key for key, own, _ in of if own == workload]
        for number, environment in enumerate([places[0], *dict.fromkeys(places)]):
            pair = [of.get((environment, workload, m)) for m in (_DONE, "deadlocks")]
            rows.append(_comparisons_row(pair, baseline=number == 0))
    if not rows:
        return None
    rows += [
        DerivedRow(
            label=f"{derived.disks(row['image_disk'], row['swap_disk'])} there",
            cells=tuple(StudyFigure(value=value) for value in _in_vain(row)),
        )
        for row in published
        if _as_published(run)
    ]
    return DerivedTable(
        key=key,
        caption="Database: transactions, and deadlocks for each of them",
        of="environment and work",
        columns=(
            Column(title="transactions", unit="1/s", decimals=2),
            Column(title="deadlocks for each", decimals=3),
        ),
        rows=tuple(rows),
        notes=(
            "A transaction that is chosen to end a deadlock is begun anew: with many for each, "
            "locks are measured, and no disk. Rows of there only where the test is the "
            "published one.",
        ),
    )


_DONE: Final = "transactions_per_second"


def _comparisons_row(pair: list[Comparison | None], *, baseline: bool) -> DerivedRow:
    """Of one environment and its work: a cell for each metric."""
    shown = measured.baseline if baseline else measured.environment
    first = next(c for c in pair if c is not None)
    label = first.baseline_label if baseline else measured.name(first)
    missing = StudyFigure(value=None, why="no trial gave a figure")
    cells = tuple(missing if c is None else shown(c) for c in pair)
    return DerivedRow(label=f"{label}, {first.workload_title}", cells=cells)


def _in_vain(row: dict[str, str]) -> tuple[float, float]:
    done = float(row["transactions"])
    return done / float(row["total_time_s"]), float(row["deadlocks"]) / done
