"""A disk that boots by itself, as a user gives one: UEFI, a kernel, and what starts the agent."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from tests.environments import containerkit as kit
from tests.lab.runkit import finished
from ullage.analysis.overhead import analyse
from ullage.analysis.sentences import answer
from ullage.environments.agent.client import binary
from ullage.environments.qemu.build import emulated_words
from ullage.host.guest_kernel import GuestKernel, guest_kernel

pytestmark = [
    pytest.mark.lab,
    pytest.mark.root,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("agent_binary"),
]

MIB = 1 << 20
PLAN = """
name: own-disk
baseline: native
resources: {{cpus: 1, memory: 512MiB}}
allow: [userland]
environments:
  native: {{provider: native}}
  vm: {{provider: qemu, accel: tcg, boot_deadline_s: 900, guest: {guest}}}
workloads:
  - {{name: basics, test: cpu, events: 20}}
  - {{name: basics, as: stream, test: stream, events: 2000}}
blocks: {{min: 3, max: 3}}
"""


def run(*argv: str | Path) -> None:
    subprocess.run([str(word) for word in argv], check=True, stdout=subprocess.DEVNULL)


def system_partition(path: Path, kernel: GuestKernel) -> None:
    """What UEFI reads: its shell starts the kernel, which takes its initrd from here too."""
    words = ("console=ttyS0", "quiet", "panic=-1", "ipv6.disable_ipv6=1", *emulated_words("tcg"))
    ours = "initrd=\\initrd.cpio ullage.root=/dev/vda2 ullage.hostname=own"
    script = path.with_suffix(".nsh")
    script.write_text(f"fs0:\r\nvmlinuz.efi {' '.join(words)} {ours}\r\n")
    with path.open("xb") as file:
        file.truncate(256 * MIB)
    run("mkfs.vfat", "-F", "32", path)
    assert kernel.packed is not None
    for source, name in (
        (kernel.packed, "vmlinuz.efi"),
        (kernel.initrd, "initrd.cpio"),
        (script, "startup.nsh"),
    ):
        run("mcopy", "-i", path, source, f"::{name}")


async def bootable(folder: Path) -> Path:
    """Two partitions: UEFI's, and a root of our image that can be written."""
    kernel, root = await guest_kernel(binary()), await kit.image().disk("raw")
    boot, raw, disk = folder / "boot", folder / "disk.raw", folder / "disk.qcow2"
    system_partition(boot, kernel)
    size = root.stat().st_size // MIB
    with raw.open("xb") as file:
        file.truncate((size + 260) * MIB)
    table = f"label: gpt\nstart=1MiB, size=256MiB, type=uefi\nstart=257MiB, size={size}MiB\n"
    subprocess.run(["/sbin/sfdisk", "-q", raw], input=table, text=True, check=True)
    for source, at in ((boot, 1), (root, 257)):
        whole = ("bs=1M", "conv=notrunc,sparse", "status=none")
        run("dd", f"if={source}", f"of={raw}", f"seek={at}", *whole)
    run("qemu-img", "convert", "-O", "qcow2", raw, disk)
    raw.unlink()
    return disk


def test_a_disk_of_the_users_carries_a_trial(tmp_path: Path) -> None:
    disk = asyncio.run(bootable(tmp_path))
    before = hashlib.sha256(disk.read_bytes()).hexdigest()
    guest = json.dumps({"path": str(disk)})
    (tmp_path / "run").mkdir()
    status, folder = finished(tmp_path / "run", PLAN.format(guest=guest))
    assert status == 0
    trials = [trial for trial in folder.trials if trial.environment == "vm"]
    assert [trial.status for trial in trials] == ["ok"] * 6
    (record,) = [e for e in folder.resolved.environments if e.key == "vm"]
    assert record.label == "qemu-tcg (emulated)"
    assert record.nuisances["userland"] == f"Linux of {disk}"
    assert record.treatments["boot"] == "UEFI (OVMF)"
    assert any("with unequal userland" in line for line in answer(analyse(folder)))
    assert hashlib.sha256(disk.read_bytes()).hexdigest() == before, "it is only read"
