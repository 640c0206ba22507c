"""Errors of the agent."""

from typing import Final

from ullage.errors.kind import ErrorKind, ExitCode

AGENT_BINARY_MISSING: Final = ErrorKind(
    "agent-binary-missing",
    "the agent's binary is not there; looked at {places}",
    "`make build` builds it; or name it in $ULLAGE_AGENT",
)
PROGRAM_MISSING: Final = ErrorKind(
    "program-missing",
    "a program of ullage's own is not there: {program}",
    "`make programs` builds those that workloads run",
)
AGENT_NOT_STARTED: Final = ErrorKind(
    "agent-not-started",
    "the agent of {agent} did not start: {reason}",
    "`ullage doctor` shows what this host can do",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_LOST: Final = ErrorKind(
    "agent-lost",
    "the agent of {agent} is gone: {reason}",
    "look at the instance's console log; its memory limit may be too low",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_SILENT: Final = ErrorKind(
    "agent-silent",
    "the agent of {agent} has not answered {op} for {seconds:.0f} s",
    "the instance may be hung or starved; look at its console log",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_REFUSED: Final = ErrorKind(
    "agent-refused",
    "the agent of {agent} could not {op}: {reason} ({error})",
    "check that the program or file exists in the image",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_CORRUPT: Final = ErrorKind(
    "agent-corrupt",
    "{path} did not arrive whole at or from {agent}: {reason}",
    "the channel to the instance damages data; try another transport",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_CLOCK: Final = ErrorKind(
    "agent-clock",
    "the clock of {agent} cannot be known: {reason}",
    "nothing that it says of time can be used; make the instance anew, or mend the host's clock",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_NOT_READY: Final = ErrorKind(
    "agent-not-ready",
    "{program} in {agent} did not print {text}: {reason}",
    "its output is kept in the run folder",
    ExitCode.SOME_CELLS_FAILED,
)
AGENT_FLOOD: Final = ErrorKind(
    "agent-flood",
    "{program} in {agent} printed more than {limit} and was killed",
    "make the program less talkative",
    ExitCode.SOME_CELLS_FAILED,
)
