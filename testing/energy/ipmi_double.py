"""A BMC that speaks RMCP+ over UDP: pyghmi's, with the DCMI command that tells the power.

Run as a program it serves until it is ended; pyghmi keeps its sessions in globals.
"""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testing.energy.waiting import until

USER, PASSWORD = "watcher", "correct horse"
_GROUP, _POWER_READING = 0x2C, 0x02
_DCMI = 0xDC


class BmcDouble:
    """One whose power a test says, in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.password_file = folder / "password"
        self.password_file.write_text(f"{PASSWORD}\n")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.address = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def tell(self, watts: int = 217, active: bool = True, code: int = 0) -> None:
        """The power from now on, whether it measures, and a completion code of IPMI."""
        part = self._folder / "told.part"
        part.write_text(json.dumps({"watts": watts, "active": active, "code": code}))
        part.replace(self._folder / "told")

    def start(self) -> None:
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "testing.energy.ipmi_double", str(self.port), self._folder],
                cwd=Path(__file__).parents[2],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until(self._answers, "the BMC answers")

    def pause(self) -> None:
        """It no longer answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        """And it forgets its sessions."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
            self._process = None

    def questions(self) -> list[str]:
        """What it has been asked in sessions."""
        return (self._folder / "asked").read_text().splitlines()

    def _answers(self) -> bool:
        """To Get Channel Authentication Capabilities of IPMI 2.0."""
        question = bytes.fromhex("0600ff07 000000000000000000 09 2018c8 8100388e04b5")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
            line.settimeout(0.2)
            line.sendto(question, ("127.0.0.1", self.port))
            try:
                return bool(line.recv(1024))
            except OSError:
                return False


@contextmanager
def serving(folder: Path, **readings: Any) -> Iterator[BmcDouble]:
    """One that tells 217 W."""
    double = BmcDouble(folder)
    double.tell(**readings)
    try:
        double.start()
        yield double
    finally:
        double.kill()


def _serve(port: int, folder: Path) -> None:
    from pyghmi.ipmi.bmc import Bmc

    class Board(Bmc):  # type: ignore[misc]
        def handle_raw_request(self, request: dict[str, Any], session: Any) -> None:
            with (folder / "asked").open("a") as log:
                print(request["netfn"], request["command"], session.maxpriv, file=log)
            if (request["netfn"], request["command"]) != (_GROUP, _POWER_READING):
                super().handle_raw_request(request, session)
                return
            readings = json.loads((folder / "told").read_text())
            if readings["code"]:
                session.send_ipmi_response(code=readings["code"])
                return
            # Get Power Reading of DCMI 1.5: now, least, most, mean, instant, period in ms, state.
            watts, state = readings["watts"], 0x40 if readings["active"] else 0
            numbers = struct.pack("<4H2IB", watts, 3, 900, 300, int(time.time()), 1000, state)
            session.send_ipmi_response(data=[_DCMI, *numbers])

    Board({USER: PASSWORD}, port=port, address="127.0.0.1").listen()


if __name__ == "__main__":
    _serve(int(sys.argv[1]), Path(sys.argv[2]))
