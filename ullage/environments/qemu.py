"""The `qemu` provider: virtual machines, with KVM where it works and emulated where not."""

from __future__ import annotations

import os
import uuid
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from ullage import agent as agents
from ullage import disks
from ullage.agent import AgentClient, Command
from ullage.agentchannel import printable
from ullage.cgroups import Group, Limits
from ullage.disks import DiskFormat
from ullage.environments.base import Instance, InstanceSpec, Options, Provider
from ullage.environments.limits import verify_limits
from ullage.environments.qemu_command import (
    NIC_DEVICES,
    TCG_CACHE_MIB,
    Accelerator,
    Cache,
    Drive,
    Link,
    Machine,
    Nic,
)
from ullage.environments.qemu_probe import DEADLINE_S, kvm, qemu_version
from ullage.environments.qemu_process import QemuProcess
from ullage.errors import (
    HOST_MISSING,
    HOST_NEEDS_ROOT,
    VM_FAILED,
    VM_NEEDS_IMAGE,
    VM_NO_KVM,
    UllageError,
)
from ullage.kernel import GuestKernel, guest_kernel
from ullage.network import TapEndpoint
from ullage.programs import needed
from ullage.quantities import Bytes, Seconds, format_bytes

MIB: Final = 1 << 20
OVERHEAD_BYTES: Final[dict[Accelerator, int]] = {
    "kvm": 256 * MIB,
    "tcg": (256 + TCG_CACHE_MIB) * MIB,
}
"""What QEMU itself may use beside the guest's memory, in the limit that the host sets."""

_CPU_MODELS: Final[dict[Accelerator, str]] = {"kvm": "host", "tcg": "max"}
_ASKED_FOR_KVM_S: Final = 60.0
_BOOT_DEADLINES_S: Final = {"agent": 60.0, "systemd": 300.0}
_MIN_DATA_BYTES: Final = 4 << 30
_USER_NETWORK: Final = ("10.0.2.15", 24)
_USER_MAC: Final = "02:75:6c:6c:61:67"
_VHOST: Final = Path("/dev/vhost-net")


