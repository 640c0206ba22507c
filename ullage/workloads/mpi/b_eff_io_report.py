"""Reads and proves what `beffio` (mpi/programs/beffio) prints."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Literal

from pydantic import Field

from ullage.workloads import output
from ullage.workloads.base import InvalidTrialError
from ullage.workloads.output import DoubleCount, ExactReportPart

LONGEST_RESULT: Final = 1 << 18
"""Characters: a result has about 25,000."""

LEAST_TIME_S: Final = 1800
"""By the rules a result counts from half an hour on."""

KIB: Final = 1 << 10
MIB: Final = 1 << 20
AccessMethod = Literal["write", "rewrite", "read"]
METHODS: Final[tuple[AccessMethod, ...]] = ("write", "rewrite", "read")
TYPE_WEIGHTS: Final = (2, 1, 1, 1, 1)
"""Of the pattern types 0 to 4 in the mean of a method: the scattering one counts double."""

PatternSpec = tuple[int, int, int, int]
"""Pattern type, bytes of a chunk, bytes of a call, units of time."""

_STARTS: Final = (0, 9, 17, 25, 34)
"""The first pattern of each type."""
_FILLS: Final = (33, 42)
"""The patterns that fill up a segment: as large as there is room, or not there."""

Duration = Annotated[float, Field(gt=0, lt=1e9)]
Rate = Annotated[float, Field(gt=0, lt=1e15)]


class Pattern(ExactReportPart):
    """One pattern with one access method: calls of each rank, bytes of all."""

    method: AccessMethod
    type: Annotated[int, Field(ge=0, le=4)]
    number: Annotated[int, Field(ge=0, le=42)]
    chunk_bytes: Annotated[int, Field(gt=0, lt=1 << 31)]
    call_bytes: Annotated[int, Field(gt=0, lt=1 << 31)]
    units: Annotated[int, Field(ge=0, le=4)]
    calls: Annotated[int, Field(gt=0, lt=1 << 53)]
    bytes: DoubleCount
    seconds: Duration


class TypeTotal(ExactReportPart):
    """A pattern type with one access method, from opening to closing its file."""

    method: AccessMethod
    type: Annotated[int, Field(ge=0, le=4)]
    bytes: Annotated[int, Field(gt=0, lt=1 << 53)]
    seconds: Duration


class BEffIoResult(ExactReportPart):
    """All that it prints, where every pattern type was asked for."""

    program: Literal["beffio"]
    format: Literal[2]
    ranks: Annotated[int, Field(ge=2, le=1 << 20)]
    scheduled_s: Duration
    memory_bytes: Annotated[int, Field(gt=0, le=1 << 37)]
    largest_chunk_bytes: Annotated[int, Field(gt=0, lt=1 << 31)]
    segment_bytes: DoubleCount
    shared_pointers: bool
    seed: Annotated[int, Field(ge=0, lt=1 << 63)]
    labels: Annotated[list[Annotated[str, Field(max_length=60)]], Field(max_length=3)]
    patterns: Annotated[list[Pattern], Field(max_length=129)]
    types: Annotated[list[TypeTotal], Field(max_length=15)]
    effective_s: Duration
    wall_s: Duration
    write: Rate
    rewrite: Rate
    read: Rate
    b_eff_io: Rate
    b_eff_io_release_1: Rate


def read(text: str) -> BEffIoResult:
    """The result, its parts proved against each other; InvalidTrialError says what is wrong."""
    result = output.read(BEffIoResult, text, longest=LONGEST_RESULT)
    if result.largest_chunk_bytes != largest_chunk(result.memory_bytes):
        raise InvalidTrialError(
            f"its largest chunk is {result.largest_chunk_bytes} bytes, which is not that of "
            f"{result.memory_bytes} bytes of memory"
        )
    done = _patterns(result)
    _prove_amounts(result, done)
    _prove_segments(result, done)
    _prove_means(result, _totals(result, done))
    return result


def largest_chunk(memory_bytes: int) -> int:
    """M_PART: a 128th of a process's memory, taken in whole MiB; at least 2 MiB.

    At most 1 GiB too, as the memory is at most 128 GiB.
    """
    return max(2 * MIB, memory_bytes // MIB * 8 * KIB)


def table(largest: int) -> dict[int, PatternSpec]:
    """Number → pattern, without the two that fill up: the table of release 2.1, 64 units."""
    wide, odd = 32 * KIB, 8
    scattered = [
        (MIB, MIB, 0),
        (largest, largest, 4),
        (MIB, 2 * MIB, 4),
        (MIB, MIB, 4),
        (wide, MIB, 2),
        (KIB, MIB, 2),
        (wide + odd, MIB + 256, 2),
        (KIB + odd, MIB + 8 * KIB, 2),
        (MIB + odd, MIB + odd, 2),
    ]
    chunks = (MIB, largest, MIB, wide, KIB, wide + odd, KIB + odd, MIB + odd)
    shared = [(c, c, u) for c, u in zip(chunks, (0, 4, 2, 1, 1, 1, 1, 2), strict=True)]
    plain = [(c, c, u) for c, u in zip(chunks, (0, 2, 2, 1, 1, 1, 1, 2), strict=True)]
    types = zip(_STARTS, (scattered, shared, plain, plain, plain), strict=True)
    return {
        start + i: (kind, *row)
        for kind, (start, rows) in enumerate(types)
        for i, row in enumerate(rows)
    }


def by_chunk(result: BEffIoResult, method: AccessMethod) -> list[tuple[float, float]]:
    """(chunk, B/s): the mean over the pattern types, weighted as a method's mean is.

    Left out are what the original's table by chunk leaves out: the first pattern of each type,
    which is one call, what fills up, and the scattering of 2 MiB in chunks of 1 MiB.
    """
    rates: dict[int, dict[int, float]] = {}
    for pattern in result.patterns:
        if pattern.method == method and pattern.units and pattern.number != 2:
            rates.setdefault(pattern.chunk_bytes, {})[pattern.type] = (
                pattern.bytes / pattern.seconds
            )
    return [(float(chunk), _mean(by_type)) for chunk, by_type in sorted(rates.items())]


def _mean(rates: Mapping[int, float]) -> float:
    return sum(TYPE_WEIGHTS[kind] * rate for kind, rate in rates.items()) / sum(TYPE_WEIGHTS)


def single_figure(rates: Mapping[tuple[AccessMethod, int], float]) -> float:
    """Of release 2.1, from (method, type) → B/s: √(W · R).

    W is the mean of six: the first writing of the five types, and the rewriting of the scattering
    one. R is the mean of reading.
    """
    kinds = range(len(TYPE_WEIGHTS))
    writing = (sum(rates["write", kind] for kind in kinds) + rates["rewrite", 0]) / 6
    return math.sqrt(writing * _mean({kind: rates["read", kind] for kind in kinds}))


def single_figure_1(means: Mapping[AccessMethod, float]) -> float:
    """Of release 1 (Euro-Par 2000), from the means of the methods."""
    return 0.25 * means["write"] + 0.25 * means["rewrite"] + 0.5 * means["read"]


def _patterns(result: BEffIoResult) -> dict[tuple[AccessMethod, int], Pattern]:
    """(method, number) → pattern: each there once, and as the original has it."""
    by_key = {(pattern.method, pattern.number): pattern for pattern in result.patterns}
    if len(by_key) != len(result.patterns):
        raise InvalidTrialError("a pattern is there twice")
    rows = table(result.largest_chunk_bytes)
    for method in METHODS:
        if missing := [number for number in rows if (method, number) not in by_key]:
            raise InvalidTrialError(f"pattern {missing[0]} was not done: {method}")
    for (method, number), printed in by_key.items():
        row = (printed.type, printed.chunk_bytes, printed.call_bytes, printed.units)
        expected = rows.get(
            number, (3 + _FILLS.index(number), 0, 0, 0) if number in _FILLS else None
        )
        fills = number in _FILLS and printed.chunk_bytes == printed.call_bytes < MIB
        if row != expected and not (fills and expected and (row[0], row[3]) == (expected[0], 0)):
            raise InvalidTrialError(f"pattern {number} is not that of the table: {method}, {row}")
    return by_key


def _prove_amounts(result: BEffIoResult, done: Mapping[tuple[AccessMethod, int], Pattern]) -> None:
    for (method, number), pattern in done.items():
        if pattern.bytes != pattern.calls * pattern.call_bytes * result.ranks:
            raise InvalidTrialError(
                f"pattern {number}, {method}: {pattern.calls} calls are not {pattern.bytes} bytes"
            )
        counted = repeated(done, method, number)
        if counted is not None and pattern.calls != counted:
            raise InvalidTrialError(
                f"pattern {number}, {method}: {pattern.calls} calls in place of {counted}"
            )
        # Nobody stops while one more call fits; the sync is in the seconds, so not a few too many.
        share = result.scheduled_s / 3 * pattern.units / 64
        if counted is None and pattern.seconds * (1 + 1 / pattern.calls) < share * (1 - 1e-6):
            raise InvalidTrialError(f"pattern {number}, {method}: ended before its time")


def repeated(
    done: Mapping[tuple[AccessMethod, int], Pattern], method: AccessMethod, number: int
) -> int | None:
    """As many as other patterns make it; None: the time says, in the first writing alone.

    What is rewritten and read is what was written. In types 3 and 4 a process writes a chunk as
    often as in type 2, but no more often than in type 0, nor than ten times as often as in type 1.
    """
    if method != "write":
        written = done.get(("write", number))
        return written.calls if written else 0
    pattern = done[method, number]
    if pattern.type < 3:
        return None if pattern.units else 1
    if number in _FILLS:
        return 1
    place = number - _STARTS[pattern.type]
    scattered = done[method, place if place < 2 else place + 1]
    return min(
        scattered.calls * scattered.call_bytes // scattered.chunk_bytes,
        10 * done[method, _STARTS[1] + place].calls,
        done[method, _STARTS[2] + place].calls,
    )


def _prove_segments(result: BEffIoResult, done: Mapping[tuple[AccessMethod, int], Pattern]) -> None:
    """What a process writes in types 3 and 4 is filled up to whole MiB."""
    for kind in (3, 4):
        parts = [p for (method, _), p in done.items() if (method, p.type) == ("write", kind)]
        length = sum(part.calls * part.call_bytes for part in parts)
        if length % MIB or length != result.segment_bytes:
            raise InvalidTrialError(f"type {kind}: its patterns are no segment, but {length} bytes")


def _totals(
    result: BEffIoResult, done: Mapping[tuple[AccessMethod, int], Pattern]
) -> dict[tuple[AccessMethod, int], float]:
    """(method, type) → B/s."""
    totals = {(type_total.method, type_total.type): type_total for type_total in result.types}
    expected = [(method, kind) for method in METHODS for kind in range(len(TYPE_WEIGHTS))]
    if len(totals) != len(result.types) or sorted(totals) != sorted(expected):
        raise InvalidTrialError("not every pattern type is there once with every access method")
    for (method, kind), total in totals.items():
        parts = [
            pattern for pattern in done.values() if (pattern.method, pattern.type) == (method, kind)
        ]
        if sum(pattern.bytes for pattern in parts) != total.bytes:
            raise InvalidTrialError(f"type {kind}, {method}: its patterns are not {total.bytes} B")
        if sum(pattern.seconds for pattern in parts) > total.seconds * (1 + 1e-6):
            raise InvalidTrialError(f"type {kind}, {method}: its patterns took longer than it did")
    if not math.isclose(sum(t.seconds for t in result.types), result.effective_s, rel_tol=1e-6):
        raise InvalidTrialError("its seconds do not add up")
    if result.effective_s > result.wall_s * (1 + 1e-6):
        raise InvalidTrialError("it measured longer than it ran")
    return {key: total.bytes / total.seconds for key, total in totals.items()}


def _prove_means(result: BEffIoResult, rates: Mapping[tuple[AccessMethod, int], float]) -> None:
    means = {m: _mean({kind: r for (of, kind), r in rates.items() if of == m}) for m in METHODS}
    printed: Iterable[tuple[str, float, float]] = (
        ("write", means["write"], result.write),
        ("rewrite", means["rewrite"], result.rewrite),
        ("read", means["read"], result.read),
        ("b_eff_io", single_figure(rates), result.b_eff_io),
        ("b_eff_io_release_1", single_figure_1(means), result.b_eff_io_release_1),
    )
    for name, mean, printed_mean in printed:
        if not math.isclose(mean, printed_mean, rel_tol=1e-6):
            raise InvalidTrialError(f"{name}: its bytes and seconds are not {printed_mean:g} B/s")
