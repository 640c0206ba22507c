"""A table that somebody else wrote: a CSV or Parquet file, read into columns under our names.

Only the columns that are asked for are read; nothing here loops over rows. What cannot be read is
refused with the file, the row or column, and what to do; rows count from 1, without the header.
"""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from ullage.analysis.tables import bounds, footer, forms
from ullage.common.errors import TABLE_BAD_CELL, TABLE_NO_COLUMN, TABLE_NOT_READABLE, UllageError
from ullage.common.text import clean, nearest

ColumnRole = Literal[
    "environment", "value", "block", "generation", "workload", "metric", "unit", "better"
]
REQUIRED: Final[tuple[ColumnRole, ...]] = ("environment", "value")
OPTIONAL: Final[tuple[ColumnRole, ...]] = (
    "block",
    "generation",
    "workload",
    "metric",
    "unit",
    "better",
)
OWN: Final = ("again_of", "environment_label", "emulated", "is_primary", "coordinate", "partner")
"""What `samples.parquet` of a run folder has beside them."""

ROLES: Final = (*REQUIRED, *OPTIONAL)
_TEXT: Final = pa.dictionary(pa.int32(), pa.string())
_TEXTS: Final = ("environment", "generation", "workload", "metric", "unit", "better")
_HEAD: Final = 1 << 16
_DELIMITERS: Final = ",;\t|"
_NO_VALUE: Final = ("", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "-NaN", "NULL", "null", "#N/A")
"""A figure that is missing; anything else that is no number is refused."""


def load(file: Path, names: Mapping[str, str]) -> dict[str, Any]:
    """Role → column (a `pyarrow.ChunkedArray`): `value` as float64, names as dictionary of text.

    names: role → column, where it is not called like its role. Optional columns that the file does
    not have are left out, unless `names` names them. TABLE_NOT_READABLE for anything that is not a
    whole CSV (UTF-8, with a header) or Parquet file; TABLE_NO_COLUMN; TABLE_BAD_CELL for text in
    `value`; TABLE_TOO_MANY rows or bytes (`bounds`).
    """
    head = _head(file)
    try:
        with bounds.memory():
            if head.startswith(b"PAR1"):
                return _parquet(file, names)
            if head.lstrip().startswith(b"{"):
                return forms.columns(file)
            return _csv(file, names, _text(file, head))
    except MemoryError as error:
        raise _unreadable(
            file, "it takes too much memory", "compare a part of the table"
        ) from error


def quoted(name: object) -> str:
    """A word of the table in a message: quoted, cut, and unable to steer a terminal."""
    return f"'{clean(str(name), 60)}'"


def _head(file: Path) -> bytes:
    if file.is_dir():
        raise _unreadable(file, "it is a folder", "of a run folder, name its samples.parquet")
    if file.exists() and not file.is_file():
        raise _unreadable(file, "it is not a regular file", "write it to a file first")
    try:
        with pa.input_stream(str(file), compression="detect") as stream:
            head: bytes = stream.read(_HEAD)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(file, _words(error), "check the path") from error
    if not head:
        raise _unreadable(file, "it is empty")
    return head


