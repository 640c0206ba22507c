"""Ctrl-C and its like cancel what runs once; it then removes what it made, undisturbed.

A second one ends the process at once, whatever it waits for, and says what is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any, Final, TypeVar

from ullage.common.console import stderr
from ullage.common.errors import ExitCode

AGAIN_S: Final = 1.0
"""What comes sooner after the first is the same wish: `timeout` and shells send one twice."""
LIST_S: Final = 5.0
"""So long is it found out what is left: what hangs may hang that too."""
LINGER_S: Final = 60.0
"""So long may what the work has abandoned, tasks and threads, hold the process after its end."""

T = TypeVar("T")


def interruptible(work: Coroutine[Any, Any, T], left: Callable[[], str]) -> T:
    """Run it so that Ctrl-C, SIGTERM and a hang-up cancel it once; it then tears down in order.

    Only the main thread hears them; in another one nothing but the work's own end ends it.

    left: says what would be left were the process to end now, in one line.
    """
    wish = _Wish(left)
    linger = threading.Timer(LINGER_S, wish.end_at_once)
    linger.daemon = True

    async def guarded() -> T:
        task = asyncio.ensure_future(work)
        wish.task = task
        wish.loop = asyncio.get_running_loop()
        wish.take_up()
        try:
            return await task
        finally:
            linger.start()

    with wish.heard():
        try:
            return run_here(guarded())
        finally:
            linger.cancel()


def run_here(work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`; where a loop runs already, as in a notebook, in a thread with its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


@contextlib.contextmanager
def orderly() -> Iterator[None]:
    """A SIGTERM ends it as Ctrl-C does: nothing is left."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Wish:
    """The user's wish that it ends, and whether it was said before."""

    def __init__(self, left: Callable[[], str]) -> None:
        self.task: asyncio.Future[Any]
        self.loop: asyncio.AbstractEventLoop | None = None
        self._left = left
        self._terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]
        self._first_s: float | None = None
        self._ending = False

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Listen, not by the event loop: that may be what hangs, or in another thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # else we run under `nohup`
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, self._hear) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _silence(self._terminals)
        if self._first_s is None:
            self._first_s = time.monotonic()
            if self.loop is not None:
                self.loop.call_soon_threadsafe(self._cancel)
        elif time.monotonic() - self._first_s >= AGAIN_S:
            self.end_at_once()

    def take_up(self) -> None:
        """A wish that came before there was anything to cancel."""
        if self._first_s is not None:
            self._cancel()

    def _cancel(self) -> None:
        if not self.task.done():
            self.task.cancel()
            stderr.print(
                "stopping the trial and removing the environments … (once more: end at once)"
            )

    def end_at_once(self) -> None:
        """End the process, and say what it leaves; a third time without another word.

        Nothing is flushed or joined: what is kept is on the disk, and what hangs stays behind.
        """
        if not self._ending:
            self._ending = True
            _say(f"ended at once; left: {self._listed()}\nremove it with: ullage clean\n")
        os._exit(ExitCode.INTERRUPTED)

    def _listed(self) -> str:
        text: list[str] = []
        listing = threading.Thread(target=lambda: text.append(self._left()), daemon=True)
        listing.start()
        listing.join(LIST_S)
        return text[0] if text else "what could not be listed"


async def to_the_end(work: Coroutine[None, None, None]) -> None:
    """Wait for the work however often we are cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    task.result()


def _say(text: str) -> None:
    """To standard error, past every lock that the interrupted may hold."""
    with contextlib.suppress(OSError):
        os.write(2, text.encode(errors="replace"))


def _silence(descriptors: Iterable[int]) -> None:
    """Lead output nowhere: to write to a terminal that is gone would fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
