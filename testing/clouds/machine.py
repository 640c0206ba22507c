"""A machine as clouds hand them out: a kernel (this one), a disk, a console, and an sshd that lets
in whoever has the key.

Namespaces of its own, a boot id of its own, an address of the loopback network's. It gets its host
key as cloud-init would: from the user data, or drawn and printed on its console.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SCRIPT: Final = Path(__file__).parent / "machine.sh"
_NAMESPACES: Final = ("unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child")
_NUMBERS: Final = itertools.count(2)
_CABLES: Final = "198.18"
"""Addresses for tests of networks (RFC 2544): four for each cable."""
_GROUP: Final = 64 + os.getpid() % 128


@dataclass
class CloudMachine:
    """It runs until `end`."""

    address: str
    dir: Path
    process: subprocess.Popen[bytes]
    network: str = ""
    """Its network namespace; empty: this host's."""

    @property
    def console(self) -> str:
        """What it has printed."""
        path = self.dir / "console"
        return path.read_text() if path.exists() else ""

    def hold(self, still: bool) -> None:
        """Every process in it stands still, or goes on."""
        for pid in inside(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP if still else signal.SIGCONT)

    def unplug(self) -> None:
        """As if somebody had pulled the plug, however far it has come.

        What `unshare` has just forked outlives it else: it has not asked yet to die with it.
        """
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGSTOP)
        for pid in (*inside(self.process.pid), self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def end(self) -> None:
        """It goes, with all that it has written."""
        self.unplug()
        self.process.wait(30)
        if self.network:
            _ip(f"netns del {self.network}")
        shutil.rmtree(self.dir, ignore_errors=True)


def inside(pid: int) -> list[int]:
    """All processes below that one."""
    try:
        ids = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:  # it has just ended
        return []
    return [*ids, *(below for one in ids for below in inside(one))]


def boot(
    name: str,
    public_key: str,
    user_data: str,
    address: str = "",
    more: str = "",
    *,
    wired: bool = False,
    disk_bytes: int | None = None,
) -> CloudMachine:
    """Start one, at an address of its own or at this one; nobody waits until it is up.

    more: lines of its sshd's configuration; wired: it has a network of its own, with a cable here,
    so that several may have servers at the same port; disk_bytes: no more fits on its disk.
    """
    number = next(_NUMBERS)
    network, address = _wire(number) if wired else ("", address)
    address = address or f"127.{_GROUP}.{number >> 8}.{number & 255}"
    directory = Path(tempfile.mkdtemp(prefix="ullage-machine-", dir="/var/tmp"))
    (directory / "disk").mkdir()
    (directory / "boot_id").write_text(f"{uuid.uuid4()}\n")
    (directory / "authorized").write_text(public_key + "\n")
    _host_key(directory / "host", user_data)
    (directory / "sshd_config").write_text(
        f"ListenAddress {address}\nHostKey {directory}/host\n"
        f"AuthorizedKeysFile {directory}/authorized\nPidFile none\nUsePAM no\nStrictModes no\n"
        "PermitRootLogin prohibit-password\nPasswordAuthentication no\nPrintMotd no\n" + more
    )
    inside = ("ip", "netns", "exec", network) if network else ()
    size = [] if disk_bytes is None else [str(disk_bytes)]
    argv = [*inside, *_NAMESPACES, "bash", str(SCRIPT), str(directory), name, *size]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    return CloudMachine(address, directory, process, network)


def _wire(number: int) -> tuple[str, str]:
    """A network namespace with a cable to this host; its name, and its address."""
    name = f"ullage-double-{_GROUP}-{number}"
    first = 4 * number % 256
    here, there = (f"{_CABLES}.{_GROUP}.{first + end}" for end in (1, 2))
    cable = f"ud{_GROUP}-{number}"
    _ip(f"netns add {name}")
    _ip(f"link add {cable} type veth peer name eth0 netns {name}")
    _ip(f"addr add {here}/30 dev {cable}")
    _ip(f"link set {cable} up")
    for words in ("link set lo up", f"addr add {there}/30 dev eth0", "link set eth0 up"):
        _ip(f"-n {name} {words}")
    return name, there


def _ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True, capture_output=True)


def _host_key(path: Path, user_data: str) -> None:
    header, _, settings = user_data.partition("\n")
    if header == "#cloud-config":
        keys = json.loads(settings)["ssh_keys"]
        path.touch(0o600)
        path.write_text(keys["ed25519_private"])
        path.with_suffix(".pub").write_text(keys["ed25519_public"] + "\n")
    else:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
