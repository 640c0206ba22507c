"""Errors of workloads, providers and meters."""

from typing import Final

from ullage.common.errors.kind import ErrorKind, ExitCode

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
COMMAND_FAILED: Final = ErrorKind(
    "command-failed",
    "{program}: {reason}",
    "call it by hand, and see `ulimit -n -u` where it cannot even be started",
)
HOST_EXHAUSTED: Final = ErrorKind(
    "host-exhausted",
    "this host has no more of what is needed: {reason}",
    "end what holds so many processes, open files or so much memory, or raise `ulimit -n -u`",
)
PROCESS_STUCK: Final = ErrorKind(
    "process-stuck",
    "process {pid} has not ended within {seconds:g} s, although it was killed",
    "it is frozen or hangs in the kernel (state D); see `ps -o pid,stat,wchan,args -p {pid}`",
    ExitCode.SOME_CELLS_FAILED,
)
STEP_TOO_LATE: Final = ErrorKind(
    "step-too-late",
    "{step} has not ended within {seconds:g} s and was left alone",
    "`ullage clean` removes what may still be there",
    ExitCode.SOME_CELLS_FAILED,
)
WORKLOAD_FILES_TOO_SMALL: Final = ErrorKind(
    "workload-files-too-small",
    "{size} of files beside {memory} of memory would measure the page cache",
    "set `total_size` to {least} or more, or `direct: true`",
)
