"""What this host's page cache holds of an image: looked at, and dropped.

The contents of files go, as far as nobody has them mapped; names and inodes stay.
"""

from __future__ import annotations

import asyncio
import ctypes
import mmap
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from ullage.common.errors import ALLOCATION_NOT_COLD, UllageError
from ullage.environments.provisioning import image_copy
from ullage.environments.provisioning.node import Site

_PAGE: Final = mmap.PAGESIZE
_libc: Final = ctypes.CDLL(None, use_errno=True)


def check(node: Site) -> None:
    """ALLOCATION_NOT_COLD where no instance reads the image from this host's disk."""
    if node.image is None:
        raise UllageError(ALLOCATION_NOT_COLD, reason="there is no image: `image: host`")
    if node.provider.elsewhere:
        words = f"an instance of {node.provider.name} reads another machine's disk"
        raise UllageError(ALLOCATION_NOT_COLD, reason=words)


async def cooled(node: Site) -> tuple[int, int]:
    """Drop what instances of a place are made from; bytes of it that stayed, and all."""
    assert node.image is not None
    paths = [await image_copy.source(node.image, node.provider)]
    if node.filler is not None:
        paths.append(node.filler)

    def now() -> tuple[int, int]:
        for path in paths:
            drop(path)
        counts = [held(path) for path in paths]
        return sum(some for some, _ in counts), sum(every for _, every in counts)

    return await asyncio.to_thread(now)


def drop(path: Path) -> None:
    """Have the next reader of a file, or of all files of a tree, wait for the disk."""
    for file in _files(path):
        _opened(file, lambda fd, _: os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED))


def held(path: Path) -> tuple[int, int]:
    """Bytes of a file or tree that are in memory, and all of them, both in whole pages."""
    cached, pages = [], []
    for file in _files(path):
        _opened(file, lambda fd, size: cached.append(_cached_pages(fd, size)))
        pages.append(-(-file.lstat().st_size // _PAGE))
    return sum(cached) * _PAGE, sum(pages) * _PAGE


def _files(path: Path) -> Iterator[Path]:
    """Regular files with something in them; of no other file system than the tree's own."""
    if not path.is_dir():
        yield path
        return
    device = path.stat().st_dev
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if Path(folder, name).lstat().st_dev == device]
        for name in names:
            seen = Path(folder, name).lstat()
            if stat.S_ISREG(seen.st_mode) and seen.st_size > 0:
                yield Path(folder, name)


def _opened(file: Path, then: Callable[[int, int], object]) -> None:
    """`then` of its descriptor and its size."""
    fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        then(fd, os.fstat(fd).st_size)
    finally:
        os.close(fd)


def _cached_pages(fd: int, size: int) -> int:
    """By mincore(2), which wants it mapped and touches no page of it."""
    if size == 0:
        return 0
    # Private: what ctypes asks for is an address that could be written, and nothing is.
    with mmap.mmap(
        fd, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE
    ) as mapped:
        states = (ctypes.c_ubyte * -(-size // _PAGE))()
        place = ctypes.c_char.from_buffer(mapped)
        failed = _libc.mincore(
            ctypes.c_void_p(ctypes.addressof(place)), ctypes.c_size_t(size), states
        )
        del place  # or the mapping cannot be closed
        if failed:
            raise OSError(ctypes.get_errno(), "mincore")
        return sum(state & 1 for state in states)
