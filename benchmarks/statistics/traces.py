"""Recorded noise: reading it, and drawing longer series out of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.statistics.record import MEASURES, TIME
from ullage.stats import Floats

FOLDER = Path(__file__).with_name("traces")
SEGMENT = 60
"""Rows of a segment: four minutes, long beside a block, short beside a trace."""


class TraceError(Exception):
    """A file that is no trace."""


@dataclass(frozen=True)
class Trace:
    """One recording: what turns gave, as log times.

    A rate is turned round: above the mean is slower. The mean of each column is 0, so that the
    noise itself has the truth 1.
    """

    name: str
    columns: dict[str, Floats]
    """Measure → log times, one per turn."""

    @property
    def turns(self) -> int:
        return int(next(iter(self.columns.values())).size)


def read(file: Path) -> Trace:
    """Read a trace. TraceError unless every figure is positive and every row complete."""
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    names = lines[0].split(",") if lines else []
    keys = {measure.column: measure.key for measure in MEASURES}
    if names[:1] != [TIME] or len(names) < 2 or not set(names[1:]) <= set(keys):
        raise TraceError(f"{file}: no header {TIME},{','.join(keys)}")
    try:
        table = np.array([[float(x) for x in line.split(",")] for line in lines[1:]])
    except ValueError as error:
        raise TraceError(f"{file}: {error}") from None
    good = table.ndim == 2 and np.isfinite(table).all() and (table[:, 1:] > 0).all()
    if not good or len(table) < 2 * SEGMENT:
        raise TraceError(f"{file}: not {2 * SEGMENT} rows of positive figures")
    logs = -np.log(table[:, 1:])
    logs -= logs.mean(axis=0)
    columns = {keys[name]: np.ascontiguousarray(logs[:, i]) for i, name in enumerate(names[1:])}
    return Trace(file.stem, columns)


def all_traces() -> list[Trace]:
    """Those that are kept beside this file, by name."""
    return [read(file) for file in sorted(FOLDER.glob("*.csv"), key=lambda file: file.stem)]


def segments(
    column: Floats, rng: np.random.Generator, campaigns: int, slots: int, length: int = SEGMENT
) -> Floats:
    """Series of any length (campaigns × slots): segments of the trace, end to end.

    The moving block bootstrap (Künsch 1989, Ann. Statist. 17:1217), each segment beginning
    anywhere. Within a segment everything is as recorded; where two meet the level jumps.
    """
    pieces = -(-slots // length) + 1
    starts = rng.integers(0, column.size - length + 1, (campaigns, pieces))
    rows = (starts[:, :, None] + np.arange(length)).reshape(campaigns, -1)
    # The first segment begins in its middle somewhere, or all seams would be at the same blocks.
    skip = rng.integers(0, length, (campaigns, 1))
    series: Floats = column[np.take_along_axis(rows, skip + np.arange(slots), axis=1)]
    return series