class Disk(BaseModel):
    """The data disk, `/data` inside."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: DiskFormat = Field("raw", description="format of the disk's file on the host")
    cache: Cache = Field("none", description="QEMU's cache mode; `none` goes past the host's")
    size: Annotated[Bytes, Field(ge=64 * MIB)] | None = Field(
        None, description="`8GiB`; left out: four times the memory, at least 4 GiB"
    )


class QemuOptions(Options):
    """What a plan may say of a VM."""

    accel: Literal["auto", "kvm", "tcg"] = Field(
        "auto", description="`auto`: KVM when a small guest really boots with it, else emulation"
    )
    machine: Literal["q35", "pc"] = Field("q35", description="the machine that is built")
    cpu_model: str | None = Field(
        None,
        pattern=r"[A-Za-z0-9][A-Za-z0-9._,+=-]*",
        max_length=200,
        description="QEMU's `-cpu`; left out: `host` with KVM, `max` in emulation",
    )
    nic: Nic = Field("virtio", description="model of the network card")
    network: Literal["auto", "tap", "user"] = Field(
        "auto", description="`tap`: on the run's bridge, as root; `user`: closed, for anybody"
    )
    vhost: bool = Field(False, description="let the host's kernel move the packets of a virtio NIC")
    disk: Disk = Field(Disk(), description="the data disk")
    boot: Literal["agent", "systemd"] = Field(
        "agent", description="`agent`: nothing else runs inside; `systemd`: a whole Debian boots"
    )
    boot_deadline_s: Seconds | None = Field(None, description="left out: 60 s, with systemd 300 s")


class Qemu(Provider):
    """A virtual machine under QEMU.

    All clones share one read-only disk that was made from the image, and boot Debian's own kernel,
    which QEMU loads directly; `/data` is a disk of each VM's own. With `boot: systemd` the root
    disk can be written, in a layer of the VM's own. KVM is used when a probe VM really boots with
    it; otherwise the VM is emulated, and called `qemu-tcg (emulated)` everywhere, because that is
    not what a user of KVM gets. A VM has as many vCPUs as the instance has CPUs, and QEMU with all
    its threads runs on just these. Without root: a closed network, and no control group on the
    host.
    """

    name: ClassVar[str] = "qemu"
    options_model: ClassVar[type[Options]] = QemuOptions
    provision_s: ClassVar[float] = 6.0

    def __init__(self, options: Options) -> None:
        assert isinstance(options, QemuOptions)
        super().__init__(options)
        self._wanted = options
        self._accelerator: Accelerator | None = None
        self._fallback = ""
        self._kernel: GuestKernel | None = None
        self._version = ""

    async def check(self) -> None:
        """HOST_MISSING, HOST_NEEDS_ROOT, VM_NO_KVM, GUEST_KERNEL_UNUSABLE when it cannot be."""
        needed("mkfs.ext4", "e2fsprogs")
        needed("qemu-img", "qemu-utils")
        wanted = self._wanted
        if wanted.network == "tap" and os.geteuid() != 0:
            raise UllageError(
                HOST_NEEDS_ROOT, what="a VM on a tap", otherwise="write `network: user`"
            )
        if wanted.vhost and not _VHOST.exists():
            raise UllageError(HOST_MISSING, what=str(_VHOST), command="modprobe vhost_net")
        self._version = await qemu_version()
        self._kernel = await guest_kernel(agents.binary())
        self._accelerator = await self._choose(self._kernel)

    async def _choose(self, kernel: GuestKernel) -> Accelerator:
        if self._wanted.accel == "tcg":
            return "tcg"
        asked = self._wanted.accel == "kvm"
        probe = await kvm(kernel, _ASKED_FOR_KVM_S if asked else DEADLINE_S)
        if probe.works:
            return "kvm"
        if asked:
            raise UllageError(VM_NO_KVM, reason=probe.reason)
        self._fallback = probe.reason
        return "tcg"

    def packages(self) -> tuple[str, ...]:
        """systemd, when the VM boots with it."""
        return ("systemd-sysv",) if self._wanted.boot == "systemd" else ()

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
    def emulated(self) -> bool:
        """True without KVM."""
        return self.accelerator == "tcg"

    @property
    def cpu_model(self) -> str:
        """QEMU's `-cpu`."""
        return self._wanted.cpu_model or _CPU_MODELS[self.accelerator]

    def label(self) -> str:
        """`qemu-kvm`, or `qemu-tcg (emulated)`."""
        return "qemu-tcg (emulated)" if self.emulated else "qemu-kvm"

    def treatments(self) -> dict[str, str]:
        """Accelerator, versions and device models."""
        wanted, disk = self._wanted, self._wanted.disk
        emulated = "tcg (emulated)" + (f": {self._fallback}" if self._fallback else "")
        vhost = ", vhost" if wanted.vhost else ""
        overhead = format_bytes(OVERHEAD_BYTES[self.accelerator])
        return {
            "accelerator": emulated if self.emulated else "kvm",
            "hypervisor": f"QEMU {self._version}",
            "machine": wanted.machine,
            "cpu model": self.cpu_model,
            "guest kernel": self.kernel.package,
            "nic": f"{NIC_DEVICES[wanted.nic]}{vhost}",
            "disk": f"virtio-blk, {disk.format}, cache {disk.cache}",
            "boot": wanted.boot,
            "memory limit": f"the guest's memory; QEMU may use {overhead} more on the host",
        }

    async def create(self, spec: InstanceSpec) -> Instance:
        """Boot one VM. VM_NEVER_BOOTED, VM_FAILED, and what disks and limits may raise."""
        vm = _Builder(self, self._wanted, spec)
        async with AsyncExitStack() as undo:
            instance = await vm.build(undo)
            instance.undo = undo.pop_all()
        return instance


class QemuInstance(Instance):
    """One running VM."""

    def __init__(
        self, spec: InstanceSpec, process: QemuProcess, agent: AgentClient, address: str | None
    ) -> None:
        self.name = spec.name
        self.spec = spec
        self.agent = agent
        self.address = address
        self.undo = AsyncExitStack()
        self._process = process

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

    async def destroy(self) -> None:
        """Kill QEMU; remove its disks, tap and control group."""
        await self.undo.aclose()


