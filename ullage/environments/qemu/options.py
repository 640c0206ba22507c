"""What a plan may say of a VM."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ullage.common.quantities import Bytes, Seconds
from ullage.environments.base import DataDisk, DataOptions
from ullage.environments.qemu.command_line import Aio, Bus, Cache, Nic
from ullage.environments.qemu.memory import Backing, HugePage, Numa
from ullage.host.disks import DiskFormat
from ullage.host.network.bridge import MOST_LINKS
from ullage.host.swap.request import VmSwapRequest

MIB: Final = 1 << 20


_DIRECT: Final = frozenset({"none", "directsync"})
"""Cache modes that go past the host's own cache, as Linux's own asynchronous I/O must."""


class Disk(DataDisk):
    """The data disk, `/data` inside."""

    later: ClassVar[frozenset[str]] = DataDisk.later | {"aio", "bus", "root"}

    root: Literal["shared", "own"] = Field(
        "shared",
        description="the disk that the VM boots from: `shared`, the image's, which all clones read;"
        " `own`, a copy of it beside the data disk, with that disk's `cache`",
    )
    format: DiskFormat = Field("raw", description="format of the disk's file on the host")
    cache: Cache = Field("none", description="QEMU's cache mode; `none` goes past the host's")
    size: Annotated[Bytes, Field(ge=64 * MIB)] | None = Field(
        None, description="`8GiB`; left out: four times the memory, at least 4 GiB"
    )
    aio: Aio | None = Field(
        None,
        description="how QEMU asks the host: `threads`, `native` (Linux AIO), `io_uring`;"
        " left out: `threads`, as QEMU chooses",
    )
    bus: Bus = Field(
        "virtio", description="`virtio`: virtio-blk; `scsi`: virtio-scsi; `sata`: AHCI; `nvme`"
    )

    @model_validator(mode="after")
    def _native_goes_past_the_cache(self) -> Disk:
        if self.aio == "native" and self.cache not in _DIRECT:
            raise ValueError("`aio: native` needs `cache: none` or `directsync`")
        return self


class Aggregation(BaseModel):
    """Several NICs that are one inside: Linux's bonding."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Literal["balance-rr", "balance-xor", "active-backup"] = Field(
        "balance-rr",
        description="`balance-rr`: packets in turn; `balance-xor`: each stream by one NIC; "
        "`active-backup`: one NIC at a time. 802.3ad needs a switch that speaks LACP",
    )
    links: int = Field(
        2, ge=2, le=MOST_LINKS, description="NICs; without any field of `aggregation` one"
    )


class GuestDisk(BaseModel):
    """A disk of the user's, with a system of its own on it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Path = Field(
        description="the disk's file on this host; only read: each VM writes to a layer of its own"
    )
    format: DiskFormat = Field("qcow2", description="format of that file")
    system: Literal["linux", "windows"] = Field("linux", description="what is on it")
    firmware: Literal["bios", "uefi"] = Field(
        "uefi", description="`uefi`: OVMF, without Secure Boot; `bios`: SeaBIOS"
    )
    bus: Bus = Field(
        "virtio", description="what the disk is attached to: its system must have the driver"
    )
    cache: Cache = Field("none", description="QEMU's cache mode of it")

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: Path) -> Path:
        if not path.is_absolute():
            raise ValueError("an absolute path, such as /srv/win2022.qcow2")
        return path


_OF_ANY_GUEST: Final = frozenset(
    {"accel", "machine", "cpu_model", "vcpus", "hugepages", "boot_deadline_s", "guest", "swap"}
)
"""What may be said of a VM from a disk of the user's too."""


