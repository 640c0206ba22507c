"""A real apcupsd, and the Smart-UPS behind its serial line, which is a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import shutil
import socket
import subprocess
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from testing.energy.waiting import until

_UNPACKED = Path(__file__).parents[2] / "target/apcupsd/sbin/apcupsd"
"""`make test-packages` puts it there: Debian installs it only without NUT."""
APCUPSD = _UNPACKED if _UNPACKED.exists() else Path(shutil.which("apcupsd") or "/sbin/apcupsd")

needs_apcupsd = pytest.mark.skipif(not APCUPSD.exists(), reason="needs apcupsd: make test-packages")

ONLINE, ON_BATTERY = 0x08, 0x10
"""Bits of the answer to Q."""


class SmartUps:
    """Answers the one-letter questions of APC's UPS-Link protocol on a pseudo-terminal."""

    def __init__(self, line: Path) -> None:
        self.load = "033.0"
        self.state = ONLINE
        self._master, self._slave = pty.openpty()
        tty.setraw(self._slave)
        line.symlink_to(os.ttyname(self._slave))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def unplug(self) -> None:
        """The line is hung up."""
        if not self._over.is_set():
            self._over.set()
            self._thread.join(60)
            os.close(self._master)
            os.close(self._slave)

    def _serve(self) -> None:
        while not self._over.is_set():
            if select.select([self._master], [], [], 0.1)[0]:
                request = os.read(self._master, 1)
                if request not in b"\r\n":
                    os.write(self._master, self._answer(request) + b"\r\n")

    def _answer(self, request: bytes) -> bytes:
        answers = {
            b"Y": "SM",
            b"a": "3.!$%+?=#|.\x01ABCFLMNOPQXYZabfjmn",
            b"\x01": "SMART-UPS 1000",
            b"P": self.load,
            b"Q": f"{self.state:02X}",
            b"L": "229.6",
            b"O": "229.6",
            b"F": "50.00",
            b"f": "100.0",
            b"B": "27.3",
            b"C": "035.1",
            b"M": "230.0",
            b"N": "229.0",
            b"X": "OK",
            b"j": "0042:",
            b"b": "50.9.D",
            b"m": "11/22/26",
            b"n": "GS0001",
        }
        return answers.get(request, "NA").encode()


class ApcupsdDouble:
    """apcupsd in a folder and on a port of its own, which does nothing to this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.ups = SmartUps(folder / "line")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.server = f"127.0.0.1:{port}"
        (folder / "apcupsd.conf").write_text(
            "## apcupsd.conf v1.1 ##\nUPSNAME office\nUPSCABLE smart\nUPSTYPE apcsmart\n"
            f"DEVICE {folder}/line\nLOCKFILE {folder}\nSCRIPTDIR {folder}\nPWRFAILDIR {folder}\n"
            f"NOLOGINDIR {folder}\nEVENTSFILE {folder}/events\nSTATFILE {folder}/status\n"
            "ONBATTERYDELAY 6\nBATTERYLEVEL -1\nMINUTES -1\nTIMEOUT 0\nPOLLTIME 1\nNETSERVER on\n"
            f"NISIP 127.0.0.1\nNISPORT {port}\nUPSCLASS standalone\nUPSMODE disable\n"
        )
        script = folder / "apccontrol"
        script.write_text("#!/bin/sh\n")
        script.chmod(0o755)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """apcupsd, until it tells the load."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(str(APCUPSD), "-b", "-f", str(self._folder / "apcupsd.conf")),
                    *("-P", str(self._folder / "pid")),  # and not /run/apcupsd.pid
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until(self._tells, "apcupsd tells the load")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
            self._process = None

    def _tells(self) -> bool:
        host, _, port = self.server.partition(":")
        answer = b""
        with suppress(OSError), socket.create_connection((host, int(port)), 60) as line:
            line.sendall(b"\x00\x06status")
            while not answer.endswith(b"\x00\x00") and (more := line.recv(4096)):
                answer += more
        # It begins with 0.0, before it has asked the UPS.
        return b"LOADPCT" in answer and b"LOADPCT  : 0.0" not in answer


@contextmanager
def running(folder: Path) -> Iterator[ApcupsdDouble]:
    """One that tells of a load of 33.0 % from the wall."""
    double = ApcupsdDouble(folder)
    try:
        double.start()
        yield double
    finally:
        double.kill()
        double.ups.unplug()


def status(**changed: str | None) -> bytes:
    """What a NIS of apcupsd sends of a USB UPS of 865 W, in its frames; None leaves a line out."""
    lines: dict[str, str | None] = {
        "APC": "001,036,0862",
        "VERSION": "3.14.14 (31 May 2016) debian",
        "STATUS": "ONLINE",
        "LINEV": "229.0 Volts",
        "LOADPCT": "33.0 Percent",
        "TIMELEFT": "42.0 Minutes",
        "NOMPOWER": "865 Watts",
        "END APC": "2026-11-22 17:29:43 +0000",
        **changed,
    }
    records = [f"{name:<9}: {value}\n" for name, value in lines.items() if value is not None]
    return frames(*(line.encode() for line in records))


def frames(*records: bytes) -> bytes:
    """Each with its length before it, and one of length 0 at the end."""
    return b"".join(len(record).to_bytes(2, "big") + record for record in (*records, b""))
