"""The `qemu` provider: virtual machines, with KVM where it works and emulated where not."""

from __future__ import annotations

import contextlib
import os
import re
from typing import ClassVar, Final, Literal

from ullage.common.cleanup import Undo
from ullage.common.commands import needed
from ullage.common.errors import (
    HOST_MISSING,
    HOST_NEEDS_ROOT,
    VM_NO_KVM,
    VM_NO_NESTING,
    VM_OUT_OF_MEMORY,
    UllageError,
)
from ullage.common.quantities import format_bytes
from ullage.environments.agent.client import AgentError, binary
from ullage.environments.base import Instance, InstanceSpec, Options, Provider
from ullage.environments.qemu import cpus, memory, own_guest
from ullage.environments.qemu.build import OVERHEAD_BYTES, Builder, Built
from ullage.environments.qemu.command_line import BUS_DEVICES, NIC_DEVICES, VHOST, Accelerator
from ullage.environments.qemu.options import QemuOptions
from ullage.environments.qemu.probe import kvm, qemu_version
from ullage.environments.systems import SYSTEMS, WINDOWS_DATA, WINDOWS_SUFFIX, inside
from ullage.host.cgroups import Group
from ullage.host.disks import MKFS, DiskFormat
from ullage.host.guest_kernel import (
    BONDING,
    DISK_MODULES,
    FILE_SYSTEM_MODULES,
    NIC_MODULES,
    GuestKernel,
    guest_kernel,
)
from ullage.host.swap.request import SwapRequest

_CPU_MODELS: Final[dict[Accelerator, str]] = {"kvm": "host", "tcg": "max"}
_OWN_ROOT: Final = "a copy of the image's, cache {}"
_LONGEST_VMSTAT: Final = 256 << 10


