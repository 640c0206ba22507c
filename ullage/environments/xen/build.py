"""Makes one domain, step by step, with a way back for each step."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ullage.common.errors import VM_NEEDS_IMAGE, UllageError
from ullage.environments.base import verify_limits
from ullage.environments.containers.base import container_id
from ullage.environments.qemu.build import BOOT_DEADLINE_S, Built, configure, patience_word
from ullage.environments.xen.config import (
    CHANNEL,
    DATA,
    ROOT,
    BlockDevice,
    Domain,
    Vif,
    vif_script,
)
from ullage.environments.xen.running import XenDomain
from ullage.host import disks

if TYPE_CHECKING:
    from pathlib import Path

    from ullage.common.cleanup import Undo
    from ullage.environments.base import InstanceSpec
    from ullage.environments.xen.options import XenOptions
    from ullage.host.guest_kernel import GuestKernel
    from ullage.host.network.bridge import Endpoint

_LEAST_DATA_BYTES: Final = 4 << 30


@dataclass(frozen=True)
class XenBuilder:
    """Makes one VM; what undoes each step is put on the `undo` stack that `build` is given."""

    options: XenOptions
    kernel: GuestKernel
    spec: InstanceSpec

    async def build(self, undo: Undo) -> Built:
        """The running VM, ready for work. What `qemu` may raise, LIMIT_NOT_APPLIED."""
        spec = self.spec
        drives = await self._drives(undo)
        spec.on_stage("copied", "")
        place = await self._place(undo)
        console = spec.state_dir / "console.log"
        undo.callback(console.unlink, missing_ok=True)
        spec.on_stage("booting", "")
        vm = XenDomain(self._domain(drives, place), spec, console)
        undo.push(vm.kill)
        await vm.boot(spec)
        agent = await vm.agent(self._deadline_s)
        undo.push(agent.close)
        if place and spec.network:
            await configure(vm, agent, place, spec.network.gateway, spec.on_stage)
        verify_limits(spec, agent.facts, virtual_machine=True)
        return Built(vm, agent, place.address if place else None)

    @property
    def _deadline_s(self) -> float:
        return self.options.boot_deadline_s or BOOT_DEADLINE_S

    async def _drives(self, undo: Undo) -> tuple[BlockDevice, ...]:
        if self.spec.image is None:
            raise UllageError(VM_NEEDS_IMAGE, instance=self.spec.name)
        layer = self.spec.data_dir / f"{self.spec.name}-root.qcow2"
        undo.callback(layer.unlink, missing_ok=True)
        # QEMU's back end opens nothing read-only; the guest mounts it so.
        await disks.overlay(await self.spec.image.disk("raw"), "raw", layer)
        return BlockDevice(layer, "qcow2"), BlockDevice(await self._data(undo), "raw")

    async def _data(self, undo: Undo) -> Path:
        disk, spec = self.options.disk, self.spec
        path = spec.data_dir / f"{spec.name}-data.raw"
        undo.callback(path.unlink, missing_ok=True)
        label = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{spec.tag}/{spec.name}"))
        size = disk.size or max(4 * spec.memory_bytes, _LEAST_DATA_BYTES)
        await disks.empty(path, size, disk.file_system or "ext4", uuid=label)
        return path

    async def _place(self, undo: Undo) -> Endpoint | None:
        """On the run's network; dom0's end comes with the domain."""
        if self.spec.network is None:
            return None
        place = await self.spec.network.reserve(self.spec.name)
        undo.push(self.spec.network.release, place)
        return place

    def _domain(self, drives: tuple[BlockDevice, ...], place: Endpoint | None) -> Domain:
        spec, kind = self.spec, self.options.disk.file_system
        return Domain(
            name=container_id(spec),
            uuid=str(uuid.uuid4()),
            mode=self.options.mode,
            cpu_ids=spec.cpu_ids,
            cpu_quota=spec.cpu_quota,
            memory_bytes=spec.memory_bytes,
            kernel=self.kernel,
            words=(
                *("console=hvc0", "quiet", "panic=-1", "net.ifnames=0", "ipv6.disable_ipv6=1"),
                *(f"ullage.root={ROOT}", "ullage.ro", f"ullage.data={DATA}"),
                *((f"ullage.data-type={kind}",) if kind else ()),
                patience_word(self._deadline_s),
                *(f"ullage.agent={CHANNEL}", f"ullage.hostname={spec.name}"),
            ),
            disks=drives,
            vif=self._vif(place) if place else None,
            channel=spec.state_dir / "agent.sock",
        )

    def _vif(self, place: Endpoint) -> Vif:
        script = self.spec.state_dir / "vif"
        vif = Vif(place.device, place.mac, place.link, script)
        script.write_text(vif_script(vif), encoding="utf-8")
        script.chmod(0o700)
        return vif
