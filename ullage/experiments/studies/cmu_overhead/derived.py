"""The derived tables of the overhead study, recomputed from the published raw figures.

S2.1: the ratio of a resource is oriented so that above 1 the VM is worse: of times VM / physical,
of rates physical / VM. S2.2: a machine is the sum of its ratios, weighted. S2.3: a node is the sum
over its VMs, each with its share of the node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ullage.analysis.comparison.rounding import share
from ullage.analysis.comparison.words import RESOURCES
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
from ullage.runs.records import Resource
from ullage.stats.weighted import weighted_sum

GUESTS: Final = ("win81_x64", "win81_x86", "debian7_x64", "debian7_x86")
WEIGHTS: Final[Mapping[Resource, float]] = {"cpu": 0.1, "memory": 0.2, "disk": 0.6, "network": 0.1}
"""What a machine is for, in the example that all of these tables use: mostly its disk."""
_LEAST_KIB: Final = "16"
"""Of the blocks of memory."""
LOCAL, SMB, LINK = "physical_local", "physical_smb", "link"


_COLUMNS: Final = tuple(Column(title=guest) for guest in GUESTS)
_PLACES: Final = {"cpu": 4, "memory": 2, "network_local": 2, "network_remote": 2}
"""Decimals with which the document prints a derived ratio; the disk's have as many as they need."""
_ROUNDED_RATE: Final = 0.005
"""MiB/s: half a unit of the last printed place of the disk's raw rates."""


class Published:
    """The raw figures, the ratios that follow from them, and those that the document prints."""

    def __init__(self, read: Read) -> None:
        self.printed = {
            (row["resource"], row["machine"], row["threads"], row["block_KiB"]): _as_printed(row)
            for row in read("cmu2015_derived")
        }
        self.cpu_s = _by(read("cmu2015_cpu"), ("threads",), "total_time_s")
        self.memory = _by(read("cmu2015_memory"), ("threads", "block_KiB"), "rate_MiBps")
        self.disk = _by(read("cmu2015_disk"), ("threads",), "rate_MiBps")
        self.network = _by(read("cmu2015_network"), ("placement",), "rate_Mbps")

    def cpu_ratio(self, guest: str, threads: str) -> float:
        of = self.cpu_s[threads,]
        return of[guest] / of["physical"]

    def memory_ratio(self, guest: str, threads: str, block: str) -> float:
        """Rate over rate, the other way round."""
        of = self.memory[threads, block]
        return of["physical"] / of[guest]

    def growth(self, guest: str, threads: str, block: str) -> float | None:
        """A guest's rate over its own with the smallest blocks; None: one is not published."""
        above, below = (self.memory.get((threads, size)) for size in (block, _LEAST_KIB))
        return above[guest] / below[guest] if above and below else None

    def memory_mean(self, guest: str, threads: str) -> float:
        """The geometric mean over the block sizes, by which a resource counts as one."""
        blocks = [block for count, block in self.memory if count == threads]
        logs = [math.log(self.memory_ratio(guest, threads, block)) for block in blocks]
        return math.exp(math.fsum(logs) / len(logs))

    def disk_ratio(self, guest: str, threads: str, baseline: str = LOCAL) -> float:
        """Rate over rate, against one of the two baselines."""
        of = self.disk[threads,]
        return of[baseline] / of[guest]

    def network_ratio(self, guest: str, placement: str) -> float:
        """Against the nominal link: nobody measured the physical machine."""
        of = self.network[placement,]
        return of[LINK] / of[guest]

    def implied_local(self, threads: str) -> tuple[float, float]:
        """Between which values the local disk's rate lies, that gives all printed ratios.

        Each ratio × the rate that it was divided by is that rate; both are rounded, and so is the
        rate as it is printed itself.
        """
        rate = self.disk[threads,][LOCAL]
        low, high = rate - _ROUNDED_RATE, rate + _ROUNDED_RATE
        for machine in (*GUESTS, SMB):
            printed = self.printed["disk", machine, threads, ""]
            half = 0.5 * 10.0 ** -decimals(printed)
            under = self.disk[threads,][machine]
            low = max(low, (number(printed) - half) * (under - _ROUNDED_RATE))
            high = min(high, (number(printed) + half) * (under + _ROUNDED_RATE))
        return low, high

    def ratios(self, guest: str) -> dict[Resource, float]:
        """Of each resource with one thread, the network locally, the disk against the local one."""
        return {
            "cpu": self.cpu_ratio(guest, "1"),
            "memory": self.memory_mean(guest, "1"),
            "disk": self.disk_ratio(guest, "1"),
            "network": self.network_ratio(guest, "local"),
        }

    def overhead(self, guest: str) -> float:
        """O = Σ weight · ratio (S2.2)."""
        return _sum((self.ratios(guest)[r], weight) for r, weight in WEIGHTS.items())

    def on_node(self, resource: Resource) -> float:
        """O_node,r of a node that holds one of each guest, with a quarter each (S2.3)."""
        share_of_one = WEIGHTS[resource] / len(GUESTS)
        return _sum((self.ratios(guest)[resource], share_of_one) for guest in GUESTS)


