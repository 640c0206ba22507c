"""A Windows with OpenSSH: the agent for Windows, in a folder of the user's home.

Which shell sshd starts there nobody knows: cmd.exe as it comes, or PowerShell. So whatever is said
means the same to both, and no word of it needs quotes: none comes from a plan, but for the run's
tag and the instance's name.
"""

from __future__ import annotations

import re
from asyncio import to_thread
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ullage.common.errors import CLOUD_IMAGE_CORRUPT, SSH_OTHER_SYSTEM, UllageError
from ullage.common.files import sha256_of
from ullage.common.text import printable
from ullage.environments.agent.client import AgentClient, Command, windows_binary
from ullage.environments.base import InstanceSpec
from ullage.environments.clouds.calls import Deadline
from ullage.environments.clouds.ssh import ShellError
from ullage.environments.ssh.machine import RemoteMachine

_AGENT: Final = "ullage-agent.exe"
_LEAST_S: Final = 10.0
_VERSION: Final = re.compile(r"Microsoft Windows \D{0,40}(\d{1,4})\.(\d{1,6})\.(\d{1,6})")
"""`[Version 10.0.20348]`: the word between is in the host's language."""
_OLDEST: Final = 10
_HOME: Final = "USERPROFILE"


class WindowsMachine(RemoteMachine):
    """Everything of an instance stands in one folder of the user's home."""

    async def what_else(self, kernel: str) -> str | None:
        """Linux, something else, or a Windows that cannot run the agent. SSH_UNREACHABLE …"""
        if kernel == "Linux":
            return kernel
        words = ["cmd", "/c", "ver"]
        try:
            printed = await self.shell.run(words)
        except ShellError as error:
            if error.of_ssh:
                raise self.fault(error) from error
            return f"a system without cmd.exe ({error.reason})"
        version = _VERSION.search(printed)
        if version is None:
            return printable(printed.strip(), 60) or "a system that does not tell its version"
        if int(version[1]) < _OLDEST:
            return f"Windows {version[1]}.{version[2]}, older than 10 and Server 2016"
        return None

    async def furnish(self, spec: InstanceSpec, deadline: Deadline) -> list[str]:
        """Put the agent there, and see that it arrived. CLOUD_IMAGE_CORRUPT, ShellError."""
        words = ["cmd", "/c", "mkdir", f"{self.name}\\data"]
        await self.shell.run(words, timeout_s=max(_LEAST_S, deadline.left_s))
        agent, there = await to_thread(windows_binary), f"{self.name}/{_AGENT}"
        await self.shell.copy_to(agent, there, deadline)
        with TemporaryDirectory(dir=spec.state_dir) as folder:
            back = Path(folder) / _AGENT
            most_bytes = 2 * agent.stat().st_size
            await self.shell.copy_from(there, back, most_bytes, deadline)
            if await to_thread(sha256_of, back) != await to_thread(sha256_of, agent):
                raise UllageError(CLOUD_IMAGE_CORRUPT, what="the agent", name=spec.name)
        # A bare name PowerShell would not look for in the current folder.
        return [f"{self.name}\\{_AGENT}", "serve"]

    async def data(self, agent: AgentClient) -> str:
        """In UTF-16, as a home may have any name, and the host any code page. SSH_OTHER_SYSTEM."""
        _, out, _ = await agent.run(Command(("cmd", "/u", "/c", "set", _HOME)))
        lines = (line.partition("=") for line in out.decode("utf-16-le", "replace").splitlines())
        home = next((value for name, _, value in lines if name.upper() == _HOME and value), None)
        if home is None:
            seen = f"a Windows whose user has no {_HOME}"
            raise UllageError(SSH_OTHER_SYSTEM, host=self.shell.address, asked="Windows", seen=seen)
        return f"{home}/{self.name}/data".replace("\\", "/")

    async def listed(self, timeout_s: float) -> bool:
        words = ["cmd", "/c", "if", "exist", self.name, "echo", self.name]
        return self.name in await self.shell.run(words, timeout_s=timeout_s)

    async def remove(self, timeout_s: float) -> None:
        words = ["cmd", "/c", "if", "exist", self.name, "rmdir", "/s", "/q", self.name]
        await self.shell.run(words, timeout_s=timeout_s)
