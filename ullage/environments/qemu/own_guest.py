"""A VM from a disk of the user's, which boots by itself: Windows, or another Linux."""

from __future__ import annotations

import shutil
from asyncio import to_thread
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ullage.common.cleanup import Undo
from ullage.common.commands import CommandError, needed, run
from ullage.common.errors import HOST_MISSING, VM_DISK_UNUSABLE, UllageError
from ullage.common.packages import install_command
from ullage.common.text import printable
from ullage.environments.agent.client import AgentClient
from ullage.environments.qemu.build import Builder
from ullage.environments.qemu.command_line import BUS_DEVICES, Drive, Firmware, VirtualMachine
from ullage.environments.qemu.options import GuestDisk
from ullage.environments.qemu.running import RunningVm
from ullage.environments.systems import SYSTEMS
from ullage.host import disks
from ullage.host.network.bridge import TapEndpoint

OVMF: Final = (Path("/usr/share/OVMF/OVMF_CODE_4M.fd"), Path("/usr/share/OVMF/OVMF_VARS_4M.fd"))
"""Debian's UEFI for VMs, and the variables that a new one has."""
_PATIENCE_S: Final = 30.0


async def check(guest: GuestDisk) -> None:
    """VM_DISK_UNUSABLE unless QEMU reads it and nobody writes to it; HOST_MISSING without UEFI."""
    argv = [needed("qemu-img", "qemu-utils"), "info", "-f", guest.format, str(guest.path)]
    try:
        await run(argv, timeout_s=_PATIENCE_S)
    except CommandError as error:
        raise UllageError(
            VM_DISK_UNUSABLE, path=guest.path, format=guest.format, reason=error.reason
        ) from error
    missing = [path for path in OVMF if not path.is_file()]
    if guest.firmware == "uefi" and missing:
        raise UllageError(HOST_MISSING, what=missing[0], command=install_command("ovmf"))


def devices(guest: GuestDisk) -> dict[str, str]:
    """What differs from native on purpose, as far as the disk does not have it."""
    firmware = {"uefi": "UEFI (OVMF)", "bios": "BIOS (SeaBIOS)"}[guest.firmware]
    return {
        "guest kernel": f"of {guest.path}",
        "nic": "none",
        "disk": f"{BUS_DEVICES[guest.bus]}, a qcow2 layer over {guest.path}, cache {guest.cache}",
        "boot": firmware,
    }


@dataclass(frozen=True)
class GuestBuilder(Builder):
    """Like its parent; but firmware boots the disk, and what is on it starts the agent."""

    @property
    def _guest(self) -> GuestDisk:
        assert self.options.guest is not None, "who has none is made by the parent"
        return self.options.guest

    async def _drives(self, undo: Undo) -> tuple[Drive, ...]:
        guest = self._guest
        layer = self._file("root.qcow2", undo)
        await disks.overlay(guest.path, guest.format, layer)
        if guest.firmware == "uefi":
            await to_thread(shutil.copyfile, OVMF[1], self._file("uefi.fd", undo))
        return (Drive(layer, "qcow2", guest.cache, bus=guest.bus),)

    def _file(self, ending: str, undo: Undo) -> Path:
        path = self.spec.data_dir / f"{self.spec.name}-{ending}"
        undo.callback(path.unlink, missing_ok=True)
        return path

    async def _tap(self, undo: Undo) -> TapEndpoint | None:
        """Nobody could give it an address in a way that every system knows."""
        return None

    def _machine(self, drives: tuple[Drive, ...], tap: TapEndpoint | None) -> VirtualMachine:
        options, spec, windows = self.options, self.spec, self._guest.system == "windows"
        uefi = self._guest.firmware == "uefi"
        variables = spec.data_dir / f"{spec.name}-uefi.fd"
        return VirtualMachine(
            name=spec.name,
            accelerator=self.accelerator,
            machine=options.machine,
            cpu_model=self.cpu_model,
            vcpus=len(spec.cpu_ids),
            memory_bytes=spec.memory_bytes,
            kernel=None,
            initrd=None,
            append=(),
            drives=drives,
            backing=options.backing,
            firmware=Firmware(
                OVMF[0] if uefi else None, variables if uefi else None, local_time=windows
            ),
        )

    def _recognise(self, vm: RunningVm, agent: AgentClient) -> None:
        """VM_FAILED when another system is on the disk than the plan says."""
        system = str(agent.facts.get("os"))
        windows = system.startswith(("Windows", "Wine"))
        if windows != (self._guest.system == "windows"):
            wanted = SYSTEMS[self._guest.system]
            raise vm.failed("its system", f"{wanted} was to be there: {printable(system, 60)} is")
