"""Images that a controller sends: each comes through a pipe of its own, past the protocol.

The pipe is offered as an agent's are (`nodes/handover.py`): ssh's channel ends in `ullage-agent
attach`, so no frame, no credit and no other request stand in the way of the bytes.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from ullage.common.archives.inflow import Inflow, widen
from ullage.host import image
from ullage.host.image import Image
from ullage.nodes import wire
from ullage.nodes.handover import offer
from ullage.runs.records import ImageConfig


@dataclass(frozen=True)
class Upload:
    """One that is on its way."""

    offered: asyncio.Task[None]
    arriving: asyncio.Task[Image | str]

    async def cancel(self) -> None:
        """Nothing of it stays."""
        tasks = (self.offered, self.arriving)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Uploads:
    """Those of one session, by digest."""

    def __init__(self) -> None:
        self._uploads: dict[str, Upload] = {}

    def __contains__(self, digest: str) -> bool:
        return digest in self._uploads

    async def begin(self, request: wire.Take, socket: Path) -> None:
        """Take it from whoever attaches there. OSError."""
        config = None if request.config is None else ImageConfig.model_validate(request.config)
        reading, writing = os.pipe()
        over, end = os.pipe()
        widen(writing)
        try:
            offered = await offer(socket, (over, writing))
        except BaseException:
            os.close(reading)
            os.close(end)
            raise
        arriving = asyncio.create_task(_arrived(request, config, reading, end))
        self._uploads[request.digest] = Upload(offered, arriving)

    async def end(self, digest: str) -> Image | str:
        """The image, once it is there; the digest of what has come instead. As `image.receive`."""
        upload = self._uploads[digest]
        try:
            return await upload.arriving
        finally:
            del self._uploads[digest]
            await upload.cancel()

    async def close(self) -> None:
        """None is wanted any more."""
        uploads, self._uploads = self._uploads, {}
        await asyncio.gather(*(one.cancel() for one in uploads.values()))


async def _arrived(
    request: wire.Take, config: ImageConfig | None, reading: int, end: int
) -> Image | str:
    """end: held open until then; its end is the end of `attach`, and of ssh."""
    try:
        return await image.receive(request.digest, Inflow(reading, request.size), config)
    finally:
        os.close(reading)
        os.close(end)
