"""A Watts up? PRO on a pseudo-terminal: it speaks the protocol, and replays raw packets."""

from __future__ import annotations

import os
import pty
import select
import threading
import tty
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

RAW = Path(__file__).with_name("wattsup.raw")
"""Nine seconds as the meter sends them, with the heading it begins with."""
VERSION = b"#v,-,8,3,8192,8,3,7,13,20100819,\x30;\r\n"


def packet(watts: object, volts: int = 2300) -> bytes:
    """A packet of data; watts are in the meter's own tenths."""
    fields = [watts, volts, 1241, 5, 0, 3, 0, 2860, 2312, 1260, 0, 2281, 0, 98, 100, 1, 500, 2854]
    return b"#d,-,18," + ",".join(map(str, fields)).encode() + b";\r\n"


class WattsupDouble:
    """Sends a piece of its script every `period_s`, from the command to log until that to stop."""

    def __init__(self, line: Path, script: Iterable[bytes], period_s: float = 0.02) -> None:
        self.line = line
        self.heard = b""
        self._script, self._period_s = iter(script), period_s
        self._logging = False
        self._master, self._slave = pty.openpty()
        tty.setraw(self._slave)
        line.unlink(missing_ok=True)
        line.symlink_to(os.ttyname(self._slave))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def unplug(self) -> None:
        """The line is hung up, and its device gone."""
        if not self._over.is_set():
            self._over.set()
            self._thread.join(60)
            assert not self._thread.is_alive()
            os.close(self._slave)
            os.close(self._master)
            self.line.unlink()

    def _serve(self) -> None:
        while not self._over.is_set():
            if select.select([self._master], [], [], self._period_s)[0]:
                self._obey(os.read(self._master, 4096))
            elif self._logging:
                self.send(next(self._script, b""))

    def _obey(self, commands: bytes) -> None:
        self.heard += commands
        if b"#V,R,0;" in commands:
            self.send(VERSION)
        if b"#L,W,3,E,,1;" in commands:
            self._logging = True
        if commands.endswith(b"#L,R,0;"):
            self._logging = False

    def send(self, data: bytes) -> None:
        """As much as the line takes: nobody may be reading."""
        with suppress(BlockingIOError):
            os.set_blocking(self._master, False)
            while data:
                data = data[os.write(self._master, data) :]


@contextmanager
def plugged(
    folder: Path, script: Iterable[bytes], period_s: float = 0.02
) -> Iterator[WattsupDouble]:
    """One that is plugged in."""
    double = WattsupDouble(folder / "ttyUSB0", script, period_s)
    try:
        yield double
    finally:
        double.unplug()