class Qemu(Provider):
    """A virtual machine under QEMU.

    All clones share one read-only disk that was made from the image, and boot Debian's own kernel,
    which QEMU loads directly; `/data` is a disk of each VM's own. With `boot: systemd` the root
    disk can be written, in a layer of the VM's own. With `aggregation` several NICs are one inside,
    by Linux's bonding. All are ports of the run's bridge, which knows nothing of that: what goes to
    the VM comes by the NIC that it last sent by. KVM is used when a probe VM really boots with
    it; otherwise the VM is emulated, and called `qemu-tcg (emulated)` everywhere, because that is
    not what a user of KVM gets. A VM has as many vCPUs as the instance has CPUs, and QEMU with all
    its threads runs on just these. Without root: a closed network, and no control group on the
    host, so a CPU quota is refused.
    """

    name: ClassVar[str] = "qemu"
    options_model: ClassVar[type[Options]] = QemuOptions
    last_seen: ClassVar[str] = (
        "2026-11-29: QEMU 7.2, emulated; with KVM on the emulated AMD-V of the big guest"
    )
    keeps_memory: ClassVar[bool] = True
    stands_on: ClassVar[Literal["root", "disk"]] = "disk"
    provision_s: ClassVar[float] = 6.0

    def __init__(self, options: Options) -> None:
        assert isinstance(options, QemuOptions)
        super().__init__(options)
        self._options = options
        self._accelerator: Accelerator | None = None
        self._fallback = ""
        self._kernel: GuestKernel | None = None
        self._version = ""

    async def check_at_once(self) -> None:
        """HOST_MISSING, HOST_NEEDS_ROOT."""
        options = self._options
        needed(*MKFS["ext4"])
        needed(*MKFS[options.disk.file_system or "ext4"])
        needed("qemu-img", "qemu-utils")
        if (options.network == "tap" or options.aggregation) and os.geteuid() != 0:
            otherwise = (
                "leave out `aggregation`" if options.aggregation else "write `network: user`"
            )
            raise UllageError(HOST_NEEDS_ROOT, what="a VM on a tap", otherwise=otherwise)
        if options.vhost and not VHOST.exists():
            raise UllageError(HOST_MISSING, what=str(VHOST), command="modprobe vhost_net")
        memory.check_host(options.backing)
        if options.guest is not None:
            await own_guest.check(options.guest)
        self._version = await qemu_version()

    async def check(self) -> None:
        """HOST_MISSING, HOST_NEEDS_ROOT, VM_NO_KVM, GUEST_KERNEL_UNUSABLE when it cannot be."""
        await self.check_at_once()
        options = self._options
        more = (
            *options.modules,
            *((BONDING,) if options.aggregation else ()),
            *DISK_MODULES[options.disk.bus],
            *NIC_MODULES.get(options.nic, ()),
            *FILE_SYSTEM_MODULES.get(options.disk.file_system or "ext4", ()),
        )
        self._kernel = await guest_kernel(binary(), more)
        self._accelerator = await self._choose(self._kernel)
        if options.nested and self._accelerator == "kvm" and (reason := cpus.no_nesting()):
            raise UllageError(VM_NO_NESTING, reason=reason)

    async def _choose(self, kernel: GuestKernel) -> Accelerator:
        if self._options.accel == "tcg":
            return "tcg"
        probe = await kvm(kernel)
        if probe.works:
            return "kvm"
        if self._options.accel == "kvm":
            raise UllageError(VM_NO_KVM, reason=probe.reason)
        self._fallback = probe.reason
        return "tcg"

    @property
    def on_network(self) -> bool:
        """By a tap, not by QEMU's own closed network."""
        return self._options.network != "user" and self._options.guest is None

    def userland(self) -> str | None:
        """That of a disk of the user's."""
        guest = self._options.guest
        return None if guest is None else f"{SYSTEMS[guest.system]} of {guest.path}"

    def packages(self) -> tuple[str, ...]:
        """systemd, when the VM boots with it."""
        return ("systemd-sysv",) if self._options.boot == "systemd" else ()

    @property
    def accelerator(self) -> Accelerator:
        """What the VMs run with; valid after `check`."""
        if self._accelerator is None:
            raise ValueError("not known before `check`")
        return self._accelerator

    @property
    def kernel(self) -> GuestKernel:
        """What the VMs boot; valid after `check`."""
        if self._kernel is None:
            raise ValueError("not known before `check`")
        return self._kernel

    @property
    def overhead_bytes(self) -> int:
        """What QEMU itself may use."""
        return OVERHEAD_BYTES[self.accelerator]

    @property
    def emulated(self) -> bool:
        return self.accelerator == "tcg"

    @property
    def why_emulated(self) -> str:
        return self._fallback

    @property
    def cpu_model(self) -> str:
        """QEMU's `-cpu`."""
        model = self._options.cpu_model or _CPU_MODELS[self.accelerator]
        nested = self._options.nested
        return model if nested is None else f"{model},{cpus.nesting(self.accelerator, nested)}"

    def label(self) -> str:
        """`qemu-kvm`, or `qemu-tcg (emulated)`."""
        guest = self._options.guest
        name = "qemu-tcg (emulated)" if self.emulated else "qemu-kvm"
        return name + inside(None if guest is None else guest.system)

    def treatments(self) -> dict[str, str]:
        """Accelerator, versions and device models."""
        options = self._options
        emulated = "tcg (emulated)" + (f": {self._fallback}" if self._fallback else "")
        overhead = format_bytes(OVERHEAD_BYTES[self.accelerator])
        kept = f"the guest's memory; QEMU may use {overhead} more on the host"
        if options.swap:
            kept += f", of all that {format_bytes(options.swap.resident)} in its memory"
        return {
            "accelerator": emulated if self.emulated else "kvm",
            "hypervisor": f"QEMU {self._version}",
            "machine": options.machine,
            "cpu model": self.cpu_model,
            **({} if options.vcpus == "floating" else {"vCPUs": "each pinned to one CPU"}),
            **({} if options.backing.is_default else {"memory": str(options.backing)}),
            **(self._devices() if options.guest is None else own_guest.devices(options.guest)),
            "memory limit": kept,
        }

    def _devices(self) -> dict[str, str]:
        """Of a VM from the image."""
        options, disk = self._options, self._options.disk
        more = ", vhost" if options.vhost else ""
        more += f", {options.queues} queues" if options.queues > 1 else ""
        more += "" if options.offloads else ", no offloads"
        aio = f", {disk.aio}" if disk.aio else ""
        served = aio + (", a thread of its own" if options.io_thread else "")
        served += f", {disk.file_system} inside" if disk.file_system else ""
        many = options.aggregation
        count, bond = (f"{many.links} × ", f", one by {many.mode}") if many else ("", "")
        return {
            "guest kernel": self.kernel.package,
            "nic": f"{count}{NIC_DEVICES[options.nic]}{more}{bond}",
            "disk": f"{BUS_DEVICES[disk.bus]}, {disk.format}, cache {disk.cache}{served}",
            "boot": options.boot,
            **({} if options.image_format == "raw" else {"image": options.image_format}),
            **({"root disk": _OWN_ROOT.format(disk.cache)} if disk.root == "own" else {}),
            **({"more modules": ", ".join(options.modules)} if options.modules else {}),
        }

    @property
    def image_format(self) -> DiskFormat:
        """As the plan says."""
        return self._options.image_format

    @property
    def swap_request(self) -> SwapRequest | None:
        """What of a VM the host swaps."""
        return self._options.swap

    def writable_root(self) -> str:
        """The disk of the image stays as it is."""
        if self._options.disk.root == "own":
            return "ext4, in a copy of the image's disk"
        return "ext4, in a qcow2 file over the image"

    async def create(self, spec: InstanceSpec) -> Instance:
        """Boot one VM. VM_NEVER_BOOTED, VM_FAILED, and what disks and limits may raise."""
        guest = self._options.guest
        build = Builder if guest is None else own_guest.GuestBuilder
        vm = build(self._options, self.accelerator, self.cpu_model, self.kernel, spec)
        async with Undo() as undo:
            built = await vm.build(undo)
            instance = QemuInstance(spec, built, undo.pop_all())
            if guest is not None and guest.system == "windows":
                instance.data, instance.program_suffix = WINDOWS_DATA, WINDOWS_SUFFIX
            return instance


