"""A thread of its own for a meter: all calls come from it, and none is waited for too long."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, Generic, TypeVar

from ullage.energy.base import FaultError

T = TypeVar("T")


class Call(Generic[T]):
    """One call, and what came of it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._given: list[T] = []
        self._error: BaseException | None = None
        self._over = Event()

    @property
    def over(self) -> bool:
        """True when there is a result."""
        return self._over.is_set()

    @property
    def failed(self) -> bool:
        """True when the result is an error."""
        return self.over and self._error is not None

    def do(self) -> None:
        """In the meter's thread."""
        try:
            self._given.append(self._work())
        except BaseException as error:  # handed on, whatever it is
            self._error = error
        self._over.set()

    def result(self, deadline_s: float) -> T:
        """What it gave or raised; FaultError (`silent`) when there is nothing yet."""
        if not self._over.wait(deadline_s):
            raise FaultError("silent", f"no answer within {deadline_s:g} s")
        if self._error is not None:
            raise self._error
        return self._given[0]


class Caller:
    """Calls a meter that blocks, from one thread, which nobody need wait for."""

    def __init__(self, name: str) -> None:
        self._todo: SimpleQueue[Call[Any] | None] = SimpleQueue()
        self._last: Call[Any] | None = None
        Thread(target=self._serve, name=f"meter {name}", daemon=True).start()

    @property
    def busy(self) -> bool:
        """True while a call has no result."""
        return self._last is not None and not self._last.over

    def begin(self, work: Callable[[], T]) -> Call[T]:
        """Have it done; one at a time: FaultError (`silent`) while an earlier call hangs."""
        if self.busy:
            raise FaultError("silent", "an earlier request still has no answer")
        call = Call(work)
        self._last = call
        self._todo.put(call)
        return call

    def call(self, work: Callable[[], T], deadline_s: float) -> T:
        """What it gives or raises; FaultError (`silent`) when that takes longer.

        What comes too late is dropped.
        """
        return self.begin(work).result(deadline_s)

    def end(self, farewell: Callable[[], object], deadline_s: float) -> None:
        """Do this last. Waits for it, unless a call hangs: it is then done after that."""
        call, hangs = Call(farewell), self.busy
        self._todo.put(call)
        self._todo.put(None)
        if not hangs:
            call.result(deadline_s)

    def _serve(self) -> None:
        while (call := self._todo.get()) is not None:
            call.do()
