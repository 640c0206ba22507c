"""The `libvirt` provider: virtual machines that libvirtd makes."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from ullage.common.cleanup import Undo
from ullage.common.commands import needed
from ullage.common.errors import HOST_NEEDS_ROOT, UllageError
from ullage.environments.base import Instance, InstanceSpec, Options
from ullage.environments.libvirt.build import LibvirtBuilder
from ullage.environments.libvirt.clones import CloneBuilder, read_seed
from ullage.environments.libvirt.connection import Connection
from ullage.environments.libvirt.options import LibvirtOptions
from ullage.environments.qemu.command_line import NIC_DEVICES
from ullage.environments.qemu.provider import Qemu, QemuInstance


class Libvirt(Qemu):
    """A virtual machine under QEMU, [made by libvirt](../guide/libvirt.md).

    What `qemu` has, disk for disk and NIC for NIC, as a transient domain of libvirtd's: it starts
    QEMU with its own machine description, sets the limits in cgroups of its own, suspends and
    resumes. The agent speaks over a virtio channel. The domain is called `ullage-TAG-NAME`. Needs
    root, `virsh`, and libvirt-python: `pip install 'ullage[libvirt]'`.

    With `domain: NAME` each instance is a clone of a domain of yours that is shut off: libvirt
    copies its disks in their pool, NICs and consoles are replaced, CPUs and memory are the plan's,
    all else is as you made it. Its userland is not the image's, so a plan must say
    `allow: [userland]`, and what workloads call must be inside. QEMU's guest agent inside starts
    ours. `/data` is a directory there.

    Only libvirt's QEMU driver, and only on this host: `qemu+ssh://localhost/system` may stand for
    it. Whoever asks for a password gets none. Libvirt's LXC driver is not used: `lxc` is there.
    """

    name: ClassVar[str] = "libvirt"
    options_model: ClassVar[type[Options]] = LibvirtOptions
    last_seen: ClassVar[str] = (
        "2026-11-29: libvirt 9.0 with QEMU 7.2, emulated; with KVM in the big guest, one block"
    )
    optional: ClassVar[bool] = True
    provision_s: ClassVar[float] = 8.0

    def __init__(self, options: Options) -> None:
        assert isinstance(options, LibvirtOptions)
        super().__init__(options)
        self._clones = options
        self._uri, self._domain = options.uri, options.domain
        self._libvirt = ""

    async def check_at_once(self) -> None:
        """HOST_NEEDS_ROOT, HOST_MISSING, HOST_NO_ANSWER, LIBVIRT_PASSWORD, LIBVIRT_ELSEWHERE."""
        if os.geteuid() != 0:
            raise UllageError(
                HOST_NEEDS_ROOT, what="libvirt's system", otherwise="write `provider: qemu`"
            )
        needed("virsh", "libvirt-clients")
        await super().check_at_once()
        connection = await Connection.open(self._uri)
        try:
            self._libvirt = _version(await connection.call(lambda handle: handle.getLibVersion()))
            if self._domain is not None:
                self._accelerator = (await read_seed(connection, self._domain)).accelerator
        finally:
            await connection.close()

    async def check(self) -> None:
        """The same; for a domain from the image what `qemu` may lack too."""
        if self._domain is not None:
            await self.check_at_once()
        else:
            await super().check()

    def label(self) -> str:
        """`libvirt-kvm`, or `libvirt-tcg (emulated)`."""
        return "libvirt-tcg (emulated)" if self.emulated else "libvirt-kvm"

    def treatments(self) -> dict[str, str]:
        """Those of QEMU, and who has started it; of a clone what it is a clone of."""
        made_by = {"made by": f"libvirt {self._libvirt}, {self._uri}"}
        if self._domain is None:
            return {**super().treatments(), **made_by}
        return {
            "accelerator": self.accelerator,
            "hypervisor": f"QEMU {self._version}",
            "domain": f"clones of {self._domain}: its kernel, userland and disks",
            "nic": NIC_DEVICES[self._clones.nic],
            **made_by,
        }

    def userland(self) -> str | None:
        """The domain's, in its clones."""
        return None if self._domain is None else f"of the domain {self._domain}"

    async def create(self, spec: InstanceSpec) -> Instance:
        """Boot one VM. What `qemu` may raise, LIBVIRT_GONE, LIBVIRT_NAME_TAKEN."""
        async with Undo() as undo:
            built = await self._builder(spec).build(undo)
            return QemuInstance(spec, built, undo.pop_all())

    def _builder(self, spec: InstanceSpec) -> LibvirtBuilder | CloneBuilder:
        if self._domain is not None:
            return CloneBuilder(self._clones, spec)
        return LibvirtBuilder(
            self._options, self.accelerator, self.cpu_model, self.kernel, spec, uri=self._uri
        )


def _version(number: Any) -> str:
    """libvirt's 9000000 is 9.0.0."""
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"
