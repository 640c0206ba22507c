"""The study `cmu-overhead`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ullage.analysis.comparison import words
from ullage.analysis.comparison.model import Comparison
from ullage.analysis.weigh.weighing import Total, WeighedMachine, WeighedNode, Weighing, weigh
from ullage.analysis.weigh.weights import WeighRequest
from ullage.common.errors import UllageError
from ullage.experiments.studies import measured
from ullage.experiments.studies.base import (
    Column,
    DerivedCell,
    DerivedRow,
    DerivedTable,
    Study,
    StudyFigure,
    StudyPlan,
)
from ullage.experiments.studies.cmu_overhead import derived
from ullage.experiments.studies.cmu_overhead.derived import GUESTS, WEIGHTS
from ullage.runs.reader import typed
from ullage.runs.records import Resource

QUICK: Final = StudyPlan(name="cmu-overhead-quick", file="quick.yaml", minutes=5)
FULL: Final = StudyPlan(name="cmu-overhead-full", file="full.yaml", minutes=460)
THERE: Final = ("debian7_x64", "debian7_x86")
"""The published guests that stand beside ours: those with an operating system like ours."""
_CAPTIONS: Final[Mapping[Resource, str]] = {
    "cpu": "CPU, with what was published for as many threads",
    "memory": "Memory, with what was published for the same block and as many threads",
    "disk": "Disk, with what was published for as many threads",
    "network": "Network, with what was published for the same placement",
    "other": "Switching threads and locks, of which nothing was published",
}
_PLACEMENTS: Final[Mapping[object, str]] = {"second": "local", "away": "remote"}
"""Where the other end stands → what they called it."""


class CmuOverhead(Study):
    """The overhead of a VM as one figure, given what the machine is for."""

    name = "cmu-overhead"
    title = "The overhead of a VM as a number"
    question = (
        "How much of a machine's CPU, memory, disk and network does a VM or a container cost?"
    )
    source = "a study of VMs on a supercomputer of CMU, 2015"
    needs = ("root", "the image", "1 CPU and 1 GiB for each of 5 environments, 2 for the network")

    def tables(self) -> tuple[DerivedTable, ...]:
        """S2.1 to S2.3, from the four published files."""
        return derived.tables(self.published)

    def plans(self, quick: bool) -> tuple[StudyPlan, ...]:
        """One: everything is compared within its blocks."""
        return (QUICK if quick else FULL,)

    def fresh(self, runs: Mapping[str, Path]) -> tuple[DerivedTable, ...]:
        """A table for each resource, then machines and nodes with the study's weights."""
        path = next(iter(runs.values()))
        run = measured.opened(path)
        published = self._published_columns(run)
        by_resource = (
            measured.ratios(
                run,
                [c for c in run.analysis.primary() if c.resource == resource],
                f"{resource}-fresh",
                caption,
                published if resource != "other" else None,
            )
            for resource, caption in _CAPTIONS.items()
        )
        return (
            *(table for table in by_resource if table is not None),
            *_weighed(run, self._published),
        )

    @property
    def _published(self) -> derived.Published:
        return derived.Published(self.published)

    def _published_columns(self, run: measured.StudiedRun) -> measured.PublishedColumns:
        """The published ratios of their Debian guests for the same setting; – where there is none.

        Their settings are ours in threads, block size and placement, and in nothing else.
        """
        published = self._published

        def cells(c: Comparison) -> tuple[DerivedCell, ...]:
            parameters = run.parameters(c)
            return tuple(_of(published, guest, c.resource, parameters) for guest in THERE)

        return measured.PublishedColumns(
            tuple(Column(title=f"{guest} there") for guest in THERE), cells
        )


def _of(
    published: derived.Published, guest: str, resource: Resource, parameters: Mapping[str, Any]
) -> StudyFigure:
    """What was published for a setting."""
    threads = str(parameters.get("threads"))
    try:
        if resource == "cpu":
            return StudyFigure(value=published.cpu_ratio(guest, threads))
        if resource == "memory":
            block = str(int(parameters["block_size"]) // 1024)
            return StudyFigure(value=published.memory_ratio(guest, threads, block))
        if resource == "disk":
            return StudyFigure(value=published.disk_ratio(guest, threads))
        return StudyFigure(value=published.network_ratio(guest, _PLACEMENTS[parameters["peer"]]))
    except KeyError:
        return StudyFigure(value=None, why="nothing was published for this setting")


def _weighed(run: measured.StudiedRun, published: derived.Published) -> tuple[DerivedTable, ...]:
    """Machines, and nodes of several instances, with the study's weights."""
    try:
        weighing = weigh(run.folder, run.analysis, WeighRequest(WEIGHTS))
    except UllageError as error:
        return (_unweighed(error),)
    nodes = (_nodes(weighing),) if weighing.nodes else ()
    return (_machines(weighing, published, run.folder.path), *nodes)


def _machines(weighing: Weighing, published: derived.Published, run: Path) -> DerivedTable:
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
        key="machine-fresh",
        caption="A machine, O = Σ weight · ratio, ours and theirs",
        of="machine",
        columns=(
            Column(title="O", decimals=3),
            *(Column(title=words.RESOURCES[resource], decimals=3) for resource in WEIGHTS),
        ),
        rows=tuple(rows),
        notes=(
            f"Weights: {derived.weights()}. `ullage weigh {typed(run)} --weights …` takes others.",
        ),
    )


def _machine(machine: WeighedMachine) -> DerivedRow:
    parts = {part.resource: part.total for part in machine.parts}
    return DerivedRow(
        label=words.name(machine.label, emulated=machine.emulated, unequal=machine.unequal),
        cells=tuple(_total(total) for total in (machine.total, *(parts[r] for r in WEIGHTS))),
    )


def _nodes(weighing: Weighing) -> DerivedTable:
    return DerivedTable(
        key="node-fresh",
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


def _unweighed(error: UllageError) -> DerivedTable:
    return DerivedTable(
        key="machine-fresh",
        caption="A machine, O = Σ weight · ratio",
        of="machine",
        columns=(),
        rows=(),
        notes=(f"Not weighed: {error.message}.",),
    )
