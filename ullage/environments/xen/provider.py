"""The `xen` provider: virtual machines under Xen."""

from __future__ import annotations

import os
from typing import ClassVar, Literal

from ullage.common.cleanup import Undo
from ullage.common.commands import needed
from ullage.environments.agent.client import binary
from ullage.environments.base import Instance, InstanceSpec, Options, Provider
from ullage.environments.qemu.provider import QemuInstance
from ullage.environments.xen import xl
from ullage.environments.xen.build import XenBuilder
from ullage.environments.xen.options import XenOptions
from ullage.host.disks import MKFS
from ullage.host.guest_kernel import FILE_SYSTEM_MODULES, XEN_MODULES, GuestKernel, guest_kernel


class Xen(Provider):
    """A virtual machine [under Xen](../guide/xen.md), not seen yet to carry a trial.

    ullage runs in dom0 and has `xl` make domains from the image: paravirtualised (`mode: pv`), in
    hardware without an emulated machine (`pvh`), or with one (`hvm`). All stand on one disk that
    was made from the image, mounted read-only, and boot Debian's own kernel, the same as in `qemu`;
    `/data` is a disk of each VM's own. QEMU in dom0 serves both (qdisk, past the page cache), and
    xen-netback the NIC, on the run's bridge. The agent speaks over a channel of Xen's, the guest's
    second console. A domain is called `ullage-TAG-NAME` and pinned to the plan's CPUs; a part of a
    CPU is a cap of the scheduler credit2. What serves it in dom0 runs on any of dom0's CPUs.

    Native is dom0, itself a guest of the same Xen, not a machine without one. Its vCPUs must be
    pinned (`dom0_vcpus_pin` on Xen's command line): else the plan's CPUs would be nobody's. Needs
    root.
    """

    name: ClassVar[str] = "xen"
    options_model: ClassVar[type[Options]] = XenOptions
    last_seen: ClassVar[str] = (
        "never: domains of Xen 4.17 in an emulated dom0, no figures (2026-11-28)"
    )
    keeps_memory: ClassVar[bool] = True
    stands_on: ClassVar[Literal["root", "disk"]] = "disk"
    optional: ClassVar[bool] = True
    provision_s: ClassVar[float] = 8.0

    def __init__(self, options: Options) -> None:
        assert isinstance(options, XenOptions)
        super().__init__(options)
        self._options = options
        self._kernel: GuestKernel | None = None
        self._xen = ""

    async def check_at_once(self) -> None:
        """HOST_NEEDS_ROOT, HOST_MISSING, XEN_NOT_HERE, XEN_NO_MODE, XEN_NOT_PINNED."""
        xl.refuse_plain_user(os.geteuid())
        xl.check_dom0()
        needed(xl.PROGRAM, xl.PACKAGE)
        needed(*MKFS[self._options.disk.file_system or "ext4"])
        info = await xl.facts()
        xl.check_mode(self._options.mode, info)
        await xl.check_pinned()
        self._xen = info.get("xen_version", "of no version")

    async def check(self) -> None:
        """The same, and GUEST_KERNEL_UNUSABLE."""
        await self.check_at_once()
        more = FILE_SYSTEM_MODULES.get(self._options.disk.file_system or "ext4", ())
        self._kernel = await guest_kernel(binary(), (*XEN_MODULES, *more))

    def label(self) -> str:
        """`xen-pv`, `xen-pvh` or `xen-hvm`."""
        return f"xen-{self._options.mode}"

    def treatments(self) -> dict[str, str]:
        """Mode, version, and what serves its devices."""
        disk = self._options.disk
        inside = f", {disk.file_system} inside" if disk.file_system else ""
        return {
            "hypervisor": f"Xen {self._xen}".strip(),
            "mode": self._options.mode,
            **({"guest kernel": self._kernel.package} if self._kernel else {}),
            "nic": "xen-netfront, xen-netback in dom0",
            "disk": f"xen-blkfront, raw, by QEMU in dom0 past the page cache{inside}",
            "native": "is dom0, a guest of the same Xen",
        }

    async def create(self, spec: InstanceSpec) -> Instance:
        """Boot one VM. VM_NEVER_BOOTED, VM_FAILED, LIMIT_NOT_APPLIED."""
        assert self._kernel is not None, "known from `check` on"
        async with Undo() as undo:
            built = await XenBuilder(self._options, self._kernel, spec).build(undo)
            return QemuInstance(spec, built, undo.pop_all())
