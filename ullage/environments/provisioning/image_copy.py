"""How an instance that is made during a run comes by its image.

`backing`: nothing is copied. Containers mount the one unpacked tree, which nobody can write; VMs
read the one disk, and what they write is in a layer of their own. `real`: every byte that the
provider stands on is copied first, tree or disk, as a cloud does that has no shared storage. An
image of a given size is filled up by a file that is copied with it and that nobody reads.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from ullage.common.commands import CommandError, needed, run
from ullage.common.errors import ALLOCATION_NO_COPY, UllageError
from ullage.common.files import file_lock
from ullage.common.quantities import format_bytes
from ullage.environments import InstanceSpec, Provider
from ullage.host import disks
from ullage.host.image import Image
from ullage.host.paths import data_dir
from ullage.runs.allocations import Copy

_PIECE: Final = 1 << 22
_PATIENCE_S: Final = 3600.0
"""The caller's own limit is what ends it."""


def check(kind: Copy, provider: Provider, image: Image | None) -> None:
    """ALLOCATION_NO_COPY where an instance cannot have a copy of its own."""
    if kind == "backing":
        return
    reason = "there is no image: `image: host`" if image is None else provider.own_copy()
    if reason is not None:
        raise UllageError(ALLOCATION_NO_COPY, provider=provider.name, reason=reason)


async def source(image: Image, provider: Provider) -> Path:
    """The tree or the disk that instances are made from."""
    if provider.stands_on == "disk":
        return await image.disk(provider.image_format)
    return image.root


def check_size(size: int, provider: Provider, image: Image) -> None:
    """ALLOCATION_NO_COPY where the image is larger; a disk that is not made yet is not known."""
    whole = image.root
    if provider.stands_on == "disk":
        whole = image.disk_path(provider.image_format)
    if whole.exists():
        _missing(whole, size, provider)


async def filler(image: Image, provider: Provider, size: int, tag: str) -> Path:
    """What is missing of an image of that size, made once in a run and gone with it.

    It takes as long as writing it does: to be called before anything is timed.
    ALLOCATION_NO_COPY: the image is larger, or there is no room.
    """
    form = provider.image_format if provider.stands_on == "disk" else "tree"
    # Named by what was asked for: the image is measured once, as its blocks may come to differ.
    path = data_dir(tag) / f"filler.{image.digest.removeprefix('sha256:')}.{form}.{size}"
    try:
        await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
        async with file_lock(path.with_name("filler.lock")):
            if not path.exists():
                whole = await source(image, provider)
                missing = await asyncio.to_thread(_missing, whole, size, provider)
                await asyncio.to_thread(_fill, path, missing)
    except OSError as error:
        raise UllageError(ALLOCATION_NO_COPY, provider=provider.name, reason=str(error)) from error
    return path


def _missing(whole: Path, size: int, provider: Provider) -> int:
    own = disks.stored(whole)
    if own > size:
        reason = f"`image_size: {format_bytes(size)}` is less than its image has, {own:,} bytes"
        raise UllageError(ALLOCATION_NO_COPY, provider=provider.name, reason=reason)
    return size - own


def _fill(path: Path, size: int) -> None:
    """With bytes that nothing can compress or share; whole or not at all."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".filler-", delete=False) as file:
        unfinished = Path(file.name)
        try:
            for start in range(0, size, _PIECE):
                file.write(os.urandom(min(_PIECE, size - start)))
            file.flush()
            os.fsync(file.fileno())
            unfinished.rename(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise


async def copy(
    image: Image | None,
    kind: Copy,
    provider: Provider,
    spec: InstanceSpec,
    more: Path | None = None,
) -> tuple[Image | None, Callable[[], Awaitable[None]]]:
    """The image that the instance runs from, and what removes it again.

    more: what fills the image up, `filler`.
    ALLOCATION_NO_COPY when it cannot be copied; nothing is left then.
    """
    check(kind, provider, image)
    if kind == "backing" or image is None:
        return image, _nothing
    place = spec.data_dir.with_name(f"{spec.name}.image")

    async def remove() -> None:
        await asyncio.to_thread(disks.remove_tree, place)

    try:
        return await _copied(image, provider, place, more), remove
    except (CommandError, OSError) as error:
        await remove()
        reason = error.reason if isinstance(error, CommandError) else str(error)
        raise UllageError(ALLOCATION_NO_COPY, provider=provider.name, reason=reason) from error
    except BaseException:
        await remove()
        raise


async def _copied(image: Image, provider: Provider, place: Path, more: Path | None) -> Image:
    place.mkdir(parents=True, mode=0o700)  # noqa: ASYNC240 - at once
    # No reflinks: they would be a backing file under another name.
    argv = [needed("cp", "coreutils"), "--archive", "--reflink=never"]
    if more is not None:
        await run([*argv, str(more), str(place / more.name)], timeout_s=_PATIENCE_S)
    whole = await source(image, provider)
    if provider.stands_on == "disk":
        await run(
            [*argv, "--sparse=auto", str(whole), str(place / whole.name)], timeout_s=_PATIENCE_S
        )
        return replace(image, dir=place)
    await run([*argv, str(whole), str(place / "root")], timeout_s=_PATIENCE_S)
    return replace(image, root=place / "root")


async def _nothing() -> None:
    """Where nothing was copied."""
