"""Tables of symbols for made-up runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ullage.meters.perf.sampler import FILE
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder
from ullage.runs.symbols import CoreOverTime, GroupByCore, GroupOverTime, SymbolRow, Symbols

HZ = 100
Place = tuple[str, str, str, str]
"""Group, program, object, function."""


def table(
    trial: Trial,
    places: Mapping[Place, float],
    over_time: Mapping[str, Sequence[int]] | None = None,
    uncounted: int = 0,
    by_core: Mapping[str, Sequence[int]] | None = None,
    cores_over_time: Mapping[tuple[int, str], Sequence[int]] | None = None,
) -> Symbols:
    """places: CPUs at each; over_time: samples of each group, in parts that make up the trial.

    by_core: samples of each group on each core; cores_over_time: of core and group, in these parts.
    """
    over_time = over_time or {}
    length = trial.end_ns - trial.start_ns
    cores_over_time = cores_over_time or {}
    parts = max(map(len, (*over_time.values(), *cores_over_time.values())), default=0)
    return Symbols(
        hz=HZ,
        cpus=2,
        start_ns=trial.start_ns,
        end_ns=trial.end_ns,
        bound_ns=200,
        lost=0,
        rows=tuple(
            SymbolRow(
                group=group,
                program=program,
                object=file,
                symbol=symbol,
                samples=round(cpus * HZ * length / 1e9),
            )
            for (group, program, file, symbol), cpus in places.items()
        ),
        rest=uncounted,
        bin_ns=-(-length // parts) if parts else 0,
        over_time=tuple(
            GroupOverTime(group=group, samples=tuple(samples))
            for group, samples in over_time.items()
        ),
        by_core=tuple(
            GroupByCore(group=group, samples=tuple(samples))
            for group, samples in (by_core or {}).items()
        ),
        cores_over_time=tuple(
            CoreOverTime(core=core, group=group, samples=tuple(samples))
            for (core, group), samples in cores_over_time.items()
        ),
    )


def put(folder: RunFolder, trial: Trial, text: str) -> Path:
    """The file of a trial's table."""
    file = folder.path / "trials" / trial.trial / FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file
