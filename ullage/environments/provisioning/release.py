"""Nothing hangs for ever, and nothing stays: work within a limit, and the way back from it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from ullage.common.cleanup import Undo
from ullage.common.errors import UllageError
from ullage.environments import InstanceSpec
from ullage.environments.containers.base import container_id, whole_group

GENTLE_S: Final = 20.0
"""What has been told to end has so long, before its processes are killed, and so long after."""

T = TypeVar("T")

_abandoned: Final[set[asyncio.Future[Any]]] = set()
"""Work that did not even end when its processes had been killed."""


async def bounded(
    work: Coroutine[Any, Any, T],
    limit_s: float,
    undo: Undo,
    spec: InstanceSpec,
    late: Callable[[], UllageError],
    *,
    removal_s: float = 0.0,
) -> T:
    """What the work returns or raises; `late` when it takes longer than the limit.

    Work that has to end, here or because we are cancelled, is cancelled; where that is not enough
    the instance's processes are killed; and if even then it goes on, it is left alone, and what it
    makes in the end is undone. removal_s: of an instance elsewhere, where nothing is killed.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=limit_s)
    except asyncio.CancelledError:
        await _end(task, undo, spec, removal_s)
        raise
    if task.done():
        return task.result()
    await _end(task, undo, spec, removal_s)
    raise late()


async def unwind(undo: Undo, spec: InstanceSpec, removal_s: float = 0.0) -> None:
    """Undo all, whatever goes wrong in it; what could not be undone is tried once more.

    removal_s: so long another machine may need for it. The run's end removes by its tag what is
    left then, and until that its place is not free.
    """
    for _ in range(2):
        task = asyncio.ensure_future(undo.aclose())
        await _ended(task, spec, removal_s)
        if not task.done():
            _abandon(task, undo)
            return
        if not task.cancelled() and task.exception() is None:
            return
        await kill(spec)


async def _end(task: asyncio.Future[Any], undo: Undo, spec: InstanceSpec, removal_s: float) -> None:
    task.cancel()
    await _ended(task, spec, removal_s)
    if not task.done():
        _abandon(task, undo)


async def _ended(task: asyncio.Future[Any], spec: InstanceSpec, removal_s: float) -> None:
    """Until it has, or nothing more can be done about it; its exception is nobody's any more."""
    await asyncio.wait({task}, timeout=max(GENTLE_S, removal_s))
    if not task.done():
        await kill(spec)
        await asyncio.wait({task}, timeout=GENTLE_S)
    if task.done() and not task.cancelled():
        task.exception()


def _abandon(task: asyncio.Future[Any], undo: Undo) -> None:
    _abandoned.add(task)

    def over(done: asyncio.Future[Any]) -> None:
        _abandoned.discard(done)
        if not done.cancelled():
            done.exception()
        last = asyncio.ensure_future(_quietly(undo))
        _abandoned.add(last)
        last.add_done_callback(_abandoned.discard)

    task.add_done_callback(over)


async def _quietly(undo: Undo) -> None:
    with contextlib.suppress(Exception):
        await undo.aclose()


async def kill(spec: InstanceSpec) -> None:
    """Whatever runs in the instance's control groups, its transport and its hypervisor too."""
    parts = ("", ".held", ".monitor", ".pivot")
    for name in (*(spec.name + part for part in parts), container_id(spec)):
        with contextlib.suppress(UllageError, OSError):
            await whole_group(spec.tag, name).kill_all()
