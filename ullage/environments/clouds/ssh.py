"""The way into an instance: the system's ssh with the instance's key and the host key that we know.

The user's own ssh configuration has no say: a proxy or an agent of theirs is not of this run.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import shlex
import signal
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ullage.common import processes
from ullage.common.commands import CommandError, needed, outputs
from ullage.common.errors import CLOUD_HOST_KEY, CLOUD_IMAGE_CORRUPT, CLOUD_NOT_UP, UllageError
from ullage.common.files import sha256_of
from ullage.common.text import printable
from ullage.environments.agent.client import AgentClient
from ullage.environments.base import InstanceSpec
from ullage.environments.clouds.calls import POLL_S, Deadline
from ullage.host.image import Image

CONNECT_S: Final = 10
_PORT: Final = 22
_KNOCK_S: Final = 0.5
_LEAST_S: Final = 10.0
PLACE: Final = "/var/lib/ullage-instance"
"""Where all of ours stands inside: on the instance's own disk."""
IMAGE_PARTITION: Final = "ullage-image"
"""The image's file system on a disk of ours that the instance may have been booted from."""
_IMAGE_DEVICE: Final = f"/dev/disk/by-partlabel/{IMAGE_PARTITION}"
_OPTIONS: Final = (
    "BatchMode=yes",
    "IdentitiesOnly=yes",
    "StrictHostKeyChecking=yes",
    "GlobalKnownHostsFile=none",
    "UpdateHostKeys=no",
    "PreferredAuthentications=publickey",
    f"ConnectTimeout={CONNECT_S}",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "LogLevel=ERROR",
)
_ALIVE: Final = ("ServerAliveInterval=5", "ServerAliveCountMax=6")
_NO_PROBES: Final = ("TCPKeepAlive=no",)
"""Where the instance stands still at times: this host's kernel would give it up after hours."""
SSH_FAILED: Final = 255
"""ssh's own status, and no program's."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.\\/-]+")
_OTHER_KEY: Final = ("HOST IDENTIFICATION HAS CHANGED", "Host key verification failed")


@dataclass(frozen=True)
class Shell:
    """One instance, as ssh reaches it."""

    name: str
    address: str
    user: str
    key: Path
    known_hosts: Path
    pausable: bool = False
    """May it stand still for long, with the connection kept? ssh is stopped meanwhile."""
    windows: bool = False
    """There is no sudo, and cmd.exe or PowerShell, who knows which: words that both take as they
    are."""
    port: int = _PORT

    def argv(self, words: Sequence[str], *, sudo: bool = True) -> list[str]:
        """The command line that runs these words there, as root unless told otherwise."""
        plain = self.windows or not sudo or self.user == "root"
        root = () if plain else ("env", "LC_ALL=C", "sudo", "-n")  # its complaints are read
        argv = [needed("ssh", "openssh-client"), "-T", *self._options(), "-l", self.user]
        return [*argv, "--", self.address, self._line((*root, *words))]

    def _line(self, words: Sequence[str]) -> str:
        if not self.windows:
            return shlex.join(words)
        assert all(_PLAIN.fullmatch(word) for word in words), words
        return " ".join(words)

    async def copy_to(self, source: Path, target: str, deadline: Deadline) -> None:
        """Put a file there, below the user's home, without a shell. ShellError."""
        await self._copy(str(source), self._remote(target), deadline)

    async def copy_from(
        self, source: str, target: Path, most_bytes: int, deadline: Deadline
    ) -> None:
        """Fetch one from there, who may say that it is as long as it likes. ShellError."""
        bound = [needed("prlimit", "util-linux"), f"--fsize={most_bytes}", "--"]
        await self._copy(self._remote(source), str(target), deadline, bound)

    def _remote(self, path: str) -> str:
        return f"{self.user}@{self.address}:{path}"

    async def _copy(
        self, source: str, target: str, deadline: Deadline, bound: Sequence[str] = ()
    ) -> None:
        scp = needed("scp", "openssh-client")
        argv = [*bound, scp, "-q", *self._options(), "--", source, target]
        await _output(argv, None, max(_LEAST_S, deadline.left_s))

    def _options(self) -> list[str]:
        argv = ["-F", "none", "-i", str(self.key), "-o", f"Port={self.port}"]
        hosts = f"UserKnownHostsFile={self.known_hosts}"
        kept = _NO_PROBES if self.pausable else ()
        for option in (*_OPTIONS, hosts, *kept, *_ALIVE):
            argv += ["-o", option]
        return argv

    async def wait(self, deadline: Deadline) -> float:
        """Until somebody lets us in who has the key: seconds since its kernel began, or 0.0 where
        it does not tell. CLOUD_HOST_KEY, CLOUD_NOT_UP.
        """
        last = "nothing"
        while not deadline.passed:
            command, limit_s = ["cat", "/proc/uptime"], min(30.0, deadline.left_s)
            try:
                return _uptime_s(await self.run(command, timeout_s=limit_s))
            except ShellError as error:
                last = error.reason
                if error.other_key:
                    raise UllageError(
                        CLOUD_HOST_KEY, address=self.address, name=self.name
                    ) from error
            await asyncio.sleep(POLL_S)
        raise self._not_up(deadline, last)

    async def listening(self, deadline: Deadline) -> None:
        """Until somebody listens there, whoever it is. CLOUD_NOT_UP."""
        last = "nothing"
        while not deadline.passed:
            try:
                return await self._knock()
            except ShellError as error:
                last = error.reason
            await asyncio.sleep(POLL_S)
        raise self._not_up(deadline, last)

    def _not_up(self, deadline: Deadline, last: str) -> UllageError:
        last = f"ssh {self.user}@{self.address}: {last}"
        return UllageError(CLOUD_NOT_UP, name=self.name, seconds=deadline.seconds, last=last)

    async def _knock(self) -> None:
        """Somebody listens there. ShellError.

        ssh itself would wait for seconds at an address that nobody has yet.
        """
        try:
            async with asyncio.timeout(_KNOCK_S):
                _, writer = await asyncio.open_connection(self.address, self.port)
        except (OSError, TimeoutError) as error:
            words = os.strerror(error.errno) if error.errno else "nobody answers"
            raise ShellError(f"port {self.port}: {words}") from error
        writer.close()

    async def run(
        self,
        words: Sequence[str],
        *,
        source: Path | None = None,
        timeout_s: float = 60.0,
        sudo: bool = True,
    ) -> str:
        """What it prints; it reads the source. ShellError."""
        return await _output(self.argv(words, sudo=sudo), source, timeout_s)

    async def put(self, source: Path, target: str, what: str, deadline: Deadline) -> None:
        """A file of ours, and see that it arrived. CLOUD_IMAGE_CORRUPT, ShellError."""
        script = f"umask 022; cat > {target} && chmod 755 {target} && sha256sum {target}"
        printed = await self.run(["sh", "-c", script], source=source, timeout_s=deadline.left_s)
        if printed.split()[:1] != [await asyncio.to_thread(sha256_of, source)]:
            raise UllageError(CLOUD_IMAGE_CORRUPT, what=what, name=self.name)

    async def furnish(
        self, agent: Path, image: Image | None, deadline: Deadline, place: str = PLACE
    ) -> bool:
        """Put the agent and the plan's image there; was that sent? CLOUD_IMAGE_CORRUPT, ShellError.

        An image that came with the instance's disk is not, once its bytes are the same; None: it
        works from its own userland.
        """
        rooms = [f"{place}/{room}" for room in ("root", "data", "upper", "work")]
        await self.run(["mkdir", "-p", *rooms], timeout_s=deadline.left_s)
        await self.put(agent, f"{place}/agent", "the agent", deadline)
        if image is None:
            return False
        if await self._has(image, deadline):
            await self._mount(f"{place}/root", deadline)
            return False
        await self.put(image.tar, f"{place}/image.tar", "the image", deadline)
        unpack = "tar --numeric-owner --xattrs '--xattrs-include=*' -xp"
        unpack += f"f {place}/image.tar -C {place}/root"
        await self.run(["sh", "-c", f"{unpack} && rm {place}/image.tar"], timeout_s=deadline.left_s)
        return True

    async def _has(self, image: Image, deadline: Deadline) -> bool:
        """Was it booted from a disk that holds this image, byte by byte?

        Where nobody can tell, it is sent.
        """
        script = f"[ ! -b {_IMAGE_DEVICE} ] || sha256sum < {_IMAGE_DEVICE}"
        try:
            there = (await self.run(["sh", "-c", script], timeout_s=deadline.left_s)).split()[:1]
            if not there:
                return False
            return there == [await asyncio.to_thread(sha256_of, await image.disk("raw"))]
        except UllageError:  # no disk can be made of it here
            return False
        except ShellError as error:  # its own cannot be read there
            if error.of_ssh:
                raise
            return False

    async def _mount(self, directory: str, deadline: Deadline) -> None:
        argv = ["mount", "-o", "ro", _IMAGE_DEVICE, directory]
        await self.run(argv, timeout_s=deadline.left_s)


