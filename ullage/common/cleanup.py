"""The way back: all that a thing leaves, and what removes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, ParamSpec

from ullage.common.errors import STEP_TOO_LATE, UllageError

STEP_S: Final = 300.0
"""So long may a step take that names no limit. Most have limits of their own, which are shorter,
but for the removal of a directory: that takes as long as a guest has made it."""
CANCELLED_S: Final = 5.0
"""So long may a step that is given up take to notice."""

P = ParamSpec("P")


@dataclass(frozen=True, eq=False)
class _Step:
    """One thing to undo."""

    name: str
    take: Callable[[], Awaitable[object]]
    limit_s: float | None = None
    """None: STEP_S."""


class Undo:
    """Steps that undo what was done, the newest first.

    Unlike contextlib's stacks it forgets a step only when that has succeeded: who closes it again
    after a failure tries what failed again, and an empty one has nothing left to undo.
    """

    def __init__(self, at_last: Callable[[], object] | None = None) -> None:
        self._steps: list[_Step] = []
        self._at_last = at_last
        """Done each time that nothing is left."""
        self._closing = asyncio.Lock()
        """Two who close it at a time would take each other's steps for done."""

    def push(self, step: Callable[P, Awaitable[object]], *args: P.args, **kwargs: P.kwargs) -> None:
        """One step more; it may be called again when it has failed."""
        self._add(None, step, *args, **kwargs)

    def push_within(
        self,
        limit_s: float,
        step: Callable[P, Awaitable[object]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """One that may take so long, where that is more than STEP_S."""
        self._add(limit_s, step, *args, **kwargs)

    def _add(
        self,
        limit_s: float | None,
        step: Callable[P, Awaitable[object]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        named = step if step is not asyncio.to_thread else args[0]
        name = getattr(named, "__name__", "a step")
        self._steps.append(_Step(name, lambda: step(*args, **kwargs), limit_s))

    def callback(self, step: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """The same of an ordinary function."""

        async def call() -> None:
            step(*args, **kwargs)

        self._steps.append(_Step(getattr(step, "__name__", "a step"), call))

    def pop_all(self) -> Undo:
        """All of it as another one's; nothing is left here."""
        steps = Undo(self._at_last)
        steps._steps, self._steps, self._at_last = self._steps, [], None
        return steps

    async def aclose(self) -> None:
        """Take every step, whatever becomes of the others; those that fail stay.

        Raises what the first of them raised, STEP_TOO_LATE where that has not ended within its
        limit, or that we were cancelled meanwhile.
        """
        async with self._closing:
            errors: list[BaseException] = []
            for step in reversed(tuple(self._steps)):
                try:
                    await _within_limit(step)
                except BaseException as error:  # of whatever kind: the others come first
                    errors.append(error)
                else:
                    self._steps.remove(step)
            if not self._steps and self._at_last is not None:
                self._at_last()
            if errors:
                raise min(errors, key=lambda error: isinstance(error, Exception))

    async def __aenter__(self) -> Undo:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """What the body raised counts, not what could not be undone after it."""
        try:
            await self.aclose()
        except Exception:
            if error is None:
                raise


async def _within_limit(step: _Step) -> None:
    """Wait for it; what is late is cancelled, and left alone if it does not even notice that."""
    limit_s = max(STEP_S, step.limit_s or 0.0)
    task = asyncio.ensure_future(step.take())
    try:
        await asyncio.wait({task}, timeout=limit_s)
    except asyncio.CancelledError:
        await _given_up(task)
        raise
    if not task.done():
        await _given_up(task)
        raise UllageError(STEP_TOO_LATE, step=step.name, seconds=limit_s)
    task.result()


async def _given_up(task: asyncio.Future[object]) -> None:
    task.cancel()
    task.add_done_callback(_forget)
    await asyncio.wait({task}, timeout=CANCELLED_S)


def _forget(task: asyncio.Future[object]) -> None:
    """Its error is nobody's any more."""
    if not task.cancelled():
        task.exception()
