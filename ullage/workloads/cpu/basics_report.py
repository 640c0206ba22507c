"""What `ullage-basics` reports, held against what it was asked for and what there is to find."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from ullage.workloads.base import InvalidTrialError
from ullage.workloads.cpu.basics_parameters import BasicsParameters, Test
from ullage.workloads.output import Count, ExactReportPart, Seconds

_READ_TO_WRITTEN: Final = 1.5
"""Of `rndrw`."""
_FLUSH: Final = 100
"""All files are flushed after so many blocks."""
_CONSTANTS: Final[Mapping[Test, Mapping[str, object]]] = {
    "memory": {"read": False},
    "threads": {"yields": 1000, "locks": 8},
    "mutex": {"mutexes": 4096, "locks": 50_000, "loops": 10_000},
    "fileio": {"flush": _FLUSH},
}
"""What cannot be asked for otherwise, and is told all the same."""


class BasicsReport(ExactReportPart):
    """The line of JSON that the program prints."""

    version: str
    test: Test
    threads: Count
    time_s: Count | None
    events_wanted: Count | None
    seed: Count
    events: Count
    seconds: Seconds
    busy_s: Seconds
    longest_s: Seconds
    p95_s: Seconds | None = None
    """Older programs do not tell it."""
    result: Count
    flushes: Count = 0
    """`fileio`: so many events were no blocks."""
    written: Count = 0
    """`fileio`: so much of the result was written."""
    prime: Count | None = None
    block: Count | None = None
    read: bool | None = None
    yields: Count | None = None
    locks: Count | None = None
    mutexes: Count | None = None
    loops: Count | None = None
    files: Count | None = None
    total: Count | None = None
    mode: str | None = None
    flush: Count | None = None


_ECHO: Final = (
    *("prime", "block", "read", "yields", "locks", "mutexes", "loops"),
    *("files", "total", "mode", "flush"),
)


def prove_asked(parameters: BasicsParameters, report: BasicsReport) -> None:
    """All that was asked for is told as it was asked for, and nothing else."""
    request: dict[str, object] = {
        "test": parameters.test,
        "threads": parameters.threads,
        "time_s": parameters.time_s,
        "events_wanted": parameters.events,
        **dict.fromkeys(_ECHO),
        "block": parameters.block,
        **_CONSTANTS.get(parameters.test, {}),
    }
    if parameters.test == "cpu":
        request["prime"] = parameters.prime
    if parameters.test == "fileio":
        request |= {
            "files": parameters.files,
            "total": int(parameters.total_size),
            "mode": parameters.mode,
        }
    for name, wanted in request.items():
        done = getattr(report, name)
        if wanted != done:
            raise InvalidTrialError(f"{name}: {wanted} was asked for, {done} was done")
    if report.seed >= 1 << 31:
        raise InvalidTrialError(f"a seed of 31 bits was asked for, {report.seed} was taken")


def prove_limit(parameters: BasicsParameters, report: BasicsReport) -> None:
    """So many events, or so long."""
    wanted = parameters.threads if parameters.test == "mutex" else parameters.events
    if wanted is not None and report.events != wanted:
        raise InvalidTrialError(f"{wanted} events were asked for, {report.events} were done")
    if parameters.time_s is not None and report.seconds < 0.99 * parameters.time_s:
        raise InvalidTrialError(
            f"{parameters.time_s} s were asked for, it ended after {report.seconds:g} s"
        )


def prove_result(parameters: BasicsParameters, report: BasicsReport) -> None:
    """What all events must find, they have found."""
    of_one_event = parameters.block or {
        "cpu": primes_below(parameters.prime),
        "threads": report.yields or 0,
        "mutex": report.locks or 0,
    }.get(parameters.test, 0)
    total = of_one_event * (report.events - report.flushes)
    if report.result != total:
        raise InvalidTrialError(f"{report.events} events must find {total}, not {report.result}")
    if parameters.test == "fileio":
        _prove_files(parameters, report)
    elif report.flushes or report.written:
        raise InvalidTrialError(f"{parameters.test} has no files, and flushed or wrote some")


def _prove_files(parameters: BasicsParameters, report: BasicsReport) -> None:
    """They were flushed as often as the blocks say, and written as the mode says."""
    blocks = report.events - report.flushes
    most = parameters.files * (blocks // _FLUSH) if parameters.writes else 0
    # A flush of all follows if any block was written to: not each hundred of `rndrw` need have one.
    sure = parameters.writes and parameters.mode != "rndrw"
    least = parameters.files * ((blocks - 1) // _FLUSH) if sure else 0
    if not least <= report.flushes <= most:
        raise InvalidTrialError(
            f"{blocks} blocks have {least} to {most} flushes, not {report.flushes}"
        )
    wanted = report.result if parameters.writes else 0
    if parameters.mode == "rndrw":
        _prove_ratio(parameters, report)
    elif report.written != wanted:
        raise InvalidTrialError(
            f"{wanted} bytes are written in mode {parameters.mode}, not {report.written}"
        )


def _prove_ratio(parameters: BasicsParameters, report: BasicsReport) -> None:
    """Three reads to two writes, but for what all threads have drawn at the same time."""
    block = parameters.block or 1
    writes = report.written / block
    reads = (report.result - report.written) / block
    if abs(reads - _READ_TO_WRITTEN * writes) > _READ_TO_WRITTEN * (parameters.threads + 1):
        raise InvalidTrialError(f"{reads:g} reads to {writes:g} writes are not three to two")


@lru_cache(maxsize=16)
def primes_below(limit: int) -> int:
    """How many there are from 3 on, by a sieve of the odd numbers."""
    sieve = bytearray([1]) * (limit // 2)
    for odd in range(3, int(limit**0.5) + 1, 2):
        if sieve[odd // 2]:
            first = odd * odd // 2
            sieve[first::odd] = bytes(len(range(first, len(sieve), odd)))
    return sum(sieve[1:])