class QemuInstance(Instance):
    own_kernel = True

    def __init__(self, spec: InstanceSpec, built: Built, undo: Undo) -> None:
        self.name = spec.name
        self.spec = spec
        self.agent = built.agent
        self.address = built.address
        self._process = built.process
        self._undo = undo

    @property
    def pid(self) -> int:
        """Of QEMU, on the host."""
        return self._process.pid

    async def freeze(self) -> None:
        """Halt the vCPUs. The VM's clock stands still too."""
        await self._process.stop()

    async def thaw(self) -> None:
        """Let it run on, and read its clock anew: it has lost the time that it was halted."""
        await self._process.cont()
        await self.agent.sync()

    async def memory_kills(self) -> int:
        """As its own kernel tells it; what is no number is none."""
        with contextlib.suppress(AgentError):
            vmstat = await self.agent.get("/proc/vmstat", _LONGEST_VMSTAT)
            kills = re.search(rb"^oom_kill ([0-9]{1,15})$", vmstat, re.MULTILINE)
            return int(kills[1]) if kills else 0
        return 0

    async def why_gone(self) -> UllageError | None:
        """VM_OUT_OF_MEMORY where QEMU's own cgroup has seen a kill."""
        try:
            kills = Group.find(self.spec.tag, self.name).memory_kills()
        except UllageError:  # the group has gone
            kills = 0
        return UllageError(VM_OUT_OF_MEMORY, instance=self.name) if kills else None

    async def destroy(self) -> None:
        """Kill QEMU; remove its disks, tap and control group."""
        await self._undo.aclose()
