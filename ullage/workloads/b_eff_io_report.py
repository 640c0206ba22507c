"""Reads and proves what `beffio` (mpi/beffio) prints."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ullage.workloads.base import InvalidTrialError
from ullage.workloads.outputs import quoted

LONGEST_RESULT: Final = 1 << 18
"""Characters: a result has about 25,000."""

LEAST_TIME_S: Final = 900
"""By the rules a result counts from 15 minutes on."""

KIB: Final = 1 << 10
MIB: Final = 1 << 20
Method = Literal["write", "rewrite", "read"]
METHODS: Final[tuple[Method, ...]] = ("write", "rewrite", "read")
METHOD_WEIGHTS: Final[Mapping[Method, float]] = {"write": 0.25, "rewrite": 0.25, "read": 0.5}
TYPE_WEIGHTS: Final = (2, 1, 1, 1, 1)
"""Of the pattern types 0 to 4 in the mean of a method: the scattering one counts double."""

Row = tuple[int, int, int, int]
"""Pattern type, bytes of a chunk, bytes of a call, units of time."""

_SEPARATE: Final = 2
_FILLS: Final = (33, 42)
"""The patterns that fill up a segment: as large as there is room, or not there."""

Count = Annotated[int, Field(ge=0, lt=1 << 53)]
Seconds = Annotated[float, Field(gt=0, lt=1e9)]
Rate = Annotated[float, Field(gt=0, lt=1e15)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Pattern(_Part):
    """One pattern with one access method: calls of each rank, bytes of all."""

    method: Method
    type: Annotated[int, Field(ge=0, le=4)]
    number: Annotated[int, Field(ge=0, le=42)]
    chunk_bytes: Annotated[int, Field(gt=0, lt=1 << 31)]
    call_bytes: Annotated[int, Field(gt=0, lt=1 << 31)]
    units: Annotated[int, Field(ge=0, le=4)]
    calls: Annotated[int, Field(gt=0, lt=1 << 53)]
    bytes: Count
    seconds: Seconds
    ended_by: Literal["time", "data"]


class Total(_Part):
    """A pattern type with one access method, from opening to closing its file."""

    method: Method
    type: Annotated[int, Field(ge=0, le=4)]
    bytes: Annotated[int, Field(gt=0, lt=1 << 53)]
    seconds: Seconds


class Result(_Part):
    """All that it prints, where every pattern type was asked for."""

    program: Literal["beffio"]
    format: Literal[1]
    ranks: Annotated[int, Field(ge=2, le=1 << 20)]
    scheduled_s: Seconds
    memory_bytes: Annotated[int, Field(gt=0, le=1 << 37)]
    largest_chunk_bytes: Annotated[int, Field(gt=0, lt=1 << 31)]
    segment_bytes: Count
    shared_pointers: bool
    seed: Annotated[int, Field(ge=0, lt=1 << 63)]
    labels: Annotated[list[Annotated[str, Field(max_length=60)]], Field(max_length=3)]
    patterns: Annotated[list[Pattern], Field(max_length=129)]
    types: Annotated[list[Total], Field(max_length=15)]
    effective_s: Seconds
    wall_s: Seconds
    write: Rate
    rewrite: Rate
    read: Rate
    b_eff_io: Rate


def read(text: str) -> Result:
    """The result, its parts proved against each other; InvalidTrialError says what is wrong."""
    if len(text) > LONGEST_RESULT:
        raise InvalidTrialError(f"printed {len(text)} characters, which is not its result")
    try:
        result = Result.model_validate_json(text)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"]) or "the whole"
        raise InvalidTrialError(
            f"its JSON is not a result: {where}: {fault['msg']}; begins {quoted(text, 60)}"
        ) from None
    if result.largest_chunk_bytes != largest_chunk(result.memory_bytes):
        raise InvalidTrialError(
            f"its largest chunk is {result.largest_chunk_bytes} bytes, which is not that of "
            f"{result.memory_bytes} bytes of memory"
        )
    done = _patterns(result)
    _prove_amounts(result, done)
    _prove_means(result, _totals(result, done))
    return result


def largest_chunk(memory_bytes: int) -> int:
    """M_PART: 2 MiB, or a 128th of a process's memory in whole MiB where that is more."""
    return max(2 * MIB, memory_bytes // 128 // MIB * MIB)


def table(largest: int) -> dict[int, Row]:
    """Number → pattern, without the two that fill up: Table 2 of the publication, 64 units."""
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
        (MIB + odd, 2 * MIB + 16, 2),
    ]
    chunks = (MIB, largest, MIB, wide, KIB, wide + odd, KIB + odd, MIB + odd)
    shared = [(c, c, u) for c, u in zip(chunks, (0, 4, 2, 1, 1, 1, 1, 2), strict=True)]
    plain = [(c, c, u) for c, u in zip(chunks, (0, 2, 2, 1, 1, 1, 1, 2), strict=True)]
    starts = (scattered, 0), (shared, 9), (plain, 17), (plain, 25), (plain, 34)
    return {
        start + i: (kind, *row)
        for kind, (rows, start) in enumerate(starts)
        for i, row in enumerate(rows)
    }