def _as_printed(row: dict[str, str]) -> str:
    """`0.2` of the memory is `0.20` in the document: the transcription has no last zeros."""
    places = _PLACES.get(row["resource"])
    return row["overhead"] if places is None else f"{float(row['overhead']):.{places}f}"


def _by(
    rows: CsvRows, keys: tuple[str, ...], value: str
) -> dict[tuple[str, ...], dict[str, float]]:
    """The values of each case, by machine."""
    values: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows:
        case = tuple(row[key] for key in keys)
        values.setdefault(case, {})[row["machine"]] = float(row[value])
    return values


def _sum(terms: Iterable[tuple[float, float]]) -> float:
    """Σ coefficient · ratio."""
    ratios, coefficients = zip(*terms, strict=True)
    return weighted_sum([[math.log(ratio)] for ratio in ratios], coefficients)


def tables(read: Read) -> tuple[DerivedTable, ...]:
    published = Published(read)
    return (
        _cpu(published),
        _memory(published),
        _memory_blocks(published),
        _disk(published, LOCAL),
        _disk_implied(published),
        _disk(published, SMB),
        _network(published),
        _machine(published),
        _node(published),
    )


def _row(
    label: str,
    of: Callable[[str], float],
    printed: Callable[[str], str | None] = lambda _: None,
    machines: tuple[str, ...] = GUESTS,
    why: str = "",
) -> DerivedRow:
    """A ratio for each machine, held against the printed one; `why` is said of what differs."""
    figures = (StudyFigure(value=of(m), printed=printed(m)) for m in machines)
    cells = tuple(f.model_copy(update={"why": why}) if f.agrees is False else f for f in figures)
    return DerivedRow(label=label, cells=cells)


def _cpu(published: Published) -> DerivedTable:
    def row(threads: str) -> DerivedRow:
        return _row(
            threads,
            lambda guest: published.cpu_ratio(guest, threads),
            lambda guest: published.printed["cpu", guest, threads, ""],
        )

    return DerivedTable(
        key="cpu-ratios",
        caption="CPU: time in the VM over time on the physical machine",
        of="threads",
        columns=_COLUMNS,
        rows=tuple(row(threads) for (threads,) in published.cpu_s),
        notes=(
            "With one thread three guests of four are faster than the machine they run on: it was "
            "itself virtualised, and ran another operating system.",
        ),
    )


def _memory(published: Published) -> DerivedTable:
    def row(threads: str, block: str) -> DerivedRow:
        return _row(
            f"{threads}, {block} KiB",
            lambda guest: published.memory_ratio(guest, threads, block),
            lambda guest: published.printed["memory", guest, threads, block],
        )

    return DerivedTable(
        key="memory-ratios",
        caption="Memory: rate on the physical machine over rate in the VM",
        of="threads, block",
        columns=_COLUMNS,
        rows=tuple(row(*case) for case in published.memory),
        notes=(
            "Debian in a VM moves up to 7 times as much as the physical machine with one thread, "
            "Windows about 0.6 times as much: an “overhead” of 0.14 to 0.26 is the operating "
            "system.",
        ),
    )


def _memory_blocks(published: Published) -> DerivedTable:
    def cells(threads: str, block: str) -> tuple[StudyFigure, ...]:
        return tuple(StudyFigure(value=published.growth(g, threads, block)) for g in GUESTS)

    return DerivedTable(
        key="memory-blocks",
        caption="Memory: rate in the VM over that of the same VM with blocks of 16 KiB",
        of="threads, block",
        columns=_COLUMNS,
        rows=tuple(
            DerivedRow(label=f"{threads}, {block} KiB", cells=cells(threads, block))
            for threads, block in published.memory
            if block != _LEAST_KIB
        ),
        notes=("No physical machine is in these, so none of its operating systems either.",),
    )


def _disk(published: Published, baseline: str) -> DerivedTable:
    where = {LOCAL: "the local disk", SMB: "the disks behind SMB (RAID 5)"}[baseline]

    local = baseline == LOCAL
    machines = (*GUESTS, SMB) if local else GUESTS
    places = 9 if local else 4  # those of the other baseline are not printed

    def row(threads: str) -> DerivedRow:
        return _row(
            threads,
            lambda machine: published.disk_ratio(machine, threads, baseline),
            lambda machine: published.printed["disk", machine, threads, ""] if local else None,
            machines,
            _DISK_ROUNDED,
        )

    return DerivedTable(
        key={LOCAL: "disk-ratios", SMB: "disk-ratios-smb"}[baseline],
        caption=f"Disk: rate of {where} over rate in the VM",
        of="threads",
        columns=tuple(Column(title=machine, decimals=places) for machine in machines),
        rows=tuple(row(threads) for (threads,) in published.disk),
        notes=(_DISK_NOTES[baseline],),
    )


