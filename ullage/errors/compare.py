"""Errors of compare: tables of others."""

from typing import Final

from ullage.errors.kind import ErrorKind

TABLE_NOT_READABLE: Final = ErrorKind(
    "table-not-readable", "cannot read the table {file}: {reason}", "{suggestion}"
)
TABLE_NO_COLUMN: Final = ErrorKind(
    "table-no-column",
    "{file} has no column {column}; it has {found}",
    "{suggestion}; `--column {role}=NAME` maps another name",
)
TABLE_BAD_CELL: Final = ErrorKind(
    "table-bad-cell", "{file}: row {row}: {column}: found {found}; {allowed}", "{suggestion}"
)
TABLE_CONTRADICTS: Final = ErrorKind(
    "table-contradicts",
    "{file}: row {row}: {what} has the {column} {found}, but {first} before",
    "{suggestion}",
)
TABLE_NO_ROWS: Final = ErrorKind(
    "table-no-rows", "{file} holds {what}", "each row is one measurement of one environment"
)
TABLE_NO_ENVIRONMENT: Final = ErrorKind(
    "table-no-environment", "{file} has no environment {found}", "{suggestion}"
)
TABLE_NO_DIRECTION: Final = ErrorKind(
    "table-no-direction",
    "{file} does not say whether more or less of {metric} is better",
    "give `--better lower` (times, costs) or `--better higher` (rates), or a column `better`",
)
TABLE_TWO_DIRECTIONS: Final = ErrorKind(
    "table-two-directions",
    "{file}: `--better {better}` would hold for {metric} (in {unit}) as for {other} "
    "(in {other_unit})",
    "leave `--better` out and add a column `better` with lower or higher for each metric",
)
TABLE_TOO_MANY: Final = ErrorKind(
    "table-too-many",
    "{file} holds {found} {what}; at most {most} can be compared",
    "does `--column` map the right columns? Else compare a part of the table",
)
RUNS_NOT_ALIKE: Final = ErrorKind(
    "runs-not-alike",
    "{run} cannot be compared with {base}: {reason}",
    "compare runs of one plan, or of plans with the same baseline and some of the same workloads",
)
