"""How an instance that is made during a run comes by its image.

`backing`: nothing is copied. Containers mount the one unpacked tree, which nobody can write; VMs
read the one disk, and what they write is in a layer of their own. `real`: every byte that the
provider stands on is copied first, tree or disk, as a cloud does that has no shared storage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from ullage.common.commands import CommandError, needed, run
from ullage.common.errors import ALLOCATION_NO_COPY, UllageError
from ullage.environments import InstanceSpec, Provider
from ullage.host import disks
from ullage.host.image import Image
from ullage.runs.allocations import Copy

_PATIENCE_S: Final = 3600.0
"""The caller's own limit is what ends it."""


def check(kind: Copy, provider: Provider, image: Image | None) -> None:
    """ALLOCATION_NO_COPY where an instance cannot have a copy of its own."""
    if kind == "backing":
        return
    reason = "there is no image: `image: host`" if image is None else provider.own_copy()
    if reason is not None:
        raise UllageError(ALLOCATION_NO_COPY, provider=provider.name, reason=reason)


async def copy(
    image: Image | None, kind: Copy, provider: Provider, spec: InstanceSpec
) -> tuple[Image | None, Callable[[], Awaitable[None]]]:
    """The image that the instance runs from, and what removes it again.

    ALLOCATION_NO_COPY when it cannot be copied; nothing is left then.
    """
    check(kind, provider, image)
    if kind == "backing" or image is None:
        return image, _nothing
    place = spec.data_dir.with_name(f"{spec.name}.image")

    async def remove() -> None:
        await asyncio.to_thread(disks.remove_tree, place)

    try:
        return await _copied(image, provider, place), remove
    except CommandError as error:
        await remove()
        raise UllageError(
            ALLOCATION_NO_COPY, provider=provider.name, reason=error.reason
        ) from error
    except BaseException:
        await remove()
        raise


async def _copied(image: Image, provider: Provider, place: Path) -> Image:
    place.mkdir(parents=True, mode=0o700)  # noqa: ASYNC240 - at once
    # No reflinks: they would be a backing file under another name.
    argv = [needed("cp", "coreutils"), "--archive", "--reflink=never"]
    if provider.stands_on == "disk":
        disk = await image.disk("raw")
        await run(
            [*argv, "--sparse=auto", str(disk), str(place / disk.name)], timeout_s=_PATIENCE_S
        )
        return replace(image, dir=place)
    await run([*argv, str(image.root), str(place / "root")], timeout_s=_PATIENCE_S)
    return replace(image, root=place / "root")


async def _nothing() -> None:
    """Where nothing was copied."""
