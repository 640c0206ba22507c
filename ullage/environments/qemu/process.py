"""One QEMU process: started inside its limits, spoken to over QMP, never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from qemu.qmp import QMPClient, QMPError

from ullage.common import processes
from ullage.common.commands import needed
from ullage.common.errors import UllageError
from ullage.environments import exec_pinned
from ullage.environments.qemu.command_line import VirtualMachine, command_line
from ullage.environments.qemu.console import SHOWN, PrintedTail, listen
from ullage.environments.qemu.running import RunningVm
from ullage.host.cgroups import Group

PROGRAM: Final = "qemu-system-x86_64"
PACKAGE: Final = "qemu-system-x86"
_START_PATIENCE_S: Final = 120.0
"""Many that start at once on few CPUs take long; one that ends is seen at once."""
_QMP_PATIENCE_S: Final = 30.0
_CLOSE_S: Final = 5.0
"""Once QEMU is gone its sockets and pipes close at once; nobody waits for those that do not."""


class QemuProcess(RunningVm):
    """A running QEMU with the VM's console, its monitor and the agent's port. Made by `start`."""

    def __init__(
        self,
        machine: VirtualMachine,
        process: asyncio.subprocess.Process,
        port: socket.socket,
        console: Path,
    ) -> None:
        super().__init__(machine.name, machine.accelerator, console)
        self._process = process
        self._port: socket.socket | None = port
        self._qmp = QMPClient(machine.name)
        self._stderr = PrintedTail(None)
        assert process.stdout is not None
        assert process.stderr is not None
        self._listeners = [
            asyncio.create_task(listen(process.stdout, self._console.add)),
            asyncio.create_task(listen(process.stderr, self._stderr.add)),
        ]

    @classmethod
    async def start(
        cls,
        machine: VirtualMachine,
        console: Path,
        *,
        cpu_ids: Sequence[int] = (),
        group: Group | None = None,
        tag: str = "",
    ) -> QemuProcess:
        """Start QEMU, on these CPUs and in the group when they are given.

        What the guest's console prints goes to a file, up to 1 MiB. VM_FAILED when QEMU ends at
        once. Its sockets are pairs made here: they have no path, so nobody else can connect.
        """
        program = needed(PROGRAM, PACKAGE)
        port, port_inside = socket.socketpair()
        monitor, monitor_inside = socket.socketpair()
        with port_inside, monitor_inside:
            fds = (port_inside.fileno(), monitor_inside.fileno())
            argv = [program, *command_line(machine, *fds)]
            places = [] if group is None else map(str, group.directories)
            on = ",".join(map(str, cpu_ids))
            argv = [sys.executable, "-I", "-S", exec_pinned.__file__, on, *places, "--", *argv]
            process = await asyncio.create_subprocess_exec(
                *argv,
                env={**os.environ, "LC_ALL": "C", "ULLAGE_TAG": tag},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=fds,
                start_new_session=True,
            )
        self = cls(machine, process, port, console)
        try:
            async with asyncio.timeout(_START_PATIENCE_S):
                await self._qmp.connect(monitor)
        except (QMPError, TimeoutError) as error:
            reason = str(error) or f"its monitor said nothing for {_START_PATIENCE_S:g} s"
            failure = await self._failure("QEMU does not start", TimeoutError(reason))
            await self.kill()
            raise failure from error
        except BaseException:
            await self.kill()
            raise
        return self

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        """False once QEMU has ended."""
        return self._process.returncode is None

    @property
    def printed(self) -> int:
        """Bytes that the guest's console has printed."""
        return self._console.taken

    async def _port_streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        port, self._port = self._port, None
        assert port is not None, "asked for once"
        return await asyncio.open_unix_connection(sock=port)

    async def stop(self) -> None:
        """Halt all vCPUs and the VM's clock."""
        await self._execute("stop")

    async def cont(self) -> None:
        """Let them run on."""
        await self._execute("cont")

    async def vcpu_threads(self) -> list[int]:
        """Ids on this host of the threads that run the vCPUs, in the vCPUs' order."""
        vcpus = await self._execute("query-cpus-fast")
        return [v["thread-id"] for v in sorted(vcpus, key=lambda vcpu: vcpu["cpu-index"])]

    async def io_threads(self) -> list[int]:
        """Ids on this host of the threads that serve disks, beside QEMU's main loop."""
        return [thread["thread-id"] for thread in await self._execute("query-iothreads")]

    async def pin(self, cpu_ids: Sequence[int]) -> None:
        """Each vCPU on a CPU of its own. VM_FAILED."""
        for thread, cpu in zip(await self.vcpu_threads(), cpu_ids, strict=True):
            try:
                os.sched_setaffinity(thread, {cpu})
            except OSError as error:
                raise await self._failure(f"a vCPU cannot be pinned to CPU {cpu}", error) from error

    async def kill(self) -> None:
        """End QEMU, its VM and our ends of its sockets; does nothing when they are gone."""
        try:
            await processes.kill(self._process, group=True)
        finally:
            with contextlib.suppress(QMPError, OSError, EOFError, TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    await self._qmp.disconnect()
            if self._port is not None:
                self._port.close()
                self._port = None
            await asyncio.wait(self._listeners, timeout=_CLOSE_S)
            for listener in self._listeners:
                listener.cancel()
            processes.let_go(self._process)

    async def _execute(self, command: str) -> Any:
        try:
            async with asyncio.timeout(_QMP_PATIENCE_S):
                return await self._qmp.execute(command)
        except (QMPError, TimeoutError) as error:
            raise await self._failure(f"`{command}` failed", error) from error

    async def _ended_soon(self) -> bool:
        """True when QEMU is gone; its sockets close a moment before it can be waited for."""
        return await processes.ended(self._process, 0.5)

    async def _failure(self, step: str, error: BaseException) -> UllageError:
        reason = str(error) or type(error).__name__
        if await self._ended_soon():
            await asyncio.wait(self._listeners, timeout=1)
            reason = self._stderr.text or f"QEMU ended with status {self._process.returncode}"
        return self.failed(step, reason[-SHOWN:])
