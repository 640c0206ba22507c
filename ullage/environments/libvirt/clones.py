"""Clones of a domain of the user's: its disks copied by libvirt, the agent put in from outside.

The guest stays as it is: its own kernel, userland and services. Inside, QEMU's guest agent starts
ours, from a disk of its own; from then on nobody speaks to it any more.
"""

from __future__ import annotations

import json
import uuid
from asyncio import to_thread
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, fromstring, tostring

from ullage.common.cleanup import Undo
from ullage.common.errors import LIBVIRT_SEED, UllageError
from ullage.environments.agent.client import AgentClient
from ullage.environments.base import InstanceSpec, verify_limits
from ullage.environments.containers.base import container_id
from ullage.environments.libvirt.clone_xml import AGENT_SERIAL, Seed
from ullage.environments.libvirt.connection import Connection, library, reason
from ullage.environments.libvirt.domain import Sockets, add_text
from ullage.environments.libvirt.options import LibvirtOptions
from ullage.environments.libvirt.running import LibvirtDomain, identity
from ullage.environments.qemu.build import OVERHEAD_BYTES, Built, configure
from ullage.environments.qemu.command_line import Link
from ullage.environments.qemu.guest import inside
from ullage.host import user_commands
from ullage.host.cgroups import Limits
from ullage.host.network.bridge import TapEndpoint

BOOT_DEADLINE_S: Final = 300.0
_SECTOR: Final = 512
_ANSWER_S: Final = 30
_REMOVAL_S: Final = 60.0

# No udev is needed, nor anything but a shell and coreutils' or busybox's programs.
_START: Final = """
for disk in /sys/block/*; do
    test "$(cat $disk/serial 2>/dev/null)" = {serial} || continue
    mkdir -p /run/ullage /data
    head -c {size} /dev/${{disk##*/}} > /run/ullage/agent
    chmod 755 /run/ullage/agent
    setsid /run/ullage/agent serve --device auto < /dev/null > /dev/null 2>&1 &
done
"""
_NIC: Final = """
for nic in /sys/class/net/*; do
    test "$(cat $nic/address)" = {mac} || continue
    echo ${{nic##*/}}
done
"""


async def read_seed(connection: Connection, name: str) -> Seed:
    """LIBVIRT_SEED when there is no such domain, it runs, or two of it cannot."""
    seed = await connection.call(partial(_read_seed, name))
    if (trouble := seed.trouble()) is not None:
        raise UllageError(LIBVIRT_SEED, domain=name, reason=trouble)
    return seed


def _read_seed(name: str, handle: Any) -> Seed:
    libvirt = library()
    try:
        domain = handle.lookupByName(name)
    except libvirt.libvirtError as error:
        raise UllageError(LIBVIRT_SEED, domain=name, reason=reason(error)) from error
    if domain.isActive():
        raise UllageError(LIBVIRT_SEED, domain=name, reason="it runs, and writes to its disks")
    return Seed(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))


