"""A machine that one reaches by ssh, as a user has one: a Linux, or what stands for a Windows."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from testing.clouds import machine
from testing.clouds.machine import CloudMachine, inside

WINDOWS: Final = (
    f"ForceCommand sh {Path(__file__).with_name('windows.sh')}\n"
    "Subsystem sftp /usr/lib/openssh/sftp-server\n"
)
"""Of an sshd behind which Wine's cmd.exe stands for Windows'."""


@dataclass
class UserMachine:
    """It runs, and the keys of who may use it."""

    machine: CloudMachine
    keys: Path
    windows: bool

    def fields(self, **more: Any) -> dict[str, Any]:
        """Of an environment on it."""
        return {
            "provider": "ssh",
            "host": self.machine.address,
            "key": str(self.keys / "user"),
            "host_key": (self.keys / "host.pub").read_text().strip(),
            "system": "windows" if self.windows else "linux",
            "deadline_s": 120,
            **more,
        }

    @property
    def disk(self) -> Path:
        """What is written in it at /var/lib/ullage-instance."""
        return self.machine.dir / "disk"

    def left(self) -> list[str]:
        """Folders of ours that are still there."""
        home = self.disk / "wine/drive_c/users/root" if self.windows else Path("/var/lib")
        return [path.name for path in home.glob("ullage-u*")]

    def runs(self, *argv: str) -> bool:
        """Is that one running in it?"""
        line = b"".join(word.encode() + b"\0" for word in argv)
        for pid in inside(self.machine.process.pid):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/cmdline").read_bytes() == line:
                    return True
        return False

    @contextlib.contextmanager
    def deaf(self) -> Iterator[None]:
        """Those who serve connections that there are now stand still meanwhile; new ones come."""
        sessions = _children(_children(self.machine.process.pid)[0])
        for pid in sessions:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in sessions:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def hang_up(self) -> int:
        """End all connections, as a service does that restarts; how many they were."""
        sessions = _children(_children(self.machine.process.pid)[0])
        for pid in sessions:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(sessions)


@contextlib.contextmanager
def user_machine(*, windows: bool = False) -> Iterator[UserMachine]:
    """Up, and gone at the end."""
    with tempfile.TemporaryDirectory(prefix="ullage-keys-") as folder:
        keys = Path(folder)
        for name in ("user", "host"):
            argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(keys / name)]
            subprocess.run(argv, check=True)
        pair = {
            "ed25519_private": (keys / "host").read_text(),
            "ed25519_public": (keys / "host.pub").read_text().strip(),
        }
        settings = f"#cloud-config\n{json.dumps({'ssh_keys': pair})}"
        public = (keys / "user.pub").read_text().strip()
        booted = machine.boot("there", public, settings, more=WINDOWS if windows else "")
        try:
            _wait(booted)
            yield UserMachine(booted, keys, windows)
        finally:
            booted.end()


def _wait(booted: CloudMachine) -> None:
    log = booted.dir / "log"
    for _ in range(500):
        if b"listening" in log.read_bytes():
            return
        time.sleep(0.02)
    raise TimeoutError(log.read_text())


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
