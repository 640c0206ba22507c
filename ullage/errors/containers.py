"""Errors of containers and their network."""

from typing import Final

from ullage.errors.kind import ErrorKind, ExitCode

INSTANCE_NOT_STARTED: Final = ErrorKind(
    "instance-not-started",
    "{provider} could not start {name}: {reason}",
    "`ullage doctor` shows what this host can do",
    ExitCode.SOME_CELLS_FAILED,
)
INSTANCE_NOT_LIMITED: Final = ErrorKind(
    "instance-not-limited",
    "{provider} cannot limit {what} for {name} here: {reason}",
    "run as root, or write `memory: host` and whole CPUs under `resources:`",
)
NETWORK_FAILED: Final = ErrorKind(
    "network-failed",
    "iproute2 could not set up the run's network: {reason}",
    "`ullage doctor` shows what this host can do; `ullage clean` removes what an old run left",
)
NETWORK_FULL: Final = ErrorKind(
    "network-full", "{what} is in use on {where}", "use fewer instances, or end other runs first"
)
NETWORK_FILTERED: Final = ErrorKind(
    "network-filtered",
    "the host's packet filter drops frames between two ports of {bridge}",
    "accept them: `iptables -I FORWARD -s {blocks} -d {blocks} -j ACCEPT`",
)
