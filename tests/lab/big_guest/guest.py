"""The big guest itself: started, spoken to by ullage's own agent, and always ended."""

from __future__ import annotations

import asyncio
import compileall
import io
import py_compile
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.lab.big_guest.disks import CHECKOUT, HOST_PREFIX, PREFIX, Disks, prepare
from ullage.common.cleanup import Undo
from ullage.common.files import cache_dir
from ullage.environments.agent.client import AgentClient, Command
from ullage.environments.qemu.build import emulated_words, patience_word
from ullage.environments.qemu.command_line import Drive, VirtualMachine
from ullage.environments.qemu.process import QemuProcess
from ullage.host import disks as disk_files

RUNSC: Final = CHECKOUT / "target/runsc/runsc"
"""gVisor's runtime, where `make runsc` has built it."""
HOME: Final = "/data/home"
"""Where commands run inside."""
_MEMORY: Final = 6 << 30
_BOOT_S: Final = 900.0
_COMMAND_S: Final = 3600.0
_LONGEST: Final = 1 << 30
_SHOWN: Final = 100
_ENVIRONMENT: Final = {
    "PATH": f"{HOME}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "PYTHONPATH": f"{HOME}/tree:/data/packages",
    "HOME": HOME,
    "LC_ALL": "C.UTF-8",
    "ULLAGE_CACHE_DIR": "/data/cache",
    "ULLAGE_DATA_DIR": "/data/own",
    # Without vector units, which are slower emulated: OpenSSL hashes 11 to 23 MB/s, else 3 to 11.
    "OPENSSL_ia32cap": "0x0",
}
_PYTHON: Final = f"{PREFIX}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
_ULLAGE: Final = f"""#!/bin/sh
exec {_PYTHON} -m ullage "$@"
"""


@dataclass(frozen=True)
class Kind:
    """What is special of a machine, beside a Debian with ullage in it."""

    name: str
    packages: tuple[str, ...]
    """Debian's, more than `disks.PACKAGES`."""
    modules: tuple[str, ...]
    devices: tuple[str, ...]
    """Files that are there once the modules are loaded."""
    shape: Callable[[VirtualMachine, Disks, Path], VirtualMachine] = lambda machine, *_: machine
    """What becomes of the machine, given its disks and a private directory."""


KVM: Final = Kind(
    name="big-guest",
    packages=("runc", "libvirt-daemon-system", "libvirt-clients"),
    modules=("kvm-amd", "vhost_net", "bonding", "sch_netem", "8021q"),
    devices=("/dev/kvm", "/dev/vhost-net"),
)


@dataclass(frozen=True)
class Ended:
    """What a command inside came to."""

    status: int | None
    """None: a signal ended it."""
    output: str
    """Standard output, then standard error."""
    seconds: float


@dataclass(frozen=True)
class BigGuest:
    """One that runs; the loop that its agent lives in turns while it is asked something."""

    runner: asyncio.Runner
    agent: AgentClient

    def run(
        self, *argv: str, statuses: Sequence[int | None] = (0,), seconds: float = _COMMAND_S
    ) -> Ended:
        """Run a command in `HOME`, say what it took, and see that it ends with such a status."""
        begin = time.monotonic()
        command = Command(argv=argv, env=_ENVIRONMENT, cwd=HOME, timeout_s=seconds)
        done, stdout, stderr = self.runner.run(self.agent.run(command))
        took = time.monotonic() - begin
        text = (stdout + stderr).decode(errors="replace")
        words = " ".join(" ".join(argv).split())[:_SHOWN]
        print(f"{took:7.1f} s  {words}: {done.status}", flush=True)
        assert done.status in statuses, f"{argv}: {done.status}\n{text}"
        return Ended(done.status, text, took)

    def script(self, text: str, *words: str, statuses: Sequence[int | None] = (0,)) -> Ended:
        """The same of a Python program, on this tree."""
        self.write("script.py", text)
        return self.run(_PYTHON, "script.py", *words, statuses=statuses)

    def write(self, name: str, text: str | bytes, mode: int = 0o644) -> None:
        """A file in `HOME`."""
        data = text.encode() if isinstance(text, str) else text
        self.runner.run(self.agent.put(data, f"{HOME}/{name}", mode))

    def copy_in(self, tar: bytes, folder: str) -> None:
        """Unpack a tar in a folder of `HOME`."""
        self.write("in.tar", tar)
        self.run("mkdir", "-p", folder)
        self.run("tar", "-xf", "in.tar", "-C", folder)

    def copy_out(self, name: str, place: Path) -> Path:
        """A file or folder of `HOME`, to the place here."""
        self.run("tar", "-cf", "out.tar", name)
        data = self.runner.run(self.agent.get(f"{HOME}/out.tar", _LONGEST))
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            archive.extractall(place, filter="data")
        return place / name


