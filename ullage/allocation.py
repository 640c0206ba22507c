"""Several instances asked for at the same time, and released at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ullage.allocating import Allocated, Application, Node, allocate, release
from ullage.allocation_down import unwind
from ullage.allocation_record import Batch, InstanceSteps
from ullage.errors import UllageError


async def together(
    node: Node,
    names: Sequence[str],
    *,
    application: Application | None,
    allocate_limit_s: float,
    release_limit_s: float,
) -> Batch:
    """Make them all at once, then take them all away at once.

    ALLOCATION_NO_ROOM before anything is made. Where one fails, those that are still on their way
    are given up, the others are taken away, and its error is raised: there is no figure then.
    """
    node.check_room(len(names))
    made = await _allocate_all(node, names, application, allocate_limit_s)
    try:
        instants = await _release_all(made, release_limit_s)
    finally:
        await asyncio.gather(*(unwind(each.undo, each.instance.spec) for each in made))
    return Batch(
        copy_kind=node.copy,
        applied=application is not None,
        instances=tuple(
            InstanceSteps(
                name=each.instance.name,
                steps=dict(each.steps),
                release_asked=asked,
                released=gone,
            )
            for each, (asked, gone) in zip(made, instants, strict=True)
        ),
    )


async def _allocate_all(
    node: Node, names: Sequence[str], application: Application | None, limit_s: float
) -> list[Allocated]:
    tasks: list[asyncio.Task[Allocated]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks += [
                group.create_task(allocate(node, name, application=application, limit_s=limit_s))
                for name in names
            ]
    except BaseException as error:
        # Who fails or is cancelled has taken itself down; what was up by then has not.
        up = [task.result() for task in tasks if not task.cancelled() and not task.exception()]
        await asyncio.gather(*(unwind(each.undo, each.instance.spec) for each in up))
        raise (_first(error) if isinstance(error, BaseExceptionGroup) else error) from None
    return [task.result() for task in tasks]


async def _release_all(made: Sequence[Allocated], limit_s: float) -> list[tuple[int, int]]:
    """All are tried, whatever becomes of one; the first error counts."""
    tasks = [release(each, limit_s=limit_s) for each in made]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """What went wrong first, if it is one of ours; else all of it."""
    ours = several.subgroup(UllageError)
    if ours is None or len(ours.exceptions) != len(several.exceptions):
        return several
    return ours.exceptions[0]
