"""Errors of cgroups and limits."""

from typing import Final

from ullage.errors.kind import ErrorKind, ExitCode

CGROUP_MISSING: Final = ErrorKind(
    "cgroup-missing",
    "this host has no cgroup controller {controller}",
    "boot with that controller enabled, or leave the limit out of the plan",
)
CGROUP_DENIED: Final = ErrorKind(
    "cgroup-denied",
    "cannot set {what} in {path}: {reason}",
    "run as root (inside a container with a writable cgroup file system), or write"
    " `memory: host` and whole CPUs under `resources:`",
)
CGROUP_STUCK: Final = ErrorKind(
    "cgroup-stuck",
    "the cgroup {path} did not become {state} within {seconds:.0f} s",
    "a process in it may hang in the kernel (state D); see `ps -eo pid,stat,wchan,args`",
    ExitCode.SOME_CELLS_FAILED,
)
LIMIT_NOT_APPLIED: Final = ErrorKind(
    "limit-not-applied",
    "{instance}: asked for {asked}, but inside there is {seen}",
    "`ullage doctor` shows which limits this host can set",
)
