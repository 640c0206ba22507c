"""Workload `sysbench-fileio`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import ByteSize, Field, model_validator

from ullage.common.errors import WORKLOAD_FILES_TOO_SMALL, UllageError
from ullage.common.quantities import format_bytes
from ullage.runs.records import Metric
from ullage.workloads.base import Context, InvalidTrialError, Task, counted
from ullage.workloads.cpu.sysbench import (
    FILE_MODES,
    LATENCY,
    STARTED,
    TOTAL_TIME,
    FileMode,
    LimitedParameters,
    Sysbench,
    latency,
    limits,
    prove_limits,
    size,
    total_time,
)
from ullage.workloads.output import ReportLine, line

MIB = 1 << 20
PAGE = 4096

_DOING = {
    "seqwr": "sequential write (creation)",
    "seqrewr": "sequential rewrite",
    "seqrd": "sequential read",
    "rndrd": "random read",
    "rndwr": "random write",
    "rndrw": "random r/w",
}
_USING = {"sync": "synchronous", "async": "asynchronous", "mmap": "fast mmaped"}


class SysbenchFileioParameters(LimitedParameters):
    """The files, the requests, when to flush, and when to stop."""

    mode: FileMode = Field(
        "rndrd",
        description="sequential write into new files, sequential rewrite or read, random read, "
        "write, or three reads to two writes",
    )
    files: int = Field(16, ge=1, le=512, strict=True, description="files, all open at once")
    total_size: ByteSize = Field(
        ByteSize(256 * MIB),
        ge=PAGE,
        le=1 << 44,
        description="bytes in all files: a whole number of blocks in each",
    )
    block_size: ByteSize = Field(
        ByteSize(16_384),
        ge=PAGE,
        le=1 << 30,
        multiple_of=PAGE,
        description="bytes of one request, a multiple of 4 KiB",
    )
    io_mode: Literal["sync", "async", "mmap"] = Field(
        "sync", description="read and write calls, 128 requests queued by each thread, or a mapping"
    )
    direct: bool = Field(True, strict=True, description="past the page cache (O_DIRECT)")
    fsync_freq: int = Field(
        100, ge=0, le=1_000_000, strict=True, description="fsync after so many requests; 0: never"
    )
    fsync_all: bool = Field(False, strict=True, description="fsync after every write")
    fsync_end: bool = Field(True, strict=True, description="fsync at the end, within the time")
    fsync_mode: Literal["fsync", "fdatasync"] = Field("fsync", description="the call that flushes")
    checksums: bool = Field(
        False,
        strict=True,
        description="write a checksum into each block, verify it when it is read",
    )

    @model_validator(mode="after")
    def _possible(self) -> SysbenchFileioParameters:
        row = self.files * self.block_size
        if self.total_size % row:
            raise ValueError(
                f"total_size must be a multiple of files × block_size, {format_bytes(row)}"
            )
        if self.direct and self.io_mode == "mmap":
            raise ValueError(
                "a mapping cannot pass the page cache: io_mode mmap needs direct: false"
            )
        return self

    @property
    def reads(self) -> bool:
        """Does the mode read?"""
        return self.mode in ("seqrd", "rndrd", "rndrw")

    @property
    def writes(self) -> bool:
        """Does the mode write?"""
        return self.mode not in ("seqrd", "rndrd")


class SysbenchFileio(Sysbench[SysbenchFileioParameters]):
    """Files on a disk: reads and writes, sequential or at random (`sysbench fileio`).

    Its primary metric is `throughput`, the bytes read plus the bytes written in a second: it is
    there in all six modes, and at one block size it says the same as operations per second.

    By default the files are opened with O_DIRECT. With `direct: false` they must hold at least
    twice the memory limit, or the page cache would be measured; less is refused. `mode: seqwr`
    makes its files anew in each trial; the other modes use files written once, before the first
    block. When the time is longer than one pass, sequential modes start again at the first file.
    With `io_mode: async` sysbench takes the time to submit, not to complete, so there is no
    latency. `fsync_mode` is not echoed by sysbench, and so not verified.
    """

    name = "sysbench-fileio"
    resource = "disk"
    test = "fileio"
    scaling = ("threads",)
    parameters_model = SysbenchFileioParameters
    metrics = (
        Metric(
            name="throughput",
            unit="B/s",
            better="higher",
            primary=True,
            description="Bytes read plus bytes written in a second.",
        ),
        Metric(
            name="operations_per_second",
            unit="1/s",
            better="higher",
            description="Reads plus writes in a second.",
        ),
        Metric(
            name="reads_per_second",
            unit="1/s",
            better="higher",
            description="Reads in a second. Absent in modes that only write.",
        ),
        Metric(
            name="writes_per_second",
            unit="1/s",
            better="higher",
            description="Writes in a second. Absent in modes that only read.",
        ),
        Metric(
            name="fsyncs_per_second",
            unit="1/s",
            better="higher",
            description="Flushes in a second. Absent where there were none.",
        ),
        TOTAL_TIME,
        *LATENCY,
    )

    def title(self, parameters: SysbenchFileioParameters) -> str:
        """`disk random read, 16 KiB`."""
        several = f", {counted(parameters.threads, 'thread')}" if parameters.threads > 1 else ""
        return f"disk {FILE_MODES[parameters.mode]}, {size(parameters.block_size, ' ')}{several}"

    def duration_s(self, parameters: SysbenchFileioParameters) -> float:
        """The time given, else at 100 MiB/s and 1 000 requests a second."""
        if parameters.time_s is not None:
            return float(parameters.time_s)
        return float((parameters.events or 0) * (parameters.block_size / (100 * MIB) + 1e-3))

    def prepare(self, parameters: SysbenchFileioParameters, context: Context) -> Sequence[Task]:
        """Write the files, with checksums if asked; `seqwr` makes its own.

        Raises UllageError (WORKLOAD_FILES_TOO_SMALL) when they would fit in the page cache.
        """
        least = 2 * context.memory_bytes
        if not parameters.direct and parameters.total_size < least:
            raise UllageError(
                WORKLOAD_FILES_TOO_SMALL,
                size=format_bytes(parameters.total_size),
                memory=format_bytes(context.memory_bytes),
                least=format_bytes(least),
            )
        if parameters.mode == "seqwr":
            return ()
        # `prepare` would keep files that it finds, though they may hold no checksums.
        return (
            self.task(parameters, context, "cleanup"),
            self.task(parameters, context, "prepare"),
        )

    def cleanup(self, parameters: SysbenchFileioParameters, context: Context) -> Sequence[Task]:
        return (self.task(parameters, context, "cleanup"),)

    def options(self, parameters: SysbenchFileioParameters) -> Sequence[str]:
        """All that sysbench can be told about files, defaults too."""
        return (
            f"--file-test-mode={parameters.mode}",
            f"--file-num={parameters.files}",
            f"--file-total-size={int(parameters.total_size)}",
            f"--file-block-size={int(parameters.block_size)}",
            f"--file-io-mode={parameters.io_mode}",
            *(["--file-extra-flags=direct"] if parameters.direct else []),
            f"--file-fsync-freq={parameters.fsync_freq}",
            f"--file-fsync-all={_switch(parameters.fsync_all)}",
            f"--file-fsync-end={_switch(parameters.fsync_end)}",
            f"--file-fsync-mode={parameters.fsync_mode}",
            "--file-rw-ratio=1.5",
            f"--validate={_switch(parameters.checksums)}",
            *limits(parameters.time_s, parameters.events),
        )

    def echo(self, parameters: SysbenchFileioParameters) -> Sequence[ReportLine]:
        random = parameters.mode.startswith("rnd")
        return (
            line(f"Extra file open flags: {'directio' if parameters.direct else '(none)'}"),
            line(
                f"{parameters.files} files, {size(parameters.total_size // parameters.files)} each"
            ),
            line(f"{size(parameters.total_size)} total file size"),
            line(f"Block size {size(parameters.block_size)}"),
            *([line(f"Number of IO requests: {parameters.events or 0}")] if random else []),
            *([line("Read/Write ratio for combined random IO test: 1.50")] if random else []),
            *_flushing(parameters),
            line(f"Using {_USING[parameters.io_mode]} I/O mode"),
            *([line("Using checksums validation.")] if parameters.checksums else []),
            line(f"Doing {_DOING[parameters.mode]} test"),
            *STARTED,
            line("File operations:"),
            line("    reads/s:", ("reads", 2)),
            line("    writes/s:", ("writes", 2)),
            line("    fsyncs/s:", ("fsyncs", 2)),
            line("Throughput:"),
            line("    read, MiB/s:", ("read_mib", 2)),
            line("    written, MiB/s:", ("written_mib", 2)),
        )

    def prove(self, parameters: SysbenchFileioParameters, report: Mapping[str, float]) -> None:
        """It read and wrote what the mode says, flushed as asked, and the figures agree."""
        prove_limits(parameters, report)
        kinds = (
            ("reads", "read_mib", parameters.reads),
            ("writes", "written_mib", parameters.writes),
        )
        for rate, mib, expected in kinds:
            if (report[rate] > 0) != expected:
                raise InvalidTrialError(
                    f"{rate} in mode {parameters.mode}: {report[rate]} per second"
                )
            step = parameters.block_size / MIB
            if abs(report[rate] * step - report[mib]) > 0.0051 * (1 + step):
                raise InvalidTrialError(
                    f"{report[rate]} {rate} of {size(parameters.block_size)} are not "
                    f"{report[mib]} MiB per second"
                )
        flushes = parameters.fsync_all or parameters.fsync_freq or parameters.fsync_end
        if report["fsyncs"] > 0 and not (flushes and parameters.writes):
            raise InvalidTrialError(f"{report['fsyncs']} flushes per second, none were asked for")
        if parameters.fsync_all and parameters.writes and not report["fsyncs"] > 0:
            raise InvalidTrialError("no flushes, one after each write was asked for")

    def figures(
        self, parameters: SysbenchFileioParameters, report: Mapping[str, float]
    ) -> dict[str, float]:
        """The rates, and the times; the throughput from the finer of the two printed figures."""
        operations = report["reads"] + report["writes"]
        rates = {
            "reads_per_second": report["reads"],
            "writes_per_second": report["writes"],
            "fsyncs_per_second": report["fsyncs"],
        }
        return {
            "throughput": operations * parameters.block_size
            if parameters.block_size < MIB
            else (report["read_mib"] + report["written_mib"]) * MIB,
            "operations_per_second": operations,
            **{name: rate for name, rate in rates.items() if rate > 0},
            **total_time(parameters.time_s, report),
            **(latency(report) if parameters.io_mode != "async" else {}),
        }


def _flushing(parameters: SysbenchFileioParameters) -> list[ReportLine]:
    """What sysbench says about its flushes; each write's leaves the others unsaid."""
    if parameters.fsync_all:
        return [line("Calling fsync() after each write operation.")]
    lines = []
    if parameters.fsync_freq:
        interval = f"calling fsync() each {parameters.fsync_freq} requests."
        lines.append(line(f"Periodic FSYNC enabled, {interval}"))
    if parameters.fsync_end:
        lines.append(line("Calling fsync() at the end of test, Enabled."))
    return lines


def _switch(on: bool) -> str:
    return "on" if on else "off"
