"""A Linux at the other end of ssh: the plan's image on its own disk and kernel."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from ullage.environments.base import InstanceSpec
from ullage.environments.clouds.calls import Deadline
from ullage.environments.clouds.ssh import Shell, ShellError, serving
from ullage.environments.ssh.machine import RemoteMachine

_ROOM: Final = PurePosixPath("/var/lib")
_REMOVE: Final = """tries=0
while :; do
    left=
    for exe in /proc/[0-9]*/exe; do
        case $(readlink "$exe" 2>/dev/null) in
            "$1/agent" | "$1/agent (deleted)") ;;
            *) continue ;;
        esac
        pid=${exe#/proc/}
        kill -KILL "${pid%/exe}" 2>/dev/null && left=1
    done
    [ "$left" ] || break
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { echo "its agent does not end" >&2; exit 1; }
    sleep 0.1
done
umount "$1/root" 2>/dev/null
rm -rf --one-file-system "$1"
"""
"""Its word is the folder."""


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
        """And first end its agents, with all that they have begun.

        One whose connection we gave up may run on for hours: its sshd has not heard of that.
        """
        await self.shell.run(["sh", "-c", _REMOVE, "sh", self._place], timeout_s=timeout_s)
