"""What a guest may have made of its data is removed; a disk is copied."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.host import disks


def test_directories_deeper_than_we_recurse_are_removed(tmp_path: Path) -> None:
    """As any program inside can make them; the path of the deepest is too long for the kernel."""
    top = tmp_path / "data"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(3 * sys.getrecursionlimit()):
        os.mkdir("dd", dir_fd=here)
        inner = os.open("dd", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    disks.remove_tree(top)
    assert not top.exists()


def test_a_copy_has_every_byte_and_blocks_of_its_own(tmp_path: Path) -> None:
    source, path = tmp_path / "disk.raw", tmp_path / "copy.raw"
    source.write_bytes(b"image" * 1000)
    source.chmod(0o444)
    asyncio.run(disks.copy(source, path))
    assert path.read_bytes() == source.read_bytes()
    assert path.stat().st_mode & 0o200, "its VM may write to it"
    for missing in (tmp_path / "none", tmp_path):
        with pytest.raises(UllageError) as caught:
            asyncio.run(disks.copy(missing, tmp_path / "other.raw"))
        assert caught.value.kind is errors.DISK_NOT_MADE
