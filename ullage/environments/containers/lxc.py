"""The LXC provider: system containers."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Final, Literal

from pydantic import Field

from ullage.common.commands import CommandError, attempt, needed, run
from ullage.common.errors import HOST_MISSING, HOST_NEEDS_ROOT, INSTANCE_NOT_STARTED, UllageError
from ullage.common.packages import install_command
from ullage.common.quantities import Seconds
from ullage.environments import layer
from ullage.environments.agent.client import AgentClient
from ullage.environments.base import (
    Instance,
    InstanceSpec,
    Options,
    ProcessOptions,
    Provider,
    verify_limits,
)
from ullage.environments.containers.base import (
    START_DEADLINE_S,
    Container,
    container_id,
    environment,
    remove_group,
    starting,
    thaw_if_there,
)
from ullage.environments.containers.oci_spec import AGENT, PATH, PERIOD_US, cpu_list
from ullage.environments.layer import Layer
from ullage.host.cgroups import Group, Limits, cgroup_path, hierarchies
from ullage.host.claims import boot_id_seen_by
from ullage.host.network.bridge import INSIDE, Endpoint
from ullage.host.network.iproute import disable_ipv6

NAME: Final = "notify"
_MOST: Final = 4096


class Notified:
    """A socket on which the systemd of a container says that all has started, by sd_notify(3)."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        # A socket's own path may be 107 characters long, and the directory's is not ours to choose.
        directory_fd = os.open(directory, os.O_PATH | os.O_DIRECTORY)
        try:
            self._socket.bind(f"/proc/self/fd/{directory_fd}/{NAME}")
        except BaseException:
            self._socket.close()
            raise
        finally:
            os.close(directory_fd)

    async def ready(self, deadline_s: float) -> None:
        """Until it says so; TimeoutError when it does not in time."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(deadline_s):
            while b"READY=1" not in (await loop.sock_recv(self._socket, _MOST)).splitlines():
                pass

    def close(self) -> None:
        """Listen no more; what is said from then on is lost."""
        self._socket.close()
        self.path.unlink(missing_ok=True)


COMMON: Final = Path("/usr/share/lxc/config/common.conf")
_NOTIFY: Final = "run/ullage-notify"
_APPARMOR: Final = Path("/sys/module/apparmor/parameters/enabled")


class LxcOptions(ProcessOptions):
    """Fields of an `lxc` environment in the plan."""

    boot: Literal["agent", "systemd"] = Field(
        "agent", description="`agent`: nothing else runs inside; `systemd`: a whole Debian boots"
    )
    boot_deadline_s: Seconds = Field(300.0, description="systemd has so long to start everything")


class Lxc(Provider):
    """A system container by LXC, from the unpacked image, read-only.

    Debian's `common.conf` is included as it is, so devices, dropped capabilities and the seccomp
    profile are LXC's own. The container has a cgroup of its own with the limits of the plan, and a
    veth on the run's bridge that LXC makes. Its first process only waits; the agent comes in by
    `lxc-attach`, into the same cgroup and namespaces. `/data` is a bind mount of a directory on the
    host's disk; `/tmp` and `/run` are in memory and count against the memory limit.

    With `boot: systemd` its first process is systemd, which starts all services of the image, and
    the container is up when it says that it has. The root can be written then, in a layer of the
    container's own (overlayfs), and so can its own control groups: systemd needs both.

    Needs root. AppArmor confines the container where the host has it, and the report says when not.
    """

    name: ClassVar[str] = "lxc"
    options_model: ClassVar[type[Options]] = LxcOptions
    last_seen: ClassVar[str] = "2026-11-29: LXC 5.0.2 on the lab's VM"

    def __init__(self, options: Options) -> None:
        assert isinstance(options, LxcOptions)
        super().__init__(options)
        self._options = options
        self._version = "unknown"

    async def check(self) -> None:
        """HOST_NEEDS_ROOT, HOST_MISSING."""
        if os.geteuid() != 0:
            raise UllageError(HOST_NEEDS_ROOT, what="lxc", otherwise="use `provider: oci`")
        self._version = (await run([needed("lxc-start", "lxc"), "--version"])).strip()
        if not COMMON.is_file():
            raise UllageError(HOST_MISSING, what=str(COMMON), command=install_command("lxc"))
        if apparmor_profile() == "generated":
            # Else each container dies as it starts: LXC has it load the profile.
            needed("apparmor_parser", "apparmor")

    def packages(self) -> tuple[str, ...]:
        """systemd, when the container boots with it."""
        return ("systemd-sysv",) if self._options.boot == "systemd" else ()

    def label(self) -> str:
        """`container (lxc)`."""
        return "container (lxc)"

    def treatments(self) -> dict[str, str]:
        """What differs from native on purpose."""
        systemd = self._options.boot == "systemd"
        return {
            "runtime": f"lxc {self._version}",
            "seccomp": "LXC's default profile",
            "apparmor": apparmor_profile(),
            "network": "veth on the run's bridge",
            "root": "overlayfs" if systemd else "bind mount, read-only",
            "user namespace": "none",
            "capabilities": "LXC's default",
            **({"boot": "systemd", "control groups": "its own, writable"} if systemd else {}),
        }

    async def create(self, spec: InstanceSpec) -> Instance:
        """Start one container and attach its agent. INSTANCE_NOT_STARTED, LIMIT_NOT_APPLIED."""
        async with starting(self.name, spec) as undo:
            if spec.image is None:
                raise UllageError(
                    INSTANCE_NOT_STARTED,
                    provider=self.name,
                    name=spec.name,
                    reason="it cannot run from the host's userland",
                )
            systemd, booted, written = self._options.boot == "systemd", None, None
            if systemd or spec.image.writable:
                # Before all else: the layer is removed when nobody can write to it any more.
                written = await layer.over(spec, spec.image.root, undo)
                spec.on_stage("copied", "")
            if systemd:
                spec.image.require(["/sbin/init"])
                booted = Notified(spec.state_dir)
                undo.callback(booted.close)
            endpoint = None
            if spec.network is not None:
                endpoint = await spec.network.reserve(spec.name)
                undo.push(spec.network.release, endpoint)
            undo.push(_stop, spec)
            # LXC makes its groups below this one's parents. It would make those too, but would
            # leave cpusets of version 1 empty below the first, so that nobody could enter them.
            cpus_group = Group.create(spec.tag, f"{spec.name}.held", Limits(cpu_ids=spec.cpu_ids))
            undo.push(cpus_group.remove)
            spec.on_stage("booting", "")
            await _start(spec, configuration(spec, spec.image.root, endpoint, written, booted))
            if spec.network is not None and endpoint is not None:
                spec.on_stage("addressed", endpoint.address)
                disable_ipv6(endpoint.device)
                await spec.network.reach_beyond(next(iter(Group.find(spec.tag, spec.name).pids())))
            agent = await AgentClient.launch(
                _attach(spec),
                deadline_s=START_DEADLINE_S,
                stderr=spec.state_dir / "attach.log",
                env=environment(spec),
                name=spec.name,
                boot_id=boot_id_seen_by(Group.find(spec.tag, spec.name).pids()),
            )
            undo.push(agent.bye)
            group = Group.find(spec.tag, spec.name)
            undo.push(thaw_if_there, group)
            if booted is not None:
                await self._finish_boot(spec, booted)
            verify_limits(spec, agent.facts)
            return Container(spec, agent, group, endpoint.address if endpoint else None, undo)

    async def _finish_boot(self, spec: InstanceSpec, booted: Notified) -> None:
        """Wait until systemd has started everything, so that no trial shares that."""
        limit_s = self._options.boot_deadline_s
        try:
            await booted.ready(limit_s)
        except TimeoutError as error:
            reason = f"its systemd has not started everything within {limit_s:g} s"
            raise UllageError(
                INSTANCE_NOT_STARTED, provider=self.name, name=spec.name, reason=reason
            ) from error


def apparmor_profile() -> str:
    """Debian's default where AppArmor is on, else none."""
    try:
        enabled = _APPARMOR.read_text(encoding="ascii").strip() == "Y"
    except OSError:
        enabled = False
    return "generated" if enabled else "unconfined"


