"""What stands in the derived Parquet files of a run folder: their columns and their rows.

`samples`: a row for each trial × metric (× coordinate of a curve); a trial without figures has its
rows too, with `value` null, so that denominators are right. `events`: all that happened, on the
wall clock, with the error bound of each instant. `meters`: what was sampled during each trial.
`clocks`: a row for each trial × instance, how well its instants are known.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from ullage.common import sums
from ullage.common.errors import QUERY_FAILED, RUN_NOT_FOUND, TABLES_NOT_WRITTEN, UllageError
from ullage.common.files import put
from ullage.common.packages import need_library
from ullage.common.regular import OpenFolder, digest
from ullage.runs import derived
from ullage.runs.events import (
    BlockDone,
    Finished,
    Idle,
    Judged,
    Provisioned,
    Recalled,
    Started,
    Synchronised,
    Trial,
    Warned,
)
from ullage.runs.reader import ORDINARY, RunFolder, find_runs, stamp
from ullage.runs.records import FORMAT, Digests, Metric, Record

Row = dict[str, Any]
_TABLES: Final = "tables.json"
_PART: Final = 50_000
"""Rows of a table that are made at once."""

_TEXT, _INT, _LONG, _FLOAT, _FLAG = pa.string(), pa.int32(), pa.int64(), pa.float64(), pa.bool_()

SCHEMAS: Final[dict[str, Any]] = {
    "samples": pa.schema(
        [
            ("run", _TEXT),
            ("trial", _TEXT),
            ("block", _INT),
            ("order_in_block", _INT),
            ("position", _INT),
            ("generation", _INT),
            ("partner", _TEXT),
            ("side", _INT),
            ("environment", _TEXT),
            ("environment_label", _TEXT),
            ("again_of", _TEXT),
            ("emulated", _FLAG),
            ("workload", _TEXT),
            ("workload_name", _TEXT),
            ("resource", _TEXT),
            ("parameters", _TEXT),
            ("metric", _TEXT),
            ("unit", _TEXT),
            ("better", _TEXT),
            ("is_primary", _FLAG),
            ("coordinate", _FLOAT),
            ("coordinate_name", _TEXT),
            ("coordinate_unit", _TEXT),
            ("value", _FLOAT),
            ("status", _TEXT),
            ("reason_code", _TEXT),
            ("reason", _TEXT),
            ("start_epoch_ns", _LONG),
            ("end_epoch_ns", _LONG),
            ("bound_ns", _LONG),
            ("spread_ns", _LONG),
            ("overhead_s", _FLOAT),
        ]
    ),
    "events": pa.schema(
        [
            ("run", _TEXT),
            ("epoch_ns", _LONG),
            ("bound_ns", _LONG),
            ("sure_ns", _LONG),
            ("local_ns", _LONG),
            ("kind", _TEXT),
            ("block", _INT),
            ("trial", _TEXT),
            ("environment", _TEXT),
            ("workload", _TEXT),
            ("instance", _TEXT),
            ("role", _TEXT),
            ("detail", _TEXT),
        ]
    ),
    "meters": pa.schema(
        [
            ("run", _TEXT),
            ("trial", _TEXT),
            ("block", _INT),
            ("environment", _TEXT),
            ("workload", _TEXT),
            ("meter", _TEXT),
            ("name", _TEXT),
            ("value", _FLOAT),
            ("unit", _TEXT),
            ("start_epoch_ns", _LONG),
            ("end_epoch_ns", _LONG),
            ("bound_ns", _LONG),
        ]
    ),
    "clocks": pa.schema(
        [
            ("run", _TEXT),
            ("trial", _TEXT),
            ("block", _INT),
            ("environment", _TEXT),
            ("workload", _TEXT),
            ("instance", _TEXT),
            ("shared", _FLAG),
            ("bound_ns", _LONG),
            ("sure_ns", _LONG),
            ("drifted_ns", _LONG),
            ("drift_unsure_ns", _LONG),
            ("between_ns", _LONG),
            ("residual_ns", _LONG),
            ("looks", _INT),
            ("messages", _INT),
            ("took_ns", _LONG),
            ("reasons", _TEXT),
            ("start_epoch_ns", _LONG),
            ("end_epoch_ns", _LONG),
        ]
    ),
}
"""Columns of each file. SQL's own words (`order`, `primary`) are avoided."""
_FILES: Final = {name: f"{name}.parquet" for name in SCHEMAS}
_COLUMNS: Final = hashlib.sha256(
    " ".join(
        f"{name} {field.name} {field.type}" for name, fields in SCHEMAS.items() for field in fields
    ).encode()
).hexdigest()[:16]
"""What tells tables with these columns from those of another version."""
_VIEW: Final = (
    "create view {name} as from"
    " read_parquet(getvariable('{name}_files'), hive_partitioning = false)"
)
_PATTERN: Final = re.compile(r"[*?\[\\\ud800-\udfff]")


