"""A table of figures that somebody else measured, checked and sorted for analysis.

Long form: a row for each measurement, with the environment, the value and, where it has them,
block, generation, workload, metric, unit and direction. Columnar throughout: names are codes, and
the rows lie sorted by cell (workload × metric × environment), so that a cell is a slice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ullage.analysis.tables import codes
from ullage.analysis.tables import file as tablefile
from ullage.analysis.tables.codes import Codes
from ullage.analysis.tables.figures import (
    MOST_CELLS,
    MOST_NAMES,
    Columns,
    TableFigure,
    checked_figures,
    figure_codes,
    too_many,
)
from ullage.analysis.tables.file import quoted
from ullage.common.errors import (
    TABLE_BAD_CELL,
    TABLE_NO_ENVIRONMENT,
    TABLE_NO_ROWS,
    TABLE_NOT_READABLE,
    UllageError,
)
from ullage.common.text import clean, nearest
from ullage.runs.reader import typed
from ullage.runs.records import Better
from ullage.stats import Floats


@dataclass(frozen=True, slots=True)
class Rows:
    """The measurements of one cell, in the order of the file."""

    value: Floats
    """NaN: the measurement gave no figure."""
    block: Codes | None
    generation: Codes | None


@dataclass(frozen=True)
class Sheet:
    """A table, ready to be analysed."""

    file: Path
    rows: int
    environments: tuple[str, ...]
    """As the table writes them."""
    figures: tuple[TableFigure, ...]
    again: dict[str, str]
    """Second copy → the environment that it is equal to, where the table says so."""
    labels: Mapping[str, str]
    emulated: frozenset[str]
    notes: tuple[str, ...]
    blocks: int
    """Distinct ones; 0: the table has no blocks."""
    generations: int
    """Distinct ones; 1 where the table has none."""
    first_block: int | None
    """What stands for block code 0; None: the codes are ranks."""
    _place: Mapping[str, int] = field(repr=False)
    _value: Floats = field(repr=False)
    _block: Codes | None = field(repr=False)
    _generation: Codes | None = field(repr=False)
    _starts: NDArray[np.int64] = field(repr=False)

    def cell(self, environment: str, figure: int) -> Rows:
        """The rows of an environment; empty when it has none."""
        at = figure * len(self.environments) + self._place[environment]
        part = slice(int(self._starts[at]), int(self._starts[at + 1]))
        return Rows(
            self._value[part],
            None if self._block is None else self._block[part],
            None if self._generation is None else self._generation[part],
        )

    def has(self, environment: str) -> str:
        """The environment of that name. TABLE_NO_ENVIRONMENT, with the nearest one."""
        if environment in self._place:
            return environment
        raise UllageError(
            TABLE_NO_ENVIRONMENT,
            file=self.file,
            found=quoted(environment),
            suggestion=clean(nearest(environment, self.environments[:100]), 400),
        )

    def label(self, environment: str) -> str:
        """What tables and sentences call it: nothing in it steers a terminal."""
        return clean(self.labels.get(environment, environment))

    def block_name(self, code: int) -> str:
        """What the table calls a block."""
        return f"{code + self.first_block}" if self.first_block is not None else f"no. {code + 1}"


def read(file: Path, names: Mapping[str, str] | None = None, better: Better | None = None) -> Sheet:
    """Read and check a table.

    names: role → column, for columns with other names. better: of metrics for which the table does
    not say it. Raises an error of the catalogue (`TABLE_…`) for whatever cannot be used.
    """
    notes: list[str] = []
    table = _scalars(file, tablefile.load(file, names or {}), notes)
    if not len(table["value"]):
        raise UllageError(TABLE_NO_ROWS, file=file, what="no rows")
    # A column is let go as soon as it is turned into an array.
    value = _values(file, table.pop("value"))
    environment, environments = codes.codes(file, table.pop("environment"), "environment")
    if len(environments) == 1:
        reason = f"only one environment, {quoted(environments[0])}"
        raise UllageError(TABLE_NO_ROWS, file=file, what=reason)
    labels, emulated, again = _said_of_environments(table, environment, environments)
    figure, named = figure_codes(file, table, (names or {}).get("value", "value"), value.size)
    figures, figure_notes = checked_figures(file, table, figure, named, better)
    notes += figure_notes
    cells = len(named) * len(environments)
    if cells > MOST_NAMES:
        raise too_many(file, cells, "cells")
    key = figure.astype(np.min_scalar_type(cells))
    key *= key.dtype.type(len(environments))
    np.add(key, environment, out=key, casting="unsafe")
    del figure, environment
    counts = np.bincount(key, minlength=cells)
    if (full := int(np.count_nonzero(counts))) > MOST_CELLS:
        raise too_many(file, full, "cells (environment × workload × metric)")
    block, first_block = (
        codes.blocks(file, table.pop("block")) if "block" in table else (None, None)
    )
    generation = (
        codes.codes(file, table.pop("generation"), "generation")[0]
        if "generation" in table
        else None
    )
    pa.default_memory_pool().release_unused()
    order = codes.in_order(key, cells)
    del key
    return Sheet(
        file=file,
        rows=value.size,
        environments=tuple(environments),
        figures=figures,
        again=again,
        labels=labels,
        emulated=emulated,
        notes=tuple(notes),
        blocks=0 if block is None else codes.distinct(block),
        generations=1 if generation is None else codes.distinct(generation),
        first_block=first_block,
        _place={name: at for at, name in enumerate(environments)},
        _value=value if order is None else value[order],
        _block=block if block is None or order is None else block[order],
        _generation=generation if generation is None or order is None else generation[order],
        _starts=np.concatenate(([0], np.cumsum(counts))),
    )


def _scalars(file: Path, table: Columns, notes: list[str]) -> Columns:
    """Without the curves of a run folder; a duet is refused: only `show` knows who ran beside."""
    if (partner := table.pop("partner", None)) is not None and partner.null_count < len(partner):
        raise UllageError(
            TABLE_NOT_READABLE,
            file=file,
            reason="it is of a duet, whose trials belong together in twos",
            suggestion=f"`ullage show {typed(file.parent)}` compares them",
        )
    coordinate = table.pop("coordinate", None)
    if coordinate is None or coordinate.null_count == len(coordinate):
        return table
    scalars = pa.table(table).filter(pc.is_null(coordinate))
    notes.append(
        f"{len(coordinate) - scalars.num_rows:,} rows are points of curves and left out; "
        f"`ullage show {clean(typed(file.parent))}` compares them"
    )
    return dict(zip(scalars.column_names, scalars.columns, strict=True))


def _values(file: Path, column: Any) -> Floats:
    """NaN where there is no figure; all missing, or an infinite one, is refused."""
    value: Floats = codes.gathered(column, np.float64)
    if (infinite := np.isinf(value)).any():
        row = int(np.argmax(infinite))
        raise UllageError(
            TABLE_BAD_CELL,
            file=file,
            row=f"{row + 1:,}",
            column="value",
            found=f"{value[row]}",
            allowed="a finite number is needed",
            suggestion="no measurement is infinite; leave the cell empty where it failed",
        )
    if np.isnan(value).all():
        raise UllageError(
            TABLE_NO_ROWS, file=file, what=f"no figure: all {value.size:,} values are missing"
        )
    return value


def _said_of_environments(
    table: Columns, environment: Codes, environments: Sequence[str]
) -> tuple[dict[str, str], frozenset[str], dict[str, str]]:
    """Labels, emulated ones and second copies, from the first row of each (run folders only)."""
    own = {
        role: table.pop(role)
        for role in ("environment_label", "emulated", "again_of")
        if role in table
    }
    if not own:
        return {}, frozenset(), {}
    first = [int(np.argmax(environment == at)) for at in range(len(environments))]
    rows = dict(zip(environments, pa.table(own).take(first).to_pylist(), strict=True))
    return (
        {name: row["environment_label"] for name, row in rows.items() if row["environment_label"]},
        frozenset(name for name, row in rows.items() if row["emulated"]),
        {name: row["again_of"] for name, row in rows.items() if row["again_of"]},
    )
