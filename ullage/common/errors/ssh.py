"""Errors of machines that one reaches by ssh."""

from typing import Final

from ullage.common.errors.kind import ErrorKind, ExitCode

SSH_NO_KEY: Final = ErrorKind(
    "ssh-no-key",
    "{key} is no file: the key that lets us into {host}",
    "`key` names the private half of what {host} has in its authorized_keys",
)
SSH_UNREACHABLE: Final = ErrorKind(
    "ssh-unreachable",
    "ssh does not reach {user}@{host}: {reason}",
    "is it on, does its sshd run, and is `port` right?",
    ExitCode.SOME_CELLS_FAILED,
)
SSH_CREDENTIALS: Final = ErrorKind(
    "ssh-credentials",
    "{host} does not let {user} in without a question: {reason}",
    "nobody answers one: its authorized_keys needs the key (Windows: "
    "administrators_authorized_keys), and its sudo no password",
)
SSH_HOST_KEY: Final = ErrorKind(
    "ssh-host-key",
    "what answers at {host}, port {port}, has not the host key of the plan",
    "`ssh-keyscan -p {port} {host}` shows its keys; ask its owner whether one is right",
)
SSH_OTHER_SYSTEM: Final = ErrorKind(
    "ssh-other-system",
    "{host} is not the {asked} that the plan says: it is {seen}",
    "write `system: linux` or `system: windows`; the agent needs Windows 10 or Server 2016",
)
SSH_NETWORK: Final = ErrorKind(
    "ssh-network",
    "a workload between endpoints cannot reach {name}: {host} is not on the run's network",
    "leave network workloads out, or the environment on {host}",
)
SSH_LOST: Final = ErrorKind(
    "ssh-lost",
    "the connection to {name} on {host} ended: {reason}",
    "the trial is without figures; what is gone is made again when its turn comes",
    ExitCode.SOME_CELLS_FAILED,
)
