"""Errors of profiles of trials."""

from typing import Final

from ullage.errors.kind import ErrorKind

PERF_MISSING: Final = ErrorKind(
    "perf-missing",
    "perf is not here: what the host's CPUs worked at, function by function, is not told",
    "install it: apt-get install linux-perf",
)
PERF_DENIED: Final = ErrorKind(
    "perf-denied",
    "perf may not look at this host ({reason}): what its CPUs worked at is not told",
    "run as root, outside of a container, or set kernel.perf_event_paranoid to -1",
)
PERF_BROKEN: Final = ErrorKind(
    "perf-broken",
    "perf gave nothing to trust ({reason}): what the host's CPUs worked at is not told",
    "try `perf record -e cpu-clock -a -- sleep 1`; on Debian, linux-perf fits every kernel",
)
