"""A file that is dropped from the page cache is gone from it, and comes back by being read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Final, cast

import pytest

from ullage.environments.provisioning import page_cache
from ullage.environments.provisioning.node import Site

BYTES: Final = 1_000_003
PAGES: Final = 245 * 4096


@pytest.fixture
def tree() -> Iterator[Path]:
    """On a disk, and written to it: what is dirty stays in memory."""
    with TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name) / "usr"
        folder.mkdir()
        (folder / "file").write_bytes(os.urandom(BYTES))
        (folder / "empty").touch()
        (folder / "link").symlink_to("file")
        (folder / "outside").symlink_to("/nowhere")
        with (folder / "file").open("rb") as file:
            os.fsync(file.fileno())
        yield Path(name)


def test_what_is_dropped_is_read_from_the_disk(tree: Path) -> None:
    assert page_cache.held(tree) == (PAGES, PAGES), "links and empty files count nothing"
    page_cache.drop(tree)
    assert page_cache.held(tree) == (0, PAGES)
    (tree / "usr/file").read_bytes()
    assert page_cache.held(tree / "usr/file") == (PAGES, PAGES)


@pytest.mark.parametrize("stands_on", ["root", "disk"])
def test_the_image_that_instances_stand_on(tree: Path, stands_on: str) -> None:
    async def disk(_: str) -> Path:
        return tree / "usr/file"

    image = SimpleNamespace(root=tree, disk=disk)
    provider = SimpleNamespace(stands_on=stands_on, image_format="raw")
    place = SimpleNamespace(image=image, provider=provider, filler=None)
    held, whole = asyncio.run(page_cache.cooled(cast(Site, place)))
    assert (held, whole) == (0, PAGES)
