"""A domain that runs: made by libvirtd, reached by its sockets, never left behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ullage.common.errors import INSTANCE_NOT_REMOVED, LIBVIRT_GONE, LIBVIRT_NAME_TAKEN, UllageError
from ullage.environments.libvirt.connection import Connection, DomainListener, library, reason, tell
from ullage.environments.libvirt.domain import Sockets
from ullage.environments.libvirt.limits import cpus_allowed, limit_memory, verify
from ullage.environments.qemu.command_line import Accelerator
from ullage.environments.qemu.console import SHOWN, listen
from ullage.environments.qemu.running import RunningVm
from ullage.host import user_commands

if TYPE_CHECKING:
    from ullage.common.cleanup import Undo
    from ullage.environments.base import InstanceSpec
    from ullage.host.cgroups import Limits

_END_EVENT_S: Final = 10.0
"""A socket closes before libvirtd tells that the domain has stopped: on a busy host by seconds."""
_CLOSE_S: Final = 5.0
_PROC: Final = Path("/proc")


@dataclass(frozen=True)
class Identity:
    """What libvirt calls a domain of ours, and how it is removed without us."""

    uri: str
    uuid: str
    removal: user_commands.Removal

    @property
    def name(self) -> str:
        return self.removal.name


def identity(uri: str, uuid: str, name: str, tag: str) -> Identity:
    """By its name it is listed, by its UUID it is ours: another's is never destroyed."""
    virsh = ("virsh", "--connect", uri)
    removal = user_commands.Removal(
        tag=tag,
        name=name,
        listing=(*virsh, "list", "--all", "--name"),
        destroy=((*virsh, "destroy", uuid),),
        deadline_s=60.0,
    )
    return Identity(uri, uuid, removal)


