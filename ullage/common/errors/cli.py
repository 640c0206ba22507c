"""Errors of the live page."""

from typing import Final

from ullage.common.errors.kind import ErrorKind

LIVE_NO_PORT: Final = ErrorKind(
    "live-no-port",
    "the live page cannot be served at {host}:{port}: {reason}",
    "leave --live-port out: any free port is taken then",
)
