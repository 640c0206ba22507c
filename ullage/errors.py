"""The closed catalogue of what can go wrong.

Every error that a user can meet is an entry here: a stable code, what was found, and what to do.
Add an entry with its test; `tests/test_errors.py` refuses an entry that no test raises.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """What the process tells its caller."""

    DONE = 0
    GATE_FAILED = 1
    BAD_INPUT = 2
    SOME_CELLS_FAILED = 3
    INTERRUPTED = 130


@dataclass(frozen=True)
class ErrorKind:
    """One entry of the catalogue.

    `message` and `hint` are `str.format` templates over the facts given when it is raised.
    """

    code: str
    message: str
    hint: str
    exit_code: ExitCode = ExitCode.BAD_INPUT


class UllageError(Exception):
    """An error from the catalogue, with the facts of this case."""

    def __init__(self, kind: ErrorKind, **facts: object) -> None:
        self.kind = kind
        self.facts = facts
        super().__init__(f"{self.message} [{kind.code}]")

    @property
    def message(self) -> str:
        """What was found, in one sentence."""
        return self.kind.message.format(**self.facts)

    @property
    def hint(self) -> str:
        """What to do about it."""
        return self.kind.hint.format(**self.facts)

    @property
    def code(self) -> str:
        """The stable code, such as `plan-unknown-field`."""
        return self.kind.code


# --- plan -----------------------------------------------------------------------------------------
PLAN_NOT_READABLE: Final = ErrorKind(
    "plan-not-readable", "cannot read the plan {file}: {reason}", "check the path, or write one with `ullage init`"
)
PLAN_BAD_YAML: Final = ErrorKind(
    "plan-bad-yaml", "{file}:{line}: not valid YAML: {reason}", "mend the line; `ullage init` writes a commented example"
)
PLAN_BAD_FIELD: Final = ErrorKind(
    "plan-bad-field", "{file}:{line}: {field}: found {found}; {allowed}", "{suggestion}"
)
PLAN_UNKNOWN_FIELD: Final = ErrorKind(
    "plan-unknown-field", "{file}:{line}: unknown field {field}; allowed are {allowed}", "{suggestion}"
)
PLAN_UNKNOWN_WORKLOAD: Final = ErrorKind(
    "plan-unknown-workload", "{file}:{line}: unknown workload {found}; known are {allowed}", "{suggestion}"
)
PLAN_UNKNOWN_PROVIDER: Final = ErrorKind(
    "plan-unknown-provider", "{file}:{line}: unknown provider {found}; known are {allowed}", "{suggestion}"
)
PLAN_NO_BASELINE: Final = ErrorKind(
    "plan-no-baseline",
    "{file}:{line}: baseline {found} is not one of the environments: {allowed}",
    "name the environment to compare with in `baseline:`",
)
PLAN_BAD_NAME: Final = ErrorKind(
    "plan-bad-name",
    "{file}:{line}: {found} cannot be a name: letters, digits, dot, dash and underscore only, at most 40",
    "names become folders and devices; choose a plain one",
)
PLAN_IMPOSSIBLE_MATRIX: Final = ErrorKind(
    "plan-impossible-matrix", "{file}:{line}: {reason}", "{suggestion}"
)

# --- host and parity ------------------------------------------------------------------------------
HOST_MISSING: Final = ErrorKind(
    "host-missing", "{what} is missing on this host", "install it: {command}"
)
HOST_NEEDS_ROOT: Final = ErrorKind(
    "host-needs-root", "{what} needs root", "run as root, or {otherwise}"
)
HOST_TOO_SMALL: Final = ErrorKind(
    "host-too-small", "the plan asks for {asked}, this host has {has}", "lower `resources:` or use a larger host"
)
PARITY_UNEQUAL: Final = ErrorKind(
    "parity-unequal",
    "the environments are not equal in {nuisance}: {values}",
    "make them equal, or write `allow: [{nuisance}]` in the plan; every sentence of the report will then say so",
)

# --- run ------------------------------------------------------------------------------------------
RUN_NOT_FOUND: Final = ErrorKind(
    "run-not-found", "no run at {path}", "`ullage list` shows the runs here"
)
RUN_BAD_FORMAT: Final = ErrorKind(
    "run-bad-format", "{path} is not a run folder of format {format}: {reason}", "use the version of ullage that wrote it"
)
RUN_DISK_FULL: Final = ErrorKind(
    "run-disk-full",
    "the disk of {path} is full; what was journaled before is safe",
    "free some space, then `ullage run --resume {path}`",
)
RUN_IN_USE: Final = ErrorKind(
    "run-in-use", "process {pid} is working on {path}", "wait for it, or stop it with Ctrl-C"
)