class LibvirtDomain(RunningVm):
    """A domain with its console and the agent's port. Made by `start`."""

    def __init__(
        self,
        name: str,
        accelerator: Accelerator,
        console: Path,
        connection: Connection,
        identity: Identity,
    ) -> None:
        super().__init__(name, accelerator, console)
        self._connection = connection
        self._identity = identity
        self.guest_agent = asyncio.Event()
        """Set when QEMU's own guest agent has come up in a domain that has one."""
        self._end = asyncio.Event()
        self._end_reason = ""
        self._port: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._console_writer: asyncio.StreamWriter | None = None
        self._listener: asyncio.Task[None] | None = None
        self._pid = 0

    async def refuse_taken_name(self) -> None:
        """LIBVIRT_NAME_TAKEN when a domain of another's has the name."""
        taken = await self._do("libvirt lists nothing", self._owner_of_name)
        if taken is not None:
            name, uri = self._identity.name, self._identity.uri
            raise UllageError(LIBVIRT_NAME_TAKEN, name=name, uri=uri, uuid=taken)

    async def boot(
        self, xml: str, sockets: Sockets, spec: InstanceSpec, limits: Limits, undo: Undo
    ) -> None:
        """Make it, see that its limits hold, and let it run. What undoes that is on the stack."""
        await self.refuse_taken_name()
        undo.push(self.kill)
        await self.start(xml, sockets)
        parameters = await self.ask("its memory cannot be limited", partial(limit_memory, limits))
        verify(spec, limits, parameters, cpus_allowed(self.pid))
        await self.cont()

    async def start(self, xml: str, sockets: Sockets) -> None:
        """Make the domain, halted, and connect to its sockets: nothing that it says is lost.

        VM_FAILED, LIBVIRT_GONE.
        """
        libvirt = library()
        await asyncio.to_thread(user_commands.keep, self._identity.removal)
        loop = asyncio.get_running_loop()
        await self._connection.watch(
            DomainListener(
                self._identity.uuid,
                stopped=lambda why: tell(loop, self._stopped, why),
                guest_agent=lambda: tell(loop, asyncio.Event.set, self.guest_agent),
            )
        )
        flags = libvirt.VIR_DOMAIN_START_PAUSED
        await self._do("libvirt does not start it", lambda c: c.createXML(xml, flags))
        self._pid = await asyncio.to_thread(_pid, self._identity.uuid)
        reader, self._console_writer = await asyncio.open_unix_connection(sockets.console)
        self._listener = asyncio.create_task(listen(reader, self._console.add))
        self._port = await asyncio.open_unix_connection(sockets.agent)

    @property
    def pid(self) -> int:
        """0 when it is not to be seen from here."""
        return self._pid

    async def ask(self, step: str, question: Callable[[Any], Any]) -> Any:
        """What libvirt knows of the domain. VM_FAILED, LIBVIRT_GONE."""
        uuid = self._identity.uuid
        return await self._do(step, lambda c: question(c.lookupByUUIDString(uuid)))

    async def stop(self) -> None:
        await self.ask("`suspend` failed", _suspend)

    async def cont(self) -> None:
        await self.ask("`resume` failed", _resume)

    async def kill(self) -> None:
        """INSTANCE_NOT_REMOVED, with the command that does it by hand, when it may still run."""
        try:
            await self._connection.call(self._destroy)
        except Exception as error:
            why = error.message if isinstance(error, UllageError) else reason(error)
            removal = self._identity.removal
            raise UllageError(
                INSTANCE_NOT_REMOVED, name=removal.name, reason=why, command=removal.by_hand
            ) from error
        finally:
            await self._let_go()
        await asyncio.to_thread(user_commands.forget, self._identity.removal)

    async def wait_for_guest_agent(self, deadline_s: float) -> None:
        """Until libvirt tells that it is up. VM_NEVER_BOOTED, VM_FAILED when the VM ends."""
        waits = {asyncio.create_task(event.wait()) for event in (self.guest_agent, self._end)}
        try:
            await asyncio.wait(waits, timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self._end.is_set():
            raise self.failed("QEMU ended while the VM booted", self._end_reason)
        if not self.guest_agent.is_set():
            raise self._never_booted(deadline_s)

    def _owner_of_name(self, handle: Any) -> str | None:
        """UUID of the domain that has our name."""
        libvirt = library()
        try:
            return str(handle.lookupByName(self._identity.name).UUIDString())
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return None
            raise

    def _destroy(self, handle: Any) -> None:
        libvirt = library()
        try:
            handle.lookupByUUIDString(self._identity.uuid).destroy()
        except libvirt.libvirtError as error:
            if error.get_error_code() not in {
                libvirt.VIR_ERR_NO_DOMAIN,
                libvirt.VIR_ERR_OPERATION_INVALID,  # it has stopped meanwhile
            }:
                raise

    async def _let_go(self) -> None:
        writers = [self._console_writer, self._port[1] if self._port else None]
        for writer in writers:
            if writer is not None:
                writer.close()
        if self._listener is not None:
            await asyncio.wait({self._listener}, timeout=_CLOSE_S)
            self._listener.cancel()

    def _stopped(self, why: str) -> None:
        self._end_reason = why
        self._end.set()

    async def _do(self, step: str, action: Callable[[Any], Any]) -> Any:
        try:
            return await self._connection.call(action)
        except UllageError as error:
            raise self._gone(step, error.message) from error
        except library().libvirtError as error:
            if not self._connection.alive:
                raise self._gone(step, reason(error)) from error
            raise await self._failure(step, error) from error

    def _gone(self, step: str, why: str) -> UllageError:
        return UllageError(
            LIBVIRT_GONE,
            instance=self.name,
            uri=self._identity.uri,
            what=step,
            reason=why,
        )

    async def _port_streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        port, self._port = self._port, None
        assert port is not None, "asked for once"
        return port

    async def _ended_soon(self) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_EVENT_S):
                await self._end.wait()
        return self._end.is_set()

    async def _failure(self, step: str, error: BaseException) -> UllageError:
        why = reason(error) if isinstance(error, Exception) else type(error).__name__
        if await self._ended_soon():
            why = f"{self._end_reason} ({why})"
        return self.failed(step, why[-SHOWN:])


def _suspend(domain: Any) -> None:
    if domain.state()[0] != library().VIR_DOMAIN_PAUSED:
        domain.suspend()


def _resume(domain: Any) -> None:
    """libvirt refuses to resume what runs."""
    if domain.state()[0] != library().VIR_DOMAIN_RUNNING:
        domain.resume()


def _pid(uuid: str) -> int:
    """Of the QEMU that was started with the UUID: libvirt itself does not say."""
    words = b"\0-uuid\0" + uuid.encode() + b"\0"
    for process in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if words in (process / "cmdline").read_bytes():
                return int(process.name)
    return 0
