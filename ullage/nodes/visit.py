"""A short visit to a node without a run: what it can do, and what runs have left there."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ullage.nodes import wire
from ullage.nodes.link import NodeLink, control_name
from ullage.nodes.openssh import Target


async def diagnosis(target: Target) -> wire.Diagnosis:
    """The doctor's answer there. The errors of nodes."""
    async with _visit(target) as link:
        return await link.call("doctor", wire.Diagnosis)


async def leavings(target: Target, *, remove: bool) -> wire.Leavings:
    """What killed runs have left there, removed if that is wanted. The errors of nodes."""
    async with _visit(target) as link:
        return await link.call("clean", wire.Leavings, wire.Clean(remove=remove))


@asynccontextmanager
async def _visit(target: Target) -> AsyncIterator[NodeLink]:
    directory = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="ullage-")
    try:
        link = await NodeLink.open(target, Path(directory.name) / control_name(target.node))
        try:
            yield link
        finally:
            await link.close()
    finally:
        await asyncio.to_thread(directory.cleanup)
