"""Locks between processes."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

_POLL_S: Final = 0.2


@contextlib.asynccontextmanager
async def file_lock(path: Path, waiting: Callable[[], None] = lambda: None) -> AsyncIterator[None]:
    """Only one holder at a time on this host; the lock goes with the process, however that ends.

    `waiting` is called once when somebody else holds it.
    """
    with path.open("wb") as file:
        told = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    waiting()
                told = True
                await asyncio.sleep(_POLL_S)
        yield


def is_held(path: Path) -> bool:
    """Does anybody hold the lock now?"""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
