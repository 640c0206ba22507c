"""Workload `sysbench-memory`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import ByteSize, Field, model_validator

from ullage.common.quantities import exact_bytes
from ullage.runs.records import Metric
from ullage.workloads.base import InvalidTrialError, counted
from ullage.workloads.cpu.sysbench import (
    LATENCY,
    STARTED,
    TOTAL_TIME,
    Sysbench,
    SysbenchParameters,
    in_place_of_time,
    latency,
    limits,
    prove_time,
    size,
    total_time,
)
from ullage.workloads.output import ReportLine, line

MIB = 1 << 20


class SysbenchMemoryParameters(SysbenchParameters):
    """What is moved, how, and when to stop."""

    block_size: ByteSize = Field(
        ByteSize(MIB),
        ge=1024,
        le=1 << 30,
        description="bytes that are gone over at a time, a power of 2; what fits in a cache "
        "measures that cache",
    )
    operation: Literal["read", "write"] = Field("write", description="what is done to the block")
    access: Literal["seq", "rnd"] = Field("seq", description="word after word, or at random")
    scope: Literal["global", "local"] = Field(
        "global", description="one block for all threads, or one for each"
    )
    time_s: int | None = Field(
        1, ge=1, le=86_400, strict=True, description="length in seconds: gives a rate"
    )
    total_size: ByteSize | None = Field(
        None,
        ge=MIB,
        le=1 << 60,
        multiple_of=MIB,
        description="move so much, however long it takes (in place of `time_s`)",
    )

    @model_validator(mode="before")
    @classmethod
    def _one_limit(cls, data: Any) -> Any:
        return in_place_of_time(data, "total_size")

    @model_validator(mode="after")
    def _possible(self) -> SysbenchMemoryParameters:
        if self.block_size & (self.block_size - 1):
            size = exact_bytes(self.block_size)
            raise ValueError(f"block_size must be a power of 2, {size} is not")
        if self.time_s is None and self.total_size is None:
            raise ValueError("give time_s or total_size")
        if self.total_size is not None and self.total_size < self.block_size * self.threads:
            raise ValueError("total_size must be at least one block for each thread")
        return self

    @property
    def blocks(self) -> int | None:
        """Blocks that `total_size` makes: each thread does an equal, whole number."""
        if self.total_size is None:
            return None
        return self.total_size // self.block_size // self.threads * self.threads


class SysbenchMemory(Sysbench[SysbenchMemoryParameters]):
    """Memory throughput: threads go over a block of memory again and again (`sysbench memory`).

    The block stays where the processor keeps it: 1 KiB, which is sysbench's own default, measures
    the first-level cache, and even 1 MiB, which is ours, fits in the larger caches of most
    processors. Vary `block_size` past the last cache to see memory itself. sysbench does not echo
    `access`, so that one is asked for and not verified.
    """

    name = "sysbench-memory"
    resource = "memory"
    test = "memory"
    scaling = ("threads",)
    parameters_model = SysbenchMemoryParameters
    metrics = (
        Metric(
            name="throughput",
            unit="B/s",
            better="higher",
            primary=True,
            description="Bytes read or written by all threads in a second.",
        ),
        Metric(
            name="operations_per_second",
            unit="1/s",
            better="higher",
            description="Blocks gone over by all threads in a second.",
        ),
        TOTAL_TIME,
        *LATENCY,
    )

    def title(self, parameters: SysbenchMemoryParameters) -> str:
        """`memory write, 1 MiB blocks, 1 thread`."""
        return (
            f"memory {'random ' if parameters.access == 'rnd' else ''}{parameters.operation}, "
            f"{size(parameters.block_size, ' ')} blocks, {counted(parameters.threads, 'thread')}"
        )

    def duration_s(self, parameters: SysbenchMemoryParameters) -> float:
        if parameters.time_s is not None:
            return float(parameters.time_s)
        return (parameters.total_size or 0) / (10 << 30)

    def options(self, parameters: SysbenchMemoryParameters) -> Sequence[str]:
        """A total size of 0 is no limit."""
        return (
            f"--memory-block-size={int(parameters.block_size)}",
            f"--memory-total-size={int(parameters.total_size or 0)}",
            f"--memory-oper={parameters.operation}",
            f"--memory-access-mode={parameters.access}",
            f"--memory-scope={parameters.scope}",
            *limits(parameters.time_s, None),
        )

    def echo(self, parameters: SysbenchMemoryParameters) -> Sequence[ReportLine]:
        return (
            line("Running memory speed test with the following options:"),
            line(f"  block size: {parameters.block_size // 1024}KiB"),
            line(f"  total size: {(parameters.total_size or 0) // MIB}MiB"),
            line(f"  operation: {parameters.operation}"),
            line(f"  scope: {parameters.scope}"),
            *STARTED,
            line("Total operations: ", ("operations", 0), " (", ("rate", 2), " per second)"),
            line(("moved_mib", 2), " MiB transferred (", ("mib_per_second", 2), " MiB/sec)"),
        )

    def prove(self, parameters: SysbenchMemoryParameters, report: Mapping[str, float]) -> None:
        """The blocks were all done, and amount to the bytes."""
        if parameters.time_s is not None:
            prove_time(parameters.time_s, report)
        if parameters.blocks is not None and report["operations"] != parameters.blocks:
            raise InvalidTrialError(
                f"{parameters.blocks} blocks were asked for, {report['operations']:.0f} were done"
            )
        if abs(report["moved_mib"] - report["operations"] * parameters.block_size / MIB) > 0.01:
            raise InvalidTrialError(
                f"{report['operations']:.0f} blocks are not {report['moved_mib']} MiB"
            )
        if not (report["mib_per_second"] > 0 and report["rate"] > 0):
            raise InvalidTrialError("fewer than 0.01 MiB or 0.01 blocks per second")

    def figures(
        self, parameters: SysbenchMemoryParameters, report: Mapping[str, float]
    ) -> dict[str, float]:
        return {
            "throughput": report["mib_per_second"] * MIB,
            "operations_per_second": report["rate"],
            **total_time(parameters.time_s, report),
            **latency(report),
        }