_DISK_NOTES: Final = {
    LOCAL: "Up to 22 times as fast as the disk itself: 100 requests went into the guests' page "
    "caches, no disk was measured.",
    SMB: "The same guests against the other baseline: Debian turns from mostly "
    "faster to up to 4 times worse. With two baselines the answer is whichever one likes.",
}


_DISK_ROUNDED: Final = (
    "the document divided rates that it had not rounded, and prints them to 0.01 MiB/s only; the "
    "next table has the rate of the local disk that each of these follows from"
)


def _disk_implied(published: Published) -> DerivedTable:
    """The unrounded baseline that the document must have divided by."""

    def row(threads: str) -> DerivedRow:
        low, high = published.implied_local(threads)
        rate = published.disk[threads,][LOCAL]
        apart = max(
            abs(published.disk_ratio(machine, threads) / number(printed) - 1)
            for machine in (*GUESTS, SMB)
            for printed in [published.printed["disk", machine, threads, ""]]
        )
        implied = StudyFigure(value=(low + high) / 2, low=low, high=high)
        return DerivedRow(
            label=threads, cells=(StudyFigure(value=rate), implied, StudyFigure(value=1e6 * apart))
        )

    return DerivedTable(
        key="disk-implied",
        caption="Disk: the rate of the local disk that the printed ratios follow from",
        of="threads",
        columns=(
            Column(title="as printed", unit="MiB/s", decimals=2),
            Column(title="implied", unit="MiB/s", decimals=4),
            Column(title="ratios differ by at most", unit="millionths", decimals=1),
        ),
        rows=tuple(row(threads) for (threads,) in published.disk),
        notes=(
            "Each printed ratio times the rate of its machine is the local disk's rate. All "
            "five of a row agree on one, within what rounding leaves of them, and it rounds to the "
            "printed one: the 30 ratios of the disk differ from their raw figures by the rounding "
            "alone.",
        ),
    )


def _network(published: Published) -> DerivedTable:
    def row(placement: str) -> DerivedRow:
        return _row(
            placement,
            lambda guest: published.network_ratio(guest, placement),
            lambda guest: published.printed[f"network_{placement}", guest, "", ""],
        )

    return DerivedTable(
        key="network-ratios",
        caption="Network: nominal rate of the link over rate between VMs",
        of="placement",
        columns=_COLUMNS,
        rows=tuple(row(placement) for (placement,) in published.network),
        notes=(
            "No physical machine was measured: 10 Gbit/s is the name of the link. Two VMs on one "
            "node do not use the link at all, and their rows were multiplied by 1,024, the remote "
            "ones by 1,000.",
        ),
    )


def _machine(published: Published) -> DerivedTable:
    resources = tuple(WEIGHTS)
    return DerivedTable(
        key="machine",
        caption="A machine, O = Σ weight · ratio: " + weights(),
        of="VM",
        columns=(*(Column(title=RESOURCES[resource]) for resource in resources), Column(title="O")),
        rows=tuple(
            DerivedRow(
                label=guest,
                cells=(
                    *(
                        StudyFigure(value=published.ratios(guest)[resource])
                        for resource in resources
                    ),
                    StudyFigure(value=published.overhead(guest)),
                ),
            )
            for guest in GUESTS
        ),
        notes=(
            "With one thread, the network locally, the disk against the local one; memory counts "
            "by the geometric mean over its block sizes. All four are below 1: the method is "
            "sound, the baseline is not.",
        ),
    )


def _node(published: Published) -> DerivedTable:
    parts = {resource: published.on_node(resource) for resource in WEIGHTS}
    node = math.fsum(parts.values())
    rows = [
        *((f"O_node, {RESOURCES[resource]}", part) for resource, part in parts.items()),
        ("O_node", node),
    ]
    return DerivedTable(
        key="node",
        caption="A node that holds one of each VM: O_node = Σ ratio · weight · share",
        of="sum",
        columns=(Column(title="one node"), Column(title="a system of two")),
        rows=tuple(
            DerivedRow(label=label, cells=(StudyFigure(value=value), StudyFigure(value=2 * value)))
            for label, value in rows
        ),
        notes=(
            "Each VM has a quarter of the node in everything, which is our assumption: no shares "
            "are published. The sum grows with the system; the mean by share, which does not, is "
            f"{node:.4f} for both.",
        ),
    )


def weights() -> str:
    """`10 % CPU, 20 % memory …`"""
    return ", ".join(f"{share(weight)} {RESOURCES[of]}" for of, weight in WEIGHTS.items())
