"""A machine of the user's, and the folder of one instance on it: what all systems share."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Final

from ullage.common.errors import (
    INSTANCE_NOT_REMOVED,
    SSH_CREDENTIALS,
    SSH_HOST_KEY,
    SSH_OTHER_SYSTEM,
    SSH_UNREACHABLE,
    UllageError,
)
from ullage.environments.agent.client import AgentClient
from ullage.environments.base import InstanceSpec
from ullage.environments.clouds.calls import Deadline
from ullage.environments.clouds.ssh import Shell, ShellError

_CALL_S: Final = 60.0
_POLL_S: Final = 0.5
_CLOSED: Final = (
    "Permission denied",
    "Too many authentication failures",
    "a password is required",
    "sudo: command not found",
    "sudo: not found",
)


class RemoteMachine(ABC):
    """One machine, as ssh reaches it."""

    def __init__(self, shell: Shell, name: str) -> None:
        """name: `ullage-TAG-INSTANCE`; its folder there is called so."""
        self.shell = shell
        self.name = name

    async def recognise(self, system: str) -> None:
        """SSH_OTHER_SYSTEM unless it is that; SSH_UNREACHABLE, SSH_CREDENTIALS, SSH_HOST_KEY."""
        other = await self.what_else(await self._kernel())
        if other is not None:
            raise UllageError(SSH_OTHER_SYSTEM, host=self.shell.address, asked=system, seen=other)

    @abstractmethod
    async def what_else(self, kernel: str) -> str | None:
        """What it is, when it is not of this kind; `kernel`: what `uname` said, if anything."""

    @abstractmethod
    async def furnish(self, spec: InstanceSpec, deadline: Deadline) -> list[str]:
        """Put there what the agent needs; the words that then start it. ShellError."""

    async def data(self, agent: AgentClient) -> str:
        """The directory that programs write to, as the agent sees it."""
        return "/data"

    @abstractmethod
    async def listed(self, timeout_s: float) -> bool:
        """Is its folder there? ShellError."""

    @abstractmethod
    async def remove(self, timeout_s: float) -> None:
        """Remove its folder, if it is there. ShellError."""

    async def clear(self, deadline: Deadline, by_hand: str) -> None:
        """Until the folder is gone: a program may need a moment to end. INSTANCE_NOT_REMOVED."""
        while True:
            reason = f"its folder {self.name} stays"
            try:
                await self.remove(_CALL_S)
                if not await self.listed(_CALL_S):
                    return
            except ShellError as error:
                reason = error.reason
            if deadline.passed:
                raise UllageError(
                    INSTANCE_NOT_REMOVED, name=self.name, reason=reason, command=by_hand
                )
            await asyncio.sleep(_POLL_S)

    def fault(self, error: ShellError) -> UllageError:
        """Why ssh does not come in, in our words."""
        host, user = self.shell.address, self.shell.user
        if error.other_key:
            return UllageError(SSH_HOST_KEY, host=host, port=self.shell.port)
        if any(words in error.reason for words in _CLOSED):
            return UllageError(SSH_CREDENTIALS, host=host, user=user, reason=error.reason)
        return UllageError(SSH_UNREACHABLE, host=host, user=user, reason=error.reason)

    async def _kernel(self) -> str:
        """What `uname` says; nothing where there is none, which is no failure of ssh."""
        try:
            return (await self.shell.run(["uname", "-s"], sudo=False)).strip()[:60]
        except ShellError as error:
            if error.of_ssh:
                raise self.fault(error) from error
            return ""
