"""Errors of elastic runs."""

from typing import Final

from ullage.errors.kind import ErrorKind, ExitCode

ELASTIC_FRONT_NOT_STARTED: Final = ErrorKind(
    "elastic-front-not-started",
    "the front did not start: {reason}",
    "mend `policy:`, `nodes:` or `room:` if that is what it says; docs/guide/elastic-policies.md"
    " has the policies and their fields",
)
ELASTIC_FRONT_DIED: Final = ErrorKind(
    "elastic-front-died",
    "the front died {times} times, and was not started again: {how} {said}",
    "its own words are in front.stderr of the repetition; `budgets: front:` allows more restarts",
    ExitCode.SOME_CELLS_FAILED,
)
ELASTIC_VIEWERS_FAILED: Final = ErrorKind(
    "elastic-viewers-failed",
    "the viewers came to no result: {reason}",
    "their own words are in viewers.stderr of the repetition",
    ExitCode.SOME_CELLS_FAILED,
)
ELASTIC_TOO_LONG: Final = ErrorKind(
    "elastic-too-long",
    "the repetition was not over after {seconds:.0f} s",
    "`budgets: repetition:` allows more; see first whether this host is too slow for the plan",
    ExitCode.SOME_CELLS_FAILED,
)
ELASTIC_HOST_TOO_SMALL: Final = ErrorKind(
    "elastic-host-too-small",
    "the plan asks for {asked}, this host has {has}",
    "lower `resources:` of the nodes or of `generators:`, keep fewer nodes (`nodes: min:`), have "
    "fewer generators, or use a larger host",
)
ELASTIC_NO_ADDRESS: Final = ErrorKind(
    "elastic-no-address",
    "{these} would have no address on the run's bridge",
    "leave `network: user` out of the plan",
)
ELASTIC_BAD_TRACE: Final = ErrorKind(
    "elastic-bad-trace",
    "{file} is no trace of arrivals: {reason}",
    "write one instant a line, in seconds of the users' time",
)
ELASTIC_NO_CLIP: Final = ErrorKind(
    "elastic-no-clip",
    "the clip could not be made: {reason}",
    "see whether ffmpeg works here and the cache has room, or write `video: {{generate: bytes}}`",
)
ELASTIC_FRONT_SILENT: Final = ErrorKind(
    "elastic-front-silent",
    "the front runs, and has answered nobody for {seconds:.0f} s",
    "see front.stderr of the repetition, and whether this host is far too busy for the plan",
    ExitCode.SOME_CELLS_FAILED,
)
ELASTIC_GENERATOR_CUT_OFF: Final = ErrorKind(
    "elastic-generator-cut-off",
    "{name} does not reach the front: {reason}",
    "let the host's packet filter accept what comes in on the run's bridge: `ullage doctor`",
    ExitCode.SOME_CELLS_FAILED,
)
ELASTIC_GENERATOR_FAILED: Final = ErrorKind(
    "elastic-generator-failed",
    "the viewers of {name} came to no result: {reason}",
    "what it said is in `generators/` of the repetition",
    ExitCode.SOME_CELLS_FAILED,
)