class QemuOptions(DataOptions):
    """What a plan may say of a VM."""

    later: ClassVar[frozenset[str]] = frozenset(
        {
            "queues",
            "offloads",
            "hugepages",
            "numa",
            "vcpus",
            "io_thread",
            "nested",
            "guest",
            "image_format",
            "swap",
        }
    )

    accel: Literal["auto", "kvm", "tcg"] = Field(
        "auto", description="`auto`: KVM when a small guest really boots with it, else emulation"
    )
    machine: Literal["q35", "pc"] = Field("q35", description="the machine that is built")
    cpu_model: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._,+=-]*$",
        max_length=200,
        description="QEMU's `-cpu`; left out: `host` with KVM, `max` in emulation",
    )
    nested: bool | None = Field(
        None,
        strict=True,
        description="can the VM run VMs of its own (`vmx`, `svm`)? left out: as its CPU model"
        " has it",
    )
    vcpus: Literal["floating", "pinned"] = Field(
        "floating",
        description="`floating`: QEMU's threads run on any of the instance's CPUs; `pinned`: each"
        " vCPU on one of them",
    )
    hugepages: HugePage | None = Field(
        None, description="the guest's memory in huge pages that this host has reserved"
    )
    numa: Numa | None = Field(
        None, description="NUMA nodes inside and on this host; left out: one, anywhere"
    )
    nic: Nic = Field("virtio", description="model of the network card")
    network: Literal["auto", "tap", "user"] = Field(
        "auto", description="`tap`: on the run's bridge, as root; `user`: closed, for anybody"
    )
    vhost: bool = Field(False, description="let the host's kernel move the packets of a virtio NIC")
    queues: int = Field(
        1,
        ge=1,
        le=16,
        strict=True,
        description="pairs of queues of a virtio NIC; no more than CPUs",
    )
    offloads: bool = Field(
        True,
        strict=True,
        description="false: a virtio NIC neither leaves checksums and segmentation to the host nor"
        " takes them from it",
    )
    aggregation: Aggregation | None = Field(
        None, description="several NICs that are one inside; left out: one NIC"
    )
    disk: Disk = Field(Disk(), description="the data disk")
    image_format: DiskFormat = Field(
        "raw", description="format of the image's disk, from which it boots and which it only reads"
    )
    io_thread: bool = Field(
        False,
        strict=True,
        description="the data disk served by a thread of its own, not by QEMU's main loop",
    )
    boot: Literal["agent", "systemd"] = Field(
        "agent", description="`agent`: nothing else runs inside; `systemd`: a whole Debian boots"
    )
    modules: tuple[Literal["nfsv4", "nfsd"], ...] = Field(
        (), description="more kernel modules: `[nfsv4, nfsd]` for a folder shared by NFS"
    )
    boot_deadline_s: Seconds | None = Field(None, description="left out: 300 s")
    swap: VmSwapRequest | None = Field(
        None,
        description="what of the VM the host swaps, `{on: zram, size: 2GiB, resident: 256MiB}`;"
        " left out: nothing",
    )
    guest: GuestDisk | None = Field(
        None,
        description="a disk of yours, which boots by itself and starts the agent on the port"
        " `ullage.agent`; left out: the plan's image",
    )

    @model_validator(mode="after")
    def _is_of_virtio(self) -> QemuOptions:
        for name in ("vhost", "queues", "offloads"):
            if (
                self.nic != "virtio"
                and getattr(self, name) != type(self).model_fields[name].default
            ):
                raise ValueError(f"`{name}` is of a virtio NIC, not of {self.nic}")
        if self.network == "user" and (self.vhost or self.queues > 1):
            raise ValueError(
                "`vhost` and `queues` need a NIC on the run's bridge, not `network: user`"
            )
        return self

    @model_validator(mode="after")
    def _a_guest_is_as_its_disk_has_it(self) -> QemuOptions:
        written = {
            name
            for name, field in type(self).model_fields.items()
            if getattr(self, name) != field.default
        }
        if self.guest is not None and (other := written - _OF_ANY_GUEST):
            raise ValueError(f"`{min(other)}` is of a VM from the image, not from a disk of yours")
        return self

    @model_validator(mode="after")
    def _thread_serves_virtio(self) -> QemuOptions:
        if self.io_thread and self.disk.bus not in {"virtio", "scsi"}:
            raise ValueError(
                f"`io_thread` serves `disk.bus: virtio` and `scsi`, not {self.disk.bus}"
            )
        return self

    @model_validator(mode="after")
    def _huge_pages_stay(self) -> QemuOptions:
        if self.swap and self.hugepages:
            raise ValueError("huge pages are never swapped: leave out `hugepages` or `swap`")
        return self

    @model_validator(mode="after")
    def _aggregation_needs_a_bridge(self) -> QemuOptions:
        if self.aggregation and self.network == "user":
            raise ValueError("`aggregation` needs NICs on the run's bridge, so not `network: user`")
        return self

    @property
    def backing(self) -> Backing:
        """Where the guest's memory lies."""
        return Backing.of(self.hugepages, self.numa)
