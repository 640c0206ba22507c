"""What a guest may have made of its data is removed; a disk is copied."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from ullage.common import errors
from ullage.common.commands import CommandError
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


def test_what_does_not_get_to_the_disk_in_time_is_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing through has the deadline that copying has."""
    limits: dict[str, float] = {}

    async def slow(argv: list[str], *, timeout_s: float) -> str:
        program = Path(argv[0]).name
        limits[program] = timeout_s
        if program == "sync":
            raise CommandError(program, None, f"no answer after {timeout_s:g} s")
        return ""

    monkeypatch.setattr(disks, "run", slow)
    with pytest.raises(UllageError, match="no answer after 600 s") as caught:
        asyncio.run(disks.copy(tmp_path / "disk.raw", tmp_path / "copy.raw"))
    assert caught.value.kind is errors.DISK_NOT_MADE
    assert limits == {"cp": 600, "sync": 600}


def test_nobody_writes_through_a_copy_that_was_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, noted = tmp_path / "disk.raw", tmp_path / "pid"
    source.write_bytes(b"image")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "sync"
    program.write_text(
        f"#!/bin/sh\necho $$ > {noted}.new\nmv {noted}.new {noted}\nexec sleep 600\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    async def given_up() -> None:
        copying = asyncio.create_task(disks.copy(source, tmp_path / "copy.raw"))
        while not noted.exists() and not copying.done():
            await asyncio.sleep(0.01)
        copying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await copying

    asyncio.run(given_up())
    with pytest.raises(ProcessLookupError):
        os.kill(int(noted.read_text()), 0)
