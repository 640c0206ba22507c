"""Errors of energy meters and their readings."""

from typing import Final

from ullage.common.errors.kind import ErrorKind, ExitCode

ENERGY_METER_ABSENT: Final = ErrorKind(
    "energy-meter-absent", "{meter}: nothing at {where}: {reason}", "{fix}"
)
ENERGY_METER_DENIED: Final = ErrorKind(
    "energy-meter-denied", "{meter}: may not read {where}: {reason}", "{fix}"
)
ENERGY_METER_BAD_ANSWER: Final = ErrorKind(
    "energy-meter-bad-answer", "{meter}: {where} gave no answer to trust: {reason}", "{fix}"
)
ENERGY_READINGS_BAD: Final = ErrorKind(
    "energy-readings-bad",
    "{path}, line {line}: {reason}",
    "use the version of ullage that wrote it, or a copy of the file that is whole",
)
ENERGY_FIT_POOR: Final = ErrorKind(
    "energy-fit-poor",
    "no line through power and load: {reason}",
    "record both for some minutes, with the machine idle, half busy and busy",
)
ENERGY_METER_UNKNOWN: Final = ErrorKind(
    "energy-meter-unknown", "there is no energy meter {found}; known are {allowed}", "{suggestion}"
)
ENERGY_METER_BAD_OPTION: Final = ErrorKind(
    "energy-meter-bad-option", "{meter}: {field}: found {found}; {allowed}", "{suggestion}"
)
ENERGY_LOGGER_BAD_NAME: Final = ErrorKind(
    "energy-logger-bad-name",
    "{found} cannot be the name of a logger",
    "1 to 40 of a-z, 0-9, `.`, `-`, `_`, a letter or digit first, such as `--name wall`",
)
ENERGY_LOGGER_RUNS: Final = ErrorKind(
    "energy-logger-runs",
    "a logger named {name} runs already, since {since}, into {file}",
    "`ullage meter stop {name}` ends it; `--name` starts another beside it",
)
ENERGY_LOGGER_UNKNOWN: Final = ErrorKind(
    "energy-logger-unknown",
    "{what}; loggers: {known}",
    "`ullage meter list` shows them; `ullage meter start METER --to FILE` starts one",
)
ENERGY_LOGGER_SEVERAL: Final = ErrorKind(
    "energy-logger-several",
    "there are several loggers: {known}",
    "name the one that is meant, as in `ullage meter stop {first}`",
)
ENERGY_READINGS_NONE: Final = ErrorKind(
    "energy-readings-none",
    "{file}: {reason}",
    "`ullage meter start METER --to FILE` writes readings; `ullage meter list` shows the files",
)
ENERGY_FILE_GONE: Final = ErrorKind(
    "energy-file-gone",
    "the logger {name} {what}, and its file {file} is gone",
    "a removed file is lost; a file that was moved still has all: `ullage meter energy FILE`",
    ExitCode.GATE_FAILED,
)
ENERGY_FILE_REPLACED: Final = ErrorKind(
    "energy-file-replaced",
    "{file} is another file than the one that was read until now",
    "look at it by itself, with the same command; a logger goes on with the file that it opened",
    ExitCode.GATE_FAILED,
)
ENERGY_LOGGER_FAILED: Final = ErrorKind(
    "energy-logger-failed",
    "the logger {name} {what}",
    "what it had written is safe in {file}",
    ExitCode.GATE_FAILED,
)
ENERGY_FILE_EXISTS: Final = ErrorKind(
    "energy-file-exists",
    "{file} is already there",
    "name another with `--to`, or move it away: readings are never written over",
)
ENERGY_BAD_INSTANT: Final = ErrorKind(
    "energy-bad-instant",
    "{found} is no instant: {reason}",
    "write `+90s` after the start, seconds since 1970 (`date +%s.%N`), or `2026-11-21T02:10:33Z`",
)
ENERGY_NOT_KNOWN: Final = ErrorKind(
    "energy-not-known",
    "{what}: no energy of this time: {reason}",
    "`--from` and `--to` choose a time; `--parts` shows those that are known",
    ExitCode.GATE_FAILED,
)
