"""A Hyper-V host that is none: a real sshd, and a `powershell` that runs ullage's own script."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from testing.hyperv import cmdlets
from ullage.common.quantities import memory_bytes

PARENT: Final = "C:\\images\\debian.vhdx"
_ROOT: Final = Path(__file__).parents[2]


@dataclass
class HypervDouble:
    """The host, while it stands."""

    folder: Path
    address: str

    @property
    def state(self) -> dict[str, Any]:
        """What its cmdlets hold."""
        content: dict[str, Any] = json.loads((self.folder / "state.json").read_text())
        return content

    def change(self, **fields: Any) -> None:
        """Something else is so from now on."""
        host = cmdlets.Host(self.folder)
        host.state.update(fields)
        host.save()

    def say(self, name: str, text: str) -> None:
        """`banner`: before what it answers; `instead`: in the place of it."""
        (self.folder / name).write_text(text)

    def plan(self, **more: Any) -> dict[str, Any]:
        """The fields of an environment on it."""
        return {
            "provider": "hyperv",
            "host": "hv1",
            "ssh_config": str(self.folder / "ssh_config"),
            "parent": PARENT,
            "switch": "lab",
            "key": str(self.folder / "guest"),
            "host_key": (self.folder / "guest-host.pub").read_text().strip(),
            "deadline_s": 120,
            **more,
        }

    def left(self) -> list[str]:
        """Machines and folders that are still there."""
        folder = self.folder / "c/ProgramData/ullage"
        places = [path.name for path in folder.iterdir()] if folder.exists() else []
        return [vm["Name"] for vm in self.state["vms"].values()] + places


@contextlib.contextmanager
def hyperv_host() -> Iterator[HypervDouble]:
    """Up, and gone at the end with all its machines."""
    folder = Path(tempfile.mkdtemp(prefix="ullage-hyperv-", dir="/var/tmp"))
    group = 64 + os.getpid() % 128
    double = HypervDouble(folder, f"127.{group}.255.1")
    process = None
    try:
        _furnish(folder, group)
        process = _serve(folder, double.address)
        yield double
    finally:
        if process is not None:
            process.kill()
            process.wait(30)
        for vm in double.state["vms"].values():
            cmdlets.end(vm)
        shutil.rmtree(folder, ignore_errors=True)


def _furnish(folder: Path, group: int) -> None:
    """Keys, a parent disk, the state."""
    for name in ("host", "user", "guest", "guest-host"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / name)]
        subprocess.run(argv, check=True)
    parent = folder / "c/images/debian.vhdx"
    parent.parent.mkdir(parents=True)
    disk = {
        "kind": "Dynamic",
        "authorized": (folder / "guest.pub").read_text(),
        "host": (folder / "guest-host").read_text(),
        "shown": (folder / "guest-host.pub").read_text().strip(),
    }
    parent.write_text(json.dumps(disk))
    state = {
        "system": "Microsoft Windows Server 2022 Datacenter (a double: none of Microsoft's)",
        "version": "10.0.20348",
        "cpus": len(os.sched_getaffinity(0)),
        "memory": memory_bytes(),
        "switches": ["Default Switch", "lab"],
        "group": group,
        "vms": {},
        "calls": [],
        "trouble": {},
        "no_integration": False,
        "dead": False,
        "slow": {},
        "stingy": 0,
        "suspended": "Paused",
    }
    (folder / "state.json").write_text(json.dumps(state))


def _serve(folder: Path, address: str) -> subprocess.Popen[bytes]:
    """Its sshd, and how a user's ssh finds it."""
    programs = folder / "bin"
    programs.mkdir()
    shim = programs / "powershell"
    shim.write_text(
        f'#!/bin/sh\ncd {_ROOT} && exec {sys.executable} -m testing.hyperv.endpoint {folder} "$@"\n'
    )
    shim.chmod(0o755)
    (folder / "sshd_config").write_text(
        f"ListenAddress {address}:2222\nHostKey {folder}/host\n"
        f"AuthorizedKeysFile {folder}/user.pub\nPidFile none\nUsePAM no\nStrictModes no\n"
        f"PermitRootLogin prohibit-password\nPasswordAuthentication no\nPrintMotd no\n"
        f"SetEnv PATH={programs}:/usr/sbin:/usr/bin:/sbin:/bin\n"
    )
    (folder / "known").write_text(f"[{address}]:2222 {(folder / 'host.pub').read_text()}")
    (folder / "ssh_config").write_text(
        f"Host hv1\n HostName {address}\n Port 2222\n User root\n IdentityFile {folder}/user\n"
        f" IdentitiesOnly yes\n IdentityAgent none\n UserKnownHostsFile {folder}/known\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    argv = ["/usr/sbin/sshd", "-D", "-e", "-f", str(folder / "sshd_config")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    for _ in range(200):
        if b"listening" in (folder / "log").read_bytes():
            break
        time.sleep(0.02)
    return process
