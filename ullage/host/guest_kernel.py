"""A Debian kernel for guests, and the initramfs that starts the agent; the image stays untouched.

The kernel is taken out of Debian's package, never installed. Every guest of every plan boots the
same one, whatever its NIC, so that two NIC models differ in nothing else; Debian's cloud kernel is
not used because it has no e1000.
"""

from __future__ import annotations

import asyncio
import hashlib
import lzma
import os
import re
import shutil
import stat
import struct
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ullage.common.commands import CommandError, needed, run
from ullage.common.errors import GUEST_KERNEL_UNUSABLE, UllageError
from ullage.common.files import cache_dir

META_PACKAGE: Final = "linux-image-amd64"
MODULES: Final = (
    "virtio_pci",
    "virtio_blk",
    "virtio_net",
    "virtio_console",
    "virtio-rng",
    "e1000",
    # ext4 asks the crypto layer for `crc32c` when it mounts; nobody could load it then.
    "crc32c_generic",
    "crc32c-intel",
    "ext4",
)
BONDING: Final = "bonding"
DISK_MODULES: Final = {
    "virtio": (),
    "scsi": ("virtio_scsi", "sd_mod"),
    "sata": ("ahci", "sd_mod"),
    "nvme": ("nvme",),
}
"""Bus of the data disk → what the guest's kernel needs for it."""
NIC_MODULES: Final = {"e1000e": ("e1000e",), "vmxnet3": ("vmxnet3",)}
XEN_MODULES: Final = ("xen-blkfront", "xen-netfront")
FILE_SYSTEM_MODULES: Final = {"xfs": ("xfs",), "btrfs": ("btrfs",)}
MORE_MODULES: Final = (
    *("nfsv4", "nfsd", BONDING),
    *XEN_MODULES,
    *dict.fromkeys(name for names in DISK_MODULES.values() for name in names),
    *(name for names in NIC_MODULES.values() for name in names),
    *(name for names in FILE_SYSTEM_MODULES.values() for name in names),
)
"""Loaded by guests that need them alone: they make a boot by emulation seconds longer."""

_FORMAT: Final = "3"
_PATIENCE_S: Final = 300.0


@dataclass(frozen=True)
class GuestKernel:
    """What `-kernel` and `-initrd` get."""

    version: str
    """Release, such as `6.1.0-56-amd64`."""
    package: str
    """Debian package and version that it came from."""
    kernel: Path
    """An uncompressed ELF file where the package allows it."""
    initrd: Path
    packed: Path | None = None
    """The same as a bzImage, for who loads nothing else."""


@dataclass(frozen=True)
class _Unpacked:
    release: str
    package: str
    kernel: Path
    packed: Path
    modules: Path


async def guest_kernel(agent: Path, more: Sequence[str] = ()) -> GuestKernel:
    """The current Debian kernel with an initramfs whose `/init` is this agent.

    more: of MORE_MODULES, those to load.

    Both are kept in the cache: one by the package's version, the other also by the agent's bytes.
    Raises HOST_MISSING without apt or dpkg, GUEST_KERNEL_UNUSABLE when no package can be had or
    it lacks a module.
    """
    unpacked = await _kernel()
    return await asyncio.to_thread(_with_initramfs, unpacked, agent, more)


def _with_initramfs(unpacked: _Unpacked, agent: Path, more: Sequence[str]) -> GuestKernel:
    binary = agent.read_bytes()
    words = " ".join((_FORMAT, *more)).encode()
    listed = hashlib.sha256(words + binary).hexdigest()[:24]
    initrd = unpacked.kernel.parent / f"initrd-{listed}.cpio"
    if not initrd.exists():
        _write_whole(initrd, _initramfs(binary, unpacked.modules, more))
    return GuestKernel(unpacked.release, unpacked.package, unpacked.kernel, initrd, unpacked.packed)


async def _kernel() -> _Unpacked:
    """The newest kernel that apt knows of."""
    for program in ("apt-get", "apt-cache", "dpkg"):
        needed(program, "apt")
    package, version = await _candidate()
    contents = hashlib.sha256(" ".join((_FORMAT, *MODULES, *MORE_MODULES)).encode()).hexdigest()[:8]
    place = cache_dir() / "kernels" / f"{package}_{version}_{contents}"
    if not place.exists():
        await _fetch(f"{package}={version}", place)
    return _look(place, f"{package} {version}")


