"""One machine on a Hyper-V host: made, seen, suspended, resumed and removed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Final

from ullage.common.errors import (
    HYPERV_NO_ANSWER,
    HYPERV_NO_HEARTBEAT,
    HYPERV_NOT_UP,
    HYPERV_STATE,
    HYPERV_UNREACHABLE,
    INSTANCE_NOT_REMOVED,
    LIMIT_NOT_APPLIED,
    UllageError,
)
from ullage.common.quantities import exact_bytes
from ullage.common.text import printable
from ullage.environments.base import InstanceSpec
from ullage.environments.clouds.calls import Deadline
from ullage.environments.containers.base import container_id
from ullage.environments.hyperv.answers import Names, VmState
from ullage.environments.hyperv.host import CALL_S, HypervHost
from ullage.environments.hyperv.options import HypervOptions
from ullage.environments.hyperv.removal import place, removal
from ullage.host import user_commands

_POLL_S: Final = 0.5
_SETTLED_S: Final = 60.0
"""Longer than this after the time for its answer, a request makes nothing any more."""
_UNANSWERED: Final = (HYPERV_NO_ANSWER, HYPERV_UNREACHABLE)
_STEP: Final = 1 << 21
"""Hyper-V gives memory in steps of 2 MiB."""
_TEMPLATES: Final = {
    "off": "",
    "windows": "MicrosoftWindows",
    "linux": "MicrosoftUEFICertificateAuthority",
}
_TOLERANCE: Final = 0.01


class HypervMachine:
    """One that a plan asks for."""

    def __init__(self, options: HypervOptions, spec: InstanceSpec) -> None:
        self._options = options
        self._spec = spec
        self._host = HypervHost(options.host, options.ssh_config)
        self._name = container_id(spec)
        self._removal = removal(options, spec.tag, self._name)
        self._requested_s: float | None = None
        """When a request to make it was sent that nobody has answered."""

    async def make(self) -> None:
        """Make it and start it; from here on `remove` is needed. LIMIT_NOT_APPLIED, HYPERV_…"""
        options, spec = self._options, self._spec
        directory = place(options, self._name)
        percent, memory = self._percent(), spec.memory_bytes // _STEP * _STEP
        await self._note(may_come=True)
        request = self._host.ask(
            "make",
            VmState,
            CALL_S,
            name=self._name,
            notes=f"ullage {spec.tag}",
            place=directory,
            disk=f"{directory}\\disk.vhdx",
            parent=options.parent,
            switch=options.switch,
            generation=options.generation,
            memory_bytes=memory,
            cpus=len(spec.cpu_ids),
            percent=percent,
            secure_boot="Off" if self._unsigned else "",
            template=_TEMPLATES[options.secure_boot] if options.generation == 2 else "",
        )
        state = await self._answered(request)
        self._want(state, "Running")
        if state.cpus != len(spec.cpu_ids):
            self._refuse(f"{len(spec.cpu_ids)} CPUs", f"{state.cpus} in Hyper-V")
        if state.memory_bytes != memory:
            required = f"{exact_bytes(memory)} of memory"
            self._refuse(required, f"{exact_bytes(state.memory_bytes)} in Hyper-V")

    async def _answered(self, request: Awaitable[VmState]) -> VmState:
        """What the host says to a request to make it. The errors of the request."""
        self._requested_s = time.monotonic()
        try:
            state = await request
        except UllageError as error:
            if error.kind not in _UNANSWERED:
                await self._settled()
            raise
        await self._settled()
        return state

    async def _settled(self) -> None:
        """It was answered: none comes any more."""
        self._requested_s = None
        await self._note(may_come=False)

    async def _note(self, *, may_come: bool) -> None:
        """For who looks after us: until when one may come."""
        until = time.time() + CALL_S + _SETTLED_S if may_come else None
        record = self._removal.model_copy(update={"may_come_until": until})
        await asyncio.to_thread(user_commands.keep, record)

    async def addressed(self, deadline: Deadline) -> str:
        """Its address, once its heart beats. HYPERV_NO_HEARTBEAT, HYPERV_NOT_UP, HYPERV_STATE."""
        while True:
            state = await self.state()
            self._want(state, "Running")
            if state.beats and state.address is not None:
                return state.address
            if deadline.passed:
                raise self._late(state, deadline.seconds)
            await asyncio.sleep(_POLL_S)

    async def state(self) -> VmState:
        """As the host sees it now."""
        return await self._host.ask("state", VmState, CALL_S, name=self._name)

    async def suspend(self) -> None:
        """It stands still. HYPERV_STATE when it does not."""
        state = await self._host.ask("suspend", VmState, CALL_S, name=self._name)
        self._want(state, "Paused")

    async def resume(self) -> None:
        """It runs on. HYPERV_STATE when it does not."""
        state = await self._host.ask("resume", VmState, CALL_S, name=self._name)
        self._want(state, "Running")

    async def remove(self) -> None:
        """With its disk. INSTANCE_NOT_REMOVED, with the command that does it by hand."""
        deadline, reason = Deadline(self._options.deadline_s), "its host still has it"
        if self._may_come:
            reason = "its host may still be making it"
        while True:
            try:
                names = await self._host.ask(
                    "remove",
                    Names,
                    CALL_S,
                    name=self._name,
                    place=place(self._options, self._name),
                    folder=self._options.folder,
                    pattern=self._name,
                )
                if self._name not in names.names and not self._may_come:
                    await asyncio.to_thread(user_commands.forget, self._removal)
                    return
            except UllageError as error:
                reason = error.message
            if deadline.passed:
                raise UllageError(
                    INSTANCE_NOT_REMOVED,
                    name=self._name,
                    reason=reason,
                    command=self._removal.by_hand,
                )
            await asyncio.sleep(_POLL_S)

    @property
    def _may_come(self) -> bool:
        """Nobody answered that it is made: Windows' sshd lets a program run on that it has lost."""
        asked_s = self._requested_s
        return asked_s is not None and time.monotonic() - asked_s < CALL_S + _SETTLED_S

    def wrong(self, state: VmState, wanted: str) -> UllageError | None:
        """HYPERV_STATE unless it is in that state."""
        return None if state.state == wanted else self._not(wanted, state)

    @property
    def _unsigned(self) -> bool:
        return self._options.generation == 2 and self._options.secure_boot == "off"

    def _percent(self) -> int:
        """Of the CPUs that it has: Hyper-V's cap is in whole percent. LIMIT_NOT_APPLIED."""
        cpus = len(self._spec.cpu_ids)
        quota = self._spec.cpu_quota or cpus
        percent = round(100 * quota / cpus)
        if abs(percent / (100 * quota / cpus) - 1) > _TOLERANCE:
            self._refuse(f"{quota:g} CPUs", f"a cap of {percent} % of {cpus}")
        return percent

    def _want(self, state: VmState, wanted: str) -> None:
        if state.state != wanted:
            raise self._not(wanted, state)

    def _not(self, wanted: str, state: VmState) -> UllageError:
        return UllageError(
            HYPERV_STATE,
            name=self._spec.name,
            host=self._options.host,
            state=printable(state.state, 60),
            wanted=wanted,
        )

    def _late(self, state: VmState, seconds: float) -> UllageError:
        """What it still lacked at the deadline."""
        name, host = self._spec.name, self._options.host
        if state.beats:
            last = "no IPv4 address on its switch"
            return UllageError(HYPERV_NOT_UP, name=name, host=host, seconds=seconds, last=last)
        last = f"its state is {printable(state.heartbeat or 'none', 60)}"
        return UllageError(HYPERV_NO_HEARTBEAT, name=name, host=host, seconds=seconds, last=last)

    def _refuse(self, required: str, actual: str) -> None:
        raise UllageError(LIMIT_NOT_APPLIED, instance=self._spec.name, asked=required, seen=actual)
