"""The study `cmu-overhead`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ullage.analysis.comparison import words
from ullage.analysis.comparison.model import Comparison
from ullage.analysis.weigh.weighing import Total, WeighedMachine, WeighedNode, Weighing, weigh
from ullage.analysis.weigh.weights import WeighRequest
from ullage.common.errors import UllageError
from ullage.experiments.studies import measured
from ullage.experiments.studies.base import (
    Column,
    Coverage,
    DerivedRow,
    DerivedTable,
    Study,
    StudyChart,
    StudyFigure,
    StudyPlan,
)
from ullage.experiments.studies.cmu_overhead import derived, memory_blocks, windows
from ullage.experiments.studies.cmu_overhead.derived import GUESTS, WEIGHTS
from ullage.runs.reader import typed
from ullage.runs.records import Resource

QUICK: Final = StudyPlan(name="cmu-overhead-quick", file="quick.yaml", minutes=9)
FULL: Final = StudyPlan(name="cmu-overhead-full", file="full.yaml", minutes=1700, disk_gib=600)
WINDOWS: Final = tuple(
    StudyPlan(
        name=f"cmu-overhead-windows-{form}",
        file=f"windows-{form}.yaml",
        minutes=minutes,
        by_name=True,
    )
    for form, minutes in (("quick", 2), ("full", 150))
)
"""Two systems: not among the others, as they need programs for Windows, and Wine or a Windows."""
MORE: Final = tuple(
    StudyPlan(name=f"cmu-overhead-x{x}-full", file=f"full-x{x}.yaml", minutes=m, disk_gib=disk)
    for x, m, disk in (
        (2, 1100, 600),
        (3, 400, 1),
        (4, 900, 600),
        (8, 500, 600),
        (16, 500, 600),
        (32, 700, 600),
    )
)
"""With more CPUs: x threads in VMs of x CPUs, as many at once as fit."""
_WINDOWS: Final = "a physical Windows, which is under all guests there"
"""What the published ratios want, those of Debian guests too."""
_CAPTIONS: Final[Mapping[Resource, str]] = {
    "cpu": "CPU",
    "memory": "Memory",
    "disk": "Disk",
    "network": "Network",
    "other": "Switching threads and locks, of which nothing was published",
}
_OVER_WINDOWS: Final[frozenset[Resource]] = frozenset({"cpu", "memory", "disk"})
"""Of these there are published ratios."""
_ALONE: Final = (
    "Nothing published stands beside: there every ratio, of Debian guests too, is over a physical "
    "Windows (itself virtualised, in the end), and ours are over Linux."
)
_RULE: Final = (
    "One thread, memory by the geometric mean over its block sizes, the disk in the mode rndrw, "
    "the network between two on one node: the rule of the published O, which is not beside ours, "
    "as it is over a physical Windows and, for the network, over the name of a link."
)


class CmuOverhead(Study):
    """The overhead of a VM as one figure, given what the machine is for."""

    name = "cmu-overhead"
    title = "The overhead of a VM as a number"
    question = (
        "How much of a machine's CPU, memory, disk and network does a VM or a container cost?"
    )
    source = "a study of VMs on a supercomputer of CMU, 2015"
    needs = ("root", "the image", "1 CPU and 1 GiB for each of 5 environments, 2 for the network")

    charts = (
        StudyChart(
            title="CPU, as published: time over that of a physical Windows",
            published="cpu-ratios", columns=GUESTS, along="rows",
        ),
        StudyChart(
            title="CPU, ours: times worse than natively, over Linux",
            published="", columns=(), fresh="cpu", fresh_columns=("ratio",),
        ),
        StudyChart(
            title="Memory within a VM, Debian x64: rate over that with blocks of 16 KiB",
            published="memory-blocks", columns=(memory_blocks.THERE,), along="rows",
            fresh="memory-blocks", fresh_columns=("ratio",), fresh_along="rows",
        ),
        StudyChart(
            title="Disk, as published: rate of the local disk over that of a machine",
            published="disk-ratios", columns=GUESTS, along="rows",
        ),
        StudyChart(
            title="Disk, ours: times worse than natively, over Linux",
            published="", columns=(), fresh="disk", fresh_columns=("ratio",),
        ),
        StudyChart(
            title="A machine, O, as published: over a physical Windows",
            published="machine", columns=("O",),
        ),
        StudyChart(
            title="A machine, O, ours: over Linux",
            published="", columns=(), fresh="machine", fresh_columns=("O",),
        ),
    )  # fmt: skip

    def tables(self) -> tuple[DerivedTable, ...]:
        """S2.1 to S2.3, from the four published files."""
        return derived.tables(self.published)

    def plans(self, quick: bool) -> tuple[StudyPlan, ...]:
        """One; in full one for each number of threads, which is that of a VM's CPUs."""
        return (QUICK, WINDOWS[0]) if quick else (FULL, *MORE, WINDOWS[1])

    def coverage(self) -> tuple[Coverage, ...]:
        """Rates of memory in Debian x64, which stand beside ours over one another."""
        rate = ("rate_MiBps",)
        return (
            Coverage(
                of="CPU, times", file="cmu2015_cpu", columns=("total_time_s",), fresh=0,
                missing=_WINDOWS,
            ),
            Coverage(
                of="memory, rates", file="cmu2015_memory", columns=rate, fresh=28,
                missing=f"{_WINDOWS}; guests with Windows, an i386 image (Debian x86)",
            ),
            Coverage(
                of="disk, rates", file="cmu2015_disk", columns=rate, fresh=0,
                missing=f"{_WINDOWS}; a second disk behind SMB",
            ),
            Coverage(
                of="network, rates", file="cmu2015_network", columns=("rate_Mbps",), fresh=0,
                missing="a physical baseline: there it is the name of a link",
            ),
        )  # fmt: skip

    def fresh(self, runs: Mapping[str, Path]) -> tuple[DerivedTable, ...]:
        """A table for each resource, then machines and nodes with the study's weights."""
        tables: list[DerivedTable] = []
        two_systems = {plan.name for plan in WINDOWS}
        alike = {name: path for name, path in runs.items() if name not in two_systems}
        for name, path in runs.items():
            run = measured.opened(path)
            if name in two_systems:
                of_windows = windows.table(run)
                tables += [of_windows] if of_windows else []
                continue
            part = measured.part(self, alike, name)
            tables += _of_run(run, derived.Published(self.published), part)
        return tuple(tables)


