"""What `ullage-basics` can be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import ByteSize, Field, model_validator

from ullage.common.quantities import format_bytes
from ullage.workloads.base import Parameters
from ullage.workloads.cpu.sysbench import FileMode, in_place_of_time

KIB: Final = 1 << 10
MIB: Final = 1 << 20
Test = Literal["cpu", "memory", "threads", "mutex", "fileio", "stream"]
BLOCKS: Final[Mapping[Test, int]] = {"memory": KIB, "fileio": 16 * KIB, "stream": 64 * KIB}
"""Bytes of an event, unless the plan says it."""
FILES: Final[Mapping[str, object]] = {"mode": "rndrd", "files": 16, "total_size": 64 * MIB}
"""What only `fileio` has, unless the plan says it."""


class BasicsParameters(Parameters):
    """Which test, by how many threads, for how long."""

    test: Test = Field(
        "cpu", description="sysbench's name of it; `stream`: TCP from the program to itself"
    )
    threads: int = Field(1, ge=1, le=4096, strict=True, description="threads that work at once")
    time_s: int | None = Field(
        1, ge=1, le=86_400, strict=True, description="length in seconds; `mutex` has none"
    )
    events: int | None = Field(
        None,
        ge=1,
        le=2_000_000_000,
        strict=True,
        description="do so many events, however long they take (in place of `time_s`)",
    )
    prime: int = Field(
        10_000, ge=3, le=10_000_000, strict=True, description="`cpu`: primes below this, per event"
    )
    block_size: ByteSize | None = Field(
        None,
        ge=KIB,
        le=1 << 30,
        multiple_of=KIB,
        exclude_if=lambda given: given is None,
        description="bytes of an event, whole KiB; without it 1 KiB for `memory`, 16 KiB for "
        "`fileio`, 64 KiB for `stream`",
    )
    mode: FileMode = Field(
        "rndrd",
        exclude_if=lambda given: bool(given == FILES["mode"]),
        description="`fileio`: sequential write into new files, sequential rewrite or read, "
        "random read, write, or three reads to two writes",
    )
    files: int = Field(
        16,
        ge=1,
        le=512,
        strict=True,
        exclude_if=lambda given: bool(given == FILES["files"]),
        description="`fileio`: files, all open at once",
    )
    total_size: ByteSize = Field(
        ByteSize(64 * MIB),
        ge=KIB,
        le=1 << 44,
        exclude_if=lambda given: bool(given == FILES["total_size"]),
        description="`fileio`: bytes in all files, a whole number of blocks in each",
    )

    @model_validator(mode="before")
    @classmethod
    def _one_limit(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("test") == "mutex":
            if data.get("events") is not None or data.get("time_s") is not None:
                raise ValueError("mutex does one event a thread: leave out time_s and events")
            return {**data, "time_s": None}
        return in_place_of_time(data, "events")

    @model_validator(mode="after")
    def _of_its_test(self) -> BasicsParameters:
        if self.block_size is not None and self.test not in BLOCKS:
            raise ValueError(f"{self.test} has no block_size")
        for name, usual in FILES.items():
            if self.test != "fileio" and getattr(self, name) != usual:
                raise ValueError(f"{name} is of fileio alone, not of {self.test}")
        row = self.files * (self.block or 1)
        if self.test == "fileio" and self.total_size % row:
            raise ValueError(
                f"total_size must be a multiple of files × block_size, {format_bytes(row)}"
            )
        return self

    @property
    def block(self) -> int | None:
        """Bytes of an event, where an event is a block."""
        return self.block_size or BLOCKS.get(self.test)

    @property
    def writes(self) -> bool:
        """Are files written to?"""
        return self.mode not in ("seqrd", "rndrd")
