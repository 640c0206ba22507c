"""QEMU's command line, from what a VM is to be."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from ullage.environments.qemu import memory
from ullage.environments.qemu.memory import ORDINARY, Backing

if TYPE_CHECKING:
    from ullage.host.disks import DiskFormat

Accelerator = Literal["kvm", "tcg"]
Cache = Literal["none", "writeback", "writethrough", "directsync", "unsafe"]
Nic = Literal["virtio", "e1000", "e1000e", "vmxnet3"]
Aio = Literal["threads", "native", "io_uring"]
Bus = Literal["virtio", "scsi", "sata", "nvme"]

AGENT_PORT: Final = "ullage.agent"
"""Name of the virtio-serial port that the agent serves on."""

TCG_CACHE_MIB: Final = 256
"""Translated code that emulation keeps. QEMU's own default may take 1 GiB of the host's memory."""

VHOST: Final = Path("/dev/vhost-net")
NIC_DEVICES: Final[dict[Nic, str]] = {
    "virtio": "virtio-net-pci",
    "e1000": "e1000",
    "e1000e": "e1000e",
    "vmxnet3": "vmxnet3",
}
BUS_DEVICES: Final[dict[Bus, str]] = {
    "virtio": "virtio-blk",
    "scsi": "virtio-scsi",
    "sata": "AHCI",
    "nvme": "NVMe",
}
DATA_NODES: Final[dict[Bus, str]] = {
    "virtio": "/dev/vdb",
    "scsi": "/dev/sda",
    "sata": "/dev/sda",
    "nvme": "/dev/nvme0n1",
}
"""What the guest's kernel calls the data disk; the root is /dev/vda."""

_NO_OFFLOADS: Final = ",".join(
    f"{name}=off"
    for name in (
        *("csum", "gso", "host_tso4", "host_tso6", "host_ecn", "host_ufo"),
        *("guest_csum", "guest_tso4", "guest_tso6", "guest_ecn", "guest_ufo"),
    )
)
"""virtio-net's features that let one side leave checksums and segmentation to the other."""

# (direct, no-flush, write-cache): qemu(1), `cache=` of `-drive`.
_CACHES: Final[dict[Cache, tuple[bool, bool, bool]]] = {
    "none": (True, False, True),
    "writeback": (False, False, True),
    "writethrough": (False, False, False),
    "directsync": (True, False, False),
    "unsafe": (False, True, True),
}


@dataclass(frozen=True)
class Drive:
    path: Path
    format: DiskFormat
    cache: Cache
    read_only: bool = False
    aio: Aio | None = None
    """How QEMU asks the host's kernel; None: as QEMU chooses."""
    bus: Bus = "virtio"
    io_thread: bool = False
    """In a thread of its own, not in QEMU's main loop."""


@dataclass(frozen=True)
class Link:
    """One NIC, on a tap or (None) on QEMU's own user network without a way out."""

    nic: Nic
    tap: str | None
    mac: str
    vhost: bool = False
    queues: int = 1
    offloads: bool = True


@dataclass(frozen=True)
class Firmware:
    """What boots from the first disk, in the place of a kernel that QEMU loads."""

    code: Path | None = None
    """None: SeaBIOS, which QEMU brings."""
    variables: Path | None = None
    """The VM's own copy."""
    local_time: bool = False
    """Windows takes the machine's clock for the time of day."""


@dataclass(frozen=True)
class VirtualMachine:
    """A VM, as QEMU is told."""

    name: str
    accelerator: Accelerator
    machine: str
    cpu_model: str
    vcpus: int
    memory_bytes: int
    kernel: Path | None
    initrd: Path | None
    append: tuple[str, ...]
    drives: tuple[Drive, ...] = ()
    """In order: /dev/vda, /dev/vdb …"""
    links: tuple[Link, ...] = ()
    """In order: eth0, eth1 …"""
    backing: Backing = ORDINARY
    firmware: Firmware | None = None
    """None: the kernel."""