def configuration(
    spec: InstanceSpec,
    root: Path,
    endpoint: Endpoint | None,
    written: Layer | None = None,
    booted: Notified | None = None,
) -> str:
    """The container's configuration file (lxc.container.conf(5)).

    written: where what is written to its root goes; None: it can only be read.
    booted: it boots with systemd, which says so here.
    """
    lines = [
        *_root(root, written),
        *_first_process(spec, booted),
        *_cgroup(spec),
        *_limits(spec),
        *_network(endpoint),
    ]
    return "".join(f"{key} = {value}\n" for key, value in lines)


def _root(root: Path, written: Layer | None) -> Iterator[tuple[str, str]]:
    yield "lxc.include", str(COMMON)
    if written is None:
        yield "lxc.rootfs.path", f"dir:{root}"
        yield "lxc.rootfs.options", "ro"
    else:
        yield "lxc.rootfs.path", f"overlay:{root}:{written.upper}"


def _first_process(spec: InstanceSpec, booted: Notified | None) -> Iterator[tuple[str, str]]:
    yield "lxc.uts.name", spec.name
    if booted is None:
        yield "lxc.init.cmd", f"{AGENT} pause"
    else:
        yield "lxc.init.cmd", "/sbin/init"
        yield "lxc.environment", f"NOTIFY_SOCKET=/{_NOTIFY}"
    yield "lxc.apparmor.profile", apparmor_profile()
    memory = f"size={spec.memory_bytes}"
    # An empty value clears what common.conf said: its `cgroup:mixed` mounts nothing where the
    # kernel has cgroup namespaces, and the agent wants to read its limits.
    yield "lxc.mount.auto", ""
    groups = "ro" if booted is None else "mixed"
    yield "lxc.mount.auto", f"cgroup:{groups}:force proc:mixed sys:mixed"
    yield "lxc.mount.entry", f"{spec.agent} {AGENT[1:]} none bind,ro,nosuid,nodev 0 0"
    yield "lxc.mount.entry", f"{spec.data_dir} data none bind,rw 0 0"
    yield "lxc.mount.entry", f"tmpfs tmp tmpfs nosuid,nodev,mode=1777,{memory} 0 0"
    yield "lxc.mount.entry", f"tmpfs run tmpfs nosuid,nodev,mode=755,{memory} 0 0"
    shm = f"tmpfs dev/shm tmpfs nosuid,nodev,noexec,mode=1777,{memory},create=dir 0 0"
    yield "lxc.mount.entry", shm
    if booted is not None:
        yield "lxc.mount.entry", f"{booted.path} {_NOTIFY} none bind,create=file 0 0"


