"""Whether a cloud may still make an instance of a request that nobody has answered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

CARRIED_OUT_S: Final = 300.0
"""So long after it was given up may a request for an instance still be carried out: 92 s were seen
of a crowded Nova behind a proxy that waits 60."""
_OPEN_S: Final = 600.0
"""So long at most may one request take, with what is asked before it."""


class Coming:
    """The requests for one instance. Its threads may outlive whoever asked."""

    def __init__(self, note: Callable[[float | None], object] = lambda _: None) -> None:
        """note: writes down until when one may come, by the wall clock; None: none comes."""
        self._note = note
        self._lock = threading.Lock()
        self._open = 0
        self._until_s = 0.0

    @property
    def possible(self) -> bool:
        """May there be one later, though there is none now?"""
        with self._lock:
            return self._open > 0 or time.monotonic() < self._until_s

    def watched(
        self, launch: Callable[P, T], *, unanswered: Callable[[Exception], bool], once: bool
    ) -> Callable[P, T]:
        """The same request, remembered from before it is sent.

        unanswered: does that error leave open whether it is carried out? once: the cloud itself
        makes one of all tries, so that none comes once one was answered.
        """

        def request(*args: P.args, **kwargs: P.kwargs) -> T:
            self._begin()
            try:
                answer = launch(*args, **kwargs)
            except BaseException as error:
                self._end(open_end=not isinstance(error, Exception) or unanswered(error))
                raise
            self._end(open_end=False, settled=once)
            return answer

        return request

    def _begin(self) -> None:
        self._note(time.time() + _OPEN_S + CARRIED_OUT_S)
        with self._lock:
            self._open += 1

    def _end(self, *, open_end: bool, settled: bool = False) -> None:
        now_s = time.monotonic()
        with self._lock:
            if open_end:
                self._until_s = now_s + CARRIED_OUT_S
            elif settled:
                self._until_s = 0.0
            left_s = self._until_s - now_s
        with suppress(OSError):  # what was noted before holds for longer
            self._note(time.time() + left_s if left_s > 0 else None)
        with self._lock:  # at last: who sees that none comes forgets the note
            self._open -= 1