@contextmanager
def started(*plans: str, kind: Kind = KVM) -> Iterator[BigGuest]:
    """A guest with this tree and what the plans run from, and nothing left of it afterwards."""
    undo = Undo()
    with asyncio.Runner() as runner:
        try:
            guest = BigGuest(runner, runner.run(_boot(kind, plans, undo)))
            _furnish(guest, kind)
            yield guest
        finally:
            runner.run(undo.aclose())


async def _boot(kind: Kind, plans: Sequence[str], undo: Undo) -> AgentClient:
    begin = time.monotonic()
    prepared = await prepare(plans, kind.packages)
    print(f"{time.monotonic() - begin:7.1f} s  disks", flush=True)
    place = tempfile.TemporaryDirectory(dir=cache_dir() / "big-guest", prefix="running-")
    undo.callback(place.cleanup)
    begin = time.monotonic()
    machine = kind.shape(
        await _machine(kind, prepared, Path(place.name)), prepared, Path(place.name)
    )
    process = await QemuProcess.start(machine, Path(place.name) / "console.log")
    undo.push(process.kill)
    agent = await process.agent(_BOOT_S)
    undo.push(agent.close)
    await agent.run(Command(argv=("systemctl", "is-system-running", "--wait"), timeout_s=_BOOT_S))
    await agent.run(Command(argv=("mkdir", "-p", f"{HOME}/bin", "/data/own")))
    print(f"{time.monotonic() - begin:7.1f} s  boot", flush=True)
    return agent


async def _machine(kind: Kind, prepared: Disks, place: Path) -> VirtualMachine:
    """With layers over the disks, which stay as they are."""
    drives = []
    for number, base in enumerate((await prepared.system.disk("raw"), prepared.payload)):
        layer = place / f"{number}.qcow2"
        await disk_files.overlay(base, "raw", layer)
        drives.append(Drive(layer, "qcow2", "unsafe"))
    return VirtualMachine(
        name=kind.name,
        accelerator="tcg",
        machine="q35",
        # It has AMD-V, in software. AVX is slower there than what programs do without it.
        cpu_model="max,-avx,-avx2,-fma,-f16c,-vaes,-vpclmulqdq",
        vcpus=2,
        memory_bytes=_MEMORY,
        kernel=prepared.kernel.kernel,
        initrd=prepared.kernel.initrd,
        append=(
            *("console=ttyS0", "quiet", "panic=-1", "net.ifnames=0", "mitigations=off"),
            # No AppArmor, nor SELinux in its place: LXC has a profile compiled as each container
            # starts and ends, 14 s of CPU time here, and 20 to 120 s where others are busy.
            "security=none",
            *emulated_words("tcg"),
            patience_word(_BOOT_S),
            *("ullage.root=/dev/vda", "ullage.data=/dev/vdb", f"ullage.hostname={kind.name}"),
            *("ullage.boot=systemd", "systemd.getty_auto=no"),
        ),
        drives=tuple(drives),
    )


def _furnish(guest: BigGuest, kind: Kind) -> None:
    """This tree, the command `ullage`, and what the kernel is to have."""
    if PREFIX != HOST_PREFIX:
        # At its own path: by that it finds its library.
        guest.run("mkdir", "-p", str(PREFIX.parent))
        guest.run("ln", "-s", "/data/python", str(PREFIX))
    guest.copy_in(tree(), "tree")
    guest.write("bin/ullage", _ULLAGE, 0o755)
    if RUNSC.exists():
        guest.write("bin/runsc", RUNSC.read_bytes(), 0o755)
    guest.run("modprobe", "-a", *kind.modules)
    guest.run("ls", *kind.devices)


def tree() -> bytes:
    """The package as it is in this checkout, compiled: the first start takes 90 s without."""
    buffer = io.BytesIO()
    with tempfile.TemporaryDirectory() as place, tarfile.open(fileobj=buffer, mode="w") as archive:
        copy = Path(place) / "ullage"
        shutil.copytree(CHECKOUT / "ullage", copy, ignore=shutil.ignore_patterns("__pycache__"))
        # By its hash, as a tar keeps no fractions of a second.
        by_hash = py_compile.PycInvalidationMode.UNCHECKED_HASH
        compileall.compile_dir(copy, quiet=1, stripdir=place, invalidation_mode=by_hash)
        archive.add(copy, copy.name)
    return buffer.getvalue()
