"""How memory's rate grows with the size of a block, within one machine.

The published ratios have a physical Windows under them, ours a Linux: none stands beside another.
A rate over another of the same guest has no physical machine in it, so theirs can.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ullage.analysis.comparison.rounding import share
from ullage.common.quantities import many
from ullage.experiments.studies.base import Column, DerivedRow, DerivedTable, StudyFigure
from ullage.experiments.studies.cmu_overhead.derived import Published
from ullage.experiments.studies.measured import StudiedRun
from ullage.experiments.studies.within import Term, environments, label, product, workloads
from ullage.runs.records import EnvironmentRecord

THERE: Final = "debian7_x64"
"""The published guest with an operating system like ours."""
SETTING: Final[Mapping[str, object]] = {"operation": "write", "access": "seq", "scope": "global"}
"""What the published rates hold for, beside threads and block."""
_VIRTUAL: Final = ("qemu",)
"""Providers of VMs: what was published is of those, and not of containers."""
_LEAST: Final = 16 << 10
"""Bytes of the block that the others are set over."""
_METRIC: Final = "throughput"


def table(run: StudiedRun, published: Published, part: str) -> DerivedTable | None:
    """Rates over the one at 16 KiB with as many threads, a row an environment, threads and block.

    None without that one.
    part: of the table's key.
    """
    keys = {
        (int(w.parameters["threads"]), int(w.parameters["block_size"])): w.key
        for w in workloads(run.folder, "sysbench-memory")
        if all(w.parameters.get(name) == value for name, value in SETTING.items())
    }
    larger = [
        (threads, block)
        for threads, block in sorted(keys)
        if block != _LEAST and (threads, _LEAST) in keys
    ]
    if not larger:
        return None
    several = len({threads for threads, _ in larger}) > 1
    by_key = {e.key: e for e in run.folder.resolved.environments}

    def row(environment: str, threads: int, block: int) -> DerivedRow:
        above, below = keys[threads, block], keys[threads, _LEAST]
        ours = (Term(1, environment, above, _METRIC), Term(-1, environment, below, _METRIC))
        theirs = _counterpart(by_key[environment], published, threads, block)
        of_them = (many(threads, "thread"),) if several else ()
        name = ", ".join((label(run.folder, environment), *of_them, f"{block >> 10} KiB"))
        return DerivedRow(label=name, cells=(product(run, ours), theirs))

    return DerivedTable(
        key=f"memory-blocks{part}-fresh",
        caption="Memory: rate over the same environment's with blocks of 16 KiB",
        of="environment, threads, block" if several else "environment, block",
        columns=(Column(title="ratio", decimals=3), Column(title=f"{THERE} there", decimals=3)),
        rows=tuple(row(key, *setting) for key in environments(run.folder) for setting in larger),
        notes=(
            f"Block by block, with {share(run.analysis.confidence)} intervals, not corrected for "
            "their number.",
            "There: a guest under Hyper-V with as many CPUs as threads, by sysbench 0.5, which "
            "spends another time on each block than ours.",
        ),
    )


def _counterpart(
    environment: EnvironmentRecord, published: Published, threads: int, block: int
) -> StudyFigure:
    """Of a VM that has as many CPUs as threads."""
    virtual = environment.provider in _VIRTUAL and not environment.emulated
    if virtual and environment.nuisances.get("cpus") == str(threads):
        value = published.growth(THERE, str(threads), str(block >> 10))
        if value is not None:
            return StudyFigure(value=value)
    return StudyFigure(value=None, why="nothing was published for this setting")
