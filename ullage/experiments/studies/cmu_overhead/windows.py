"""The rows of Windows guests: a table of their own, as their program is not that of the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ullage.analysis.comparison.model import Comparison
from ullage.experiments.studies import measured
from ullage.experiments.studies.base import Column, DerivedCell, DerivedTable, StudyFigure
from ullage.experiments.studies.cmu_overhead import derived

GUESTS: Final = ("win81_x64", "win81_x86")
"""The published guests that stand beside a Windows."""
_WINDOWS: Final = "Windows "
"""So the userland of one begins; Wine's does not."""
_VIRTUAL: Final = ("hyperv", "qemu")
_KIB: Final = 1 << 10
_DISK: Final[Mapping[str, object]] = {
    "mode": "rndrw",
    "files": 128,
    "total_size": 100 << 30,
    "block_size": 400 << 20,
    "events": 100,
}


def table(run: measured.StudiedRun, published: derived.Published) -> DerivedTable | None:
    """Ratios of `basics`, and what was published where the other system is a Windows guest."""

    def cells(c: Comparison) -> tuple[DerivedCell, ...]:
        return tuple(_counterpart(run, c, published, guest) for guest in GUESTS)

    columns = tuple(Column(title=f"{guest} there") for guest in GUESTS)
    return measured.ratios(
        run,
        [c for c in run.analysis.primary() if run.kind(c) == "basics"],
        "windows-fresh",
        "Two systems: the work of the published rows by one program, one system over the other",
        measured.PublishedColumns(columns, cells),
    )


def _counterpart(
    run: measured.StudiedRun, c: Comparison, published: derived.Published, guest: str
) -> StudyFigure:
    machine = next(e for e in run.folder.resolved.environments if e.key == c.environment)
    userland = machine.nuisances.get("userland", "")
    if not userland.startswith(_WINDOWS):
        return StudyFigure(value=None, why=f"{userland or 'what ran there'} is no Windows")
    if machine.provider not in _VIRTUAL or machine.emulated:
        return StudyFigure(value=None, why="that Windows is no guest that runs on its CPUs")
    value = _published(run.parameters(c), machine.nuisances.get("cpus", ""), published, guest)
    return StudyFigure(
        value=value, why="" if value is not None else "nothing was published for this setting"
    )


def _published(
    parameters: Mapping[str, object], cpus: str, published: derived.Published, guest: str
) -> float | None:
    """Of so many threads on as many CPUs, with that prime, block or files; None where none was."""
    threads, test = str(parameters["threads"]), parameters["test"]
    if threads != cpus:
        return None
    try:
        if test == "cpu" and parameters["prime"] == 50_000 + 30_000 * int(threads):
            return published.cpu_ratio(guest, threads)
        if test == "memory":
            block = int(str(parameters.get("block_size", _KIB))) // _KIB
            return published.memory_ratio(guest, threads, str(block))
        if test == "fileio" and _DISK.items() <= parameters.items():
            return published.disk_ratio(guest, threads)
    except KeyError:
        pass  # so many threads, or such a block, were not measured there
    return None
