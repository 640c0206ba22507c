"""The way back: all that a thing leaves, and what removes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, ParamSpec

from ullage.common.errors import STEP_TOO_LATE, UllageError

STEP_S: Final = 300.0
"""So long may one step take. All have limits of their own, which are shorter, but for the removal
of a directory: that takes as long as a guest has made it."""
CANCELLED_S: Final = 5.0
"""So long may a step that is given up take to notice."""

P = ParamSpec("P")


class Undo:
    """Steps that undo what was done, the newest first.

    Unlike contextlib's stacks it forgets a step only when that has succeeded: who closes it again
    after a failure tries what failed again, and an empty one has nothing left to undo.
    """

    def __init__(self, at_last: Callable[[], object] | None = None) -> None:
        self._steps: list[tuple[str, Callable[[], Awaitable[object]]]] = []
        self._at_last = at_last
        """Done each time that nothing is left."""
        self._closing = asyncio.Lock()
        """Two who close it at a time would take each other's steps for done."""

    def push(self, step: Callable[P, Awaitable[object]], *args: P.args, **kwargs: P.kwargs) -> None:
        """One step more; it may be called again when it has failed."""
        name = step if step is not asyncio.to_thread else args[0]
        self._steps.append((getattr(name, "__name__", "a step"), lambda: step(*args, **kwargs)))

    def callback(self, step: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """The same of an ordinary function."""

        async def call() -> None:
            step(*args, **kwargs)

        self._steps.append((getattr(step, "__name__", "a step"), call))

    def pop_all(self) -> Undo:
        """All of it as another one's; nothing is left here."""
        steps = Undo(self._at_last)
        steps._steps, self._steps, self._at_last = self._steps, [], None
        return steps

    async def aclose(self) -> None:
        """Take every step, whatever becomes of the others; those that fail stay.

        Raises what the first of them raised, STEP_TOO_LATE where that has not ended within STEP_S,
        or that we were cancelled meanwhile.
        """
        async with self._closing:
            errors: list[BaseException] = []
            for name, step in reversed(tuple(self._steps)):
                try:
                    await _within_limit(name, step())
                except BaseException as error:  # of whatever kind: the others come first
                    errors.append(error)
                else:
                    self._steps.remove((name, step))
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


async def _within_limit(name: str, step: Awaitable[object]) -> None:
    """Wait for it; what is late is cancelled, and left alone if it does not even notice that."""
    task = asyncio.ensure_future(step)
    try:
        await asyncio.wait({task}, timeout=STEP_S)
    except asyncio.CancelledError:
        await _given_up(task)
        raise
    if not task.done():
        await _given_up(task)
        raise UllageError(STEP_TOO_LATE, step=name, seconds=STEP_S)
    task.result()


async def _given_up(task: asyncio.Future[object]) -> None:
    task.cancel()
    task.add_done_callback(_forget)
    await asyncio.wait({task}, timeout=CANCELLED_S)


def _forget(task: asyncio.Future[object]) -> None:
    """Its error is nobody's any more."""
    if not task.cancelled():
        task.exception()
