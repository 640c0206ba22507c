"""A table of figures that somebody else measured, checked and sorted for analysis.

Long form: a row for each measurement, with the environment, the value and, where it has them,
block, generation, workload, metric, unit and direction. Columnar throughout: names are codes, and
the rows lie sorted by cell (workload × metric × environment), so that a cell is a slice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ullage import tablecodes, tablefile
from ullage.analysis.tableunits import si
from ullage.errors import (
    TABLE_BAD_CELL,
    TABLE_CONTRADICTS,
    TABLE_NO_DIRECTION,
    TABLE_NO_ENVIRONMENT,
    TABLE_NO_ROWS,
    TABLE_NOT_READABLE,
    TABLE_TOO_MANY,
    TABLE_TWO_DIRECTIONS,
    UllageError,
)
from ullage.folder import typed
from ullage.nearest import nearest
from ullage.printable import clean
from ullage.runs import Better
from ullage.tablecodes import Codes, Floats
from ullage.tablefile import shown

MOST_CELLS: Final = 20_000
"""Beyond so many cells a column is mapped wrongly, or nobody reads the answer."""
_MOST_NAMES: Final = 50_000_000
_MOST_LISTED: Final = 8


Columns = dict[str, Any]
"""Role → column of the table, a `pyarrow.ChunkedArray`."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric of one workload."""

    workload: str
    metric: str
    unit: str
    better: Better
    primary: bool

    @property
    def is_rate(self) -> bool:
        """Its right mean is the harmonic one: so much a second, or without a unit, `higher`."""
        return self.unit.endswith("/s") or (self.unit == "" and self.better == "higher")

    @property
    def usual(self) -> Better | None:
        """The direction that its unit speaks for: of rates `higher`, of times `lower`."""
        if self.unit.endswith("/s"):
            return "higher"
        return "lower" if si(self.unit)[0] == "s" else None


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
    figures: tuple[Figure, ...]
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
            found=shown(environment),
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
    environment, environments = tablecodes.codes(file, table.pop("environment"), "environment")
    if len(environments) == 1:
        what = f"only one environment, {shown(environments[0])}"
        raise UllageError(TABLE_NO_ROWS, file=file, what=what)
    labels, emulated, again = _said_of_environments(table, environment, environments)
    figure, named = _figure_codes(file, table, (names or {}).get("value", "value"), value.size)
    figures, said = _figures(file, table, figure, named, better)
    notes += said
    cells = len(named) * len(environments)
    if cells > _MOST_NAMES:
        raise _too_many(file, cells, "cells")
    key = figure.astype(np.min_scalar_type(cells))
    key *= key.dtype.type(len(environments))
    np.add(key, environment, out=key, casting="unsafe")
    del figure, environment
    counts = np.bincount(key, minlength=cells)
    if (full := int(np.count_nonzero(counts))) > MOST_CELLS:
        raise _too_many(file, full, "cells (environment × workload × metric)")
    block, first_block = (
        tablecodes.blocks(file, table.pop("block")) if "block" in table else (None, None)
    )
    generation = (
        tablecodes.codes(file, table.pop("generation"), "generation")[0]
        if "generation" in table
        else None
    )
    pa.default_memory_pool().release_unused()
    order = tablecodes.in_order(key, cells)
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
        blocks=0 if block is None else tablecodes.distinct(block),
        generations=1 if generation is None else tablecodes.distinct(generation),
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
    kept = pa.table(table).filter(pc.is_null(coordinate))
    notes.append(
        f"{len(coordinate) - kept.num_rows:,} rows are points of curves and left out; "
        f"`ullage show {clean(typed(file.parent))}` compares them"
    )
    return dict(zip(kept.column_names, kept.columns, strict=True))


def _values(file: Path, column: Any) -> Floats:
    """NaN where there is no figure; all missing, or an infinite one, is refused."""
    value: Floats = tablecodes.gathered(column, np.float64)
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


