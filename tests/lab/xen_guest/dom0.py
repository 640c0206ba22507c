"""What the big guest becomes when Xen stands below it."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.lab.big_guest.guest import Kind

if TYPE_CHECKING:
    from tests.lab.big_guest.disks import Disks
    from ullage.environments.qemu.command_line import VirtualMachine

_HYPERVISOR: Final = "boot/xen-4.17-amd64.gz"
_CPU: Final = "qemu64,+svm,+npt,+ssse3,+sse4.1,+sse4.2,+popcnt"
"""With `max` dom0 crashes or stalls. Python's libraries want x86-64-v2."""
_MEMORY: Final = 6 << 30
_XEN: Final = ("dom0_mem=3584M,max:3584M", "dom0_max_vcpus=2", "dom0_vcpus_pin")
"""dom0 sees its own vCPUs alone; pinned, they are the CPUs of the machine."""
_LOG: Final = ("console=com1", "com1=115200,8n1", "loglvl=warning", "guest_loglvl=warning")


def dom0(machine: VirtualMachine, disks: Disks, place: Path) -> VirtualMachine:
    """Xen as QEMU's kernel; dom0's kernel, with its words, and its initramfs are what it loads.

    Format: QEMU, `-initrd "FILE WORDS,FILE"` of a multiboot kernel.
    """
    xen = place / "xen"
    xen.write_bytes(gzip.decompress((disks.system.root / _HYPERVISOR).read_bytes()))
    words = " ".join(word.replace("console=ttyS0", "console=hvc0") for word in machine.append)
    assert "," not in f"{machine.kernel}{words}{machine.initrd}"
    return replace(
        machine,
        cpu_model=_CPU,
        memory_bytes=_MEMORY,
        kernel=xen,
        initrd=Path(f"{machine.kernel} {words},{machine.initrd}"),
        append=(*_XEN, *_LOG),
    )


XEN: Final = Kind(
    name="xen-guest",
    packages=("xen-hypervisor-4.17-amd64", "xen-utils-4.17", "qemu-system-xen"),
    modules=("xen-gntdev", "xen-gntalloc", "xen-netback", "xen-blkback"),
    devices=("/dev/xen/gntdev", "/proc/xen/capabilities"),
    shape=dom0,
)
