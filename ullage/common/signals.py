"""Ctrl-C and its like cancel what runs once; it then removes what it made, undisturbed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from ullage.common.console import stderr

T = TypeVar("T")


def interruptible(work: Coroutine[Any, Any, T]) -> T:
    """Run it so that Ctrl-C, SIGTERM and a hang-up cancel it once; it then tears down in order."""
    terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]

    async def guarded() -> T:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        cancelled = False

        def interrupt() -> None:
            nonlocal cancelled
            if not cancelled:
                cancelled = True
                task.cancel()
                stderr.print("stopping the trial and removing the environments …")

        def hang_up() -> None:
            _silence(terminals)
            interrupt()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, interrupt)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # else we run under `nohup`
            loop.add_signal_handler(signal.SIGHUP, hang_up)
        return await task

    return asyncio.run(guarded())


async def to_the_end(work: Coroutine[None, None, None]) -> None:
    """Wait for the work however often we are cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    task.result()


def _silence(descriptors: Iterable[int]) -> None:
    """Lead output nowhere: to write to a terminal that is gone would fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
