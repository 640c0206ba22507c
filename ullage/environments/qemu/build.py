"""Makes one VM, step by step, with a way back for each step."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ullage.common.cleanup import Undo
from ullage.common.errors import INSTANCE_NOT_LIMITED, VM_NEEDS_IMAGE, VM_NEEDS_NETWORK, UllageError
from ullage.environments.agent.client import AgentClient, Command
from ullage.environments.agent.process import ITSELF
from ullage.environments.base import InstanceSpec, StageListener, verify_group, verify_limits
from ullage.environments.qemu import guest, inspection, memory
from ullage.environments.qemu.command_line import (
    DATA_NODES,
    TCG_CACHE_MIB,
    Accelerator,
    Drive,
    Link,
    VirtualMachine,
)
from ullage.environments.qemu.guest import failed, inside
from ullage.environments.qemu.options import MIB, QemuOptions
from ullage.environments.qemu.process import QemuProcess
from ullage.environments.qemu.running import RunningVm
from ullage.host import clock, disks
from ullage.host.cgroups import Group, Limits
from ullage.host.guest_kernel import GuestKernel
from ullage.host.network.bridge import INSIDE, Endpoint, TapEndpoint

OVERHEAD_BYTES: Final[dict[Accelerator, int]] = {
    "kvm": 256 * MIB,
    "tcg": (256 + TCG_CACHE_MIB) * MIB,
}
"""What QEMU itself may use beside the guest's memory, in the limit that the host sets."""

BOOT_DEADLINE_S: Final = 300.0
_DISKS_SHARE: Final = 0.9
_LONGEST_S: Final = 86_400
"""Three VMs that booted at once on one CPU, one level down, took 47 to 52 s."""
_MIN_DATA_BYTES: Final = 4 << 30
_USER_NETWORK: Final = ("10.0.2.15", 24)
_USER_MAC: Final = "02:75:6c:6c:61:67"
_CLOCKSOURCE: Final = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")


@dataclass(frozen=True)
class Built:
    """A VM that runs."""

    process: RunningVm
    agent: AgentClient
    address: str | None


