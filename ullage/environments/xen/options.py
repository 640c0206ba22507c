"""What a plan may say of a VM of Xen."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ullage.common.quantities import Bytes, Seconds
from ullage.environments.base import DataDisk, DataOptions
from ullage.environments.qemu.options import MIB

Mode = Literal["pv", "pvh", "hvm"]


class XenDisk(DataDisk):
    """The data disk, `/data` inside."""

    size: Annotated[Bytes, Field(ge=64 * MIB)] | None = Field(
        None, description="`8GiB`; left out: four times the memory, at least 4 GiB"
    )


class XenOptions(DataOptions):
    """What a plan may say of a VM of Xen."""

    mode: Mode = Field(
        "pvh",
        description="`pv`: paravirtualised, without VT-x or AMD-V; `pvh`: in hardware, without an"
        " emulated machine; `hvm`: with one, by QEMU",
    )
    disk: XenDisk = Field(XenDisk(), description="the data disk")
    boot_deadline_s: Seconds | None = Field(None, description="left out: 300 s")