def command_line(machine: VirtualMachine, agent_fd: int, qmp_fd: int) -> list[str]:
    """The arguments after `qemu-system-x86_64`. The console is QEMU's standard output."""
    accelerator = "kvm"
    if machine.accelerator == "tcg":
        accelerator = f"tcg,thread=multi,tb-size={TCG_CACHE_MIB}"
    argv = ["-name", f"{machine.name},debug-threads=on"]
    argv += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    backing = machine.backing
    one = "" if backing.is_default or backing.nodes > 1 else ",memory-backend=ram0"
    flash = _flash(machine.firmware)
    named = "".join(f",{name}={name}" for name in flash)
    argv += ["-accel", accelerator, "-machine", f"{machine.machine}{one}{named}"]
    argv += ["-cpu", machine.cpu_model]
    sockets = memory.sockets(backing, machine.vcpus)
    argv += [
        "-smp",
        f"{machine.vcpus},sockets={sockets},cores={machine.vcpus // sockets},threads=1",
    ]
    argv += ["-m", f"{sum(backing.sizes(machine.memory_bytes))}B"]
    base = "localtime" if machine.firmware and machine.firmware.local_time else "utc"
    argv += ["-rtc", f"base={base},clock=host"]
    if not backing.is_default:
        argv += memory.arguments(backing, machine.memory_bytes, machine.vcpus)
    if machine.firmware is None:
        argv += ["-kernel", str(machine.kernel), "-initrd", str(machine.initrd)]
        argv += ["-append", " ".join(machine.append)]
    else:  # a system of the user's may want to see a screen
        argv += ["-device", "VGA"]
        for node in flash.values():
            argv += ["-blockdev", json.dumps(node)]
    argv += ["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]
    argv += ["-chardev", f"socket,id=qmp,fd={qmp_fd}", "-mon", "chardev=qmp,mode=control"]
    argv += ["-device", "virtio-serial-pci", "-chardev", f"socket,id=agent,fd={agent_fd}"]
    argv += ["-device", f"virtserialport,chardev=agent,name={AGENT_PORT}"]
    argv += ["-object", "rng-random,id=rng,filename=/dev/urandom"]
    argv += ["-device", "virtio-rng-pci,rng=rng"]
    for number, drive in enumerate(machine.drives):
        argv += _drive(f"disk{number}", drive)
    for number, link in enumerate(machine.links):
        argv += _link(f"net{number}", link)
    return argv


def _flash(firmware: Firmware | None) -> dict[str, dict[str, object]]:
    """What a machine with UEFI has in the place of a BIOS: name → its block device."""
    if firmware is None or firmware.code is None or firmware.variables is None:
        return {}
    parts = {"pflash0": (firmware.code, True), "pflash1": (firmware.variables, False)}
    return {
        name: {
            "driver": "raw",
            "node-name": name,
            "read-only": read_only,
            "file": {"driver": "file", "filename": str(path), "read-only": read_only},
        }
        for name, (path, read_only) in parts.items()
    }


def _drive(name: str, drive: Drive) -> list[str]:
    direct, no_flush, write_cache = _CACHES[drive.cache]
    cache = {"direct": direct, "no-flush": no_flush}
    file = {
        "driver": "file",
        "node-name": f"{name}-file",
        "filename": str(drive.path),
        "read-only": drive.read_only,
        "cache": cache,
        **({"aio": drive.aio} if drive.aio else {}),
    }
    # JSON, so that nothing in a path can be read as an option.
    disk = {
        "driver": drive.format,
        "node-name": name,
        "file": file,
        "read-only": drive.read_only,
        "cache": cache,
    }
    thread = f"{name}-thread" if drive.io_thread else None
    controller, device = _device(f"{name}-bus", drive.bus, thread)
    argv = ["-object", f"iothread,id={thread}"] if thread else []
    argv += ["-blockdev", json.dumps(disk)]
    argv += ["-device", controller] if controller else []
    caching = "on" if write_cache else "off"
    return [*argv, "-device", f"{device},drive={name},write-cache={caching}"]


_REPORTED: Final = "werror=report,rerror=report"
"""Else QEMU halts a VM whose disk finds no space on the host, for ever."""


def _device(controller: str, bus: Bus, thread: str | None) -> tuple[str | None, str]:
    """What a disk is attached to, where that is a device of its own, and the disk's device."""
    served = f",iothread={thread}" if thread else ""
    match bus:
        case "virtio":
            return None, f"virtio-blk-pci{served},{_REPORTED}"
        case "scsi":
            return (
                f"virtio-scsi-pci,id={controller}{served}",
                f"scsi-hd,bus={controller}.0,{_REPORTED}",
            )
        case "sata":
            return f"ich9-ahci,id={controller}", f"ide-hd,bus={controller}.0,{_REPORTED}"
        case "nvme":  # which knows nothing else
            return None, "nvme,serial=ullage-data"


def _link(name: str, link: Link) -> list[str]:
    if link.tap is None:
        backend = f"user,id={name},restrict=on,ipv6=off"
    else:
        vhost = "on" if link.vhost else "off"
        backend = f"tap,id={name},ifname={link.tap},script=no,downscript=no,vhost={vhost}"
        backend += f",queues={link.queues}" if link.queues > 1 else ""
    # No `romfile`: nobody boots from the network.
    device = f"{NIC_DEVICES[link.nic]},netdev={name},mac={link.mac},romfile="
    if link.queues > 1:  # an interrupt for each queue either way, for control and for changes
        device += f",mq=on,vectors={2 * link.queues + 2}"
    device += "" if link.offloads else f",{_NO_OFFLOADS}"
    return ["-netdev", backend, "-device", device]
