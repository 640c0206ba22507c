"""What an instance may swap: as a plan says it, as its cgroup has it, as it is seen inside."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ullage.common.errors import LIMIT_NOT_APPLIED, SWAP_SIZE, UllageError
from ullage.common.quantities import Bytes, exact_bytes, format_bytes
from ullage.common.text import unescape

if TYPE_CHECKING:
    from ullage.host.cgroups import Group

HEAD_BYTES: Final = 1 << 16
"""Of an area, that hold no page of a program: its first page, of whatever size."""
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("`zram`, or a path that begins with /")
    return path


class SwapRequest(BaseModel):
    """What an instance may have beyond its memory, and where that stands."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    on: Literal["zram"] | Annotated[Path, AfterValidator(_absolute)] = Field(
        description="`zram`, memory that is compressed; a directory, for a file in it; or a block"
        " device that nobody uses"
    )
    size: Annotated[Bytes, Field(ge=16 << 20)] = Field(description="for each instance, `512MiB`")

    def __str__(self) -> str:
        return f"{format_bytes(self.size)} on {self.on}"

    def kept_bytes(self, memory_bytes: int) -> int:
        """What an instance with so much memory has of the host's."""
        return memory_bytes

    def refuse_wrong(self, environment: str, needed_bytes: int) -> None:
        """SWAP_SIZE where it cannot be what its instances may need of the host."""


class VmSwapRequest(SwapRequest):
    """The same of a VM, whose memory is as large inside as ever and which knows nothing of it."""

    resident: Annotated[Bytes, Field(ge=64 << 20)] = Field(
        description="what a VM, QEMU itself included, has of the host's memory: the rest of it is"
        " swapped"
    )

    def __str__(self) -> str:
        return f"{super().__str__()}, {format_bytes(self.resident)} resident"

    def kept_bytes(self, memory_bytes: int) -> int:
        """As the plan says."""
        return self.resident

    def refuse_wrong(self, environment: str, needed_bytes: int) -> None:
        """Less together would have QEMU killed; what is resident alone would never swap."""
        if not self.resident < needed_bytes <= self.resident + self.size:
            raise UllageError(
                SWAP_SIZE,
                environment=environment,
                needed=exact_bytes(needed_bytes),
                resident=exact_bytes(self.resident),
                size=exact_bytes(self.size),
            )


@dataclass(frozen=True)
class Area:
    """One that the kernel swaps to."""

    path: str
    size_bytes: int
    used_bytes: int


def areas(text: str) -> list[Area]:
    """Of `/proc/swaps`, as the host or an instance tells it."""
    rows = [line.split() for line in text.splitlines()[1:]]
    return [
        Area(unescape(row[0]), int(row[2]) * 1024, int(row[3]) * 1024)
        for row in rows
        if len(row) == 5 and row[2].isdecimal() and row[3].isdecimal()
    ]


def allow(group: Group, name: str, memory_bytes: int, swap_bytes: int) -> None:
    """Let an instance swap so much, beyond so much memory. LIMIT_NOT_APPLIED."""
    both, seen = memory_bytes + swap_bytes, group.allow_swap(memory_bytes, swap_bytes)
    kept = group.limits().memory_bytes
    if kept is None or not memory_bytes - _PAGE < kept <= memory_bytes:
        shown = "no limit" if kept is None else exact_bytes(kept)
        raise UllageError(
            LIMIT_NOT_APPLIED, instance=name, asked=f"{exact_bytes(memory_bytes)}", seen=shown
        )
    if seen is None or not both - _PAGE < seen <= both:
        shown = "no limit of both" if seen is None else f"a limit of {exact_bytes(seen)} for both"
        required = f"{exact_bytes(memory_bytes)} of memory and {exact_bytes(swap_bytes)} of swap"
        raise UllageError(LIMIT_NOT_APPLIED, instance=name, asked=required, seen=shown)


def verify(text: str, name: str, swap_bytes: int, place: Path | None) -> None:
    """LIMIT_NOT_APPLIED unless an instance sees one area, the run's, and in it what it may have.

    text: its own `/proc/swaps`; place: of the run's area, None: it has none.
    """
    inside = areas(text)
    if [area.path for area in inside] == [str(place)] and (
        inside[0].size_bytes >= swap_bytes - HEAD_BYTES
    ):
        return
    shown = ", ".join(f"{exact_bytes(area.size_bytes)} on {area.path}" for area in inside)
    required = f"one area with {exact_bytes(swap_bytes)} of swap on {place or 'one of the run'}"
    raise UllageError(LIMIT_NOT_APPLIED, instance=name, asked=required, seen=shown or "no swap")
