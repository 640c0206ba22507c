"""The plan's image as a disk that clouds boot, so that an instance need not be sent it.

Three partitions: what the firmware reads (kernel, initramfs, loaders for BIOS and UEFI); the
image's own file system, byte by byte as virtual machines on this host have it; and a small Debian
beside it with cloud-init and sshd, which grows to the size of the disk that it finds itself on. The
kernel is Debian's, as in our own virtual machines.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from asyncio import to_thread
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ullage.common.commands import CommandError, needed, run
from ullage.common.errors import DISK_EXISTS, DISK_NOT_MADE, HOST_MISSING, UllageError
from ullage.common.files import sha256_of
from ullage.common.packages import install_command
from ullage.environments.clouds.ssh import IMAGE_PARTITION
from ullage.host import image
from ullage.host.disks import DiskFormat, packed
from ullage.host.guest_kernel import META_PACKAGE

Cloud = Literal["openstack", "ec2", "opennebula", "cloudstack"]
_FORMATS: Final[dict[Cloud, DiskFormat]] = {
    "openstack": "qcow2",
    "ec2": "raw",
    "opennebula": "qcow2",
    "cloudstack": "qcow2",
}
_UPLOADS: Final[dict[Cloud, str]] = {
    "openstack": "openstack image create --disk-format qcow2 --file {path} ullage",
    "ec2": "aws s3 cp {path} s3://BUCKET/, aws ec2 import-snapshot, aws ec2 register-image",
    "opennebula": "oneimage create --name ullage --type OS --datastore default --path {path}",
    "cloudstack": "cmk register template format=QCOW2 hypervisor=KVM name=ullage url=URL …",
}
_SYSTEM: Final = (
    META_PACKAGE,
    "cloud-guest-utils",
    "cloud-init",
    "dbus",
    "fdisk",
    "ifupdown",
    "initramfs-tools",
    "isc-dhcp-client",
    "net-tools",  # cloud-init writes a gateway that it is told as a call of `route`
    "openssh-server",
    "sudo",
    "systemd-sysv",
    "zstd",
)
_FORGET: Final = ("sh", "-c", "rm -f /etc/ssh/ssh_host_*; : > /etc/machine-id")
"""What each instance must have of its own."""
_MIB: Final = 1 << 20
_BOOT_BYTES: Final = 160 * _MIB
_BOOT_CODE: Final = 440
"""Bytes of a disk's first sector that are the firmware's to run."""
_SYSTEM_UUID: Final = "75110a6e-0000-4000-8000-73797374656d"
_EFI: Final = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
_LINUX: Final = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
_COMMAND_LINE: Final = (
    f"root=PARTUUID={_SYSTEM_UUID} rw net.ifnames=0 console=tty0 console=ttyS0,115200"
)
_LOADER: Final = Path("/usr/lib/systemd/boot/efi/systemd-bootx64.efi")
_GPT_CODE: Final = Path("/usr/lib/syslinux/mbr/gptmbr.bin")
_SYSLINUX: Final = f"DEFAULT l\nLABEL l\nLINUX vmlinuz\nINITRD initrd\nAPPEND {_COMMAND_LINE}\n"
_ENTRY: Final = f"title ullage\nlinux /vmlinuz\ninitrd /initrd\noptions {_COMMAND_LINE}\n"


@dataclass(frozen=True)
class BootDisk:
    """One that was written."""

    path: Path
    format: DiskFormat
    image_digest: str
    """`sha256:…` of its second partition: what an instance must read there."""
    upload: str
    """How its cloud takes it."""


@dataclass(frozen=True)
class _Partition:
    name: str
    kind: str
    content: Path
    more: str = ""


async def export(
    taken: image.Image,
    cloud: Cloud,
    target: Path,
    *,
    snapshot: str | None = None,
    on_progress: Callable[[str], None],
) -> BootDisk:
    """Write the image as a disk for such a cloud.

    snapshot: where the Debian beside it comes from; None: as for the image itself, the host's
    sources. DISK_EXISTS, DISK_NOT_MADE, HOST_MISSING, and what building an image raises.
    """
    if await to_thread(os.path.lexists, target):
        raise UllageError(DISK_EXISTS, file=target)
    forget = image.Additions(commands=[_FORGET])
    system = await image.build(_SYSTEM, (), forget, snapshot=snapshot, on_progress=on_progress)
    on_progress("writing the disk")
    own = await taken.disk("raw")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".ullage-") as name:
        work = Path(name)
        boot = await _boot_partition(system.root / "boot", work)
        disk = await _assembled(
            work / "disk.raw",
            _Partition("ullage-boot", _EFI, boot, ', attrs="LegacyBIOSBootable"'),
            _Partition(IMAGE_PARTITION, _LINUX, own),
            _Partition("ullage-system", _LINUX, await system.disk("raw"), f", uuid={_SYSTEM_UUID}"),
        )
        if _FORMATS[cloud] != "raw":
            raw, disk = disk, work / f"disk.{_FORMATS[cloud]}"
            await packed(raw, disk)
        await to_thread(_named, disk, target)
    digest = f"sha256:{await to_thread(sha256_of, own)}"
    return BootDisk(target, _FORMATS[cloud], digest, _UPLOADS[cloud].format(path=target))


def _named(disk: Path, target: Path) -> None:
    """Not over one that has come meanwhile. DISK_EXISTS."""
    try:
        os.link(disk, target)
    except FileExistsError:
        raise UllageError(DISK_EXISTS, file=target) from None
    except OSError:  # FAT and some others know no links
        if os.path.lexists(target):
            raise UllageError(DISK_EXISTS, file=target) from None
        disk.rename(target)


async def _boot_partition(kernels: Path, work: Path) -> Path:
    """A FAT that both kinds of firmware boot from."""
    path = work / "boot.img"
    entries = await to_thread(_boot_files, kernels, work / "boot")
    with path.open("xb") as empty:
        empty.truncate(_BOOT_BYTES)
    await _run(path, needed("mkfs.vfat", "dosfstools"), "-F", "32", "-n", "BOOT", str(path))
    await _run(path, needed("mcopy", "mtools"), "-s", "-i", str(path), *entries, "::/")
    await _run(path, needed("syslinux", "syslinux"), "--install", str(path))
    return path


def _boot_files(kernels: Path, directory: Path) -> list[str]:
    """What stands on it; the top of that."""
    (kernel,), (initramfs,) = kernels.glob("vmlinuz-*"), kernels.glob("initrd.img-*")
    loader = _installed(_LOADER, "systemd-boot-efi")
    copies = {"vmlinuz": kernel, "initrd": initramfs, "EFI/BOOT/BOOTX64.EFI": loader}
    texts = {"syslinux.cfg": _SYSLINUX, "loader/entries/ullage.conf": _ENTRY}
    for name in (*copies, *texts):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
    for name, file in copies.items():
        shutil.copyfile(file, directory / name)
    for name, text in texts.items():
        (directory / name).write_text(text, encoding="ascii")
    return [str(entry) for entry in sorted(directory.iterdir())]


async def _assembled(disk: Path, *partitions: _Partition) -> Path:
    """All of them in a new file, each at a whole MiB."""
    lines, start = ["label: gpt"], _MIB
    starts: list[int] = []
    for part in partitions:
        size = -(-part.content.stat().st_size // _MIB) * _MIB
        lines.append(
            f'start={start // 512}, size={size // 512}, type={part.kind}, name="{part.name}"'
            + part.more
        )
        starts.append(start)
        start += size
    with disk.open("xb") as file:
        file.truncate(start + _MIB)  # the table's copy stands at the end
    await _run(disk, needed("sfdisk", "fdisk"), "-q", str(disk), stdin="\n".join(lines) + "\n")
    code = _installed(_GPT_CODE, "syslinux-common")
    await _copied(code, disk, f"bs={_BOOT_CODE}", "count=1", "conv=notrunc")
    for start, part in zip(starts, partitions, strict=True):
        at = f"seek={start // _MIB}"
        await _copied(part.content, disk, "bs=1M", at, "conv=notrunc,sparse")
    return disk


async def _copied(source: Path, disk: Path, *how: str) -> None:
    await _run(disk, "dd", "status=none", f"if={source}", f"of={disk}", *how)


async def _run(path: Path, *argv: str, stdin: str = "") -> None:
    try:
        await run(argv, stdin=stdin, timeout_s=600)
    except CommandError as error:
        raise UllageError(DISK_NOT_MADE, path=path, reason=error.reason) from error


def _installed(file: Path, package: str) -> Path:
    if not file.is_file():
        raise UllageError(HOST_MISSING, what=file, command=install_command(package))
    return file
