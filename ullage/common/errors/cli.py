"""Errors of the commands."""

from typing import Final

from ullage.common.errors.kind import ErrorKind

LIVE_NO_PORT: Final = ErrorKind(
    "live-no-port",
    "the live page cannot be served at {host}:{port}: {reason}",
    "leave --live-port out: any free port is taken then",
)
CLEAN_UNCONFIRMED: Final = ErrorKind(
    "clean-unconfirmed",
    "nothing was removed: {count} found, and nobody at a terminal to ask",
    "say `ullage clean --yes` to remove them; `--dry-run` only lists",
)
CLEAN_NO_RECORD: Final = ErrorKind(
    "clean-no-record",
    "there is no record of an instance {name}",
    "`ullage clean --dry-run` lists what is left; only what it calls `command` has a record",
)
SETUP_FAILED: Final = ErrorKind(
    "setup-failed",
    "`{command}` ended with status {status}",
    "what it said stands above; mend that, and call `ullage setup` again",
)
