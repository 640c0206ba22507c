"""Does KVM work here? Only a guest that really boots with it can tell."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ullage.common.commands import CommandError, needed, run
from ullage.common.errors import HOST_MISSING, VM_NEVER_BOOTED, UllageError
from ullage.common.files import cache_dir, file_lock
from ullage.environments.qemu.command_line import Drive, VirtualMachine
from ullage.environments.qemu.process import PACKAGE, PROGRAM, QemuProcess
from ullage.host import disks
from ullage.host.claims import boot_id
from ullage.host.guest_kernel import GuestKernel

DEVICE: Final = Path("/dev/kvm")
SILENCE_S: Final = 60.0
"""A guest that hangs prints nothing. One level down, on a host with 29 times as much to do as it
has CPUs, a good one had said nothing for 15 s."""
DEADLINE_S: Final = 300.0
_LOOK_S: Final = 0.25
_HOLDS_S: Final = 3600.0
"""So long is it remembered that no guest boots; that one does, until the host boots again."""
_MEMORY_BYTES: Final = 256 << 20
_DISK_BYTES: Final = 16 << 20


@dataclass(frozen=True)
class Probe:
    """What came of it."""

    works: bool
    reason: str
    """Why, in plain words."""


async def qemu_version() -> str:
    """Such as `7.2.22`."""
    program = needed(PROGRAM, PACKAGE)
    try:
        printed = await run([program, "--version"])
    except CommandError as error:
        command = f"apt-get install --reinstall {PACKAGE}"
        raise UllageError(HOST_MISSING, what="a QEMU that runs", command=command) from error
    return printed.partition("version ")[2].split()[0]


def no_device() -> str | None:
    """Why no guest here can have KVM, as far as that is seen without one; None: it may."""
    if os.access(DEVICE, os.R_OK | os.W_OK):
        return None
    return f"{DEVICE} cannot be opened" if DEVICE.exists() else f"there is no {DEVICE}"


async def kvm(kernel: GuestKernel) -> Probe:
    """Boot a guest of 256 MiB with KVM, once for each boot of the host, kernel and QEMU.

    That `/dev/kvm` opens is not enough: on some hosts every guest then hangs.
    """
    if (closed := no_device()) is not None:
        return Probe(False, closed)
    circumstances = (boot_id(), kernel.package, kernel.initrd.name, await qemu_version())
    key = hashlib.sha256(repr(circumstances).encode()).hexdigest()[:24]
    cache = cache_dir() / "probes" / f"kvm-{key}.json"
    await asyncio.to_thread(cache.parent.mkdir, parents=True, exist_ok=True)
    async with file_lock(cache.with_suffix(".lock")):
        if (probe := _remembered(cache)) is None:
            probe = await _boot(kernel)
            unfinished = cache.with_suffix(".new")
            unfinished.write_text(json.dumps(probe.__dict__), encoding="utf-8")
            unfinished.replace(cache)
    return probe


def _remembered(path: Path) -> Probe | None:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        probe = Probe(works=stored["works"] is True, reason=str(stored["reason"]))
        old = time.time() - path.stat().st_mtime > _HOLDS_S
        return None if old and not probe.works else probe
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _machine(kernel: GuestKernel, folder: Path) -> VirtualMachine:
    return VirtualMachine(
        name="kvm-probe",
        accelerator="kvm",
        machine="q35",
        cpu_model="host",
        vcpus=1,
        memory_bytes=_MEMORY_BYTES,
        kernel=kernel.kernel,
        initrd=kernel.initrd,
        # Loud from the first moment: by its lines it is told from one that hangs.
        append=("earlyprintk=ttyS0", "console=ttyS0", "panic=-1", "ullage.root=/dev/vda"),
        drives=(Drive(folder / "root.raw", "raw", "unsafe"),),
    )


async def _boot(kernel: GuestKernel) -> Probe:
    """Boot it on an empty disk: the agent needs nothing but a place for its mounts."""
    with tempfile.TemporaryDirectory(prefix="ullage-probe-") as name:
        machine = _machine(kernel, Path(name))
        await disks.ext4(machine.drives[0].path, _DISK_BYTES, uuid=str(uuid.uuid4()))
        try:
            process = await QemuProcess.start(machine, Path(name) / "console.log")
        except UllageError as error:
            return Probe(False, str(error.facts.get("reason", error.message)))
        try:
            return await _booted(process)
        finally:
            await process.kill()


async def _booted(process: QemuProcess) -> Probe:
    """Has its agent come, or its console fallen silent?"""
    greeting = asyncio.create_task(process.agent(DEADLINE_S))
    silence = asyncio.create_task(_silent(process))
    try:
        await asyncio.wait({greeting, silence}, return_when=asyncio.FIRST_COMPLETED)
        if not greeting.done():
            reason = f"a guest with KVM said nothing for {SILENCE_S:g} s"
            return Probe(False, f"{reason}, after {process.printed:,} bytes on its console")
        await (await greeting).close()
    except UllageError as error:
        if error.kind is VM_NEVER_BOOTED:
            return Probe(False, f"a guest with KVM had not booted after {DEADLINE_S:g} s")
        return Probe(False, str(error.facts.get("reason", error.message)))
    finally:
        for task in (greeting, silence):
            task.cancel()
        await asyncio.gather(greeting, silence, return_exceptions=True)
    return Probe(True, "a guest booted with KVM")


async def _silent(process: QemuProcess) -> None:
    """Until the console has printed nothing for too long."""
    loop = asyncio.get_running_loop()
    printed, since = process.printed, loop.time()
    while loop.time() - since < SILENCE_S:
        await asyncio.sleep(_LOOK_S)
        if process.printed != printed:
            printed, since = process.printed, loop.time()
