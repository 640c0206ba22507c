"""Errors of runs and their folders."""

from typing import Final

from ullage.common.errors.kind import ErrorKind

RUN_NOT_FOUND: Final = ErrorKind(
    "run-not-found", "no run at {path}", "`ullage list` shows the runs here"
)
RUN_NOT_BEGUN: Final = ErrorKind(
    "run-not-begun",
    "nothing was measured in {path}: its run ended before it was prepared",
    "`{command}` takes it up",
)
FILE_FAILED: Final = ErrorKind(
    "file-failed",
    "{file}: {reason}",
    "name a place that exists, may be written and has room",
)
RUN_BAD_FORMAT: Final = ErrorKind(
    "run-bad-format",
    "{path} is not a run folder of format {format}: {reason}",
    "use the version of ullage that wrote it, or a copy of the folder that is whole",
)
RUN_OF_ANOTHER_KIND: Final = ErrorKind(
    "run-of-another-kind",
    "{path} is the run of {what} plan",
    "`{command}` is for it",
)
RUN_DISK_FULL: Final = ErrorKind(
    "run-disk-full",
    "the disk of {path} is full; what was journaled before is safe",
    "free some space, then take the run up with `--resume`",
)
RUN_DISK_LOW: Final = ErrorKind(
    "run-disk-low",
    "the disk of {path} has {free} left, and the next trial begins only with {least}",
    "free some space, then take the run up with `--resume`; what was measured is kept",
)
RUN_OUTPUTS_FULL: Final = ErrorKind(
    "run-outputs-full",
    "{path} takes {used} of the disk, and its plan allows {most}",
    "do its programs print too much? Else raise `outputs:` in its plan.yaml and `--resume` it",
)
RUN_JOURNAL_FULL: Final = ErrorKind(
    "run-journal-full",
    "the journal of {path} holds {used}, and after {most} no trial begins: it could not be read",
    "`ullage report` what is there; measure the rest as another run, with fewer `blocks` each",
)
RUN_CHANGED: Final = ErrorKind(
    "run-changed",
    "{path} cannot go on: {what} changed since it began",
    "put it back as it was, or start a new run; `outputs:`, and `max` and `budget` of `blocks:` may"
    " change, in an elastic plan `budgets:`, and `repetitions` to no fewer than are done",
)
RUN_NOT_OURS: Final = ErrorKind(
    "run-not-ours",
    "{path} cannot be taken up: {reason}",
    "take it up as its owner; of what others gave you, read a copy, or run its plan anew",
)
RUN_MAKES_NO_SENSE: Final = ErrorKind(
    "run-makes-no-sense",
    "what stands in the folder or table cannot be right together: {place}",
    "was it changed after the run? If not, it is a fault of ullage: please report that place",
)
RUN_IN_USE: Final = ErrorKind(
    "run-in-use", "another process is working on {path}", "wait for it, or stop it with Ctrl-C"
)