def samples(folder: RunFolder) -> Iterator[Row]:
    """A row for each trial × metric (× coordinate of a curve)."""
    environments = {e.key: e for e in folder.resolved.environments}
    workloads = {w.key: w for w in folder.resolved.workloads}
    parameters = {key: json.dumps(w.parameters, sort_keys=True) for key, w in workloads.items()}
    for trial in folder.trials:
        environment, workload = environments[trial.environment], workloads[trial.workload]
        common = _of_trial(trial) | {
            "order_in_block": trial.order,
            "position": trial.position,
            "generation": trial.generation,
            "partner": trial.partner,
            "side": trial.side,
            "environment_label": environment.label,
            "again_of": environment.again_of,
            "emulated": environment.emulated,
            "workload_name": workload.workload,
            "resource": workload.resource,
            "parameters": parameters[workload.key],
            "status": trial.status,
            "reason_code": trial.reason.code if trial.reason else None,
            "reason": trial.reason.message if trial.reason else None,
            "spread_ns": trial.spread_ns,
            "overhead_s": trial.overhead_s,
        }
        for metric in workload.metrics:
            for figure in _figures(trial, metric):
                yield common | figure


def _figures(trial: Trial, metric: Metric) -> Iterator[Row]:
    """One row, or of a curve one for each point; value null when there is none."""
    row: Row = {
        "metric": metric.name,
        "unit": metric.unit,
        "better": metric.better,
        "is_primary": metric.primary,
    }
    figure = trial.metrics.get(metric.name) if trial.status == "ok" else None
    if metric.coordinate is not None:
        row["coordinate_name"] = metric.coordinate.name
        row["coordinate_unit"] = metric.coordinate.unit
    if isinstance(figure, list):
        for coordinate, value in figure:
            yield row | {"coordinate": coordinate, "value": value}
    else:
        yield row | {"value": figure}


def _of_trial(trial: Trial) -> Row:
    return {
        "trial": trial.trial,
        "block": trial.block,
        "environment": trial.environment,
        "workload": trial.workload,
        "start_epoch_ns": trial.epoch_ns,
        "end_epoch_ns": trial.epoch_ns + trial.end_ns - trial.start_ns,
        "bound_ns": _bound_ns(trial),
    }


def meters(folder: RunFolder) -> Iterator[Row]:
    """What was sampled during each trial."""
    units = {(m.name, q.name): q.unit for m in folder.resolved.meters for q in m.quantities}
    for trial in folder.trials:
        for meter, figures in trial.meters.items():
            for name, value in figures.items():
                yield _of_trial(trial) | {
                    "meter": meter,
                    "name": name,
                    "value": value,
                    "unit": units.get((meter, name), "1"),
                }


def clocks(folder: RunFolder) -> Iterator[Row]:
    """A row for each trial × instance: how well its instants are known."""
    for trial in folder.trials:
        for instance, clock in trial.clocks.items():
            yield _of_trial(trial) | {
                "instance": instance,
                "shared": clock.shared,
                "bound_ns": clock.hard_ns,
                "sure_ns": clock.sure_ns,
                "drifted_ns": clock.drifted_ns,
                "drift_unsure_ns": clock.drift_unsure_ns,
                "between_ns": clock.between_ns,
                "residual_ns": clock.residual_ns,
                "looks": len(clock.looks),
                "messages": clock.messages,
                "took_ns": clock.took_ns,
                "reasons": ", ".join(clock.reasons),
            }


def _bound_ns(trial: Trial) -> int | None:
    """Of its start and its end: they are instants of its programs."""
    return max((role.clock_bound_ns for role in trial.roles), default=None)


