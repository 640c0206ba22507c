"""Errors of plans."""

from typing import Final

from ullage.common.errors.kind import ErrorKind

PLAN_NOT_READABLE: Final = ErrorKind(
    "plan-not-readable",
    "cannot read the plan {file}: {reason}",
    "check the path, or write one with `ullage init`",
)
PLAN_BAD_YAML: Final = ErrorKind(
    "plan-bad-yaml",
    "{file}:{line}: not valid YAML: {reason}",
    "mend the line; `ullage init` writes a commented example",
)
PLAN_BAD_FIELD: Final = ErrorKind(
    "plan-bad-field", "{file}:{line}: {field}: found {found}; {allowed}", "{suggestion}"
)
PLAN_UNKNOWN_FIELD: Final = ErrorKind(
    "plan-unknown-field",
    "{file}:{line}: unknown field {field}; allowed are {allowed}",
    "{suggestion}",
)
PLAN_UNKNOWN_WORKLOAD: Final = ErrorKind(
    "plan-unknown-workload",
    "{file}:{line}: unknown workload {found}; known are {allowed}",
    "{suggestion}",
)
PLAN_UNKNOWN_PROVIDER: Final = ErrorKind(
    "plan-unknown-provider",
    "{file}:{line}: unknown provider {found}; known are {allowed}",
    "{suggestion}",
)
PLAN_UNKNOWN_METER: Final = ErrorKind(
    "plan-unknown-meter",
    "{file}:{line}: unknown energy meter {found}; known are {allowed}",
    "{suggestion}",
)
PLAN_NO_BASELINE: Final = ErrorKind(
    "plan-no-baseline",
    "{file}:{line}: baseline {found} is not one of the environments: {allowed}",
    "name the environment to compare with in `baseline:`",
)
PLAN_BAD_NAME: Final = ErrorKind(
    "plan-bad-name",
    "{file}:{line}: {found} cannot be a name",
    "it becomes a folder or a device: 1 to 40 letters, digits, dots, dashes or underscores, first a"
    " letter or digit, no two dots together",
)
PLAN_IMPOSSIBLE_MATRIX: Final = ErrorKind(
    "plan-impossible-matrix", "{file}:{line}: {reason}", "{suggestion}"
)
PLAN_IS_ELASTIC: Final = ErrorKind(
    "plan-is-elastic",
    "{file}:{line}: the plan of an elastic run: it has `arrivals`, and no `workloads`",
    "start it with `ullage elastic run {file}`",
)
PLAN_NOT_ELASTIC: Final = ErrorKind(
    "plan-not-elastic",
    "{file}:{line}: no plan of an elastic run: it has `workloads`, and no `arrivals`",
    "start it with `ullage run {file}`",
)
PLAN_EXISTS: Final = ErrorKind(
    "plan-exists", "{file} is already there", "choose another name, or overwrite it with --force"
)
