"""The native environment: the machine itself, within the plan's limits."""

from __future__ import annotations

import contextlib
import os
import signal
from asyncio import to_thread
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Final

from ullage.common.cleanup import Undo
from ullage.common.errors import CGROUP_DENIED, CGROUP_MISSING, HOST_NEEDS_ROOT, UllageError
from ullage.common.quantities import memory_bytes
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
from ullage.host import disks
from ullage.host.cgroups import Group, Limits

_DEADLINE_S: Final = 10.0


class NativeOptions(ProcessOptions):
    """Fields of a `native` environment in the plan."""


class Native(Provider):
    """The machine itself: no container and no VM, only the plan's limits.

    The workload runs in the image's root directory (`chroot`), with `/data` on the host's disk, in
    a cgroup that holds the CPUs, the CPU quota and the memory limit, and, where the plan needs a
    network, in a network namespace on the run's bridge. Shared memory (`/dev/shm`, System V) is the
    instance's own, and root there lacks five capabilities (SYS_ADMIN, SYS_MODULE, SYS_BOOT, MKNOD,
    SYS_RAWIO), so that no program can mount the image writable. With `image: host` it runs in the
    host's own root instead, with the host's shared memory and every capability of the user, and
    data are where the host keeps them.

    Without root there is no chroot, no network namespace and mostly no cgroup: `image: host` then
    runs on the plan's CPUs by affinity, and a memory limit or CPU quota is refused.
    """

    name: ClassVar[str] = "native"
    options_model: ClassVar[type[Options]] = NativeOptions
    host_image: ClassVar[bool] = True
    last_seen: ClassVar[str] = "2026-11-29: the lab's VM"

    async def check(self) -> None:
        """Every Linux host can do it; what one instance needs is seen when it is made."""

    def label(self) -> str:
        """What tables call it."""
        return "native"

    def treatments(self) -> dict[str, str]:
        """Nothing: the others differ from this."""
        return {}

    async def create(self, spec: InstanceSpec) -> Instance:
        """Start an agent within the limits, and see that they hold."""
        if spec.image is not None and os.geteuid() != 0:
            raise UllageError(
                HOST_NEEDS_ROOT, what="native from an image", otherwise="say `image: host`"
            )
        async with Undo() as undo:
            undo.push(to_thread, disks.remove_tree, spec.data_dir)
            group = _make_group(spec)
            if group is not None:
                undo.push(group.remove)
            netns, address = None, None
            if spec.network is not None:
                endpoint = await spec.network.namespace(spec.name)
                undo.push(spec.network.release, endpoint)
                netns, address = endpoint.netns_path, endpoint.address
                spec.on_stage("addressed", address)
            argv = enter(spec, group, netns)
            if spec.image is not None and spec.image.writable:
                argv += ["--overlay", (await layer.over(spec, spec.image.root, undo)).options]
            spec.on_stage("booting", "")
            agent = await AgentClient.launch(
                argv,
                deadline_s=_DEADLINE_S,
                stderr=spec.state_dir / "agent.log",
                env={**os.environ, "ULLAGE_TAG": spec.tag},
                name=spec.name,
            )
            undo.push(agent.bye)
            if group is not None:
                undo.push(group.kill_all)
            verify_limits(spec, agent.facts)
            return NativeInstance(spec, agent, address, group, undo.pop_all())
        raise AssertionError  # the stack hides no exception


class NativeInstance(Instance):
    """An agent on the host. What `undo` holds is all that it will leave."""

    def __init__(
        self,
        spec: InstanceSpec,
        agent: AgentClient,
        address: str | None,
        group: Group | None,
        undo: Undo,
    ) -> None:
        self.name = spec.name
        self.spec = spec
        self.agent = agent
        self.address = address
        self.data = "/data" if spec.image is not None else str(spec.data_dir)
        self._group = group
        self._undo = undo
        self._stopped: set[int] = set()
        """Process ids, where there is no freezer: who is stopped starts no others."""

    async def freeze(self) -> None:
        """Stop it by the cgroup freezer; without one, by SIGSTOP to the agent's process tree."""
        if self._group is not None:
            await self._group.freeze()
        elif self.agent.pid is not None:
            self._stopped |= _stop_tree(self.agent.pid)

    async def thaw(self) -> None:
        """Let it run on."""
        if self._group is not None:
            await self._group.thaw()
        _continue(self._stopped)
        self._stopped.clear()

    async def memory_kills(self) -> int:
        return 0 if self._group is None else self._group.memory_kills()

    async def destroy(self) -> None:
        """Kill it and remove its cgroup, its network namespace and its data."""
        if self._group is None:
            await self.thaw()  # the stopped cannot say goodbye
        await self._undo.aclose()


def _make_group(spec: InstanceSpec) -> Group | None:
    """The cgroup; None for a plain user who asks for nothing that only a cgroup can do."""
    memory = spec.memory_bytes if spec.memory_bytes < memory_bytes() else None
    limits = Limits(cpu_ids=spec.cpu_ids, cpu_quota=spec.cpu_quota, memory_bytes=memory)
    try:
        return Group.create(spec.tag, spec.name, limits)
    except UllageError as error:
        by_affinity = limits.controllers == {"cpuset"} and os.geteuid() != 0
        if by_affinity and error.kind in {CGROUP_DENIED, CGROUP_MISSING}:
            return None
        raise


def enter(spec: InstanceSpec, group: Group | None, netns: Path | None) -> list[str]:
    """The command that makes its own process an agent on the CPUs, in the group, on the root."""
    argv = [str(spec.agent), "enter", "--cpus", ",".join(map(str, spec.cpu_ids))]
    for directory in group.directories if group is not None else ():
        argv += ["--cgroup", str(directory)]
    if netns is not None:
        argv += ["--netns", str(netns)]
    if spec.image is not None:
        argv += ["--root", str(spec.image.root), "--bind", f"{spec.data_dir}:/data"]
        argv += ["--tmpfs", "/tmp", "--tmpfs", "/run", "--hostname", spec.name]  # noqa: S108
    return argv


def _stop_tree(root: int) -> set[int]:
    """Stop a process and its descendants, until no new ones are seen; all of them, or none."""
    stopped: set[int] = set()
    try:
        while new := _descendants(root) - stopped:
            for pid in new:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                stopped.add(pid)
    except BaseException:
        _continue(stopped)
        raise
    return stopped


def _continue(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _descendants(root: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                stat = (path / "stat").read_text(encoding="utf-8", errors="replace")
                parent = int(stat.rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(path.name))
    tree, todo = set(), [root]
    while todo:
        pid = todo.pop()
        tree.add(pid)
        todo += children.get(pid, [])
    return tree
