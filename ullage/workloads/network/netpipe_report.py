"""What NetPIPE writes with `-o FILE`: a line for each message size. Shared by both workloads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pydantic import ByteSize, Field, model_validator

from ullage.runs.records import Coordinate, Curve, Metric
from ullage.workloads.base import Figures, InvalidTrialError, Parameters
from ullage.workloads.output import check_length, quoted

FILE: Final = "/proc/self/fd/1"
"""The program's own standard output, as a file: it has no other way to give its figures."""

MEGABIT: Final = 1 << 20
"""Bits: NetPIPE's Mbps are binary (README, "bits per second / 1,048,576")."""

LATENCY_UP_TO: Final = 100_000
"""Bytes: as far as latencies are drawn; beyond, they are throughput."""

TEST_S: Final = 0.25
"""How long NetPIPE repeats a size by itself; it does so three times, and keeps the best."""

TRIALS: Final = 3

_ROW: Final = re.compile(r" *([0-9]{1,10}) +([0-9]{1,9}\.[0-9]{6}) +([0-9]{1,6}\.[0-9]{8})")
_REMARK: Final = re.compile(
    r"Sending output to /[!-~]{1,40}|Using (no perturbations|a perturbation value of [0-9]{1,4})"
    r"|[01]: [!-~]{1,64}"
)
"""What else its programs print there; the last is a rank of MPI and the name of its host."""
_SIZE: Final = Coordinate(name="message_size", unit="B", scale="log")


class NetpipeParameters(Parameters):
    """Which message sizes, how often."""

    smallest: ByteSize = Field(
        ByteSize(1), ge=1, le=1 << 30, description="bytes of the smallest message"
    )
    largest: ByteSize = Field(
        ByteSize(1 << 20), ge=1, le=1 << 30, description="bytes of the largest message"
    )
    perturbation: int = Field(
        3,
        ge=0,
        le=1024,
        strict=True,
        description="each size is measured with so many bytes less and more too; 0: not",
    )
    repeats: int | None = Field(
        30,
        ge=1,
        le=1_000_000,
        strict=True,
        description="exchanges of each size, three times over; null: as NetPIPE chooses, about "
        "0.25 s",
    )

    @model_validator(mode="after")
    def _ordered(self) -> NetpipeParameters:
        if self.smallest > self.largest:
            raise ValueError("smallest must not be larger than largest")
        return self


METRICS: Final = (
    Metric(
        name="throughput",
        unit="bit/s",
        better="higher",
        primary=True,
        coordinate=_SIZE,
        description="Bits of payload that move one way in a second, with messages of that size: "
        "the size by half the time of an exchange.",
    ),
    Metric(
        name="latency",
        unit="s",
        better="lower",
        coordinate=_SIZE,
        description="Half the time of an exchange of messages of that size, up to 100 KB.",
    ),
    Metric(
        name="smallest_latency",
        unit="s",
        better="lower",
        description="Half the time of an exchange of the smallest messages.",
    ),
    Metric(
        name="peak_throughput",
        unit="bit/s",
        better="higher",
        description="The highest throughput of all sizes.",
    ),
)


def options(parameters: NetpipeParameters) -> tuple[str, ...]:
    """The arguments of the sender, or of MPI's both ends."""
    argv = ["-o", FILE, "-l", str(int(parameters.smallest)), "-u", str(int(parameters.largest))]
    argv += ["-p", str(parameters.perturbation)]
    if parameters.repeats is not None:
        argv += ["-n", str(parameters.repeats)]
    return tuple(argv)


def duration_s(parameters: NetpipeParameters) -> float:
    """Where NetPIPE chooses; else at 20 µs and 10 Gbit/s."""
    message_sizes = sizes(parameters)
    if parameters.repeats is None:
        return TRIALS * TEST_S * len(message_sizes)
    return TRIALS * parameters.repeats * sum(2 * (2e-5 + size * 8 / 1e10) for size in message_sizes)


def title(parameters: NetpipeParameters) -> str:
    """`1B to 1MiB`."""
    return f"{parameters.smallest.human_readable()} to {parameters.largest.human_readable()}"


def sizes(parameters: NetpipeParameters) -> list[int]:
    """The message sizes that NetPIPE goes through: two to each doubling, and their neighbours.

    As netpipe.c of version 3.7.2 steps: the step doubles at each second size, from the third of a
    run that begins at one byte, else from the second; a size has neighbours once the step is larger
    than the perturbation and one byte more.
    """
    passed: list[int] = []
    around = parameters.perturbation
    size, step = int(parameters.smallest), max(1, int(parameters.smallest) // 2)
    steps = int(size > 1)
    while size <= parameters.largest:
        if steps > 2 and steps % 2:
            step *= 2
        wide = 0 < around < step - 1
        passed += [size - around, size, size + around] if wide else [size]
        size += step
        steps += 1
    return passed


def read(parameters: NetpipeParameters, text: str) -> dict[str, Curve]:
    """The curves `throughput` and `latency`; InvalidTrialError unless all sizes are there, once."""
    check_length(text)
    throughput: Curve = []
    for content in text.split("\n"):
        if row := _ROW.fullmatch(content):
            size, megabits, seconds = map(float, row.groups())
            throughput.append((size, _bits(content, size, megabits, seconds)))
        elif content.strip(" ") and not _REMARK.fullmatch(content):
            raise InvalidTrialError(f"a line that is no result: {quoted(content)}")
    _check_sizes(sizes(parameters), [int(size) for size, _ in throughput])
    latency = [(size, size * 8 / bits) for size, bits in throughput if size <= LATENCY_UP_TO]
    return {"throughput": throughput, "latency": latency}


def figures(parameters: NetpipeParameters, text: str) -> Figures:
    curves = read(parameters, text)
    throughput = curves["throughput"]
    size, bits = throughput[0]
    metrics: Figures = {
        "throughput": throughput,
        "smallest_latency": size * 8 / bits,
        "peak_throughput": max(bits for _, bits in throughput),
    }
    return {**metrics, "latency": curves["latency"]} if curves["latency"] else metrics


def _bits(content: str, size: float, megabits: float, seconds: float) -> float:
    """bit/s of a row. The rate has more digits than the time, which has to agree with it."""
    if not (size > 0 and megabits > 0):
        raise InvalidTrialError(f"nothing moved: {quoted(content)}")
    bits = megabits * MEGABIT
    # Rounded to 10 ns, and the rate to 1e-6 of its unit.
    if abs(size * 8 / bits - seconds) > 6e-9 + 1e-5 * seconds + seconds / megabits * 1e-6:
        raise InvalidTrialError(f"rate and time disagree: {quoted(content)}")
    return bits


def _check_sizes(expected: Sequence[int], measured: Sequence[int]) -> None:
    if list(expected) == list(measured):
        return
    for i, (want, have) in enumerate(zip(expected, measured, strict=False)):
        if want != have:
            raise InvalidTrialError(f"size {i + 1} is {want} bytes, found {have}")
    raise InvalidTrialError(f"{len(expected)} sizes were asked for, {len(measured)} were measured")