async def _candidate() -> tuple[str, str]:
    """The package that the meta-package stands for, and its version."""
    description = await _output("apt-cache", "show", "--no-all-versions", META_PACKAGE)
    depends = re.search(r"^Depends:.*?\b(linux-image-[0-9][a-z0-9.+-]*)", description, re.MULTILINE)
    version = re.search(r"^Version: ([0-9][0-9a-zA-Z.+~-]*)$", description, re.MULTILINE)
    if depends is None or version is None:
        raise UllageError(
            GUEST_KERNEL_UNUSABLE, package=META_PACKAGE, reason="apt does not know it"
        )
    return depends[1], version[1]


async def _fetch(package: str, place: Path) -> None:
    """Download and unpack what a guest needs into `place`, which appears only when complete."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".new-") as name:
        work = Path(name)
        # apt-get downloads into its working directory, as nobody when it can write there.
        await _output("env", "-C", name, "apt-get", "download", package, package=package)
        deb = next(work.glob("*.deb"), None)  # noqa: ASYNC240 - one file
        if deb is None:
            raise UllageError(GUEST_KERNEL_UNUSABLE, package=package, reason="apt left no package")
        await _output("dpkg", "-x", str(deb), str(work / "all"), package=package)
        await asyncio.to_thread(_keep, work / "all", work / "kept", place, package)


def _keep(unpacked: Path, keeping: Path, place: Path, package: str) -> None:
    """Keep the kernel, its configuration and the modules that guests load: 80 MB instead of 400."""
    packed = next((unpacked / "boot").glob("vmlinuz-*"), None)
    if packed is None:
        raise UllageError(GUEST_KERNEL_UNUSABLE, package=package, reason="it holds no vmlinuz")
    release = packed.name.removeprefix("vmlinuz-")
    modules = module_files(unpacked / "lib/modules" / release)
    (keeping / "modules").mkdir(parents=True)
    for path in load_order((*MODULES, *MORE_MODULES), modules):
        shutil.copy(path, keeping / "modules")
    shutil.copy(unpacked / "boot" / f"config-{release}", keeping)
    shutil.copy(packed, keeping)
    (keeping / f"vmlinux-{release}").write_bytes(vmlinux(packed.read_bytes()))
    try:
        keeping.rename(place)
    except OSError:
        if not place.exists():  # else another process was quicker, with the same bytes
            raise


def vmlinux(packed: bytes) -> bytes:
    """The kernel as an ELF file, out of a bzImage packed with xz; anything else as it is.

    QEMU boots the ELF file through its PVH entry. An emulated guest that unpacks it itself needs
    over two seconds for that. Format: Linux, Documentation/arch/x86/boot.rst, `payload_offset`.
    """
    try:
        setup_sectors = packed[0x1F1] or 4
        offset, length = struct.unpack_from("<II", packed, 0x248)
        payload = packed[(setup_sectors + 1) * 512 + offset :][:length]
        unpacked = lzma.LZMADecompressor().decompress(payload)
    except (struct.error, IndexError, lzma.LZMAError):
        return packed
    return unpacked if unpacked.startswith(b"\x7fELF") else packed


def _look(place: Path, package: str) -> _Unpacked:
    kernel = next(place.glob("vmlinux-*"), None)
    if kernel is None:
        raise UllageError(GUEST_KERNEL_UNUSABLE, package=package, reason=f"{place} is not whole")
    release = kernel.name.removeprefix("vmlinux-")
    return _Unpacked(release, package, kernel, place / f"vmlinuz-{release}", place / "modules")


async def _output(*argv: str, package: str = META_PACKAGE) -> str:
    try:
        return await run(argv, timeout_s=_PATIENCE_S)
    except CommandError as error:
        raise UllageError(GUEST_KERNEL_UNUSABLE, package=package, reason=error.reason) from error


# --- modules --------------------------------------------------------------------------------------


def module_files(tree: Path) -> dict[str, Path]:
    """Every module under `tree`, by name; `-` and `_` are the same in module names."""
    return {_name(path.name): path for path in sorted(tree.rglob("*.ko*"))}


def load_order(names: Iterable[str], files: Mapping[str, Path]) -> list[Path]:
    """The wanted modules and all that they need, each after what it needs.

    A module's own `depends=` and `softdep=pre:` notes are read, so that no `modules.dep` is
    needed: a package that was not installed has none. Raises GUEST_KERNEL_UNUSABLE for a module
    that is missing.
    """
    order: dict[str, Path] = {}
    on_the_way: set[str] = set()

    def visit(name: str) -> None:
        if name in order or name in on_the_way:
            return
        path = files.get(name)
        if path is None:
            raise UllageError(
                GUEST_KERNEL_UNUSABLE, package=META_PACKAGE, reason=f"no module {name}"
            )
        on_the_way.add(name)
        hard, soft = needs(module_bytes(path))
        for need in (*(need for need in soft if need in files), *hard):
            visit(need)
        order[name] = path

    for name in names:
        visit(_name(name))
    return list(order.values())


def needs(module: bytes) -> tuple[list[str], list[str]]:
    """Names of the modules that this one needs, and of those that it likes to have before it."""
    hard: list[str] = []
    soft: list[str] = []
    for entry in _section(module, b".modinfo").split(b"\0"):
        key, _, value = entry.decode("ascii", "replace").partition("=")
        if key == "depends":
            hard += [_name(name) for name in value.split(",") if name]
        elif key == "softdep":
            words = value.partition("post:")[0].replace("pre:", " ").split()
            soft += [_name(word) for word in words]
    return hard, soft


def module_bytes(path: Path) -> bytes:
    """The module as the kernel loads it: newer Debian kernels pack theirs with xz."""
    packed = path.read_bytes()
    return lzma.decompress(packed) if path.name.endswith(".xz") else packed


def _name(name: str) -> str:
    return name.partition(".ko")[0].replace("-", "_")


def _section(elf: bytes, name: bytes) -> bytes:
    """One section of a 64-bit little-endian ELF file (ELF-64 Object File Format 1.5, §4 and §5)."""
    try:
        if elf[:6] != b"\x7fELF\x02\x01":
            return b""
        (table,) = struct.unpack_from("<Q", elf, 0x28)
        size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
        headers = [struct.unpack_from("<IIQQQQ", elf, table + size * i) for i in range(count)]
        strings = elf[headers[names][4] :][: headers[names][5]]
        for start, _, _, _, offset, length in headers:
            if strings[start : strings.index(b"\0", start)] == name:
                return elf[offset : offset + length]
    except (struct.error, IndexError, ValueError):
        pass
    return b""


# --- initramfs ------------------------------------------------------------------------------------


def _initramfs(agent: bytes, modules: Path, more: Sequence[str]) -> bytes:
    directories = ("dev", "modules", "newroot", "proc", "sys")
    files: dict[str, tuple[int, bytes]] = dict.fromkeys(directories, (stat.S_IFDIR | 0o755, b""))
    listed = []
    for path in load_order((*MODULES, *more), module_files(modules)):
        name = f"modules/{_name(path.name)}.ko"
        files[name] = (stat.S_IFREG | 0o644, module_bytes(path))
        listed.append(f"/{name}\n")
    files["modules.list"] = (stat.S_IFREG | 0o644, "".join(listed).encode())
    files["init"] = (stat.S_IFREG | 0o755, agent)
    return cpio([(name, *entry) for name, entry in sorted(files.items())])


def cpio(entries: Sequence[tuple[str, int, bytes]]) -> bytes:
    """An archive in cpio's `newc` format from (name, mode, content); equal input, equal bytes.

    Not packed: an emulated guest reads memory faster than it unpacks.
    Format: Linux, Documentation/driver-api/early-userspace/buffer-format.rst.
    """
    parts: list[bytes] = []
    for inode, (name, mode, content) in enumerate((*entries, ("TRAILER!!!", 0, b"")), start=1):
        raw = name.encode() + b"\0"
        links = 2 if stat.S_ISDIR(mode) else 1
        fields = (inode, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(raw), 0)
        header = b"070701" + b"".join(b"%08X" % field for field in fields) + raw
        parts += [header, bytes(-len(header) % 4), content, bytes(-len(content) % 4)]
    return b"".join(parts)


def _write_whole(path: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
