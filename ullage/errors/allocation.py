"""Errors of allocation."""

from typing import Final

from ullage.errors.kind import ErrorKind, ExitCode

ALLOCATION_NO_ROOM: Final = ErrorKind(
    "allocation-no-room",
    "{count} may come to use {asked} of memory, {each} each with what the hypervisor may use;"
    " this host has {free} left",
    "lower `count` or `memory`, end what else runs here, or use a larger host",
    ExitCode.SOME_CELLS_FAILED,
)
ALLOCATION_NO_COPY: Final = ErrorKind(
    "allocation-no-copy",
    "an instance of {provider} cannot have a copy of the image of its own: {reason}",
    "write `copy: backing`, or make room on the disk",
    ExitCode.SOME_CELLS_FAILED,
)
ALLOCATION_TOO_LATE: Final = ErrorKind(
    "allocation-too-late",
    "{name} was not ready within {seconds:g} s; the last that was seen of it: {last}",
    "what was begun is taken down; a slow host needs a longer limit",
    ExitCode.SOME_CELLS_FAILED,
)
ALLOCATION_APPLICATION: Final = ErrorKind(
    "allocation-application",
    "the application in {name} does not work: {reason}",
    "try its command in an instance; what was begun is taken down",
    ExitCode.SOME_CELLS_FAILED,
)
RELEASE_TOO_LATE: Final = ErrorKind(
    "release-too-late",
    "{name} was not gone within {seconds:g} s",
    "its processes are killed; `ullage clean` removes what may still be there",
    ExitCode.SOME_CELLS_FAILED,
)
