"""What a table measures: its metrics, each with one unit and one direction in all of its rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pyarrow.compute as pc

from ullage.analysis.tables import codes as tablecodes
from ullage.analysis.tables.codes import Codes
from ullage.analysis.tables.file import quoted
from ullage.common.errors import (
    TABLE_BAD_CELL,
    TABLE_CONTRADICTS,
    TABLE_NO_DIRECTION,
    TABLE_TOO_MANY,
    TABLE_TWO_DIRECTIONS,
    UllageError,
)
from ullage.common.text import clean, nearest
from ullage.runs.records import Better

_UNIT = re.compile(
    r"(?P<prefix>n|u|µ|μ|m|k|K|M|G|T|Ki|Mi|Gi|Ti)?(?P<base>s|B|bit|Hz|J|W)(?P<rate>/s)?"
)
_FACTORS: Final = {
    "n": 1e-9,
    "u": 1e-6,
    "µ": 1e-6,
    "μ": 1e-6,
    "m": 1e-3,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
}


def si(unit: str) -> tuple[str, float]:
    """The unit without its prefix, and the factor that makes its figures so: `ms` → (`s`, 0.001).

    A unit that we do not know stays as it is.
    """
    match = _UNIT.fullmatch(unit)
    if match is None or match["prefix"] is None:
        return unit, 1.0
    return match["base"] + (match["rate"] or ""), _FACTORS[match["prefix"]]


MOST_CELLS: Final = 20_000
"""Beyond so many cells a column is mapped wrongly, or nobody reads the answer."""
MOST_NAMES: Final = 50_000_000
"""Beyond so many combinations of names nothing is made of them: they would take the memory."""
_MOST_LISTED: Final = 8

Columns = dict[str, Any]
"""Role → column of the table, a `pyarrow.ChunkedArray`."""


@dataclass(frozen=True, slots=True)
class TableFigure:
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


def figure_codes(
    file: Path, table: Columns, value_name: str, rows: int
) -> tuple[Codes, list[tuple[str, str]]]:
    """Codes of (workload, metric); without either, one figure called like the value's column."""
    columns = {
        role: tablecodes.codes(file, table.pop(role), role)
        for role in ("workload", "metric")
        if role in table
    }
    if not columns:
        return np.zeros(rows, dtype=np.uint8), [("", value_name)]
    if len(columns) == 1:
        ((role, (codes, names)),) = columns.items()
        return codes, [(name, "") if role == "workload" else ("", name) for name in names]
    (workload, workloads), (metric, metrics) = columns["workload"], columns["metric"]
    size = len(workloads) * len(metrics)
    if size > MOST_NAMES:
        raise too_many(file, size, "pairs of workload and metric")
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


def checked_figures(
    file: Path,
    table: Columns,
    figure: Codes,
    named: Sequence[tuple[str, str]],
    better: Better | None,
) -> tuple[tuple[TableFigure, ...], list[str]]:
    """Unit and direction of each, and notes; refused unless they are the same in all rows of it."""
    titles = [" ".join(quoted(word) for word in name if word) for name in named]
    units = _one_each(file, table, "unit", figure, titles)
    ways = _one_each(file, table, "better", figure, titles)
    primary = np.ones(len(named), dtype=bool)
    if "is_primary" in table:
        flags = np.asarray(pc.fill_null(table.pop("is_primary"), False))
        primary = np.bincount(figure, weights=flags, minlength=len(named)) > 0
    figures = tuple(
        TableFigure(
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
    by_option = [at for at, way in enumerate(ways) if not way]
    return figures, _check_option(file, figures, by_option, titles)


def _check_option(
    file: Path, figures: Sequence[TableFigure], by_option: Sequence[int], titles: Sequence[str]
) -> list[str]:
    """One `--better` for metrics of different kinds is refused, or said where units do not tell.

    by_option: places of the figures whose direction is only the option's.
    """
    usuals = [figure.usual for figure in figures]
    first = {usual: at for at, usual in reversed(list(enumerate(usuals)))}
    for at in by_option:
        better, usual = figures[at].better, usuals[at]
        contrary = first.get(better)
        if usual is not None and usual != better and contrary is not None:
            raise UllageError(
                TABLE_TWO_DIRECTIONS,
                file=file,
                better=better,
                metric=titles[at],
                unit=quoted(figures[at].unit),
                other=titles[contrary],
                other_unit=quoted(figures[contrary].unit),
            )
    metrics = list(dict.fromkeys(quoted(figures[at].metric) for at in by_option))
    if len(metrics) < 2:
        return []
    more = " …" if len(metrics) > _MOST_LISTED else ""
    return [
        f"`--better {figures[by_option[0]].better}` is taken for {len(metrics):,} metrics: "
        f"{', '.join(metrics[:_MOST_LISTED])}{more}"
    ]


def _one_each(
    file: Path, table: Columns, role: str, figure: Codes, titles: Sequence[str]
) -> list[str]:
    """The one word that all rows of a figure have in a column; '' where it has none."""
    if role not in table:
        return [""] * len(titles)
    codes, names = tablecodes.codes(file, table[role], role, blank=True)
    if len(names) * len(titles) > MOST_NAMES:
        raise too_many(file, len(names), f"different words in the column {role}")
    joined = figure.astype(np.int64) * len(names) + codes
    present = np.zeros(len(titles) * len(names), dtype=bool)
    present[joined] = True
    several = present.reshape(len(titles), len(names)).sum(axis=1) > 1
    if several.any():
        at = int(np.argmax(several))
        rows = np.flatnonzero(figure == at)
        first = codes[rows[0]]
        differing = int(rows[np.argmax(codes[rows] != first)])
        raise UllageError(
            TABLE_CONTRADICTS,
            file=file,
            row=f"{differing + 1:,}",
            what=titles[at],
            column=role,
            found=quoted(names[codes[differing]]),
            first=quoted(names[first]),
            suggestion=_instead(role, names[codes[differing]], names[first]),
        )
    return [names[at] for at in present.reshape(len(titles), len(names)).argmax(axis=1).tolist()]


def _instead(role: str, later: str, first: str) -> str:
    """What to do about a metric for which a column says two different things."""
    if not (later and first):
        return f"write the same {role} in all rows of a metric"
    if role == "unit" and si(later)[0] == si(first)[0]:
        return f"convert all figures to one unit, {quoted(first)} or {quoted(later)}"
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
                found=quoted(way),
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
            found=quoted(way),
            allowed="higher and lower are allowed",
            suggestion=nearest(way, ("higher", "lower"), listed=True),
        )
    if better is None:
        raise UllageError(TABLE_NO_DIRECTION, file=file, metric=title)
    return better


def too_many(file: Path, number: int, units: str) -> UllageError:
    """The complaint about a table with more of something than anybody compares."""
    return UllageError(
        TABLE_TOO_MANY, file=file, found=f"{number:,}", what=units, most=f"{MOST_CELLS:,}"
    )
