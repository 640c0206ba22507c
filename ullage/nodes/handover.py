"""An agent's pipes, handed over to `ullage-agent attach` through a socket that only we can open."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Final

ATTACH_S: Final = 30.0
"""So long may it take until somebody comes for them; then the agent hears its end of file."""


async def offer(path: Path, pipes: tuple[int, int]) -> asyncio.Task[None]:
    """Offer them once; the socket is there when this returns."""
    try:
        listener = _listen(path)
    except BaseException:
        _close(pipes)
        raise
    return asyncio.create_task(_give(listener, path, pipes), name=f"pipes of {path}")


def _listen(path: Path) -> socket.socket:
    """In a directory that only we can enter."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(1)
    except BaseException:
        listener.close()
        raise
    return listener


async def _give(listener: socket.socket, path: Path, pipes: tuple[int, int]) -> None:
    try:
        with listener:
            async with asyncio.timeout(ATTACH_S):
                taker, _ = await asyncio.get_running_loop().sock_accept(listener)
            with taker:
                taker.setblocking(True)  # one byte into an empty socket
                socket.send_fds(taker, [b"\0"], list(pipes))
    except (OSError, TimeoutError):
        pass  # whoever was to take them hears it on its side
    finally:
        _close(pipes)


def _close(pipes: tuple[int, int]) -> None:
    for descriptor in pipes:
        os.close(descriptor)