class _Builder:
    """Makes one VM step by step; what each step made is put on the `undo` stack."""

    def __init__(self, provider: Qemu, options: QemuOptions, spec: InstanceSpec) -> None:
        self.provider = provider
        self.options = options
        self.spec = spec

    async def build(self, undo: AsyncExitStack) -> QemuInstance:
        drives = await self._drives(undo)
        group = self._group(undo)
        tap = await self._tap(undo)
        machine = self._machine(drives, tap)
        console = self.spec.state_dir / "console.log"
        undo.callback(console.unlink, missing_ok=True)
        process = await QemuProcess.start(machine, console, group=group, tag=self.spec.tag)
        undo.push_async_callback(process.kill)
        agent = await process.agent(self._deadline_s)
        undo.push_async_callback(agent.close)
        await _configure(agent, tap)
        verify_limits(self.spec, agent.facts, virtual_machine=True)
        return QemuInstance(self.spec, process, agent, tap.address if tap else None)

    @property
    def _deadline_s(self) -> float:
        return self.options.boot_deadline_s or _BOOT_DEADLINES_S[self.options.boot]

    async def _drives(self, undo: AsyncExitStack) -> tuple[Drive, ...]:
        image = self.spec.image
        if image is None:
            raise UllageError(VM_NEEDS_IMAGE, instance=self.spec.name)
        raw = await image.disk("raw")
        if self.options.boot == "agent":
            # The host's page cache holds it once for all clones.
            root = Drive(raw, "raw", "writeback", read_only=True)
        else:
            image.require(["/sbin/init"])
            layer = self.spec.data_dir / f"{self.spec.name}-root.qcow2"
            undo.callback(layer.unlink, missing_ok=True)
            await disks.overlay(raw, "raw", layer)
            root = Drive(layer, "qcow2", "writeback")
        return root, await self._data_drive(undo)

    async def _data_drive(self, undo: AsyncExitStack) -> Drive:
        disk = self.options.disk
        size = disk.size or max(4 * self.spec.memory_bytes, _MIN_DATA_BYTES)
        path = self.spec.data_dir / f"{self.spec.name}-data.{disk.format}"
        raw = path.with_suffix(".raw")
        for made in {path, raw}:
            undo.callback(made.unlink, missing_ok=True)
        label = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.spec.tag}/{self.spec.name}"))
        await disks.ext4(raw, size, uuid=label)
        if disk.format == "qcow2":
            await disks.convert(raw, path)
            raw.unlink()
        return Drive(path, disk.format, disk.cache)

    def _group(self, undo: AsyncExitStack) -> Group | None:
        if os.geteuid() != 0:
            return None
        spec = self.spec
        overhead = OVERHEAD_BYTES[self.provider.accelerator]
        limits = Limits(spec.cpus, spec.cpu_quota, spec.memory_bytes + overhead)
        group = Group.create(spec.tag, spec.name, limits)
        undo.push_async_callback(group.remove)
        undo.push_async_callback(group.kill_all)
        return group

    async def _tap(self, undo: AsyncExitStack) -> TapEndpoint | None:
        network = self.spec.network
        if network is None or self.options.network == "user":
            return None
        tap = await network.tap(self.spec.name)
        undo.push_async_callback(network.release, tap)
        return tap

    def _machine(self, drives: tuple[Drive, ...], tap: TapEndpoint | None) -> Machine:
        options, spec, kernel = self.options, self.spec, self.provider.kernel
        device, mac = (tap.device, tap.mac) if tap else (None, _USER_MAC)
        systemd = options.boot == "systemd"
        return Machine(
            name=spec.name,
            accelerator=self.provider.accelerator,
            machine=options.machine,
            cpu_model=self.provider.cpu_model,
            cpus=len(spec.cpus),
            memory_bytes=spec.memory_bytes,
            kernel=kernel.kernel,
            initrd=kernel.initrd,
            append=(
                "console=ttyS0",
                "quiet",
                "panic=-1",
                "net.ifnames=0",
                "ipv6.disable_ipv6=1",
                "ullage.root=/dev/vda",
                *(("ullage.boot=systemd",) if systemd else ("ullage.ro",)),
                "ullage.data=/dev/vdb",
                f"ullage.hostname={spec.name}",
            ),
            drives=drives,
            link=Link(options.nic, device, mac, options.vhost),
        )


async def _configure(agent: AgentClient, tap: TapEndpoint | None) -> None:
    """Bring the guest's network up; VM_FAILED when `ip` inside does not do it."""
    address, prefix = (tap.address, tap.prefix) if tap else _USER_NETWORK
    for words in (
        "link set dev lo up",
        f"address add {address}/{prefix} dev eth0",
        "link set dev eth0 up",
    ):
        done, _, stderr = await agent.run(Command(argv=("ip", *words.split()), timeout_s=30))
        if done.status != 0:
            raise UllageError(
                VM_FAILED,
                instance=agent.facts.get("hostname", "the VM"),
                what=f"`ip {words}` inside",
                reason=printable(stderr.decode(errors="replace"), 300),
                console="the raw output of the run",
            )
