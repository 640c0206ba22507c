"""A VM that runs, whoever has started it: its agent, its console, and an end."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from pathlib import Path

from ullage.common.errors import VM_FAILED, VM_NEVER_BOOTED, UllageError
from ullage.common.text import printable
from ullage.environments.agent.client import AgentClient
from ullage.environments.qemu.console import SHOWN, PrintedTail


class RunningVm(ABC):
    """What the steps after a start need of a VM."""

    def __init__(self, name: str, accelerator: str, console: Path) -> None:
        self.name = name
        self._accelerator = accelerator
        self._console = PrintedTail(console)

    @property
    @abstractmethod
    def pid(self) -> int:
        """Of QEMU, on the host."""

    @abstractmethod
    async def stop(self) -> None:
        """Halt all vCPUs and the VM's clock."""

    @abstractmethod
    async def cont(self) -> None:
        """Let them run on."""

    @abstractmethod
    async def kill(self) -> None:
        """End the VM and our ends of its sockets; does nothing when they are gone."""

    @abstractmethod
    async def _port_streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The agent's port; asked for once."""

    @abstractmethod
    async def _ended_soon(self) -> bool:
        """True when QEMU is gone; its sockets close a moment before that can be told."""

    @abstractmethod
    async def _failure(self, step: str, error: BaseException) -> UllageError:
        """VM_FAILED, with the best reason that there is."""

    def failed(self, step: str, reason: str) -> UllageError:
        """VM_FAILED, with the end of the console: its file goes with the VM."""
        return UllageError(
            VM_FAILED,
            instance=self.name,
            what=step,
            reason=printable(reason, SHOWN),
            console=self._console.shown or "nothing",
        )

    async def agent(self, deadline_s: float) -> AgentClient:
        """Wait until the agent inside says hello; VM_NEVER_BOOTED when it does not in time.

        VM_FAILED, with the reason, when it says hello and cannot be worked with, or QEMU ends.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + deadline_s
        reader, writer = await self._port_streams()
        try:
            return await AgentClient.connect(reader, writer, deadline_s=deadline_s, name=self.name)
        except UllageError as error:
            late = loop.time() >= deadline
            if await self._ended_soon():
                raise await self._failure("QEMU ended while the VM booted", error) from error
            if late:
                raise self._never_booted(deadline_s) from error
            raise await self._failure("its agent cannot be worked with", error) from error

    def _never_booted(self, deadline_s: float) -> UllageError:
        return UllageError(
            VM_NEVER_BOOTED,
            instance=self.name,
            deadline_s=deadline_s,
            accelerator=self._accelerator,
            tail=self._console.shown or "nothing on its console",
        )