def _cgroup(spec: InstanceSpec) -> Iterator[tuple[str, str]]:
    """Everything of LXC's in groups of ours, so that it is found by the tag."""
    yield "lxc.cgroup.relative", "0"
    for key, name in _groups(spec).items():
        yield f"lxc.cgroup.dir.{key}", cgroup_path(spec.tag, name).lstrip("/")


def _limits(spec: InstanceSpec) -> Iterator[tuple[str, str]]:
    """In the words of the cgroup version that this host uses for each controller."""
    versions = {name: tree.version for tree in hierarchies() for name in tree.controllers}
    memory, quota = str(spec.memory_bytes), spec.cpu_quota
    if versions.get("cpuset") == 1:
        yield "lxc.cgroup.cpuset.cpus", cpu_list(spec.cpu_ids)
    else:
        yield "lxc.cgroup2.cpuset.cpus", cpu_list(spec.cpu_ids)
    if versions.get("memory") == 1:
        yield "lxc.cgroup.memory.limit_in_bytes", memory
        if _counts_swap():
            yield "lxc.cgroup.memory.memsw.limit_in_bytes", memory
    else:
        yield "lxc.cgroup2.memory.max", memory
        yield "lxc.cgroup2.memory.swap.max", "0"
    if quota is not None and versions.get("cpu") == 1:
        yield "lxc.cgroup.cpu.cfs_period_us", str(PERIOD_US)
        yield "lxc.cgroup.cpu.cfs_quota_us", str(round(quota * PERIOD_US))
    elif quota is not None:
        yield "lxc.cgroup2.cpu.max", f"{round(quota * PERIOD_US)} {PERIOD_US}"


