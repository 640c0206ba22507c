"""A domain that runs: made by `xl`, reached by its channel, never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ullage.common import files
from ullage.common.commands import CommandError, poll_interval_s, run, tail
from ullage.common.errors import INSTANCE_NOT_REMOVED, LIMIT_NOT_APPLIED, UllageError
from ullage.environments.qemu.console import SHOWN, listen
from ullage.environments.qemu.running import RunningVm
from ullage.environments.xen import xl
from ullage.environments.xen.config import Domain, configuration
from ullage.host import user_commands

if TYPE_CHECKING:
    from ullage.environments.base import InstanceSpec

_CREATE_S: Final = 180.0
_DESTROY_S: Final = 60.0
_GONE_S: Final = 10.0
_END_S: Final = 2.0
_LOG_LINES: Final = 4
"""Lines of QEMU's log that tell why it ended; a guest can make that long."""
_LOGS: Final = Path("/var/log/xen")
_LISTING: Final = ("sh", "-ec", "domains=$(xl list); echo \"$domains\" | sed 1d | cut -d' ' -f1")


def removal(name: str, tag: str) -> user_commands.Removal:
    """How it is found and removed without us."""
    return user_commands.Removal(
        tag=tag,
        name=name,
        listing=_LISTING,
        destroy=((xl.PROGRAM, "destroy", name),),
        deadline_s=_DESTROY_S,
    )


class XenDomain(RunningVm):
    """A domain with its console and the agent's channel. Made by `boot`."""

    def __init__(self, domain: Domain, spec: InstanceSpec, console: Path) -> None:
        super().__init__(spec.name, f"xen {domain.mode}", console)
        self._domain = domain
        self._removal = removal(domain.name, spec.tag)
        self._listener: asyncio.Task[None] | None = None
        self._paused = False

    async def boot(self, spec: InstanceSpec) -> None:
        """Make it, halted; see that its limits hold, listen to its console, let it run.

        VM_FAILED, LIMIT_NOT_APPLIED.
        """
        await asyncio.to_thread(user_commands.keep, self._removal)
        file = spec.state_dir / f"{spec.name}.cfg"
        file.write_text(configuration(self._domain), encoding="utf-8")
        try:
            await self._do("create", "-p", str(file), timeout_s=_CREATE_S)
        finally:
            file.unlink(missing_ok=True)
        self._paused = True
        await self._verify(spec)
        await self._listen()
        await self.cont()

    @property
    def pid(self) -> int:
        """0: a domain is no process of dom0's."""
        return 0

    async def stop(self) -> None:
        if not self._paused:  # Xen counts: what is paused twice runs on after two unpauses
            await self._do("pause", self._domain.name)
            self._paused = True

    async def cont(self) -> None:
        if self._paused:
            await self._do("unpause", self._domain.name)
            self._paused = False

    async def kill(self) -> None:
        """INSTANCE_NOT_REMOVED, with the command that does it by hand, when it may still run."""
        try:
            await self._destroy()
        except CommandError as error:
            raise UllageError(
                INSTANCE_NOT_REMOVED,
                name=self._removal.name,
                reason=error.reason,
                command=self._removal.by_hand,
            ) from error
        if self._listener is not None:
            self._listener.cancel()
        self._domain.channel.unlink(missing_ok=True)
        for log in _LOGS.glob(f"*-{self._domain.name}.*"):
            log.unlink(missing_ok=True)
        await asyncio.to_thread(user_commands.forget, self._removal)

    async def _destroy(self) -> None:
        """By its UUID: another's domain may have the name. CommandError."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        while (number := await xl.domain_id(self._domain.uuid)) is not None:
            if loop.time() > begin + _GONE_S:
                raise CommandError(xl.PROGRAM, None, "it is still listed")
            try:
                await xl.ask("destroy", str(number), timeout_s=_DESTROY_S)
            except CommandError:
                if await xl.domain_id(self._domain.uuid) == number:
                    raise
            await asyncio.sleep(poll_interval_s(loop.time() - begin, 0.5))

    async def _verify(self, spec: InstanceSpec) -> None:
        """LIMIT_NOT_APPLIED unless Xen has what it was asked for; what is inside comes later."""
        name, allowed = self._domain.name, set(spec.cpu_ids)
        for cpus in (await xl.affinity(name)).values():
            if cpus is None or not cpus <= allowed:
                self._refuse(xl.ranges(allowed), xl.ranges(cpus))
        if self._domain.cap is not None:
            cap = await xl.cap(name)
            if cap != self._domain.cap:
                self._refuse(
                    f"a cap of {self._domain.cap} %", "none" if cap is None else f"{cap} %"
                )

    def _refuse(self, required: str, actual: str) -> None:
        raise UllageError(LIMIT_NOT_APPLIED, instance=self.name, asked=required, seen=actual)

    async def _listen(self) -> None:
        """To what xenconsoled hands on. A guest boots without that too."""
        number = await xl.domain_id(self._domain.uuid)
        key = f"/local/domain/{number}/console/tty"
        try:
            tty = (await run(("xenstore-read", key))).strip()
            descriptor = os.open(tty, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
        except (CommandError, OSError):
            return
        if not stat.S_ISCHR(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            return
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        file = os.fdopen(descriptor, "rb", buffering=0)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, file)
        self._listener = asyncio.create_task(listen(reader, self._console.add))

    async def _do(self, *words: str, timeout_s: float = _DESTROY_S) -> str:
        try:
            return await xl.ask(*words, timeout_s=timeout_s)
        except CommandError as error:
            raise await self._failure(f"`xl {words[0]}`", error) from error

    async def _port_streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_unix_connection(self._domain.channel)
        except OSError as error:
            raise await self._failure("its channel", error) from error

    async def _ended_soon(self) -> bool:
        """Its channel closes a moment before Xen has forgotten it."""
        with contextlib.suppress(CommandError):
            for _ in range(4):
                if await xl.domain_id(self._domain.uuid) is None:
                    return True
                await asyncio.sleep(_END_S / 4)
        return False

    async def _failure(self, step: str, error: BaseException) -> UllageError:
        """With what QEMU said, which serves its devices."""
        reason = error.reason if isinstance(error, CommandError) else str(error)
        log = _LOGS / f"qemu-dm-{self._domain.name}.log"
        with contextlib.suppress(OSError), log.open("rb") as file:
            end = b"\n".join(files.last_lines(file.fileno(), _LOG_LINES))
            reason += f"; QEMU: {tail(end.decode(errors='replace'))}"
        return self.failed(step, (reason or type(error).__name__)[-SHOWN:])
