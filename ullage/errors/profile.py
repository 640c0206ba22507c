"""Errors of profiles."""

from typing import Final

from ullage.errors.kind import ErrorKind, ExitCode

PROFILE_NO_PROGRAM: Final = ErrorKind(
    "profile-no-program",
    "there is no program {program} to profile",
    "after `--` stands a program with its arguments; no shell reads it",
)
PROFILE_TOO_MANY_CPUS: Final = ErrorKind(
    "profile-too-many-cpus",
    "the command is to have {cpus} CPUs, and ullage may use {here} here",
    "give `--cpus {here}` or fewer; without it there are as many as in the environments of `--run`,"
    " else one",
)
PROFILE_FAILED: Final = ErrorKind(
    "profile-failed",
    "the command did not go well although nothing slowed it: {reason}",
    "{suggestion}",
    ExitCode.SOME_CELLS_FAILED,
)
PROFILE_TOO_SHORT: Final = ErrorKind(
    "profile-too-short",
    "the command takes {seconds:.3g} s: too short to see what slows it",
    "let it do more work, at least {least:g} s of it; a command such as `make` must do all of its "
    "work each time (`make -B`)",
)
PROFILE_BUDGET: Final = ErrorKind(
    "profile-budget",
    "the command takes {seconds:.3g} s: {blocks} blocks of {conditions} trials take {needed}, and "
    "the budget is {budget}",
    "give a larger `--budget`, fewer `--resources`, or the command less work",
)
PROFILE_NOTHING: Final = ErrorKind(
    "profile-nothing",
    "nothing can be slowed down for this command here: {reasons}",
    "`ullage doctor` shows what this host lacks; `ullage weigh --weights` takes weights of yours",
)
PROFILE_NO_FIGURE: Final = ErrorKind(
    "profile-no-figure",
    "there are no weights: {reason}",
    "what the trials printed lies in {folder}/trials",
    ExitCode.SOME_CELLS_FAILED,
)
PROFILE_NO_RATIO: Final = ErrorKind(
    "profile-no-ratio",
    "nothing is predicted for {environment}: {reason}",
    "run a workload of {resource} there, in the same plan as the others",
)
PROFILE_BAD_FILE: Final = ErrorKind(
    "profile-bad-file",
    "{path} is no profile: {reason}",
    "`ullage profile --save FILE -- COMMAND` writes one",
)
