"""Workload `mpi-pingpong`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final, Literal

from pydantic import ByteSize, Field, model_validator

from ullage.common.quantities import exact_bytes
from ullage.host import binaries
from ullage.runs.records import Coordinate, Metric
from ullage.workloads import sources
from ullage.workloads.base import Context, Figures, InvalidTrialError, Outputs, Task
from ullage.workloads.mpi import mpi
from ullage.workloads.output import ReportLine, check_length, line, quoted, read_lines

LEAST_REPETITIONS: Final = 3
"""However large a message is: fewer have no spread to speak of."""

WHEEL: Final = "mpi4py.whl"
BENCH: Final = "mpi4py_bench.py"

SIZE: Final = Coordinate(name="message_size", unit="B", scale="log")

_POINT: Final = re.compile(
    r" *(?P<size>[0-9]{1,15}) +(?P<rate>[0-9]{1,12}\.[0-9]{2}) \| (?P<mean>[0-9]\.[0-9]{7}e[+-]"
    r"[0-9]{2}) ± (?P<stdev>[0-9]\.[0-9]{4}e[+-][0-9]{2}) +(?P<count>[0-9]{1,9})"
)


class MpiPingpongParameters(mpi.MpiParameters):
    """Which messages, how often, between whom."""

    program: Literal["c", "mpi4py"] = Field(
        "c",
        description="`c`: our own; `mpi4py`: `python3 -m mpi4py.bench pingpong` of mpi4py 4.1.2",
    )
    min_size: ByteSize = Field(
        ByteSize(1), ge=1, le=1 << 30, description="bytes of the smallest message, a power of 2"
    )
    max_size: ByteSize = Field(
        ByteSize(4 << 20), ge=1, le=1 << 30, description="bytes of the largest, a power of 2"
    )
    warmups: int = Field(
        30, ge=1, le=100_000, strict=True, description="exchanges before each size, not measured"
    )
    repetitions: int = Field(
        100,
        ge=LEAST_REPETITIONS,
        le=100_000,
        strict=True,
        description="measured exchanges of each size",
    )
    bytes_per_size: ByteSize | None = Field(
        ByteSize(16 << 20),
        ge=1,
        le=1 << 50,
        description="as many repetitions of a size as send so much in one direction, with their "
        f"share of the warm-ups, but at least {LEAST_REPETITIONS} and 1; null: always all",
    )

    @model_validator(mode="after")
    def _possible(self) -> MpiPingpongParameters:
        for name, size in (("min_size", self.min_size), ("max_size", self.max_size)):
            if size & (size - 1):
                raise ValueError(f"{name} must be a power of 2, {exact_bytes(size)} is not")
        if self.min_size > self.max_size:
            raise ValueError("min_size is above max_size")
        if self.peer == "each":
            raise ValueError("a ping-pong is between two ranks: peer cannot be each")
        return self

    @property
    def sizes(self) -> list[int]:
        """Bytes of the messages, in order."""
        return [1 << i for i in range(31) if self.min_size <= 1 << i <= self.max_size]

    def measured(self, size: int) -> int:
        """Repetitions of a size."""
        if self.bytes_per_size is None:
            return self.repetitions
        return min(self.repetitions, max(self.bytes_per_size // size, LEAST_REPETITIONS))

    def before(self, size: int) -> int:
        """Warm-ups of a size."""
        return max(1, self.warmups * self.measured(size) // self.repetitions)

    @property
    def payload(self) -> int:
        """Bytes that one rank sends in all."""
        return sum(size * (self.before(size) + self.measured(size)) for size in self.sizes)


@dataclass(frozen=True)
class SizePoint:
    """What was measured at one size, in seconds; of mpi4py there is no median and minimum."""

    size: int
    mean: float
    stdev: float
    median: float | None = None
    minimum: float | None = None


class MpiPingpong(mpi.MpiWorkload[MpiPingpongParameters]):
    """Time of an MPI message from one rank to another, by its size.

    Rank 0 sends, rank 1 answers with as much; a message's time is half of that. Sizes are the
    powers of two, each begun together behind a barrier, 30 exchanges unmeasured and 100 measured
    one by one: the protocol of mpi4py's `mpi4py.bench pingpong`
    (<https://github.com/mpi4py/mpi4py/blob/4.1.2/src/mpi4py/bench.py>), with blocking sends and
    receives and a buffer for each. Our program in C does the same, writes its buffers beforehand,
    compares the last message of each size byte by byte, and proves by the kernel's counters that
    the network device carried them. mpi4py's verifies nothing, and its own time in Python counts:
    about a microsecond a message.

    Large messages are repeated less often unless `bytes_per_size` is null. That of
    `mpi-degradation` (2012, of [the studies](../../guide/studies.md)) is `{max_size: 1GiB,
    bytes_per_size: null}`: 130 exchanges of every size up to 1 GiB move 520 GiB, and need 2 GiB of
    memory in each instance. Between ranks of one instance (`peer: none`) shared memory is what is
    measured. The ranks are bound to no CPU.
    """

    name = "mpi-pingpong"
    resource = "network"
    packages = (*mpi.MpiWorkload.packages, "python3")
    source = (
        "L. Dalcin et al., mpi4py 4.1.2, `mpi4py.bench pingpong`: "
        "<https://github.com/mpi4py/mpi4py/blob/4.1.2/src/mpi4py/bench.py>",
        sources.OPEN_MPI,
        sources.MPI_DEGRADATION,
    )
    parameters_model = MpiPingpongParameters
    metrics = (
        Metric(
            name="one_way_time",
            unit="s",
            better="lower",
            primary=True,
            coordinate=SIZE,
            description="Time of a message one way: half of an exchange, the mean of the measured "
            "ones.",
        ),
        Metric(
            name="bandwidth",
            unit="B/s",
            better="higher",
            coordinate=SIZE,
            description="Size of a message by that time.",
        ),
        Metric(
            name="latency",
            unit="s",
            better="lower",
            description="The time of the smallest message.",
        ),
        Metric(
            name="one_way_time_median",
            unit="s",
            better="lower",
            coordinate=SIZE,
            description="The median in place of the mean; `program: c` only.",
        ),
        Metric(
            name="one_way_time_minimum",
            unit="s",
            better="lower",
            coordinate=SIZE,
            description="The shortest; `program: c` only.",
        ),
        Metric(
            name="one_way_time_deviation",
            unit="s",
            better="lower",
            coordinate=SIZE,
            description="Standard deviation of the measured exchanges, as times one way.",
        ),
    )

    def programs(self, parameters: MpiPingpongParameters) -> Mapping[str, str]:
        """Those of the MPI; and Python for mpi4py."""
        programs = super().programs(parameters)
        return {**programs, "python3": "python3"} if parameters.program == "mpi4py" else programs

    def files(self, parameters: MpiPingpongParameters) -> Mapping[str, Path]:
        """Our program; or mpi4py as PyPI has it, and what unpacks and starts it."""
        files = dict(super().files(parameters))
        if parameters.program == "c":
            return {**files, "pingpong": binaries.program("pingpong", parameters.mpi)}
        return {**files, BENCH: Path(__file__).with_name(BENCH), WHEEL: binaries.program(WHEEL)}

    def title(self, parameters: MpiPingpongParameters) -> str:
        """`MPI messages to the host`."""
        return f"MPI messages{mpi.peer_in_words(parameters)}"

    def duration_s(self, parameters: MpiPingpongParameters) -> float:
        """At 0.5 GiB/s and 50 µs a message, both ways."""
        exchanges = sum(parameters.before(s) + parameters.measured(s) for s in parameters.sizes)
        return 0.5 + 2 * (parameters.payload / (1 << 29) + exchanges * 50e-6)

    def tasks(self, parameters: MpiPingpongParameters, context: Context) -> Sequence[Task]:
        """Two ranks. The limit allows for a VM without hardware support."""
        argv = _c(parameters) if parameters.program == "c" else _mpi4py(parameters)
        timeout_s = 60.0 + 100 * self.duration_s(parameters)
        return (self.launch(parameters, context, 2, argv, timeout_s),)

    def check(self, parameters: MpiPingpongParameters, outputs: Outputs) -> None:
        """`mpirun` ended well, every size was done as asked, and over the network where asked."""
        _points(parameters, outputs)

    def parse(self, parameters: MpiPingpongParameters, outputs: Outputs) -> Figures:
        points = _points(parameters, outputs)
        figures: Figures = {
            "one_way_time": [(point.size, point.mean) for point in points],
            "bandwidth": [(point.size, point.size / point.mean) for point in points],
            "latency": points[0].mean,
            "one_way_time_deviation": [(point.size, point.stdev) for point in points],
        }
        if parameters.program == "c":
            medians = [(point.size, point.median) for point in points]
            minima = [(point.size, point.minimum) for point in points]
            figures["one_way_time_median"] = [(x, y) for x, y in medians if y is not None]
            figures["one_way_time_minimum"] = [(x, y) for x, y in minima if y is not None]
        return figures

    def facts(self, parameters: MpiPingpongParameters, outputs: Outputs) -> dict[str, str]:
        facts = super().facts(parameters, outputs)
        if parameters.program == "c":
            facts["library"], _ = mpi.library(parameters, mpi.finished(outputs).stdout)
        return facts


def _c(parameters: MpiPingpongParameters) -> tuple[str, ...]:
    argv = ["./pingpong", "--min-bytes", str(int(parameters.min_size))]
    argv += ["--max-bytes", str(int(parameters.max_size)), "--warmups", str(parameters.warmups)]
    argv += ["--repetitions", str(parameters.repetitions)]
    argv += ["--bytes-per-size", str(int(parameters.bytes_per_size or 0))]
    if parameters.peer != "none":
        argv += ["--device", mpi.DEVICE]
    return tuple(argv)


def _mpi4py(parameters: MpiPingpongParameters) -> tuple[str, ...]:
    """One run of the benchmark for all sizes with the same counts; one for all of them by default.

    Without the options for large and huge messages it would shrink the counts from 16 KiB on.
    """
    argv = ["python3", "-X", "utf8", f"./{BENCH}", f"./{WHEEL}", parameters.mpi]

    def counts(size: int) -> tuple[int, int]:
        return parameters.before(size), parameters.measured(size)

    for (before, measured), group in groupby(parameters.sizes, counts):
        sizes = list(group)
        kinds = ("", "-large", "-huge")
        skips = " ".join(f"--skip{kind} {before} --loop{kind} {measured}" for kind in kinds)
        argv.append(f"pingpong -a none -m {sizes[0]} -n {sizes[-1]} {skips}")
    return tuple(argv)


def _points(parameters: MpiPingpongParameters, outputs: Outputs) -> list[SizePoint]:
    """What was measured, if the output proves that all was done."""
    text = mpi.finished(outputs).stdout
    check_length(text)
    points = _c_points(parameters, text) if parameters.program == "c" else _table(parameters, text)
    for point in points:
        shortest = point.mean if point.minimum is None else point.minimum
        if not shortest > 0:
            raise InvalidTrialError(f"messages of {point.size} B took no time")
    return points


def _c_points(parameters: MpiPingpongParameters, text: str) -> list[SizePoint]:
    _, report = mpi.library(parameters, text)
    figures = read_lines(report, _report(parameters))
    if parameters.peer != "none" and min(figures["sent"], figures["received"]) < parameters.payload:
        raise InvalidTrialError(
            f"{mpi.DEVICE} carried {min(figures['sent'], figures['received']):.0f} B of "
            f"{parameters.payload} B: the messages went another way"
        )
    points = [
        SizePoint(
            size=size,
            mean=figures[f"mean_{size}"] / 1e9,
            stdev=figures[f"stdev_{size}"] / 1e9,
            median=figures[f"median_{size}"] / 1e9,
            minimum=figures[f"minimum_{size}"] / 1e9,
        )
        for size in parameters.sizes
    ]
    for point in points:
        _prove_order(point)
    return points


def _prove_order(point: SizePoint) -> None:
    """No mean and no median is below the minimum, but by what was rounded."""
    assert point.minimum is not None and point.median is not None
    if min(point.mean, point.median) < point.minimum - 1e-12:
        raise InvalidTrialError(f"the minimum at {point.size} B is above the mean or the median")


def _report(parameters: MpiPingpongParameters) -> list[ReportLine]:
    """The lines after the first."""
    lines = [
        line(
            f"size {size} warmups {parameters.before(size)} "
            f"repetitions {parameters.measured(size)} minimum_ns ",
            (f"minimum_{size}", 3),
            " median_ns ",
            (f"median_{size}", 3),
            " mean_ns ",
            (f"mean_{size}", 3),
            " stdev_ns ",
            (f"stdev_{size}", 3),
        )
        for size in parameters.sizes
    ]
    if parameters.peer != "none":
        lines.append(line(f"device {mpi.DEVICE} sent ", ("sent", 0), " received ", ("received", 0)))
    return [*lines, line("every message arrived as it was sent")]


def _table(parameters: MpiPingpongParameters, text: str) -> list[SizePoint]:
    """mpi4py's table: exactly the lines of the sizes, titles aside."""
    rows = [row for row in text.split("\n") if row and not row.startswith("# ")]
    if len(rows) != len(parameters.sizes):
        raise InvalidTrialError(f"{len(parameters.sizes)} sizes were asked for, {len(rows)} found")
    return [_row(parameters, size, row) for size, row in zip(parameters.sizes, rows, strict=True)]


def _row(parameters: MpiPingpongParameters, size: int, row: str) -> SizePoint:
    match = _POINT.fullmatch(row)
    if not match or int(match["size"]) != size:
        raise InvalidTrialError(f"expected the line of {size} B, found {quoted(row)}")
    if int(match["count"]) != parameters.measured(size):
        raise InvalidTrialError(
            f"{parameters.measured(size)} repetitions of {size} B were asked for, "
            f"{match['count']} done"
        )
    mean, rate = float(match["mean"]), float(match["rate"]) * 1e6
    if not mean > 0 or not math.isclose(size / mean, rate, rel_tol=1e-6, abs_tol=0.006e6):
        raise InvalidTrialError(f"{size} B in {mean} s are not {rate} B/s")
    return SizePoint(size, mean, float(match["stdev"]))
