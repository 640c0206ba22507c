"""The derived Parquet files of a run folder, and SQL over all runs.

`ullage.parquetrows` says what stands in them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ullage.errors import QUERY_FAILED, RUN_NOT_FOUND, TABLES_NOT_WRITTEN, UllageError
from ullage.folder import RunFolder, find_runs, stamp
from ullage.parquetrows import ROWS, SCHEMAS, Row
from ullage.runs import FORMAT

_OFFLINE: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
"""DuckDB fetches extensions from a server: not here."""


def write(folder: RunFolder) -> dict[str, Path]:
    """Write `samples`, `events`, `meters` and `clocks` of a run; returns name → file.

    Each is written under a temporary name and renamed. TABLES_NOT_WRITTEN when that fails.
    """
    return {name: _put(folder, name, rows(folder)) for name, rows in ROWS.items()}


def query(
    sql: str, root: Path, on_bad_run: Callable[[Path, UllageError], None] | None = None
) -> Any:
    """Run SQL over the views `samples`, `events`, `meters` and `clocks` of all runs under `root`.

    Returns a `pyarrow.Table`. Tables that are missing or older than their journal are made first.
    RUN_NOT_FOUND without any run, QUERY_FAILED with DuckDB's own words. A run that cannot be read
    raises its error, unless `on_bad_run` is there to be told: then it is left out.
    """
    files: dict[str, list[str]] = {name: [] for name in SCHEMAS}
    for path in find_runs(root):
        try:
            for name, file in _fresh(path).items():
                files[name].append(str(file))
        except UllageError as error:
            if on_bad_run is None:
                raise
            on_bad_run(path, error)
    if not files["samples"]:
        raise UllageError(RUN_NOT_FOUND, path=root)
    with duckdb.connect(":memory:", config=dict(_OFFLINE)) as connection:
        for name, schema in SCHEMAS.items():
            connection.register(name, ds.dataset(files[name], schema=schema, format="parquet"))
        try:
            result = connection.sql(sql)
            return pa.table({}) if result is None else result.to_arrow_table()
        except duckdb.Error as error:
            raise UllageError(QUERY_FAILED, reason=str(error).strip()) from error


def _fresh(path: Path) -> dict[str, Path]:
    """The tables of a run, made now unless they are of the journal as it stands."""
    files = {name: path / f"{name}.parquet" for name in SCHEMAS}
    if all(_is_current(path, file) for file in files.values()):
        return files
    return write(RunFolder.open(path))


def _is_current(path: Path, file: Path) -> bool:
    try:
        metadata = pq.read_schema(file).metadata or {}
    except (OSError, pa.ArrowInvalid):
        return False
    return all(metadata.get(key) == value for key, value in _metadata(path, stamp(path)).items())


def _metadata(path: Path, stamped: str) -> dict[bytes, bytes]:
    """What tells whether a table is of this folder, and of what stands in it."""
    return {
        b"format": str(FORMAT).encode(),
        b"run": os.fsencode(path.name),
        b"stamp": stamped.encode(),
    }


def _put(folder: RunFolder, name: str, rows: Iterator[Row]) -> Path:
    schema = SCHEMAS[name]
    columns: dict[str, list[Any]] = {field: [] for field in schema.names}
    run = folder.path.name
    for row in rows:
        row["run"] = run
        for field, column in columns.items():
            column.append(row.get(field))
    table = pa.table(columns, schema=schema.with_metadata(_metadata(folder.path, folder.stamp)))
    file = folder.path / f"{name}.parquet"
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        pq.write_table(table, temporary, compression="zstd")
        temporary.rename(file)
    except OSError as error:
        raise UllageError(
            TABLES_NOT_WRITTEN, path=folder.path, reason=error.strerror or str(error)
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    return file