def events(folder: RunFolder) -> Iterator[Row]:
    """All that happened, on the wall clock, with the error bound of each instant."""
    for event in folder.events:
        match event:
            case Trial():
                yield from _trial_events(event)
            case Started():
                kind = "resumed" if event.resumed else "started"
                yield {"kind": kind, "epoch_ns": event.epoch_ns, "bound_ns": 0}
            case Provisioned():
                yield {
                    "kind": "provisioned",
                    "epoch_ns": event.epoch_ns,
                    "bound_ns": 0,
                    "environment": event.environment,
                    "instance": event.instance,
                    "detail": f"{event.seconds:.3f} s",
                }
            case Synchronised():
                yield {
                    "kind": "synchronised",
                    "epoch_ns": event.epoch_ns,
                    "bound_ns": event.hard_ns,
                    "sure_ns": event.sure_ns,
                    "local_ns": event.at_ns + event.offset_ns,
                    "environment": event.environment,
                    "instance": event.instance,
                    "detail": event.why,
                }
            case Idle():
                yield {
                    "kind": "idle",
                    "epoch_ns": event.epoch_ns,
                    "bound_ns": 0,
                    "detail": f"{(event.end_ns - event.start_ns) / 1e9:.3f} s",
                }
            case BlockDone():
                yield {
                    "kind": "block-end",
                    "epoch_ns": event.epoch_ns,
                    "bound_ns": 0,
                    "block": event.block,
                }
            case Judged():
                left = ", ".join(f"{cell.environment} × {cell.workload}" for cell in event.left)
                yield {
                    "kind": "judged",
                    "epoch_ns": event.epoch_ns,
                    "bound_ns": 0,
                    "detail": f"after {event.blocks} blocks; left: {left or 'none'}",
                }
            case Recalled():
                back = ", ".join(f"{cell.environment} × {cell.workload}" for cell in event.cells)
                yield {
                    "kind": "recalled",
                    "epoch_ns": event.epoch_ns,
                    "bound_ns": 0,
                    "detail": f"after {event.blocks} blocks: {back}",
                }
            case Warned():
                detail = f"{event.code}: {event.message}"
                yield {
                    "kind": "warning",
                    "epoch_ns": event.epoch_ns,
                    "bound_ns": 0,
                    "detail": detail,
                }
            case Finished():
                yield {
                    "kind": "finished",
                    "epoch_ns": event.epoch_ns,
                    "bound_ns": 0,
                    "detail": event.reason,
                }


def _trial_events(trial: Trial) -> Iterator[Row]:
    """Start and end of a trial and of each of its programs; instants of a guest have a bound."""
    common = _of_trial(trial)
    start, end = common.pop("start_epoch_ns"), common.pop("end_epoch_ns")
    bounds = {
        "bound_ns": common["bound_ns"] or 0,
        "sure_ns": max((role.clock_sure_ns for role in trial.roles), default=0),
    }
    yield common | bounds | {"kind": "trial-start", "epoch_ns": start}
    for role in trial.roles:
        role_columns = common | {
            "instance": role.instance,
            "role": role.role,
            "bound_ns": role.clock_bound_ns,
            "sure_ns": role.clock_sure_ns,
        }
        at = trial.epoch_ns - trial.start_ns
        start_local, end_local = {"local_ns": role.start_local_ns}, {"local_ns": role.end_local_ns}
        yield role_columns | start_local | {"kind": "role-start", "epoch_ns": at + role.start_ns}
        yield role_columns | end_local | {"kind": "role-end", "epoch_ns": at + role.end_ns}
    yield common | bounds | {"kind": "trial-end", "epoch_ns": end, "detail": trial.status}


ROWS: Final[dict[str, Callable[[RunFolder], Iterator[Row]]]] = {
    "samples": samples,
    "events": events,
    "meters": meters,
    "clocks": clocks,
}
"""Who makes the rows of each file."""


_OFFLINE: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
"""DuckDB fetches extensions from a server: not here."""


class TablesRecord(Record):
    """`tables.json`: what the tables beside it were made of, and what they held then."""

    format: Literal[2] = FORMAT
    run: str
    stamp: str
    """Of the folder; see `runs.reader.stamp`."""
    columns: str = ""
    """Which ones the tables have; see `SCHEMAS`."""
    files: Digests


def write(folder: RunFolder, place: Path | None = None) -> dict[str, Path]:
    """Write `samples`, `events`, `meters` and `clocks` of a run; returns name → file.

    place: a folder for them, else the run's own. Each is there whole or not at all.
    TABLES_NOT_WRITTEN when that fails, RUN_BAD_FORMAT for numbers that no table holds.
    """
    place = place or folder.path
    try:
        files = {name: _put(folder, name, place) for name in ROWS}
        digests = {file.name: digest(file, place) for file in files.values()}
        tables = TablesRecord(
            run=folder.path.name, stamp=folder.stamp, columns=_COLUMNS, files=digests
        )
        put(place / _TABLES, sums.sealed(tables.model_dump_json(indent=1).encode()))
    except OSError as error:
        raise UllageError(
            TABLES_NOT_WRITTEN, path=folder.path, reason=error.strerror or str(error)
        ) from error
    return files


