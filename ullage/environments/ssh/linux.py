"""A Linux at the other end of ssh: the plan's image on its own disk and kernel."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from ullage.environments.base import InstanceSpec
from ullage.environments.clouds.calls import Deadline
from ullage.environments.clouds.ssh import Shell, ShellError, serving
from ullage.environments.ssh.machine import RemoteMachine

_ROOM: Final = PurePosixPath("/var/lib")


class LinuxMachine(RemoteMachine):
    """Everything of an instance stands in one folder of root's."""

    def __init__(self, shell: Shell, name: str) -> None:
        super().__init__(shell, name)
        self._place = str(_ROOM / name)

    async def what_else(self, kernel: str) -> str | None:
        """And does it let us be root? SSH_CREDENTIALS."""
        if kernel != "Linux":
            return kernel or "no Linux"
        try:
            await self.shell.run(["true"])
        except ShellError as error:
            raise self.fault(error) from error
        return None

    async def furnish(self, spec: InstanceSpec, deadline: Deadline) -> list[str]:
        assert spec.image is not None, "`image: host` is refused before"
        await self.shell.furnish(spec.agent, spec.image, deadline, self._place)
        return serving(spec, spec.image, self._place)

    async def listed(self, timeout_s: float) -> bool:
        script = f"if test -e {self._place}; then echo there; fi"
        return bool((await self.shell.run(["sh", "-c", script], timeout_s=timeout_s)).strip())

    async def remove(self, timeout_s: float) -> None:
        words = ["rm", "-rf", "--one-file-system", self._place]
        await self.shell.run(words, timeout_s=timeout_s)