@dataclass(frozen=True)
class Builder:
    """Makes one VM; what undoes each step is put on the `undo` stack that `build` is given."""

    options: QemuOptions
    accelerator: Accelerator
    cpu_model: str
    kernel: GuestKernel
    spec: InstanceSpec
    words: tuple[str, ...] = ()
    """More of the kernel's command line."""

    async def build(self, undo: Undo) -> Built:
        """The running VM, ready for work."""
        memory.check_room(self.options.backing, self.spec.name, self.spec.memory_bytes)
        drives = await self._drives(undo)
        self.spec.on_stage("copied", "")
        tap = await self._tap(undo)
        machine = self._machine(drives, tap)
        console = self.spec.state_dir / "console.log"
        undo.callback(console.unlink, missing_ok=True)
        self.spec.on_stage("booting", "")
        process = await self._start(machine, console, undo)
        agent = await process.agent(self._deadline_s)
        undo.push(agent.close)
        if self.options.boot == "systemd":
            await _finish_boot(process, agent, self._deadline_s)
        if tap and self.options.aggregation:
            await guest.join(process, agent, self.options.aggregation)
        gateway = self.spec.network.gateway if tap and self.spec.network else None
        if machine.links:
            await configure(process, agent, tap, gateway, self.spec.on_stage)
        self._recognise(process, agent)
        verify_limits(self.spec, agent.facts, virtual_machine=True)
        await self._inspect(process, agent)
        return Built(process, agent, tap.address if tap else None)

    def _recognise(self, vm: RunningVm, agent: AgentClient) -> None:
        """What is on the disk is what was put there: here nobody can be wrong about it."""

    async def _inspect(self, vm: RunningVm, agent: AgentClient) -> None:
        """VM_NOT_AS_ASKED unless it is the machine that the plan asks for.

        What libvirt starts is held to its own account of it.
        """
        if not isinstance(vm, QemuProcess):
            return
        options = self.options
        inspection.memory(vm, options.backing, self.spec.memory_bytes)
        if options.vcpus == "pinned":
            await inspection.pinned(vm, self.spec.cpu_ids)
        if options.io_thread:
            await inspection.io_thread(vm)
        if options.numa:
            await inspection.nodes(vm, agent, options.numa.nodes)
        if options.nested is not None:
            await inspection.nested(vm, agent, able=options.nested)

    async def _start(self, machine: VirtualMachine, console: Path, undo: Undo) -> RunningVm:
        """Within its limits on the host."""
        group = self._group(undo)
        process = await QemuProcess.start(
            machine, console, cpu_ids=self.spec.cpu_ids, group=group, tag=self.spec.tag
        )
        undo.push(process.kill)
        if self.options.vcpus == "pinned":
            await process.pin(self.spec.cpu_ids)
        if group is not None:
            verify_group(self.spec, self._limits, group, process.pid)
        return process

    @property
    def _deadline_s(self) -> float:
        return self.options.boot_deadline_s or BOOT_DEADLINE_S

    async def _drives(self, undo: Undo) -> tuple[Drive, ...]:
        image = self.spec.image
        if image is None:
            raise UllageError(VM_NEEDS_IMAGE, instance=self.spec.name)
        of_image = self.options.image_format
        disk = await image.disk(of_image)
        if self.options.boot == "systemd":
            image.require(["/sbin/init"])
        if self.options.disk.root == "own":
            root = await self._own_root(disk, undo)
        elif not self._writable:
            # The host's page cache holds it once for all clones.
            root = Drive(disk, of_image, "writeback", read_only=True)
        else:
            layer = self.spec.data_dir / f"{self.spec.name}-root.qcow2"
            undo.callback(layer.unlink, missing_ok=True)
            await disks.overlay(disk, of_image, layer)
            root = Drive(layer, "qcow2", "writeback")
        return root, await self._data_drive(undo)

    async def _own_root(self, disk: Path, undo: Undo) -> Drive:
        """On the disk that the plan chose, and past the host's cache where the data disk is."""
        path = self.spec.data_dir / f"{self.spec.name}-root.{self.options.image_format}"
        undo.callback(path.unlink, missing_ok=True)
        await disks.copy(disk, path)
        cache = self.options.disk.cache
        return Drive(path, self.options.image_format, cache, read_only=not self._writable)

    @property
    def _writable(self) -> bool:
        """systemd needs a root that it can write."""
        image = self.spec.image
        return self.options.boot == "systemd" or (image is not None and image.writable)

    async def _data_drive(self, undo: Undo) -> Drive:
        disk = self.options.disk
        size = disk.size or max(4 * self.spec.memory_bytes, _MIN_DATA_BYTES)
        path = self.spec.data_dir / f"{self.spec.name}-data.{disk.format}"
        raw = path.with_suffix(".raw")
        for file in {path, raw}:
            undo.callback(file.unlink, missing_ok=True)
        label = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.spec.tag}/{self.spec.name}"))
        await disks.empty(raw, size, disk.file_system or "ext4", uuid=label)
        if disk.format == "qcow2":
            await disks.convert(raw, path)
            raw.unlink()
        return Drive(
            path,
            disk.format,
            disk.cache,
            aio=disk.aio,
            bus=disk.bus,
            io_thread=self.options.io_thread,
        )

    @property
    def _limits(self) -> Limits:
        """Of QEMU on the host."""
        memory = self.spec.memory_bytes + OVERHEAD_BYTES[self.accelerator]
        return Limits(self.spec.cpu_ids, self.spec.cpu_quota, memory)

    def _group(self, undo: Undo) -> Group | None:
        spec = self.spec
        if os.geteuid() != 0:
            if spec.cpu_quota is not None:
                raise UllageError(
                    INSTANCE_NOT_LIMITED,
                    provider="qemu",
                    what="a part of a CPU",
                    name=spec.name,
                    reason="a plain user has no cgroup to set limits in",
                )
            return None
        group = Group.create(spec.tag, spec.name, self._limits)
        undo.push(group.remove)
        undo.push(group.kill_all)
        return group

    async def _tap(self, undo: Undo) -> TapEndpoint | None:
        network, many = self.spec.network, self.options.aggregation
        if network is None and many:
            raise UllageError(VM_NEEDS_NETWORK, instance=self.spec.name)
        if network is None or self.options.network == "user":
            return None
        tap = await network.tap(
            self.spec.name, many.links if many else 1, several_queues=self.options.queues > 1
        )
        undo.push(network.release, tap)
        return tap

    def _machine(self, drives: tuple[Drive, ...], tap: TapEndpoint | None) -> VirtualMachine:
        options, spec, kernel = self.options, self.spec, self.kernel
        systemd = options.boot == "systemd"
        return VirtualMachine(
            name=spec.name,
            accelerator=self.accelerator,
            machine=options.machine,
            cpu_model=self.cpu_model,
            vcpus=len(spec.cpu_ids),
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
                # Without udev a login on the console would be waited for in vain, for 90 s.
                *emulated_words(self.accelerator),
                patience_word(self._deadline_s),
                *(("ullage.boot=systemd", "systemd.getty_auto=no") if systemd else ()),
                *(() if self._writable else ("ullage.ro",)),
                f"ullage.data={DATA_NODES[options.disk.bus]}",
                *((f"ullage.data-type={kind}",) if (kind := options.disk.file_system) else ()),
                f"ullage.hostname={spec.name}",
                *self.words,
            ),
            drives=drives,
            backing=options.backing,
            links=tuple(self._link(device, mac) for device, mac in self._taps(tap)),
        )

    def _taps(self, tap: TapEndpoint | None) -> tuple[tuple[str | None, str], ...]:
        """Device and MAC of each NIC."""
        return tap.taps if tap else ((None, _USER_MAC),)

    def _link(self, device: str | None, mac: str) -> Link:
        options = self.options
        queues = options.queues if device else 1
        return Link(options.nic, device, mac, options.vhost, queues, options.offloads)


