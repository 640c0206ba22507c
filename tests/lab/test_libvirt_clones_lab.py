"""A fleet from a domain of the user's: its own first process, and QEMU's guest agent."""

from __future__ import annotations

import asyncio
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.environments import containerkit as kit
from tests.support.libvirtkit import Libvirtd, libvirtd
from ullage.environments.base import Instance
from ullage.environments.libvirt.options import LibvirtOptions
from ullage.environments.libvirt.provider import Libvirt
from ullage.host import guest_kernel, image, user_commands
from ullage.host.guest_kernel import cpio, load_order, module_bytes, module_files

pytestmark = [pytest.mark.lab, pytest.mark.root]

MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "virtio_console", "crc32c_generic", "ext4")
INIT = """#!/bin/busybox sh
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
for module in $(busybox cat /modules.list); do busybox insmod $module; done
busybox mount /dev/vda /newroot
for folder in proc sys dev; do busybox mount -o move /$folder /newroot/$folder; done
busybox mount -t tmpfs run /newroot/run
for port in /newroot/sys/class/virtio-ports/*; do
    if busybox grep -q qemu.guest_agent $port/name; then
        exec busybox switch_root /newroot /usr/sbin/qemu-ga -m virtio-serial -p /dev/${port##*/}
    fi
done
"""


async def small_linux(folder: Path) -> tuple[Path, Path]:
    """A kernel, and an initramfs that is none of ours: it mounts a root and starts qemu-ga."""
    unpacked = await guest_kernel._kernel()
    entries: list[tuple[str, int, bytes]] = [
        (name, stat.S_IFDIR | 0o755, b"")
        for name in ("bin", "dev", "modules", "newroot", "proc", "sys")
    ]
    listed = []
    for path in load_order(MODULES, module_files(unpacked.modules)):
        name = f"modules/{path.name.removesuffix('.xz')}"
        entries.append((name, stat.S_IFREG | 0o644, module_bytes(path)))
        listed.append(f"/{name}\n")
    busybox = Path(str(shutil.which("busybox"))).read_bytes()
    entries.append(("modules.list", stat.S_IFREG | 0o644, "".join(listed).encode()))
    entries.append(("bin/busybox", stat.S_IFREG | 0o755, busybox))
    entries.append(("init", stat.S_IFREG | 0o755, INIT.encode()))
    initrd = folder / "initrd"
    initrd.write_bytes(cpio(entries))
    return unpacked.kernel, initrd


async def define_golden(daemon: Libvirtd, folder: Path) -> None:
    """Shut off, its disk in a pool."""
    kernel, initrd = await small_linux(folder)
    built = await image.build(["qemu-guest-agent"])
    pool = folder / "pool"
    pool.mkdir()
    disk = pool / "golden.raw"
    shutil.copyfile(await built.disk("raw"), disk)
    daemon.virsh("pool-create-as", "ullage-golden", "dir", "--target", str(pool))
    xml = folder / "golden.xml"
    xml.write_text(
        f"""<domain type="qemu"><name>golden</name><memory>524288</memory><vcpu>1</vcpu>
        <os><type arch="x86_64" machine="q35">hvm</type><kernel>{kernel}</kernel>
        <initrd>{initrd}</initrd><cmdline>console=ttyS0 quiet panic=-1 no_timer_check</cmdline></os>
        <features><acpi/><apic/></features><cpu mode="maximum"/>
        <devices><disk type="file" device="disk"><driver name="qemu" type="raw"/>
        <source file="{disk}"/><target dev="vda" bus="virtio"/></disk></devices></domain>"""
    )
    daemon.virsh("define", str(xml))


def test_a_fleet_from_one_domain(tmp_path: Path) -> None:
    (tmp_path / "libvirtd").mkdir()
    with libvirtd(tmp_path / "libvirtd") as daemon:
        asyncio.run(_fleet(daemon, tmp_path))
        assert daemon.domains() == ["golden"]
        assert [file.name for file in (tmp_path / "pool").iterdir()] == ["golden.raw"]
    assert list(user_commands.records()) == []


async def _fleet(daemon: Libvirtd, folder: Path) -> None:
    await define_golden(daemon, folder)
    fields: dict[str, Any] = {"uri": daemon.uri, "domain": "golden", "boot_deadline_s": 400}
    provider = Libvirt(LibvirtOptions.model_validate(fields))
    async with kit.running(provider) as run:
        assert provider.treatments()["domain"].startswith("clones of golden")
        specs = [run.spec(f"vm-{number}") for number in range(2)]
        vms = [await run.create(spec) for spec in specs]
        await _look(vms)
        assert len(daemon.domains()) == 3
        for vm, spec in zip(vms, specs, strict=True):
            await vm.destroy()
            spec.state_dir.rmdir()
            spec.data_dir.rmdir()


async def _look(vms: list[Instance]) -> None:
    first, second = vms
    assert (await kit.sh(first, "cat /proc/1/comm"))[1].strip() == "qemu-ga"
    assert (await kit.sh(first, f"ping -nqc3 -i0.2 -W10 {second.address}"))[0].status == 0
    await kit.sh(first, "echo mine > /data/whose && sync")  # a disk of each
    assert (await kit.sh(second, "ls /data"))[1].split() == []
    await second.freeze()
    await second.thaw()
    assert (await kit.sh(second, "true"))[0].status == 0
