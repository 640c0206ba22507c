"""A libvirtd of a test's own: real, in a mount namespace that outlives it, and gone at the end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ullage.environments.libvirt.domain import Sockets
from ullage.host import cgroups

_PRIVATE: Final = ("/run/libvirt", "/var/lib/libvirt", "/var/log/libvirt", "/var/cache/libvirt")
_PATIENCE_S: Final = 60.0
_TOGETHER: Final = ("setpriv", "--pdeathsig", "TERM")
"""Whoever kills the tests leaves no libvirtd behind."""

_HOLDER: Final = """
set -e
mount --make-rprivate /
for folder in {private} /etc/libvirt; do
    mkdir -p $folder
    mount -t tmpfs tmpfs $folder
done
printf '%s = "%s"\n' stdio_handler file user root group root security_driver none \
    > /etc/libvirt/qemu.conf
echo ready
exec sleep infinity
"""


class Libvirtd:
    """One that listens on a socket of its own; it may be killed, stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._holder = subprocess.Popen(
            [
                *_TOGETHER,
                "unshare",
                "--mount",
                "sh",
                "-c",
                _HOLDER.format(private=" ".join(_PRIVATE)),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "ready\n"
        self._configuration = folder / "libvirtd.conf"
        self._configuration.write_text(
            f'unix_sock_dir = "{folder}"\nauth_unix_rw = "none"\n'
            f'log_outputs = "3:file:{folder}/log"\n'
        )
        self._daemon: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"qemu:///system?socket={self._folder}/libvirt-sock"

    @property
    def pid(self) -> int:
        assert self._daemon is not None
        return self._daemon.pid

    def start(self) -> None:
        """Until it answers."""
        program = ["libvirtd", "-f", str(self._configuration), "-p", f"{self._folder}/pid"]
        enter = [*_TOGETHER, "nsenter", "--mount", f"--target={self._holder.pid}", "--wd=/"]
        self._daemon = subprocess.Popen([*enter, *program], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + _PATIENCE_S
        while self._ask("version").returncode != 0:
            assert self._daemon.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def kill(self) -> None:
        """Its VMs run on."""
        assert self._daemon is not None
        self._daemon.kill()
        self._daemon.wait()
        (self._folder / "libvirt-sock").unlink(missing_ok=True)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def virsh(self, *argv: str) -> str:
        done = self._ask(*argv)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def domains(self) -> list[str]:
        """The names of all that it has."""
        return self.virsh("list", "--all", "--name").split()

    def end(self) -> None:
        """With all that it still runs."""
        for name in self.domains():
            self._ask("destroy", name)
            self._ask("undefine", name)
        assert self._daemon is not None
        self._daemon.terminate()
        self._daemon.wait()
        self._holder.kill()
        self._holder.wait()
        for hierarchy in cgroups.hierarchies():  # libvirtd makes it, and leaves it
            with contextlib.suppress(OSError):
                (hierarchy.path / "machine").rmdir()

    def _ask(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["virsh", "--connect", self.uri, *argv], capture_output=True, text=True, check=False
        )


@contextmanager
def libvirtd(folder: Path) -> Iterator[Libvirtd]:
    daemon = Libvirtd(folder)
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.end()


def sockets(folder: Path) -> Sockets:
    return Sockets(folder / "agent.sock", folder / "console.sock")
