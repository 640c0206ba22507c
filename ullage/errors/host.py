"""Errors of hosts and parity."""

from typing import Final

from ullage.errors.kind import ErrorKind

HOST_MISSING: Final = ErrorKind(
    "host-missing", "missing on this host: {what}", "install it: {command}"
)
HOST_NEEDS_ROOT: Final = ErrorKind(
    "host-needs-root", "{what} needs root", "run as root, or {otherwise}"
)
HOST_TOO_SMALL: Final = ErrorKind(
    "host-too-small",
    "the plan asks for {asked}, this host has {has}",
    "lower `resources:`, use a larger host, or leave out what needs CPUs of its own: "
    "`design: duet`, a neighbour on `cpus: other`",
)
PARITY_UNEQUAL: Final = ErrorKind(
    "parity-unequal",
    "the environments are not equal in {nuisance}: {values}",
    "make them equal, or write `allow: [{nuisance}]` in the plan; the report will then say so",
)
