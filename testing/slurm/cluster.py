"""A real cluster of Slurm on this machine: munged, slurmctld, two slurmd, with files of their own.

The two share the kernel and the file system, as machines of a cluster share their home.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

READY_S = 60.0
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
CONF = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={dir}/munge.socket
CredType=cred/munge
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
KillWait=5
NodeName=lab1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=2 RealMemory=1000
NodeName=lab2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=2 RealMemory=1000
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True)
class Cluster:
    """It is up."""

    dir: Path

    @property
    def environment(self) -> dict[str, str]:
        """For Slurm's programs."""
        return {**os.environ, "PATH": PATH, "SLURM_CONF": str(self.dir / "slurm.conf")}

    def ask(self, *argv: str) -> str:
        """What one of Slurm's programs says, whichever stream it uses."""
        done = subprocess.run(
            argv, env=self.environment, check=True, capture_output=True, text=True, timeout=READY_S
        )
        return done.stdout + done.stderr

    @contextlib.contextmanager
    def allocation(self, count: int) -> Iterator[Mapping[str, str]]:
        """The environment inside of one with so many machines."""
        words = self.ask("salloc", "--no-shell", f"--nodes={count}", "--exclusive").split()
        job = words[words.index("allocation") + 1]
        try:
            names = self.ask("squeue", "-h", "-j", job, "-o", "%N").strip()
            yield {**self.environment, "SLURM_JOB_ID": job, "SLURM_JOB_NODELIST": names}
        finally:
            self.ask("scancel", "--quiet", job)


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """Up, and gone at the end whatever happens."""
    with contextlib.ExitStack() as stack:
        place = Path(tempfile.mkdtemp(prefix="ullage-slurm-", dir="/var/tmp"))
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        place.chmod(0o755)
        for folder in ("state", "lab1", "lab2"):
            (place / folder).mkdir()
        ours = Cluster(place)
        ports = dict(zip(("port", "first", "second"), _ports(3), strict=True))
        conf = CONF.format(dir=place, host=socket.gethostname().partition(".")[0], **ports)
        (place / "slurm.conf").write_text(conf, encoding="ascii")
        # Without a mount of its own it looks for none.
        cgroups = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"
        (place / "cgroup.conf").write_text(cgroups, encoding="ascii")
        _munge(ours, stack)
        for argv in (["slurmctld", "-D"], *(["slurmd", "-D", "-N", n] for n in ("lab1", "lab2"))):
            _start(ours, stack, argv)
        deadline = time.monotonic() + READY_S
        while ours.ask("sinfo", "-h", "-t", "idle", "-o", "%D").split()[:1] != ["2"]:
            if time.monotonic() > deadline:
                raise RuntimeError((place / "slurmctld.log").read_text(errors="replace")[-3000:])
            time.sleep(0.25)
        yield ours


def _munge(ours: Cluster, stack: contextlib.ExitStack) -> None:
    key, listening = ours.dir / "munge.key", ours.dir / "munge.socket"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    files = [f"--{name}={ours.dir}/munge.{name}" for name in ("pid-file", "log-file", "seed-file")]
    own = [f"--key-file={key}", f"--socket={listening}", *files]
    _start(ours, stack, ["munged", "--foreground", "--force", *own])
    deadline = time.monotonic() + READY_S
    while not listening.exists() and time.monotonic() < deadline:
        time.sleep(0.05)


def _start(ours: Cluster, stack: contextlib.ExitStack, argv: list[str]) -> None:
    """A daemon in the foreground, ended with the cluster."""
    log = stack.enter_context((ours.dir / f"{argv[0]}.log").open("ab"))
    program = shutil.which(argv[0], path=PATH) or argv[0]
    daemon = subprocess.Popen(
        [program, *argv[1:]],
        env=ours.environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    stack.callback(_end, daemon)


def _end(daemon: subprocess.Popen[bytes]) -> None:
    daemon.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        daemon.wait(15)
    daemon.kill()
    daemon.wait()


def _ports(count: int) -> list[int]:
    """Free ones, of this address."""
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [int(listener.getsockname()[1]) for listener in listeners]
