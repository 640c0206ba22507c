"""Errors of tables, query and export."""

from typing import Final

from ullage.errors.kind import ErrorKind

QUERY_FAILED: Final = ErrorKind(
    "query-failed",
    "DuckDB refuses the query: {reason}",
    "the views are samples, events, meters and clocks;"
    " `ullage query 'describe samples'` shows columns",
)
TABLES_NOT_WRITTEN: Final = ErrorKind(
    "tables-not-written",
    "cannot write the tables of {path}: {reason}",
    "copy the run folder to where you may write",
)
EXPORT_UNKNOWN_FORMAT: Final = ErrorKind(
    "export-unknown-format", "unknown format {found}; known are {allowed}", "{suggestion}"
)
EXPORT_NO_PICTURE: Final = ErrorKind(
    "export-no-picture",
    "the picture {picture} cannot be written as {form}, which is a table",
    "add `--format` with one of {allowed}, or leave `--picture` out for the table",
)
EXPORT_NO_TABLE: Final = ErrorKind(
    "export-no-table",
    "the table of energies cannot be written as {form}, which is a picture",
    "`--picture energy --format {form}`, without `--energy`, draws them; tables are csv, json, "
    "latex, parquet",
)
EXPORT_UNKNOWN_PICTURE: Final = ErrorKind(
    "export-unknown-picture", "{run} has no picture {found}; it has {allowed}", "{suggestion}"
)
