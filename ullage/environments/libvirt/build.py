"""Makes one VM by libvirt: what `qemu` does before and after the start, and its own start."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

from ullage.common.cleanup import Undo
from ullage.environments.containers.base import container_id
from ullage.environments.libvirt.connection import Connection
from ullage.environments.libvirt.domain import Sockets, domain_xml
from ullage.environments.libvirt.options import SYSTEM
from ullage.environments.libvirt.running import LibvirtDomain, identity
from ullage.environments.qemu.build import Builder
from ullage.environments.qemu.command_line import VirtualMachine
from ullage.host.network.bridge import TapEndpoint


@dataclass(frozen=True)
class LibvirtBuilder(Builder):
    """Like its parent, but libvirtd starts QEMU and sets its limits."""

    uri: str = SYSTEM

    async def _start(self, machine: VirtualMachine, console: Path, undo: Undo) -> LibvirtDomain:
        spec, its_uuid = self.spec, str(uuid.uuid4())
        ours = identity(self.uri, its_uuid, container_id(spec), spec.tag)
        sockets = Sockets.below(spec.state_dir, undo)
        connection = await Connection.open(self.uri)
        undo.push(connection.close)
        vm = LibvirtDomain(machine.name, machine.accelerator, console, connection, ours)
        xml = domain_xml(
            machine, name=ours.name, uuid=its_uuid, limits=self._limits, sockets=sockets
        )
        await vm.boot(xml, sockets, spec, self._limits, undo)
        return vm

    def _taps(self, tap: TapEndpoint | None) -> tuple[tuple[str | None, str], ...]:
        """Without the run's network none: libvirt's user network has a way out."""
        return tap.taps if tap else ()
