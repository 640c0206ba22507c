"""The way into a guest: ssh with the keys of its parent disk, and the agent over it."""

from __future__ import annotations

import asyncio
from typing import Final

from ullage.common.errors import HYPERV_GUEST_KEY, HYPERV_NOT_UP, UllageError
from ullage.environments.agent.client import AgentClient
from ullage.environments.base import InstanceSpec
from ullage.environments.clouds import keys
from ullage.environments.clouds.calls import Deadline
from ullage.environments.clouds.ssh import Shell, ShellError, serving
from ullage.environments.containers.base import container_id
from ullage.environments.hyperv.options import HypervOptions
from ullage.environments.ssh.windows import WindowsMachine

_POLL_S: Final = 0.5
_LEAST_S: Final = 5.0
"""So long may even the last look take."""


class ParentGuest:
    """One guest that has an address, with the keys of its parent disk."""

    def __init__(self, options: HypervOptions, spec: InstanceSpec, address: str) -> None:
        hosts = spec.state_dir / "known_hosts"
        keys.known_hosts(hosts, address, (" ".join(options.host_key.split()[:2]),))
        self._shell = Shell(
            spec.name,
            address,
            options.user,
            options.key,
            hosts,
            pausable=True,
            windows=options.guest == "windows",
        )
        self._host = options.host
        self._spec = spec

    async def serve(self, deadline: Deadline) -> AgentClient:
        """Its agent, in Linux on the plan's image. HYPERV_GUEST_KEY, HYPERV_NOT_UP, ShellError."""
        await self._wait(deadline)
        words = await (self._windows if self._shell.windows else self._linux)(deadline)
        return await AgentClient.launch(
            self._shell.argv(words),
            deadline_s=max(10.0, deadline.left_s),
            stderr=self._spec.state_dir / "ssh.log",
            name=self._spec.name,
        )

    async def _linux(self, deadline: Deadline) -> list[str]:
        """What serves there, once agent and image are in place."""
        spec = self._spec
        assert spec.image is not None, "`image: host` is refused before"
        await self._shell.furnish(spec.agent, spec.image, deadline)
        return serving(spec, spec.image)

    async def _windows(self, deadline: Deadline) -> list[str]:
        """The same of Windows."""
        machine = WindowsMachine(self._shell, container_id(self._spec))
        return await machine.furnish(self._spec, deadline)

    async def _wait(self, deadline: Deadline) -> None:
        """Until it lets us in."""
        shell = self._shell
        while True:
            try:
                await shell.run(["hostname"], timeout_s=min(30.0, max(_LEAST_S, deadline.left_s)))
                return
            except ShellError as error:
                if error.other_key:
                    raise UllageError(
                        HYPERV_GUEST_KEY, address=shell.address, name=self._spec.name
                    ) from error
                if deadline.passed:
                    raise UllageError(
                        HYPERV_NOT_UP,
                        name=self._spec.name,
                        host=self._host,
                        seconds=deadline.seconds,
                        last=f"ssh {shell.user}@{shell.address}: {error.reason}",
                    ) from error
            await asyncio.sleep(_POLL_S)