def _of_run(
    run: measured.StudiedRun, published: derived.Published, part: str
) -> tuple[DerivedTable, ...]:
    """part: of the tables' keys, where a study has several runs."""
    by_resource = (_ratios(run, resource, part) for resource in _CAPTIONS)
    blocks = memory_blocks.table(run, published, part)
    tables = (*by_resource, blocks, *_weighed(run, part))
    return tuple(table for table in tables if table is not None)


def _ratios(run: measured.StudiedRun, resource: Resource, part: str) -> DerivedTable | None:
    table = measured.ratios(
        run,
        [c for c in run.analysis.primary() if c.resource == resource],
        f"{resource}{part}-fresh",
        _CAPTIONS[resource],
    )
    if table is None or resource not in _OVER_WINDOWS:
        return table
    return table.model_copy(update={"notes": (*table.notes, _ALONE)})


def _weighed(run: measured.StudiedRun, part: str) -> tuple[DerivedTable, ...]:
    """Machines, and nodes of several instances, with the study's weights."""
    alike = tuple(c for c in run.analysis.comparisons if _counts(run, c))
    if not any(c.resource == "cpu" for c in alike):
        return ()  # a run of several threads
    analysis = run.analysis.model_copy(update={"comparisons": alike})
    try:
        weighing = weigh(run.folder, analysis, WeighRequest(WEIGHTS))
    except UllageError as error:
        return (_unweighed(error, part),)
    nodes = (_nodes(weighing, part),) if weighing.nodes else ()
    return (_machines(weighing, run.folder.path, part), *nodes)


def _counts(run: measured.StudiedRun, c: Comparison) -> bool:
    """Is it of the setting that O is made of?"""
    parameters = run.parameters(c)
    if c.resource == "network":
        return bool(parameters.get("peer") == "second")
    mode = parameters.get("mode", "rndrw")
    return parameters.get("threads") == 1 and mode == "rndrw"


def _machines(weighing: Weighing, run: Path, part: str) -> DerivedTable:
    return DerivedTable(
        key=f"machine{part}-fresh",
        caption="A machine, O = Σ weight · ratio",
        of="machine",
        columns=(
            Column(title="O", decimals=3),
            *(Column(title=words.RESOURCES[resource], decimals=3) for resource in WEIGHTS),
        ),
        rows=tuple(_machine(machine) for machine in weighing.machines),
        notes=(
            f"Weights: {derived.weights()}. `ullage weigh {typed(run)} --weights …` takes others, "
            "and all that was measured.",
            _RULE,
        ),
    )


def _machine(machine: WeighedMachine) -> DerivedRow:
    parts = {part.resource: part.total for part in machine.parts}
    return DerivedRow(
        label=words.name(machine.label, emulated=machine.emulated, unequal=machine.unequal),
        cells=tuple(_total(total) for total in (machine.total, *(parts[r] for r in WEIGHTS))),
    )


def _nodes(weighing: Weighing, part: str) -> DerivedTable:
    return DerivedTable(
        key=f"node{part}-fresh",
        caption="Nodes: all instances that fit, at work together",
        of="node",
        columns=(
            Column(title="O_node", decimals=3),
            Column(title="mean by share", decimals=3),
            Column(title="instances", decimals=0),
        ),
        rows=tuple(_node(node) for node in weighing.nodes),
        notes=("The sum grows with what is placed on a node; the mean by share does not.",),
    )


def _node(node: WeighedNode) -> DerivedRow:
    instances = sum(part.copies for part in node.parts if part.resource == node.parts[0].resource)
    return DerivedRow(
        label=node.name,
        cells=(_total(node.total), _total(node.mean), StudyFigure(value=float(instances))),
    )


def _total(total: Total) -> StudyFigure:
    if total.interval is None:
        return StudyFigure(value=total.overhead, why="one block has no spread")
    return StudyFigure(value=total.overhead, low=total.interval.low, high=total.interval.high)


def _unweighed(error: UllageError, part: str) -> DerivedTable:
    return DerivedTable(
        key=f"machine{part}-fresh",
        caption="A machine, O = Σ weight · ratio",
        of="machine",
        columns=(),
        rows=(),
        notes=(f"Not weighed: {error.message}.",),
    )