def by_chunk(result: Result, method: Method) -> list[tuple[float, float]]:
    """(chunk, B/s): the mean over the pattern types, weighted as the single figure is.

    Left out are what the published table leaves out: the first pattern of each type, which is one
    call, what fills up, and the scattering of 2 MiB in chunks of 1 MiB.
    """
    rates: dict[int, dict[int, float]] = {}
    for each in result.patterns:
        if each.method == method and each.units and each.number != 2:
            rates.setdefault(each.chunk_bytes, {})[each.type] = each.bytes / each.seconds
    return [(float(chunk), _mean(found)) for chunk, found in sorted(rates.items())]


def _mean(rates: Mapping[int, float]) -> float:
    return sum(TYPE_WEIGHTS[kind] * rate for kind, rate in rates.items()) / sum(TYPE_WEIGHTS)


def _patterns(result: Result) -> dict[tuple[Method, int], Pattern]:
    """(method, number) → pattern: each there once, and as the publication has it."""
    found = {(each.method, each.number): each for each in result.patterns}
    if len(found) != len(result.patterns):
        raise InvalidTrialError("a pattern is there twice")
    rows = table(result.largest_chunk_bytes)
    for method in METHODS:
        if missing := [number for number in rows if (method, number) not in found]:
            raise InvalidTrialError(f"pattern {missing[0]} was not done: {method}")
    for (method, number), each in found.items():
        row = (each.type, each.chunk_bytes, each.call_bytes, each.units)
        wanted = rows.get(number, (3 + _FILLS.index(number), 0, 0, 0) if number in _FILLS else None)
        fills = number in _FILLS and each.chunk_bytes == each.call_bytes < MIB
        if row != wanted and not (fills and wanted and (row[0], row[3]) == (wanted[0], 0)):
            raise InvalidTrialError(f"pattern {number} is not as published: {method}, {row}")
    return found


def _prove_amounts(result: Result, done: Mapping[tuple[Method, int], Pattern]) -> None:
    for (method, number), each in done.items():
        if each.bytes != each.calls * each.call_bytes * result.ranks:
            raise InvalidTrialError(
                f"pattern {number}, {method}: {each.calls} calls are not {each.bytes} bytes"
            )
        written = done.get(("write", number))
        if written is None or each.calls > written.calls:
            raise InvalidTrialError(f"pattern {number}: {method} went further than was written")
        if each.units == 0 and each.calls != 1:
            raise InvalidTrialError(f"pattern {number}, {method}: {each.calls} calls, not one")
        # Nobody stops before the time or the data are over.
        share = result.scheduled_s / 3 * each.units / 64
        short = each.seconds < share * (1 - 1e-6)
        if (each.ended_by == "time" and short) or (
            each.ended_by == "data" and method != "write" and each.calls != written.calls
        ):
            raise InvalidTrialError(f"pattern {number}, {method}: ended before its time")


def _totals(
    result: Result, done: Mapping[tuple[Method, int], Pattern]
) -> dict[tuple[Method, int], float]:
    """(method, type) → B/s."""
    found = {(each.method, each.type): each for each in result.types}
    wanted = [(method, kind) for method in METHODS for kind in range(len(TYPE_WEIGHTS))]
    if len(found) != len(result.types) or sorted(found) != sorted(wanted):
        raise InvalidTrialError("not every pattern type is there once with every access method")
    for (method, kind), total in found.items():
        parts = [each for each in done.values() if (each.method, each.type) == (method, kind)]
        if sum(each.bytes for each in parts) != total.bytes:
            raise InvalidTrialError(f"type {kind}, {method}: its patterns are not {total.bytes} B")
        if sum(each.seconds for each in parts) > total.seconds * (1 + 1e-6):
            raise InvalidTrialError(f"type {kind}, {method}: its patterns took longer than it did")
    if not math.isclose(sum(t.seconds for t in result.types), result.effective_s, rel_tol=1e-6):
        raise InvalidTrialError("its seconds do not add up")
    if result.effective_s > result.wall_s * (1 + 1e-6):
        raise InvalidTrialError("it measured longer than it ran")
    return {key: total.bytes / total.seconds for key, total in found.items()}


def _prove_means(result: Result, rates: Mapping[tuple[Method, int], float]) -> None:
    means = {m: _mean({kind: r for (of, kind), r in rates.items() if of == m}) for m in METHODS}
    figure = sum(METHOD_WEIGHTS[method] * mean for method, mean in means.items())
    printed: Iterable[tuple[str, float, float]] = (
        ("write", means["write"], result.write),
        ("rewrite", means["rewrite"], result.rewrite),
        ("read", means["read"], result.read),
        ("b_eff_io", figure, result.b_eff_io),
    )
    for name, mean, said in printed:
        if not math.isclose(mean, said, rel_tol=1e-6):
            raise InvalidTrialError(f"{name}: its bytes and seconds are not {said:g} B/s")
