"""Hears the systemd of a container say that it has started everything, as in sd_notify(3)."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Final

NAME: Final = "notify"
_MOST: Final = 4096


class Notified:
    """A socket in a directory of ours, for a container to have it mounted."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        # A socket's own path may be 107 characters long, and the directory's is not ours to choose.
        held = os.open(directory, os.O_PATH | os.O_DIRECTORY)
        try:
            self._socket.bind(f"/proc/self/fd/{held}/{NAME}")
        except BaseException:
            self._socket.close()
            raise
        finally:
            os.close(held)

    async def ready(self, deadline_s: float) -> None:
        """Until it says so; TimeoutError when it does not in time."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(deadline_s):
            while b"READY=1" not in (await loop.sock_recv(self._socket, _MOST)).splitlines():
                pass

    def close(self) -> None:
        """Listen no more; what is said from then on is lost."""
        self._socket.close()
        self.path.unlink(missing_ok=True)
