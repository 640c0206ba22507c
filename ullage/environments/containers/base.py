"""What all containers have in common: a cgroup that freezes, and an orderly way to undo."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ullage.common.cleanup import Undo
from ullage.common.commands import CommandError
from ullage.common.errors import (
    AGENT_LOST,
    AGENT_NOT_STARTED,
    INSTANCE_NOT_STARTED,
    NETWORK_FAILED,
    UllageError,
)
from ullage.environments.base import Instance, InstanceSpec
from ullage.host import disks
from ullage.host.cgroups import Group, cgroup_path, hierarchies

if TYPE_CHECKING:
    from ullage.environments.agent.client import AgentClient

START_DEADLINE_S: Final = 120.0
"""A container is up in a tenth of a second. With AppArmor LXC has a profile compiled first, and one
level down, on a crowded host, 30 s were too short for that."""

_CAUSES: Final = (AGENT_LOST, AGENT_NOT_STARTED, NETWORK_FAILED)


class Container(Instance):
    """A running container. What `undo` holds is all that it will leave."""

    def __init__(
        self,
        spec: InstanceSpec,
        agent: AgentClient,
        group: Group | None,
        address: str | None,
        undo: Undo,
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.agent = agent
        self.address = address
        self._group = group
        self._undo = undo

    async def freeze(self) -> None:
        """Stop it by the cgroup freezer; a rootless container has none and runs on, idle."""
        if self._group is not None:
            await self._group.freeze()

    async def thaw(self) -> None:
        """Let it run on."""
        if self._group is not None:
            await self._group.thaw()

    async def memory_kills(self) -> int:
        return 0 if self._group is None else self._group.memory_kills()

    async def destroy(self) -> None:
        """Remove it and all that it left."""
        await self._undo.aclose()


def container_id(spec: InstanceSpec) -> str:
    """The runtime's name of it."""
    return f"ullage-{spec.tag}-{spec.name}"


def environment(spec: InstanceSpec) -> dict[str, str]:
    """Of the transport program: the tag tells `ullage clean` whose it is."""
    return {**os.environ, "ULLAGE_TAG": spec.tag}


@asynccontextmanager
async def starting(provider: str, spec: InstanceSpec) -> AsyncIterator[Undo]:
    """A stack of what to undo; undone when the body fails, which is then INSTANCE_NOT_STARTED."""
    undo = Undo()
    undo.push(_remove_files, spec)
    try:
        yield undo
    except BaseException as error:
        with suppress(Exception):  # what was wrong first is what counts
            await undo.aclose()
        reason = _reason(error)
        if reason is None:
            raise
        raise UllageError(
            INSTANCE_NOT_STARTED, provider=provider, name=spec.name, reason=reason
        ) from error


def _reason(error: BaseException) -> str | None:
    """Why a container did not start, when that is what the error says."""
    if isinstance(error, CommandError):
        return str(error)
    if isinstance(error, UllageError) and error.kind in _CAUSES:
        return str(error.facts.get("reason", error.message))
    return None


def whole_group(tag: str, name: str) -> Group:
    """The group in every hierarchy, there or not: to remove it with the parents it leaves empty."""
    path = cgroup_path(tag, name)
    return Group(path, [(tree, tree.path / path.lstrip("/")) for tree in hierarchies()])


async def remove_group(tag: str, name: str) -> None:
    """Kill what is left in a cgroup and remove it."""
    group = whole_group(tag, name)
    await group.kill_all()
    await group.remove()


def group_of(pid: int) -> Group:
    """The cgroup that a process is in, wherever a daemon has put it."""
    text = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
    path, places = "/", []
    for line in text.splitlines():
        _, names, path = line.split(":", 2)  # `4:memory:/a/b`, in version 2 `0::/a/b`
        for tree in hierarchies():
            if tree.version == 2 if not names else set(names.split(",")) & tree.controllers:
                places.append((tree, tree.path / path.lstrip("/")))
    return Group(path, places)


async def thaw_if_there(group: Group) -> None:
    """Before a goodbye, which the frozen cannot say; a group that is gone needs none."""
    with contextlib.suppress(UllageError):
        await group.thaw()


async def _remove_files(spec: InstanceSpec) -> None:
    for directory in (spec.state_dir, spec.data_dir):
        await asyncio.to_thread(disks.remove_tree, directory)
