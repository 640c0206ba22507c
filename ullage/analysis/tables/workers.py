"""How the work on a table is shared out over the cores."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import Any, Final

WorkerCall = Callable[[], Any]
RunCalls = Callable[[Sequence[WorkerCall]], list[Any]]
"""Calls all of them, in whatever way, and returns what they return."""

LARGE: Final = 200_000
"""Rows of a comparison from which on its parts are worth a thread each: NumPy lets go of the
interpreter while it sorts, and nearly all is sorting then."""
MANY: Final = 100
"""Comparisons that are worth a process for each core: small ones hold the interpreter."""
CHUNK: Final = 10
"""So many calls are sent to a process at a time."""


def go_over(
    rows: int, cells: Sequence[WorkerCall], comparisons: Sequence[Callable[[RunCalls], Any]]
) -> tuple[list[Any], list[Any]]:
    """What the cells and the comparisons of a table with so many rows return.

    A comparison is given a way to go over its parts.
    """
    if rows >= LARGE * len(comparisons):
        return by_threads(cells), [compare(by_threads) for compare in comparisons]
    run = by_processes if len(comparisons) >= MANY else in_turn
    results = run([*cells, *(partial(compare, in_turn) for compare in comparisons)])
    return results[: len(cells)], results[len(cells) :]


def in_turn(calls: Sequence[WorkerCall]) -> list[Any]:
    return [call() for call in calls]


def by_threads(calls: Sequence[WorkerCall]) -> list[Any]:
    """A thread for each core."""
    with ThreadPoolExecutor(_cores()) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


def by_processes(calls: Sequence[WorkerCall]) -> list[Any]:
    """A forked process for each core; what is called is inherited, only results are sent."""
    with ProcessPoolExecutor(
        _cores(), multiprocessing.get_context("fork"), _begin, (calls,)
    ) as pool:
        return list(pool.map(_call, range(len(calls)), chunksize=CHUNK))


_calls: list[WorkerCall] = []


def _begin(calls: Sequence[WorkerCall]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the parent, who ends us
    _calls[:] = calls


def _call(at: int) -> Any:
    return _calls[at]()


def _cores() -> int:
    return len(os.sched_getaffinity(0))