def _figure_codes(
    file: Path, table: Columns, value_name: str, rows: int
) -> tuple[Codes, list[tuple[str, str]]]:
    """Codes of (workload, metric); without either, one figure called like the value's column."""
    found = {
        role: tablecodes.codes(file, table.pop(role), role)
        for role in ("workload", "metric")
        if role in table
    }
    if not found:
        return np.zeros(rows, dtype=np.uint8), [("", value_name)]
    if len(found) == 1:
        ((role, (codes, names)),) = found.items()
        return codes, [(name, "") if role == "workload" else ("", name) for name in names]
    (workload, workloads), (metric, metrics) = found["workload"], found["metric"]
    size = len(workloads) * len(metrics)
    if size > _MOST_NAMES:
        raise _too_many(file, size, "pairs of workload and metric")
    joined = workload.astype(np.min_scalar_type(size))
    joined *= joined.dtype.type(len(metrics))
    np.add(joined, metric, out=joined, casting="unsafe")
    present = np.zeros(size, dtype=bool)
    present[joined] = True
    at = np.flatnonzero(present)
    place = np.zeros(size, dtype=np.min_scalar_type(at.size))
    place[at] = np.arange(at.size)
    both = [(workloads[a // len(metrics)], metrics[a % len(metrics)]) for a in at.tolist()]
    return place[joined], both


def _figures(
    file: Path,
    table: Columns,
    figure: Codes,
    named: Sequence[tuple[str, str]],
    better: Better | None,
) -> tuple[tuple[Figure, ...], list[str]]:
    """Unit and direction of each, and notes; refused unless they are the same in all rows of it."""
    titles = [" ".join(shown(each) for each in name if each) for name in named]
    units = _one_each(file, table, "unit", figure, titles)
    ways = _one_each(file, table, "better", figure, titles)
    primary = np.ones(len(named), dtype=bool)
    if "is_primary" in table:
        flags = np.asarray(pc.fill_null(table.pop("is_primary"), False))
        primary = np.bincount(figure, weights=flags, minlength=len(named)) > 0
    made = tuple(
        Figure(
            workload=clean(name[0]),
            metric=clean(name[1]),
            unit=clean(unit, 40),
            better=_direction(file, table, way, better, title),
            primary=bool(is_primary),
        )
        for name, unit, way, title, is_primary in zip(
            named, units, ways, titles, primary, strict=True
        )
    )
    told = [at for at, way in enumerate(ways) if not way]
    return made, _told(file, made, told, titles)


def _told(
    file: Path, figures: Sequence[Figure], told: Sequence[int], titles: Sequence[str]
) -> list[str]:
    """One `--better` for metrics of different kinds is refused, or said where units do not tell.

    told: places of the figures whose direction is only the option's.
    """
    for at in told:
        better, usual = figures[at].better, figures[at].usual
        other = next((i for i, figure in enumerate(figures) if figure.usual == better), None)
        if usual is not None and usual != better and other is not None:
            raise UllageError(
                TABLE_TWO_DIRECTIONS,
                file=file,
                better=better,
                metric=titles[at],
                unit=shown(figures[at].unit),
                other=titles[other],
                other_unit=shown(figures[other].unit),
            )
    metrics = list(dict.fromkeys(shown(figures[at].metric) for at in told))
    if len(metrics) < 2:
        return []
    more = " …" if len(metrics) > _MOST_LISTED else ""
    return [
        f"`--better {figures[told[0]].better}` is taken for {len(metrics):,} metrics: "
        f"{', '.join(metrics[:_MOST_LISTED])}{more}"
    ]


def _one_each(
    file: Path, table: Columns, role: str, figure: Codes, titles: Sequence[str]
) -> list[str]:
    """The one word that all rows of a figure have in a column; '' where it has none."""
    if role not in table:
        return [""] * len(titles)
    codes, names = tablecodes.codes(file, table[role], role, blank=True)
    if len(names) * len(titles) > _MOST_NAMES:
        raise _too_many(file, len(names), f"different words in the column {role}")
    joined = figure.astype(np.int64) * len(names) + codes
    present = np.zeros(len(titles) * len(names), dtype=bool)
    present[joined] = True
    several = present.reshape(len(titles), len(names)).sum(axis=1) > 1
    if several.any():
        at = int(np.argmax(several))
        rows = np.flatnonzero(figure == at)
        first = codes[rows[0]]
        other = int(rows[np.argmax(codes[rows] != first)])
        raise UllageError(
            TABLE_CONTRADICTS,
            file=file,
            row=f"{other + 1:,}",
            what=titles[at],
            column=role,
            found=shown(names[codes[other]]),
            first=shown(names[first]),
            suggestion=_instead(role, names[codes[other]], names[first]),
        )
    return [names[at] for at in present.reshape(len(titles), len(names)).argmax(axis=1).tolist()]


def _instead(role: str, found: str, first: str) -> str:
    """What to do about a metric for which a column says two different things."""
    if not (found and first):
        return f"write the same {role} in all rows of a metric"
    if role == "unit" and si(found)[0] == si(first)[0]:
        return f"convert all figures to one unit, {shown(first)} or {shown(found)}"
    if role == "unit":
        return "convert all figures to one unit; what differs in kind needs a `metric` of its own"
    return "give each of them a `metric` of its own"


def _direction(file: Path, table: Columns, way: str, better: Better | None, title: str) -> Better:
    if way in ("higher", "lower"):
        if better is not None and better != way:
            raise UllageError(
                TABLE_CONTRADICTS,
                file=file,
                row="1",
                what=title,
                column="better",
                found=shown(way),
                first=f"`--better {better}`",
                suggestion="leave `--better` out: the table says it",
            )
        return cast(Better, way)
    if way:
        codes, names = tablecodes.codes(file, table["better"], "better", blank=True)
        raise UllageError(
            TABLE_BAD_CELL,
            file=file,
            row=f"{int(np.argmax(codes == names.index(way))) + 1:,}",
            column="better",
            found=shown(way),
            allowed="higher and lower are allowed",
            suggestion=nearest(way, ("higher", "lower")),
        )
    if better is None:
        raise UllageError(TABLE_NO_DIRECTION, file=file, metric=title)
    return better


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


def _too_many(file: Path, found: int, what: str) -> UllageError:
    return UllageError(
        TABLE_TOO_MANY, file=file, found=f"{found:,}", what=what, most=f"{MOST_CELLS:,}"
    )
