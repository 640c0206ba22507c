"""Errors of workloads, providers and meters."""

from typing import Final

from ullage.common.errors.kind import ErrorKind

LIST_DUPLICATE: Final = ErrorKind(
    "list-duplicate",
    "two {what}s are called {name}: {first} and {second}",
    "give one of them another `name`",
)
LIST_BAD_INTERFACE: Final = ErrorKind(
    "list-bad-interface",
    "the {what} {name} does not keep the interface: {fault}",
    "`Add a {what}` in CONTRIBUTING.md shows a complete one",
)
WORKLOAD_FILES_TOO_SMALL: Final = ErrorKind(
    "workload-files-too-small",
    "{size} of files beside {memory} of memory would measure the page cache",
    "set `total_size` to {least} or more, or `direct: true`",
)
