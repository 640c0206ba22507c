"""The way back: all that a thing leaves, and what removes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import ParamSpec

P = ParamSpec("P")


class Undo:
    """Steps that undo what was done, the newest first.

    Unlike contextlib's stacks it forgets a step only when that has succeeded: who closes it again
    after a failure tries what failed again, and an empty one has nothing left to undo.
    """

    def __init__(self, at_last: Callable[[], object] | None = None) -> None:
        self._steps: list[Callable[[], Awaitable[object]]] = []
        self._at_last = at_last
        """Done each time that nothing is left."""
        self._closing = asyncio.Lock()
        """Two who close it at a time would take each other's steps for done."""

    def push(self, step: Callable[P, Awaitable[object]], *args: P.args, **kwargs: P.kwargs) -> None:
        """One step more; it may be called again when it has failed."""
        self._steps.append(lambda: step(*args, **kwargs))

    def callback(self, step: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """The same of an ordinary function."""

        async def call() -> None:
            step(*args, **kwargs)

        self._steps.append(call)

    def pop_all(self) -> Undo:
        """All of it as another one's; nothing is left here."""
        steps = Undo(self._at_last)
        steps._steps, self._steps, self._at_last = self._steps, [], None
        return steps

    async def aclose(self) -> None:
        """Take every step, whatever becomes of the others; those that fail stay.

        Raises what the first of them raised, or that we were cancelled meanwhile.
        """
        async with self._closing:
            errors: list[BaseException] = []
            for step in reversed(tuple(self._steps)):
                try:
                    await step()
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
