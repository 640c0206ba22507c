"""Disks: images for VMs, mount points, and removing a directory but not what is mounted in it."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from ullage.common.commands import CommandError, needed, run, tail
from ullage.common.errors import DISK_NOT_MADE, UllageError
from ullage.common.text import unescape
from ullage.host.storage import FileSystem

_TOO_DEEP: Final = {errno.EMFILE, errno.ENAMETOOLONG}
_MOUNTS: Final = Path("/proc/self/mountinfo")


def points() -> list[Path]:
    """Every mount point of this process's namespace, the oldest first."""
    lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return [Path(unescape(line.split()[4])) for line in lines]


def remove_tree(directory: Path) -> None:
    """Remove the directory and all in it; what is gone already is no error.

    OSError (EBUSY) while anything is mounted in it: the removal would go through to that, and
    what builders and containers mount are the host's own `/dev` and the user's own files.
    """
    if not directory.is_dir() or directory.is_symlink():
        return
    inside = [path for path in points() if path.is_relative_to(directory.resolve())]
    if inside:
        raise OSError(errno.EBUSY, f"{inside[0]} is still mounted", os.fspath(directory))
    try:
        shutil.rmtree(directory)
    except (RecursionError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _TOO_DEEP:
            raise
        _remove_deep(directory)


def _remove_deep(directory: Path) -> None:
    """A guest may nest deeper than Python recurses or may open files; rm(1) goes down by one."""
    argv = ["rm", "-rf", "--one-file-system", "--", str(directory)]
    done = subprocess.run(
        argv, capture_output=True, text=True, errors="replace", check=False, start_new_session=True
    )
    if done.returncode:
        raise OSError(errno.EIO, tail(done.stderr), os.fspath(directory))


DiskFormat = Literal["raw", "qcow2"]

MKFS: Final[dict[FileSystem, tuple[str, str]]] = {
    "ext4": ("mkfs.ext4", "e2fsprogs"),
    "xfs": ("mkfs.xfs", "xfsprogs"),
    "btrfs": ("mkfs.btrfs", "btrfs-progs"),
}
"""File system → what makes it, and the Debian package that has it."""
_EXT4_AT_ONCE: Final = "lazy_itable_init=0,lazy_journal_init=0"
"""Nothing is left to be initialised later: that would be disk traffic in the middle of a trial."""

_PATIENCE_S: Final = 600.0


async def ext4(
    path: Path,
    size_bytes: int,
    *,
    uuid: str,
    root: Path | None = None,
    within: Sequence[str] = (),
) -> None:
    """An ext4 file system in a new sparse file, with the content of `root` when that is given.

    The identifier is also the seed of its directory hashes. `within` is a command that runs
    another one, such as `unshare …`, where owners are to be read differently. Raises DISK_NOT_MADE.
    """
    program = needed("mkfs.ext4", "e2fsprogs")
    content = [] if root is None else ["-d", str(root)]
    extended = f"hash_seed={uuid},{_EXT4_AT_ONCE}"
    if root is None:
        extended += ",root_owner=0:0"
    with path.open("xb") as file:
        file.truncate(size_bytes)
    argv = [
        *within,
        program,
        "-q",
        "-F",
        "-m",
        "0",
        "-U",
        uuid,
        "-E",
        extended,
        *content,
        str(path),
    ]
    try:
        await _make(argv, path)
    except BaseException:
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - at once
        raise


async def empty(path: Path, size_bytes: int, kind: FileSystem, *, uuid: str) -> None:
    """An empty file system in a new sparse file. Raises DISK_NOT_MADE."""
    if kind == "ext4":
        return await ext4(path, size_bytes, uuid=uuid)
    identity = {"xfs": ["-q", "-m", f"uuid={uuid}"], "btrfs": ["-q", "-U", uuid]}[kind]
    with path.open("xb") as file:
        file.truncate(size_bytes)
    try:
        await _make([needed(*MKFS[kind]), *identity, str(path)], path)
    except BaseException:
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - at once
        raise


async def format_device(device: Path, kind: FileSystem, label: str, *, timeout_s: float) -> None:
    """An empty file system on a block device, over whatever stands there. Raises DISK_NOT_MADE."""
    force = {"ext4": ["-F", "-q", "-E", _EXT4_AT_ONCE], "xfs": ["-f", "-q"], "btrfs": ["-f", "-q"]}
    argv = [needed(*MKFS[kind]), *force[kind], "-L", label, str(device)]
    await _make(argv, device, timeout_s)


async def convert(raw: Path, path: Path) -> None:
    """The same disk as qcow2, with its tables laid out beforehand but no space taken.

    Raises DISK_NOT_MADE.
    """
    options = "preallocation=metadata,lazy_refcounts=off"
    await _qemu_img("convert", "-f", "raw", "-O", "qcow2", "-o", options, str(raw), str(path))


async def packed(raw: Path, path: Path) -> None:
    """The same disk as a compressed qcow2, to be sent somewhere. Raises DISK_NOT_MADE."""
    await _qemu_img("convert", "-c", "-W", "-f", "raw", "-O", "qcow2", str(raw), str(path))


async def overlay(base: Path, base_format: DiskFormat, path: Path) -> None:
    """A qcow2 file that holds what is written over an unchanged base. Raises DISK_NOT_MADE."""
    await _qemu_img("create", "-q", "-f", "qcow2", "-F", base_format, "-b", str(base), str(path))


async def copy(source: Path, path: Path) -> None:
    """Every byte of a disk once more, written through before it is used. Raises DISK_NOT_MADE."""
    # No reflinks: they would be the same blocks under another name.
    argv = [needed("cp", "coreutils"), "--reflink=never", "--no-preserve=all"]
    await _make([*argv, str(source), str(path)], path)
    # A program, as cp is: it has a deadline, and does not outlive whoever gives up.
    await _make([needed("sync", "coreutils"), str(path)], path)


async def _qemu_img(*argv: str) -> None:
    await _make([needed("qemu-img", "qemu-utils"), *argv], Path(argv[-1]))


async def _make(argv: list[str], path: Path, timeout_s: float = _PATIENCE_S) -> None:
    try:
        await run(argv, timeout_s=timeout_s)
    except CommandError as error:
        raise UllageError(DISK_NOT_MADE, path=path, reason=error.reason) from error


def space_for(root: Path) -> int:
    """Bytes that an ext4 file system needs for a tree, with a quarter and 256 MiB to spare."""
    size = 0
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            status = (Path(folder) / name).lstat()
            size += 4096 * (1 + -(-status.st_size // 4096)) if not _is_node(status.st_mode) else 0
    mebibyte = 1 << 20
    return -(-(size * 5 // 4 + 256 * mebibyte) // mebibyte) * mebibyte


def stored(path: Path) -> int:
    """Bytes of the disk that a file, or all files of a tree, take; holes are none."""
    if not path.is_dir():
        return 512 * path.lstat().st_blocks
    blocks: dict[tuple[int, int], int] = {}
    for folder, _, files in os.walk(path):
        for name in files:
            status = (Path(folder) / name).lstat()
            blocks[status.st_dev, status.st_ino] = status.st_blocks  # once, however many links
    return 512 * sum(blocks.values())


def _is_node(mode: int) -> bool:
    return (mode & 0o170000) in {0o020000, 0o060000}