@dataclass(frozen=True)
class CloneBuilder:
    """Makes one clone; what undoes each step is put on the `undo` stack."""

    options: LibvirtOptions
    spec: InstanceSpec

    async def build(self, undo: Undo) -> Built:
        """The running clone, ready for work."""
        spec, options = self.spec, self.options
        assert options.domain is not None
        connection = await Connection.open(options.uri)
        undo.push(connection.close)
        seed = await read_seed(connection, options.domain)
        disks = {
            target: await self._copy(connection, target, file, undo)
            for target, file in seed.disks.items()
            if file is not None
        }
        agent_disk, size = await to_thread(self._agent_disk, undo)
        spec.on_stage("copied", "")
        tap = await self._tap(undo)
        its_uuid = str(uuid.uuid4())
        ours = identity(options.uri, its_uuid, container_id(spec), spec.tag)
        sockets = Sockets.below(spec.state_dir, undo)
        console = spec.state_dir / "console.log"
        undo.callback(console.unlink, missing_ok=True)
        limits = self._limits(seed)
        xml = seed.clone(
            name=ours.name,
            uuid=its_uuid,
            vcpus=len(spec.cpu_ids),
            memory_bytes=spec.memory_bytes,
            limits=limits,
            disks=disks,
            agent=agent_disk,
            links=() if tap is None else (self._link(tap),),
            sockets=sockets,
        )
        spec.on_stage("booting", "")
        vm = LibvirtDomain(spec.name, seed.accelerator, console, connection, ours)
        await vm.boot(xml, sockets, spec, limits, undo)
        agent = await self._agent(vm, size)
        undo.push(agent.close)
        if tap is not None and spec.network is not None:
            nic = (await inside(vm, agent, "sh", "-c", _NIC.format(mac=tap.mac))).decode().strip()
            await configure(vm, agent, tap, spec.network.gateway, spec.on_stage, nic=nic)
        verify_limits(spec, agent.facts, virtual_machine=True)
        return Built(vm, agent, tap.address if tap else None)

    async def _copy(self, connection: Connection, target: str, file: Path, undo: Undo) -> Path:
        """A volume of the same pool, by libvirt."""
        assert self.options.domain is not None
        name = f"{container_id(self.spec)}-{target}{file.suffix}"
        try:
            volume = await connection.call(lambda c: c.storageVolLookupByPath(str(file)))
            pool = await connection.call(lambda _: volume.storagePoolLookupByVolume().name())
            removal = self._volume_removal(pool, name)
            await to_thread(user_commands.keep, removal)
            undo.push(to_thread, user_commands.remove, removal)
            return Path(await connection.call(lambda _: _clone_volume(volume, name)))
        except library().libvirtError as error:
            why = f"its disk {file} cannot be copied: {reason(error)}"
            raise UllageError(LIBVIRT_SEED, domain=self.options.domain, reason=why) from error

    def _volume_removal(self, pool: str, name: str) -> user_commands.Removal:
        virsh = ("virsh", "--connect", self.options.uri)
        return user_commands.Removal(
            tag=self.spec.tag,
            name=name,
            listing=(*virsh, "vol-list", pool),
            destroy=((*virsh, "vol-delete", name, "--pool", pool),),
            deadline_s=_REMOVAL_S,
        )

    def _agent_disk(self, undo: Undo) -> tuple[Path, int]:
        """The agent's bytes in whole sectors, and how many of them are its own."""
        program = self.spec.agent.read_bytes()
        path = self.spec.state_dir / "agent.raw"
        undo.callback(path.unlink, missing_ok=True)
        path.write_bytes(program + bytes(-len(program) % _SECTOR))
        return path, len(program)

    async def _tap(self, undo: Undo) -> TapEndpoint | None:
        network = self.spec.network
        if network is None:
            return None
        tap = await network.tap(self.spec.name, several_queues=self.options.queues > 1)
        undo.push(network.release, tap)
        return tap

    def _link(self, tap: TapEndpoint) -> Link:
        options = self.options
        return Link(
            options.nic, tap.device, tap.mac, options.vhost, options.queues, options.offloads
        )

    def _limits(self, seed: Seed) -> Limits:
        memory = self.spec.memory_bytes + OVERHEAD_BYTES[seed.accelerator]
        return Limits(self.spec.cpu_ids, self.spec.cpu_quota, memory)

    async def _agent(self, vm: LibvirtDomain, size: int) -> AgentClient:
        """Have the guest's own agent start ours."""
        deadline_s = self.options.boot_deadline_s or BOOT_DEADLINE_S
        await vm.wait_for_guest_agent(deadline_s)
        script = _START.format(serial=AGENT_SERIAL, size=size)
        command = {
            "execute": "guest-exec",
            "arguments": {"path": "/bin/sh", "arg": ["-c", script]},
        }
        await vm.ask("its guest agent starts nothing", partial(_say, json.dumps(command)))
        return await vm.agent(deadline_s)


def _say(command: str, domain: Any) -> None:
    import libvirt_qemu  # noqa: PLC0415 - as libvirt itself

    libvirt_qemu.qemuAgentCommand(domain, command, _ANSWER_S, 0)


def _clone_volume(volume: Any, name: str) -> str:
    """Path of the copy."""
    description = Element("volume")
    add_text(description, "name", name)
    described = fromstring(volume.XMLDesc())  # noqa: S314 - as libvirt has written it
    form = described.find("target/format")
    if form is not None:
        SubElement(SubElement(description, "target"), "format", type=form.get("type", "raw"))
    pool = volume.storagePoolLookupByVolume()
    return str(pool.createXMLFrom(tostring(description, encoding="unicode"), volume).path())