def query(
    sql: str,
    root: Path,
    on_bad_run: Callable[[Path, UllageError], None] | None = None,
    *,
    read_only: bool = False,
) -> Any:
    """Run SQL over the views `samples`, `events`, `meters` and `clocks` of all runs under `root`.

    Returns a `pyarrow.Table`. Tables that are missing or older than their journal are made first.
    RUN_NOT_FOUND without any run, QUERY_FAILED with DuckDB's own words. A run that cannot be read
    raises its error, unless `on_bad_run` is there to be told: then it is left out. read_only: the
    tables of no run are put into its folder.
    """
    need_library("duckdb")
    # Only queries need them; to load them takes as long as to write the tables of many runs.
    import duckdb  # noqa: PLC0415

    places = []
    for path in find_runs(root):
        try:
            places.append(_fresh(path, read_only=read_only))
        except UllageError as error:
            if on_bad_run is None:
                raise
            on_bad_run(path, error)
    if not places:
        raise UllageError(RUN_NOT_FOUND, path=root)
    with (
        _without_patterns(places) as folders,
        duckdb.connect(":memory:", config=dict(_OFFLINE)) as connection,
    ):
        try:
            for name, file in _FILES.items():
                files = [f"{folder}/{file}" for folder in folders]
                connection.execute(f"set variable {name}_files = ?", [files])
                connection.execute(_VIEW.format(name=name))
            result = connection.sql(sql)
            return pa.table({}) if result is None else result.to_arrow_table()
        except duckdb.Error as error:
            reason = " ".join(str(error).split())
            raise UllageError(QUERY_FAILED, reason=reason) from error


def _fresh(path: Path, *, read_only: bool) -> Path:
    """Where the tables of a run lie, made now unless they are of the journal as it stands."""
    place = derived.place(path, read_only=read_only)
    if not _are_current(path, place):
        write(RunFolder.open(path), place)
    return place


@contextmanager
def _without_patterns(places: Sequence[Path]) -> Iterator[list[str]]:
    """The same folders by names in which DuckDB sees no pattern of several files."""
    names = [str(place.absolute()) for place in places]
    patterns = [number for number, name in enumerate(names) if _PATTERN.search(name)]
    with ExitStack() as stack:
        if patterns:
            aside = Path(stack.enter_context(TemporaryDirectory(prefix="ullage-query-")))
            opened = os.open(aside, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, opened)
            for number in patterns:
                (aside / str(number)).symlink_to(names[number])
                # Not by the folder's name, which may have a pattern too.
                names[number] = f"/proc/self/fd/{opened}/{number}"
        yield names


def _are_current(path: Path, place: Path) -> bool:
    """Are they of this folder, of what stands in it now, and as they were written?"""
    try:
        with OpenFolder(place) as folder:
            tables = TablesRecord.model_validate_json(sums.opened(folder.document(_TABLES)))
            if (tables.run, tables.columns, tables.stamp) != (path.name, _COLUMNS, stamp(path)):
                return False
            return tables.files == {file: folder.digest(file) for file in _FILES.values()}
    except (OSError, ValueError):  # Pydantic's own is one, and that of a checksum
        return False


def table(folder: RunFolder, name: str) -> Any:
    """`samples`, `events`, `meters` or `clocks` of a run as a `pyarrow.Table`, in memory.

    RUN_BAD_FORMAT for numbers that no table holds.
    """
    return pa.concat_tables(list(_parts(folder, name)))


def _parts(folder: RunFolder, name: str) -> Iterator[Any]:
    """The table in pieces of so many rows: as Python's objects a row takes kilobytes."""
    schema = SCHEMAS[name]
    metadata = {b"format": str(FORMAT).encode(), b"run": os.fsencode(folder.path.name)}
    rows, first = ROWS[name](folder), True
    while (part := list(islice(rows, _PART))) or first:
        first = False
        for row in part:
            row["run"] = folder.path.name
        columns = {field: [row.get(field) for row in part] for field in schema.names}
        try:
            yield pa.table(columns, schema=schema.with_metadata(metadata))
        except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError) as error:
            reason = f"no table of {name} can hold what it says"
            raise ORDINARY.bad(folder.path, reason) from error


def _put(folder: RunFolder, name: str, place: Path) -> Path:
    sink = pa.BufferOutputStream()
    parts = _parts(folder, name)
    part = next(parts)
    with pq.ParquetWriter(sink, part.schema, compression="zstd") as writer:
        writer.write_table(part)
        for part in parts:
            writer.write_table(part)
    file = place / f"{name}.parquet"
    put(file, sink.getvalue())
    return file
