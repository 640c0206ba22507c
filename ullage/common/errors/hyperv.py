"""Errors of Hyper-V hosts."""

from typing import Final

from ullage.common.errors.kind import ErrorKind, ExitCode

HYPERV_UNREACHABLE: Final = ErrorKind(
    "hyperv-unreachable",
    "the Hyper-V host {host} cannot be reached: {reason}",
    "`ssh {host} hostname` must work without a question; name its file with `ssh_config`",
)
HYPERV_CREDENTIALS: Final = ErrorKind(
    "hyperv-credentials",
    "the Hyper-V host {host} does not let us in, or not at its machines: {reason}",
    "ssh needs a key, as nobody is asked; its user must be one of the Hyper-V Administrators",
)
HYPERV_NO_ANSWER: Final = ErrorKind(
    "hyperv-no-answer",
    "the Hyper-V host {host} gave no answer to {operation}: {reason}",
    "`ssh {host} powershell -Command Get-VM` must work",
    ExitCode.SOME_CELLS_FAILED,
)
HYPERV_LACKS: Final = ErrorKind(
    "hyperv-lacks",
    "the Hyper-V host {host} lacks {what}",
    "there: {command}",
)
HYPERV_NO_ROOM: Final = ErrorKind(
    "hyperv-no-room",
    "the Hyper-V host {host} has no room for {name}: {reason}",
    "use fewer or smaller instances, or stop other machines there",
    ExitCode.SOME_CELLS_FAILED,
)
HYPERV_REFUSED: Final = ErrorKind(
    "hyperv-refused",
    "the Hyper-V host {host} refuses {operation}: {reason}",
    "the words are the host's own",
    ExitCode.SOME_CELLS_FAILED,
)
HYPERV_NO_HEARTBEAT: Final = ErrorKind(
    "hyperv-no-heartbeat",
    "{name} runs on {host}, and shows no heartbeat after {seconds:g} s: {last}",
    "its parent disk needs Hyper-V's integration services; Debian: hyperv-daemons",
    ExitCode.SOME_CELLS_FAILED,
)
HYPERV_NOT_UP: Final = ErrorKind(
    "hyperv-not-up",
    "{name} was not up on {host} within {seconds:g} s; the last that was seen: {last}",
    "look at its console in Hyper-V; does its switch lead here? it may need a longer `deadline_s`",
    ExitCode.SOME_CELLS_FAILED,
)
HYPERV_GUEST_KEY: Final = ErrorKind(
    "hyperv-guest-key",
    "what answers at {address} has not the host key of {name}",
    "`host_key` must be the parent disk's own: its /etc/ssh/ssh_host_ed25519_key.pub",
    ExitCode.SOME_CELLS_FAILED,
)
HYPERV_STATE: Final = ErrorKind(
    "hyperv-state",
    "{name} is {state} on {host}, where it should be {wanted}",
    "somebody else may work on that host; what is gone is made again when its turn comes",
    ExitCode.SOME_CELLS_FAILED,
)
HYPERV_NETWORK: Final = ErrorKind(
    "hyperv-network",
    "a workload between endpoints cannot reach {name}: it is on a switch of {host}",
    "leave network workloads out, or the environment on {host}",
)
HYPERV_NO_KEY: Final = ErrorKind(
    "hyperv-no-key",
    "{key} is no file: the key that lets us into guests of {host}",
    "`key` names the private half of what the parent disk has in its authorized_keys",
)