async def _output(argv: Sequence[str], source: Path | None, timeout_s: float) -> str:
    """What ssh or scp prints. ShellError."""
    with (source or Path("/dev/null")).open("rb") as file:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=file if source else DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,  # no second Ctrl-C ends what removes
        )
    try:
        async with asyncio.timeout(timeout_s):
            out, err = await outputs(process, argv[0])
    except TimeoutError:
        raise ShellError(f"not done after {timeout_s:.1f} s", of_ssh=True) from None
    except CommandError as error:
        raise ShellError(error.reason) from None
    finally:
        await processes.end(process, group=True)
    if process.returncode:
        text = err.decode(errors="replace").strip()
        last = printable(" ".join(text.splitlines()[-3:]), 400)
        other_key = any(words in text for words in _OTHER_KEY)
        raise ShellError(
            last or f"exit status {process.returncode}",
            other_key=other_key,
            of_ssh=process.returncode == SSH_FAILED,
        )
    return out.decode(errors="replace")


def _uptime_s(printed: str) -> float:
    uptime = re.match(r"\d{1,9}\.\d{1,9} ", printed)
    return float(uptime[0]) if uptime else 0.0


def serving(spec: InstanceSpec, image: Image | None, place: str = PLACE) -> list[str]:
    """The command that serves from the image, inside; None: from what is there."""
    cpus = math.ceil(spec.cpu_quota or len(spec.cpu_ids))
    argv = [f"{place}/agent", "enter", "--cpus", ",".join(map(str, range(cpus)))]
    argv += ["--hostname", spec.name]
    if image is None:
        return argv
    argv += ["--root", f"{place}/root", "--bind", f"{place}/data:/data"]
    argv += ["--tmpfs", "/tmp", "--tmpfs", "/run"]  # noqa: S108
    if image.writable:
        layer = f"lowerdir={place}/root,upperdir={place}/upper,workdir={place}/work"
        argv += ["--overlay", layer]
    return argv


def signal_way(agent: AgentClient, number: signal.Signals) -> None:
    """Stop our own ssh with the instance, or let it run on: who is not answered would hang up."""
    if agent.pid is not None:
        with suppress(ProcessLookupError):
            os.kill(agent.pid, number)


class ShellError(Exception):
    """What ran there failed, or could not be reached."""

    def __init__(self, reason: str, *, other_key: bool = False, of_ssh: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.other_key = other_key
        """Whoever answered was refused by us, not we by them."""
        self.of_ssh = of_ssh
        """It was ssh that failed, and not a program there."""
