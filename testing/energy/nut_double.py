"""The real `upsd` with NUT's simulated UPS, `dummy-ups`, in a folder and on a port of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from testing.energy.waiting import until

UPSD = Path("/lib/nut/upsd")
"""Debian's /sbin/upsd asks the host's own configuration first."""
DRIVER = Path("/lib/nut/dummy-ups")
NAME = "office"

needs_nut = pytest.mark.skipif(
    not (UPSD.exists() and DRIVER.exists()), reason="needs the package nut-server"
)


class NutDouble:
    """A UPS called `office` whose variables a test writes."""

    def __init__(self, folder: Path, script: str, last: str) -> None:
        self._last = last
        self._folder, self._script = folder, folder / script
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.ups = f"{NAME}@127.0.0.1:{self.port}"
        self._children: dict[Path, subprocess.Popen[bytes]] = {}
        self._write(
            "ups.conf",
            f"[{NAME}]\ndriver = dummy-ups\nport = {self._script}\n"
            "mode = dummy-loop\npollinterval = 1\n",
        )
        self._write("upsd.conf", f"LISTEN 127.0.0.1 {self.port}\nMAXAGE 3\n")
        self._write("upsd.users", "[reader]\npassword = let me\n")

    def tell(self, **variables: object) -> None:
        """What the UPS tells from now on: `ups_load=33` is `ups.load`."""
        lines = [f"{name.replace('_', '.')}: {value}" for name, value in variables.items()]
        self.script("\n".join(lines))

    def script(self, text: str) -> None:
        """The file that the driver reads over and over, replaced whole."""
        part = self._script.with_suffix(".part")
        part.write_text(text + "\n")
        part.replace(self._script)

    def start(self) -> None:
        """The driver and `upsd`, until that tells the last of the variables."""
        if DRIVER not in self._children:
            self.start_driver()
        self._run(UPSD)
        until(self._tells, f"upsd tells {self._last}")

    def start_driver(self) -> None:
        """The driver alone; `upsd` finds it by itself."""
        self._run(DRIVER, "-a", NAME)
        until((self._folder / f"dummy-ups-{NAME}").exists, "the driver listens")

    def kill(self) -> None:
        """`upsd`, by SIGKILL."""
        self._end(UPSD, signal.SIGKILL)

    def kill_driver(self) -> None:
        """The driver, by SIGKILL."""
        self._end(DRIVER, signal.SIGKILL)

    def freeze_driver(self) -> None:
        """It no longer refreshes what it told."""
        self._children[DRIVER].send_signal(signal.SIGSTOP)

    def stop(self) -> None:
        for program in list(self._children):
            self._end(program, signal.SIGKILL)

    def _write(self, name: str, text: str) -> None:
        file = self._folder / name
        file.touch(mode=0o600)
        file.write_text(text)

    def _run(self, program: Path, *arguments: str) -> None:
        user = ["-u", "root"] if os.geteuid() == 0 else []
        folder = str(self._folder)
        environment = {"NUT_CONFPATH": folder, "NUT_STATEPATH": folder, "NUT_ALTPIDPATH": folder}
        with (self._folder / f"{program.name}.log").open("ab") as log:
            self._children[program] = subprocess.Popen(
                [str(program), *arguments, "-F", *user],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **environment},
            )

    def _end(self, program: Path, how: signal.Signals) -> None:
        child = self._children.pop(program)
        child.send_signal(how)
        child.wait(60)

    def _tells(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 60) as line:
            line.sendall(f"GET VAR {NAME} {self._last}\n".encode())
            return line.makefile("rb").readline().startswith(b"VAR")
        return False


@contextmanager
def started(
    folder: Path, script: str = "office.dev", text: str = "", last: str = "ups.load"
) -> Iterator[NutDouble]:
    """One that tells of a load of 33.002 % from the wall, or what the text says."""
    double = NutDouble(folder, script, last)
    double.script(text or "ups.status: OL\nups.load: 33.002")
    try:
        double.start()
        yield double
    finally:
        double.stop()
