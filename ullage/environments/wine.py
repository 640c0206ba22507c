"""Wine: programs built for Windows on this machine's own kernel. It is not Windows."""

from __future__ import annotations

import os
import shutil
import sys
from asyncio import to_thread
from typing import ClassVar, Final

from ullage.common.cleanup import Undo
from ullage.common.commands import run
from ullage.common.errors import HOST_MISSING, HOST_NEEDS_ROOT, LIMIT_NOT_APPLIED, UllageError
from ullage.common.text import printable
from ullage.environments import exec_pinned
from ullage.environments.agent.client import AgentClient, windows_binary
from ullage.environments.base import Instance, InstanceSpec, Options, Provider, verify_group
from ullage.environments.containers.base import Container, environment, starting
from ullage.environments.systems import WINDOWS_DATA, WINDOWS_SUFFIX
from ullage.host.cgroups import Group, Limits

PLACES: Final = ("wine64", "/usr/lib/wine/wine64", "wine")
"""Debian's package puts it where no PATH looks."""
_DEADLINE_S: Final = 300.0
"""The first program in a prefix waits until Wine has filled it: seconds, on a busy machine more."""


class WineOptions(Options):
    """Fields of a `wine` environment in the plan."""


class Wine(Provider):
    """Wine, and [not Windows](../guide/windows.md): the agent for Windows and its programs here.

    Windows' API by Wine on the host's own kernel and disks, in a cgroup with the plan's CPUs and
    memory. Each instance has a prefix of its own, `C:`, on the host's disk. It shows that plans
    with programs for Windows run, and what Wine costs; no figure of it says anything of Windows.

    Its userland is not the image's, so a plan must say `allow: [userland]`, and workloads must
    bring programs for Windows: `basics` does, `command` may. It is on no network of the run's.
    """

    name: ClassVar[str] = "wine"
    options_model: ClassVar[type[Options]] = WineOptions
    last_seen: ClassVar[str] = "2026-11-28: Wine 8.0 of Debian 12; it is not Windows"
    host_image: ClassVar[bool] = True
    optional: ClassVar[bool] = True
    provision_s: ClassVar[float] = 15.0

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._version = ""

    async def check(self) -> None:
        """HOST_NEEDS_ROOT, HOST_MISSING without Wine, AGENT_BINARY_MISSING."""
        if os.geteuid() != 0:
            raise UllageError(
                HOST_NEEDS_ROOT, what="Wine in a cgroup", otherwise="write `provider: native`"
            )
        windows_binary()
        self._version = printable((await run((program(), "--version"))).strip(), 60)

    def label(self) -> str:
        """It says what it is not."""
        return "wine (not Windows)"

    def treatments(self) -> dict[str, str]:
        """Whose API on whose kernel."""
        return {"system": f"{self._version or 'Wine'} (not Windows) on the host's kernel"}

    def userland(self) -> str | None:
        """Wine's."""
        return f"{self._version or 'Wine'} (not Windows)"

    @property
    def on_network(self) -> bool:
        """It has the host's own."""
        return False

    async def create(self, spec: InstanceSpec) -> Instance:
        """Start the agent under Wine. INSTANCE_NOT_STARTED, LIMIT_NOT_APPLIED."""
        limits = Limits(
            cpu_ids=spec.cpu_ids, cpu_quota=spec.cpu_quota, memory_bytes=spec.memory_bytes
        )
        async with starting(self.label(), spec) as undo:
            group = await to_thread(Group.create, spec.tag, spec.name, limits)
            undo.push(group.remove)
            agent = await self._launch(spec, group, undo)
            self._verify(spec, limits, group, agent)
            return WineInstance(spec, agent, group, None, undo.pop_all())

    async def _launch(self, spec: InstanceSpec, group: Group, undo: Undo) -> AgentClient:
        spec.on_stage("booting", "")
        on = ",".join(map(str, spec.cpu_ids))
        enter = (sys.executable, "-I", "-S", exec_pinned.__file__, on)
        argv = (
            *enter,
            *map(str, group.directories),
            "--",
            program(),
            str(windows_binary()),
            "serve",
        )
        # Wine starts a server, and services, that outlive the agent.
        undo.push(group.kill_all)
        agent = await AgentClient.launch(
            argv,
            deadline_s=_DEADLINE_S,
            stderr=spec.state_dir / "wine.log",
            env={
                **environment(spec),
                "WINEPREFIX": str(spec.data_dir / "wine"),
                "WINEDEBUG": "-all",
                # No window asks for what it would like to have beside.
                "WINEDLLOVERRIDES": "mscoree,mshtml=",
                "DISPLAY": "",
            },
            name=spec.name,
        )
        undo.push(agent.bye)
        return agent

    def _verify(self, spec: InstanceSpec, limits: Limits, group: Group, agent: AgentClient) -> None:
        """By the cgroup: Wine tells programs of the machine, not of what holds them."""
        if agent.pid is None:
            raise UllageError(
                LIMIT_NOT_APPLIED, instance=spec.name, asked="a process", seen="none that is known"
            )
        verify_group(spec, limits, group, agent.pid)


class WineInstance(Container):
    """The agent under Wine. What `undo` holds is all that it will leave."""

    data = WINDOWS_DATA
    program_suffix = WINDOWS_SUFFIX


def program() -> str:
    """Wine's loader of this host. HOST_MISSING."""
    for place in PLACES:
        path = shutil.which(place)
        if path is not None:
            return path
    raise UllageError(HOST_MISSING, what="Wine", command="apt-get install wine64")
