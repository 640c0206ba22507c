"""The configuration of a domain, from what a VM is to be.

Format: xl.cfg(5), xl-disk-configuration(5), xl-network-configuration(5), of Xen 4.17.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ullage.environments.xen.options import Mode
    from ullage.host.disks import DiskFormat
    from ullage.host.guest_kernel import GuestKernel

ROOT: Final = "/dev/xvde"
DATA: Final = "/dev/xvdf"
"""Of the first four `hvm` would be given an emulated IDE disk each, too."""
CHANNEL: Final = "/dev/hvc1"
"""The guest's second console: its first channel, by which the agent speaks."""
_NO_CHANNEL: Final = "connection=pty,name=ullage.nothing"
"""Xen 4.17 numbers channels from 0, which is the console's own number: it says so, and the guest
has no device of the first one."""
_MIB: Final = 1 << 20


@dataclass(frozen=True)
class BlockDevice:
    path: Path
    format: DiskFormat


@dataclass(frozen=True)
class Vif:
    """A NIC: xen-netfront in the guest, xen-netback in dom0."""

    device: str
    """Of dom0's end."""
    mac: str
    bridge: str
    script: Path
    """What plugs that end in."""


@dataclass(frozen=True)
class Domain:
    """A VM, as `xl` is told."""

    name: str
    uuid: str
    mode: Mode
    cpu_ids: tuple[int, ...]
    cpu_quota: float | None
    memory_bytes: int
    kernel: GuestKernel
    words: tuple[str, ...]
    """The kernel's command line."""
    disks: tuple[BlockDevice, ...]
    vif: Vif | None
    channel: Path
    """Where QEMU listens for who speaks to the agent."""

    @property
    def boots(self) -> Path:
        """QEMU, which loads it for `hvm`, knows no ELF file there."""
        packed = self.kernel.packed if self.mode == "hvm" else None
        return packed or self.kernel.kernel

    @property
    def cap(self) -> int | None:
        """Percent of one CPU."""
        return None if self.cpu_quota is None else round(100 * self.cpu_quota)


def configuration(domain: Domain) -> str:
    """The text of its file. A JSON string or number is one of xl's too."""
    memory = domain.memory_bytes // _MIB
    fields: dict[str, object] = {
        "name": domain.name,
        "uuid": domain.uuid,
        "type": domain.mode,
        "vcpus": len(domain.cpu_ids),
        "cpus": ",".join(map(str, domain.cpu_ids)),
        "memory": memory,
        "maxmem": memory,
        "kernel": str(domain.boots),
        "ramdisk": str(domain.kernel.initrd),
        "cmdline": " ".join(domain.words),
        "disk": [_disk(disk, name) for disk, name in zip(domain.disks, _names(), strict=False)],
        "vif": [_vif(domain.vif)] if domain.vif else [],
        "channel": [_NO_CHANNEL, f"connection=socket,path={domain.channel},name=ullage.agent"],
        **({"cap": domain.cap} if domain.cap else {}),
        **({"vnc": 0, "usb": 0} if domain.mode == "hvm" else {}),
        **dict.fromkeys(("on_poweroff", "on_reboot", "on_crash"), "destroy"),
    }
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in fields.items())


def _names() -> tuple[str, ...]:
    return tuple(Path(device).name for device in (ROOT, DATA))


def _disk(disk: BlockDevice, name: str) -> str:
    """By QEMU in dom0, past the page cache. `target` takes all that follows."""
    return f"format={disk.format},vdev={name},access=rw,backendtype=qdisk,target={disk.path}"


def _vif(vif: Vif) -> str:
    return f"type=vif,mac={vif.mac},bridge={vif.bridge},script={vif.script}"


def vif_script(vif: Vif) -> str:
    """For libxl, which has it plug a vif in and kills it after 10 s: Xen's own looks at the packet
    filter first, and takes longer than that on a crowded host.

    Format: Xen, docs/misc/vif-network; netback waits for `hotplug-status`.
    """
    return f"""\
#!/bin/sh -e
[ "$1" = online ] || exit 0
ip link set dev "$vif" down
ip link set dev "$vif" name {vif.device}
ip link set dev {vif.device} addrgenmode none
ip link set dev {vif.device} master {vif.bridge} up
xenstore-write "$XENBUS_PATH/hotplug-status" connected
"""