def patience_word(deadline_s: float) -> str:
    """When after its boot the guest stops to wait for its disks: before we stop to wait for its
    agent, so that it can say which is not there. A guest that is emulated twice may be so slow."""
    return f"ullage.patience={max(1, min(_LONGEST_S, int(_DISKS_SHARE * deadline_s)))}"


def emulated_words(accelerator: Accelerator) -> tuple[str, ...]:
    """Let an emulated guest believe in its timer, and in the TSC where this host does so too.

    QEMU makes the guest's counter of the host's, one for all vCPUs. The guest cannot know that:
    with several vCPUs, or after a pause of a busy host, it would go over to the emulated HPET,
    where a look at the clock takes microseconds, perhaps in the middle of a run. It would also
    measure the counter's rate against the emulated timer, and be wrong by a factor on a busy host,
    or miss the ticks by which it tests that timer, and panic.
    """
    if accelerator != "tcg":
        return ()
    try:
        host = _CLOCKSOURCE.read_text(encoding="ascii").strip()
    except OSError:
        host = ""
    if host not in {"tsc", "kvm-clock"}:
        return ("no_timer_check",)
    rate = clock.facts().rate
    rate_word = () if rate is None else (f"tsc_early_khz={round(rate.millihertz / 1e6)}",)
    return ("no_timer_check", "tsc=reliable", *rate_word)


async def configure(
    vm: RunningVm,
    agent: AgentClient,
    tap: Endpoint | None,
    gateway: str | None,
    on_stage: StageListener,
    *,
    nic: str = INSIDE,
) -> None:
    """Bring the guest's network up; VM_FAILED when that cannot be done."""
    address, prefix = (tap.address, tap.prefix) if tap else _USER_NETWORK
    link = (*ITSELF, "link", nic, address, str(prefix))
    await inside(vm, agent, *link)
    if gateway is not None:
        on_stage("addressed", address)
        await inside(vm, agent, *link, gateway)


async def _finish_boot(vm: RunningVm, agent: AgentClient, deadline_s: float) -> None:
    """Wait until systemd has started everything, so that no trial shares the VM with that."""
    wait = Command(argv=("systemctl", "is-system-running", "--wait"), timeout_s=deadline_s)
    _, stdout, stderr = await agent.run(wait)
    if stdout.strip() not in {b"running", b"degraded"}:
        printed = (stdout + stderr).decode(errors="replace")
        raise failed(vm, printed or "no answer", "systemctl is-system-running --wait")
