"""A container's `config.json` after the OCI runtime specification 1.0, and its root directory.

https://github.com/opencontainers/runtime-spec/blob/v1.0.2/config.md; capabilities, masked paths and
mount options are Docker's defaults, so that the container is the one that people run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ullage.environments.base import InstanceSpec

VERSION: Final = "1.0.2"
AGENT: Final = "/ullage/agent"
"""Where every image has an empty file to bind the agent onto."""
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PERIOD_US: Final = 100_000

CAPABILITIES: Final = tuple(
    f"CAP_{name}"
    for name in (  # noqa: SIM905 - a list would be fourteen lines
        "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE NET_RAW SETFCAP"
        " SETGID SETPCAP SETUID SYS_CHROOT"
    ).split()
)
"""Docker's default set."""

_MASKED: Final = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/sys/firmware",
)
_READONLY: Final = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_PRIVATE: Final = frozenset(
    ("data", "dev", "lost+found", "media", "mnt", "proc", "run", "sys", "tmp", "ullage")
)
"""Directories of the host's root that a container of the host's userland does not get."""


@dataclass(frozen=True)
class ContainerSpec:
    """What `config.json` is made from."""

    spec: InstanceSpec
    root: Path
    netns: Path | None
    """None: an empty network namespace, or the host's when rootless."""
    cgroup: str
    seccomp: dict[str, Any] | None
    rootless: bool
    host_binds: tuple[Path, ...] = ()
    """Directories of the host that make up its userland."""


@dataclass(frozen=True)
class Mount:
    """One entry of `mounts`."""

    destination: str
    type: str
    source: str
    options: tuple[str, ...]

    def json(self) -> dict[str, Any]:
        """As the specification writes it."""
        return {
            "destination": self.destination,
            "type": self.type,
            "source": self.source,
            "options": list(self.options),
        }


def config(container: ContainerSpec) -> dict[str, Any]:
    """The whole `config.json`."""
    return {
        "ociVersion": VERSION,
        "process": _process(),
        "root": {"path": str(container.root), "readonly": not _writable(container.spec)},
        "hostname": container.spec.name,
        "mounts": [mount.json() for mount in _mounts(container)],
        "linux": _linux(container),
    }


def _writable(spec: InstanceSpec) -> bool:
    return spec.image is not None and spec.image.writable


def host_root(directory: Path) -> tuple[Path, ...]:
    """Make a root directory of mount points and links for the host's userland.

    Returns the host's directories to bind. The host's own root is not bound: it may have no
    `/data` and no `/ullage`, and a container must not make them there.
    """
    binds = []
    directory.mkdir(parents=True, exist_ok=True)
    for name in _PRIVATE:
        (directory / name).mkdir(exist_ok=True)
    (directory / AGENT.lstrip("/")).touch()
    for entry in sorted(Path("/").iterdir()):
        if entry.name in _PRIVATE:
            continue
        inside = directory / entry.name
        if entry.is_symlink():
            inside.unlink(missing_ok=True)
            inside.symlink_to(entry.readlink())
        elif entry.is_dir():
            inside.mkdir(exist_ok=True)
            binds.append(entry)
    return tuple(binds)


def _process() -> dict[str, Any]:
    return {
        "terminal": False,
        "user": {"uid": 0, "gid": 0},
        "args": [AGENT, "serve"],
        "env": [f"PATH={PATH}"],
        "cwd": "/",
        "capabilities": {
            name: list(CAPABILITIES) for name in ("bounding", "effective", "permitted")
        },
        "noNewPrivileges": False,
    }


def _mounts(container: ContainerSpec) -> Iterator[Mount]:
    spec, rootless = container.spec, container.rootless
    closed = ("nosuid", "noexec", "nodev")
    memory = f"size={spec.memory_bytes}"
    for bind in container.host_binds:
        yield Mount(str(bind), "bind", str(bind), ("bind", "ro", "nosuid", "nodev"))
    yield Mount("/proc", "proc", "proc", closed)
    yield Mount("/dev", "tmpfs", "tmpfs", ("nosuid", "strictatime", "mode=755", "size=65536k"))
    # The group tty is not mapped into a rootless container.
    tty = () if rootless else ("gid=5",)
    pts = ("nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", *tty)
    yield Mount("/dev/pts", "devpts", "devpts", pts)
    yield Mount("/dev/shm", "tmpfs", "shm", (*closed, "mode=1777", memory))  # noqa: S108
    yield Mount("/dev/mqueue", "mqueue", "mqueue", closed)
    if rootless:
        # sysfs shows a network namespace, and only its owner may mount it.
        yield Mount("/sys", "bind", "/sys", ("rbind", "ro", *closed))
    else:
        yield Mount("/sys", "sysfs", "sysfs", (*closed, "ro"))
        yield Mount("/sys/fs/cgroup", "cgroup", "cgroup", (*closed, "relatime", "ro"))
    yield Mount("/tmp", "tmpfs", "tmpfs", ("nosuid", "nodev", "mode=1777", memory))  # noqa: S108
    yield Mount("/run", "tmpfs", "tmpfs", ("nosuid", "nodev", "mode=755", memory))
    yield Mount("/data", "bind", str(spec.data_dir), ("bind", "rw", "nosuid", "nodev"))
    yield Mount(AGENT, "bind", str(spec.agent), ("bind", "ro", "nosuid", "nodev"))


def _linux(container: ContainerSpec) -> dict[str, Any]:
    linux: dict[str, Any] = {
        "namespaces": list(_namespaces(container)),
        "maskedPaths": list(_MASKED),
        "readonlyPaths": list(_READONLY),
        "rootfsPropagation": "private",
    }
    if container.seccomp is not None:
        linux["seccomp"] = container.seccomp
    if container.rootless:
        linux["uidMappings"] = _only(os.geteuid())
        linux["gidMappings"] = _only(os.getegid())
    else:
        linux["cgroupsPath"] = container.cgroup
        linux["resources"] = _resources(container.spec)
    return linux


def _namespaces(container: ContainerSpec) -> Iterator[dict[str, str]]:
    for kind in ("pid", "ipc", "uts", "mount", "cgroup"):
        yield {"type": kind}
    if container.rootless:
        yield {"type": "user"}
    elif container.netns is None:
        yield {"type": "network"}
    else:
        yield {"type": "network", "path": str(container.netns)}


def _resources(spec: InstanceSpec) -> dict[str, Any]:
    cpu: dict[str, Any] = {"cpus": cpu_list(spec.cpu_ids)}
    if spec.cpu_quota is not None:
        cpu |= {"quota": round(spec.cpu_quota * PERIOD_US), "period": PERIOD_US}
    return {
        "cpu": cpu,
        # `swap` is memory plus swap: the same figure means none.
        "memory": {"limit": spec.memory_bytes, "swap": spec.memory_bytes},
        # Nothing but what the runtime adds itself: null, zero, full, random, urandom, tty, ptmx.
        "devices": [{"allow": False, "access": "rwm"}],
    }


def cpu_list(cpu_ids: Sequence[int]) -> str:
    """`0,2,3`, as cpuset files and options of `docker` and `taskset` take it."""
    return ",".join(str(cpu) for cpu in cpu_ids)


def _only(number: int) -> list[dict[str, int]]:
    return [{"containerID": 0, "hostID": number, "size": 1}]