def _text(file: Path, head: bytes) -> str:
    """The head of a text file."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        advice = "`iconv -f UTF-16 -t UTF-8` makes UTF-8 of it"
        raise _unreadable(file, "it is UTF-16, not UTF-8", advice)
    if b"\0" in head:
        raise _unreadable(file, "it is neither text nor Parquet")
    if head.lstrip().startswith(b"["):
        advice = (
            "DuckDB makes a CSV file of it:"
            " `copy (select … from read_json('FILE')) to 'table.csv'`; see docs/guide/compare.md"
        )
        raise _unreadable(file, "it is JSON", advice)
    try:
        # The cut may go through the last character.
        return head.decode("utf-8-sig", errors="strict" if len(head) < _HEAD else "ignore")
    except UnicodeDecodeError as error:
        raise _not_utf8(file) from error


def _csv(file: Path, names: Mapping[str, str], head: str) -> dict[str, Any]:
    # Lines may end as on old Macs, and empty ones before the header do not count.
    lines = io.StringIO(head.lstrip("\r\n"), newline="")
    line = lines.readline().rstrip("\r\n")
    delimiter = max(_DELIMITERS, key=line.count)
    lines.seek(0)
    try:
        header = next(csv.reader(lines, delimiter=delimiter), [])
    except csv.Error as error:
        raise _unreadable(file, f"its first line: {_words(error)}") from error
    try:
        columns = _columns(file, names, header, OPTIONAL)
    except UllageError as error:
        raise (_no_header(file, line) or error) from None
    bounds.check_text(file)
    types = {columns[role]: _TEXT for role in _TEXTS if role in columns}
    value = columns["value"]

    ragged: list[Any] = []

    def keep_ragged(row: Any) -> str:
        ragged.append(row)
        return "error"

    def read(value_type: Any, *, threads: bool = True) -> pa.Table:
        return pacsv.read_csv(
            file,
            read_options=pacsv.ReadOptions(use_threads=threads),
            parse_options=pacsv.ParseOptions(delimiter=delimiter, invalid_row_handler=keep_ragged),
            convert_options=pacsv.ConvertOptions(
                include_columns=[*dict.fromkeys(columns.values())],
                column_types={**types, value: value_type},
                null_values=list(_NO_VALUE),
            ),
        )

    try:
        try:
            table = read(pa.float64())
        except pa.ArrowInvalid as error:
            if "conversion error to double" not in str(error):
                raise
            table = read(pa.string())
    except pa.ArrowMemoryError:
        raise
    except (OSError, pa.ArrowException) as error:
        if "invalid UTF8" in str(error):
            raise _not_utf8(file) from error
        if ragged:
            ragged.clear()
            with contextlib.suppress(OSError, pa.ArrowException):
                read(pa.string(), threads=False)  # only so are rows counted
            if ragged:
                raise _ragged(file, ragged[0], delimiter) from error
        raise _unreadable(file, _words(error)) from error
    return _typed(file, table, columns)


def _no_header(file: Path, line: str) -> UllageError | None:
    """What to say of a first line that names no columns, but is a known other thing."""
    if line.casefold().startswith("sep="):
        advice = "delete that line: which delimiter it is can be seen without it"
        return _unreadable(file, f"its first line is {quoted(line)}, not the header", advice)
    if line.startswith("#"):
        advice = "delete the comments: the first line must name the columns, without a #"
        return _unreadable(file, f"its first line is the comment {quoted(line)}", advice)
    return None


def _ragged(file: Path, row: Any, delimiter: str) -> UllageError:
    """row: a `pyarrow.csv.InvalidRow`, whose number counts the header too."""
    return _unreadable(
        file,
        f"row {row.number - 1:,} has {row.actual_columns:,} cells, but the header "
        f"{row.expected_columns:,}: {quoted(row.text)}",
        f"give it as many cells as the header has; quote a text with a {delimiter!r} in it",
    )


def _parquet(file: Path, names: Mapping[str, str]) -> dict[str, Any]:
    if (fault := footer.fault(file)) is not None:
        raise _unreadable(file, fault, "copy the file again, or write it anew")
    try:
        metadata = pq.read_metadata(file)
        schema = metadata.schema.to_arrow_schema()
        optional: tuple[str, ...] = OPTIONAL
        if b"run" in (schema.metadata or {}):
            optional = (*OPTIONAL, *OWN)
        columns = _columns(file, names, schema.names, optional)
        wanted = [*dict.fromkeys(columns.values())]
        for name in wanted:
            if not _is_plain(kind := schema.field(name).type):
                raise _unreadable(file, f"its column {quoted(name)} holds {kind}, not plain values")
        bounds.check_parquet(file, metadata, set(wanted))
        table = pq.read_table(
            file,
            columns=wanted,
            # Of a text that repeats there is one copy.
            read_dictionary=[name for name in wanted if _is_text(schema.field(name).type)],
            pre_buffer=False,  # the file is near, and would be there twice
        )
    except pa.ArrowMemoryError:
        raise
    except UnicodeDecodeError as error:
        raise _unreadable(file, "a name in it is not UTF-8", "write the file anew") from error
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(file, _words(error)) from error
    return _typed(file, table, columns)


def _columns(
    file: Path, names: Mapping[str, str], header: Sequence[str], optional: Iterable[str]
) -> dict[str, str]:
    """Role → column of the file. Spaces around a name do not count."""
    columns: dict[str, str] = {}
    trimmed = [column.strip() for column in header]
    for role in (*REQUIRED, *optional):
        name = names.get(role, role).strip()
        if name in trimmed:
            if trimmed.count(name) > 1:
                places = " and ".join(
                    f"{at}" for at, column in enumerate(trimmed, 1) if column == name
                )
                raise _unreadable(
                    file,
                    f"columns {places} are both called {quoted(name)}",
                    "give each another name in the header, and map the right one: "
                    f"`--column {role}=NAME`",
                )
            columns[role] = header[trimmed.index(name)]
        elif role in REQUIRED or role in names:
            raise UllageError(
                TABLE_NO_COLUMN,
                file=file,
                column=quoted(name),
                found=", ".join(quoted(column) for column in trimmed[:20]) or "none",
                role=role,
                suggestion=clean(nearest(name, trimmed[:100], listed=len(trimmed) <= 20), 400),
            )
    return columns


def _typed(file: Path, table: pa.Table, columns: Mapping[str, str]) -> dict[str, Any]:
    """The columns under our names, each of the type that its role has."""
    typed: dict[str, Any] = {}
    for role, name in columns.items():
        column = table.column(name)
        if role == "value":
            typed[role] = _numbers(file, name, column)
        elif role in _TEXTS:
            typed[role] = _names(file, name, column)
        else:
            typed[role] = column
    return typed


def _numbers(file: Path, name: str, column: Any) -> Any:
    if pa.types.is_float64(column.type):
        return column
    if not _is_text(column.type):
        try:
            return column.cast(pa.float64(), safe=False)
        except pa.ArrowException as error:
            raise _unreadable(
                file, f"its column {quoted(name)} holds {column.type}, not numbers"
            ) from error
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    text = pc.if_else(pc.is_in(text, pa.array(_NO_VALUE)), None, text)
    if (row := _first_unreadable(text)) is not None:
        raise UllageError(
            TABLE_BAD_CELL,
            file=file,
            row=f"{row + 1:,}",
            column=name.strip(),
            found=quoted(text[row]),
            allowed="a number is needed",
            suggestion="write numbers with a point and without a unit; leave the cell empty where"
            " the measurement failed",
        )
    return text.cast(pa.float64())


def _first_unreadable(text: Any) -> int | None:
    """The first row that is no number, by halving."""
    start, length = 0, len(text)
    if _all_numbers(text):
        return None
    while length > 1:
        half = length // 2
        if _all_numbers(text.slice(start, half)):
            start, length = start + half, length - half
        else:
            length = half
    return start


def _all_numbers(text: Any) -> bool:
    try:
        text.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _names(file: Path, name: str, column: Any) -> Any:
    """Text as codes into a dictionary that all chunks share."""
    try:
        if pa.types.is_dictionary(column.type):
            return column.unify_dictionaries().cast(_TEXT)
        return column.cast(pa.string()).dictionary_encode()
    except pa.ArrowException as error:
        raise _unreadable(
            file, f"its column {quoted(name)} holds {column.type}, not names"
        ) from error


def _is_plain(kind: Any) -> bool:
    return not (pa.types.is_nested(kind) or pa.types.is_fixed_size_binary(kind))


def _is_text(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _words(error: Exception) -> str:
    """What Arrow or the system says, on one line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return clean(" ".join(text.split()), 200)


def _not_utf8(file: Path) -> UllageError:
    return _unreadable(
        file, "it is not UTF-8", "`iconv -f LATIN1 -t UTF-8` makes UTF-8 of what is Latin-1"
    )


def _unreadable(
    file: Path,
    reason: str,
    suggestion: str = "a CSV file (UTF-8, with a header) or a Parquet file is needed",
) -> UllageError:
    return UllageError(TABLE_NOT_READABLE, file=file, reason=reason, suggestion=suggestion)
