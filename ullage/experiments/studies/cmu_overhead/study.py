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
    DerivedCell,
    DerivedRow,
    DerivedTable,
    Study,
    StudyChart,
    StudyFigure,
    StudyPlan,
)
from ullage.experiments.studies.cmu_overhead import derived, windows
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
THERE: Final = ("debian7_x64",)
"""The published guests that stand beside ours: those with an operating system like ours."""
_OTHERS: Final = "a physical Windows under Windows' guests, an i386 image (Debian x86)"
VIRTUAL: Final = ("qemu",)
"""Providers of VMs: what was published is of those, and not of containers."""
_CAPTIONS: Final[Mapping[Resource, str]] = {
    "cpu": "CPU, with what was published for as many threads on as many CPUs",
    "memory": "Memory, with what was published for the same block, threads and CPUs",
    "disk": "Disk, with what was published where the files and requests are those",
    "network": "Network",
    "other": "Switching threads and locks, of which nothing was published",
}
_RULE: Final = (
    "Both by one rule: one thread, memory by the geometric mean over its block sizes, the disk "
    "against the local one in the mode rndrw, the network between two on one node."
)
_NOMINAL: Final = (
    "Of the network nothing is beside ours: there 10 Gbit/s, the name of a link, stands for the "
    "physical machine. In O it counts as it was published"
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
            title="CPU: time over that of the physical machine",
            published="cpu-ratios", columns=GUESTS, along="rows",
            fresh="cpu", fresh_columns=("ratio",),
        ),
        StudyChart(
            title="Memory: rate of the physical machine over that of Debian x64, by size of block",
            published="memory-ratios", columns=("debian7_x64",), along="rows",
            fresh="memory", fresh_columns=("ratio",), fresh_along="rows",
        ),
        StudyChart(
            title="Disk: rate of the local disk over that of a machine",
            published="disk-ratios", columns=GUESTS, along="rows",
            fresh="disk", fresh_columns=("ratio",),
        ),
        StudyChart(
            title="A machine, O", published="machine", columns=("O",),
            fresh="machine", fresh_columns=("O",),
        ),
    )  # fmt: skip

    def tables(self) -> tuple[DerivedTable, ...]:
        """S2.1 to S2.3, from the four published files."""
        return derived.tables(self.published)

    def plans(self, quick: bool) -> tuple[StudyPlan, ...]:
        """One; in full one for each number of threads, which is that of a VM's CPUs."""
        return (QUICK, WINDOWS[0]) if quick else (FULL, *MORE, WINDOWS[1])

    def coverage(self) -> tuple[Coverage, ...]:
        """Of the physical machine and of Debian x64; a guest's ratio is made of both."""
        rate = ("rate_MiBps",)
        return (
            Coverage(
                of="CPU, times", file="cmu2015_cpu", columns=("total_time_s",), fresh=12,
                missing=_OTHERS,
            ),
            Coverage(
                of="memory, rates", file="cmu2015_memory", columns=rate, fresh=56, missing=_OTHERS
            ),
            Coverage(
                of="disk, rates", file="cmu2015_disk", columns=rate, fresh=12,
                missing=f"{_OTHERS}, a second disk behind SMB",
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
    by_resource = (
        measured.ratios(
            run,
            [c for c in run.analysis.primary() if c.resource == resource],
            f"{resource}{part}-fresh",
            caption,
            _published_columns(run, published) if resource in _SETTINGS else None,
        )
        for resource, caption in _CAPTIONS.items()
    )
    weighed = _weighed(run, published, part)
    return (*(table for table in by_resource if table is not None), *weighed)


def _published_columns(
    run: measured.StudiedRun, published: derived.Published
) -> measured.PublishedColumns:
    """The published ratios of their Debian guests for the same setting; – where there is none."""

    def cells(c: Comparison) -> tuple[DerivedCell, ...]:
        return tuple(counterpart(run, c, published, guest) for guest in THERE)

    return measured.PublishedColumns(
        tuple(Column(title=f"{guest} there") for guest in THERE), cells
    )


_GIB, _MIB, _KIB = 1 << 30, 1 << 20, 1 << 10
_SETTINGS: Final[Mapping[Resource, Mapping[str, object]]] = {
    "cpu": {},
    "memory": {"operation": "write", "access": "seq", "scope": "global"},
    "disk": {
        "mode": "rndrw",
        "files": 128,
        "total_size": 100 * _GIB,
        "block_size": 400 * _MIB,
        "events": 100,
        "io_mode": "sync",
        "direct": False,
        "fsync_freq": 100,
        "fsync_all": False,
        "fsync_end": True,
    },
}
"""What was published of a resource holds for these parameters, beside its threads. How long the
work of `cpu` and `memory` is done is none of them: all its events are alike, and the figure is a
rate or a time of so many."""


def counterpart(
    run: measured.StudiedRun, c: Comparison, published: derived.Published, guest: str
) -> StudyFigure:
    """What was published for the very setting of a comparison."""
    parameters = run.parameters(c)
    threads = str(parameters.get("threads"))
    machine = next(e for e in run.folder.resolved.environments if e.key == c.environment)
    settings = _SETTINGS[c.resource]
    alike = all(parameters.get(name) == value for name, value in settings.items())
    virtual = machine.provider in VIRTUAL and not machine.emulated
    if alike and virtual and machine.nuisances.get("cpus") == threads:
        try:
            if c.resource == "memory":
                block = str(int(parameters["block_size"]) // _KIB)
                return StudyFigure(value=published.memory_ratio(guest, threads, block))
            if c.resource == "disk":
                return StudyFigure(value=published.disk_ratio(guest, threads))
            if parameters["prime"] == 50_000 + 30_000 * int(threads):
                return StudyFigure(value=published.cpu_ratio(guest, threads))
        except KeyError:
            pass  # so many threads, or such a block, were not measured there
    return StudyFigure(value=None, why="nothing was published for this setting")


def _weighed(
    run: measured.StudiedRun, published: derived.Published, part: str
) -> tuple[DerivedTable, ...]:
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
    return (_machines(weighing, published, run.folder.path, part), *nodes)


def _counts(run: measured.StudiedRun, c: Comparison) -> bool:
    """Is it of the setting that O is made of, here and there?"""
    parameters = run.parameters(c)
    if c.resource == "network":
        return bool(parameters.get("peer") == "second")
    mode = parameters.get("mode", "rndrw")
    return parameters.get("threads") == 1 and mode == "rndrw"


def _machines(
    weighing: Weighing, published: derived.Published, run: Path, part: str
) -> DerivedTable:
    rows = [_machine(machine) for machine in weighing.machines]
    rows += [
        DerivedRow(
            label=f"{guest} there",
            cells=(
                StudyFigure(value=published.overhead(guest)),
                *(StudyFigure(value=published.ratios(guest)[resource]) for resource in WEIGHTS),
            ),
        )
        for guest in GUESTS
    ]
    return DerivedTable(
        key=f"machine{part}-fresh",
        caption="A machine, O = Σ weight · ratio, ours and theirs",
        of="machine",
        columns=(
            Column(title="O", decimals=3),
            *(Column(title=words.RESOURCES[resource], decimals=3) for resource in WEIGHTS),
        ),
        rows=tuple(rows),
        notes=(
            f"Weights: {derived.weights()}. `ullage weigh {typed(run)} --weights …` takes others, "
            "and all that was measured.",
            _RULE,
            f"{_NOMINAL}.",
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