def _network(endpoint: Endpoint | None) -> Iterator[tuple[str, str]]:
    if endpoint is None:
        yield "lxc.net.0.type", "empty"
        yield "lxc.net.0.flags", "up"  # of the loopback device, which would stay down
        return
    inside = ipaddress.IPv4Interface(f"{endpoint.address}/{endpoint.prefix}")
    for key, value in {
        "type": "veth",
        "veth.pair": endpoint.device,
        "link": endpoint.link,
        "flags": "up",
        "name": INSIDE,
        "hwaddr": endpoint.mac,
        # LXC would take 0.0.0.255 for the broadcast address.
        "ipv4.address": f"{inside} {inside.network.broadcast_address}",
    }.items():
        yield f"lxc.net.0.{key}", value
    yield "lxc.sysctl.net.ipv6.conf.all.disable_ipv6", "1"


def _counts_swap() -> bool:
    """Version 1 limits swap only where the kernel accounts for it."""
    name = "memory.memsw.limit_in_bytes"
    return any((tree.path / name).exists() for tree in hierarchies() if tree.version == 1)


def _groups(spec: InstanceSpec) -> dict[str, str]:
    """What LXC puts where. The monitor goes to the pivot when it removes the other two."""
    monitor = f"{spec.name}.monitor"
    return {"container": spec.name, "monitor": monitor, "monitor.pivot": f"{spec.name}.pivot"}


def _lxc(spec: InstanceSpec, program: str, *arguments: str) -> list[str]:
    path = str(spec.state_dir / "lxc")
    return [needed(program, "lxc"), "-P", path, "-n", container_id(spec), *arguments]


async def _start(spec: InstanceSpec, text: str) -> None:
    file, log = spec.state_dir / "lxc.conf", spec.state_dir / "lxc.log"
    (spec.state_dir / "lxc").mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    command = _lxc(spec, "lxc-start", "-d", "-f", str(file), "-o", str(log), "-l", "WARN")
    try:
        await run(command, timeout_s=START_DEADLINE_S)
    except CommandError as error:
        # What lxc-start itself says is only that one should look at the log.
        cause = await asyncio.to_thread(_cause, log)
        raise CommandError(error.program, error.status, cause or error.reason) from error


def _cause(log: Path) -> str:
    """The first errors in LXC's log; the later ones only follow from them."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    # `lxc-start NAME DATE ERROR  FUNCTION - FILE:FUNCTION:LINE - MESSAGE`
    messages = [line.split(" - ", 2)[-1].strip() for line in lines if " ERROR " in line]
    return "; ".join(messages[:2])


def _attach(spec: InstanceSpec) -> list[str]:
    return _lxc(
        spec, "lxc-attach", "--clear-env", "--set-var", f"PATH={PATH}", "--", AGENT, "serve"
    )


async def _stop(spec: InstanceSpec) -> None:
    await attempt(_lxc(spec, "lxc-stop", "-k"))
    for name in _groups(spec).values():
        await remove_group(spec.tag, name)
