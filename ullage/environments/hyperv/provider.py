"""The `hyperv` provider: virtual machines of a Hyper-V host."""

from __future__ import annotations

import signal
from asyncio import to_thread
from typing import ClassVar, Literal

from ullage.common.cleanup import Undo
from ullage.common.errors import (
    HYPERV_LACKS,
    HYPERV_NETWORK,
    HYPERV_NO_KEY,
    HYPERV_NO_ROOM,
    INSTANCE_NOT_STARTED,
    UllageError,
)
from ullage.common.quantities import exact_bytes
from ullage.common.text import printable
from ullage.environments.agent.client import AgentClient, windows_binary
from ullage.environments.base import Instance, InstanceSpec, Options, Provider, verify_limits
from ullage.environments.clouds.calls import Deadline
from ullage.environments.clouds.ssh import ShellError, signal_way
from ullage.environments.containers.base import starting
from ullage.environments.hyperv.answers import Facts
from ullage.environments.hyperv.guest import ParentGuest
from ullage.environments.hyperv.host import CALL_S, HypervHost
from ullage.environments.hyperv.machine import HypervMachine
from ullage.environments.hyperv.options import HypervOptions
from ullage.environments.systems import WINDOWS_DATA, WINDOWS_SUFFIX, inside


class Hyperv(Provider):
    """Virtual machines of [a Hyper-V host](../guide/hyper-v.md), never seen on a real one.

    The host is reached by your own ssh; its Windows PowerShell makes a differencing disk of
    `parent`, a machine with the plan's CPUs and memory (static), and starts it. Once the guest's
    heartbeat and an address are there, ullage logs in by ssh, unpacks the plan's image on the
    guest's own disk, and workloads run in it: the same bytes as everywhere, on the guest's kernel.
    What is idle is suspended. Machines are called `ullage-TAG-NAME`, and bear the run's tag in
    their notes; `ullage clean` removes what killed runs left.

    The guest is a Debian or another Linux with sshd, tar and Hyper-V's integration services, or
    (`guest: windows`) a Windows with OpenSSH, which runs the agent for Windows and its own
    programs, so that the plan must allow another userland too. Where its CPUs run the host
    decides: a plan must say `allow: [pinning]`.
    """

    name: ClassVar[str] = "hyperv"
    options_model: ClassVar[type[Options]] = HypervOptions
    last_seen: ClassVar[str] = (
        "never: a double with a real sshd and an interpreter of ours for its PowerShell"
    )
    elsewhere: ClassVar[bool] = True
    optional: ClassVar[bool] = True
    keeps_memory: ClassVar[bool] = True
    provision_s: ClassVar[float] = 60.0

    def __init__(self, options: Options) -> None:
        assert isinstance(options, HypervOptions)
        super().__init__(options)
        self._options = options
        self._facts: Facts | None = None

    @property
    def removal_s(self) -> float:
        """With the last answer of its host, which may be late."""
        return self._options.deadline_s + CALL_S

    async def check(self) -> None:
        """HYPERV_NO_KEY, AGENT_BINARY_MISSING, HYPERV_LACKS, and what reaching the host raises."""
        options = self._options
        if not options.key.is_file():
            raise UllageError(HYPERV_NO_KEY, key=options.key, host=options.host)
        if options.guest == "windows":
            windows_binary()
        host = HypervHost(options.host, options.ssh_config)
        facts = await host.ask("facts", Facts, CALL_S, parent=options.parent)
        if options.switch not in facts.switches:
            known = printable(", ".join(filter(None, facts.switches)) or "none", 200)
            self._lacks(f"the switch {options.switch}; it has {known}", "New-VMSwitch")
        if facts.parent is None:
            self._lacks(f"the parent disk {options.parent}", "Get-ChildItem, to see what is there")
        self._facts = facts

    def _lacks(self, what: str, command: str) -> None:
        raise UllageError(HYPERV_LACKS, host=self._options.host, what=what, command=command)

    @property
    def on_network(self) -> bool:
        """It is on a switch of its host's."""
        return False

    def pinning(self) -> str:
        """Hyper-V's root scheduler decides."""
        return "by Hyper-V"

    def label(self) -> str:
        """`hyperv`; it says which system is inside where that is Windows, and generation 1."""
        old = " generation 1" if self._options.generation == 1 else ""
        return f"hyperv{inside(self._options.guest)}{old}"

    def userland(self) -> str | None:
        """Windows' own."""
        return f"Windows of {self._options.parent}" if self._options.guest == "windows" else None

    def treatments(self) -> dict[str, str]:
        """The host's system, and what the machine is made of."""
        options, facts = self._options, self._facts
        system = f"{facts.system} {facts.version}" if facts else "Hyper-V"
        parent = facts.parent if facts else None
        kind = f" ({parent.format}, {parent.kind})" if parent else ""
        return {
            "hypervisor": printable(system, 120),
            "host": options.host,
            "generation": str(options.generation),
            "secure boot": options.secure_boot,
            "disk": printable(f"differencing disk of {options.parent}{kind}", 300),
            "kernel of": options.parent,
            "switch": options.switch,
        }

    async def create(self, spec: InstanceSpec) -> Instance:
        """Make one, and see that it is what was asked for. The errors of Hyper-V."""
        options, deadline = self._options, Deadline(self._options.deadline_s)
        async with starting(self.label(), spec) as undo:
            if spec.network is not None:
                raise UllageError(HYPERV_NETWORK, name=spec.name, host=options.host)
            self._see_room(spec)
            machine = HypervMachine(options, spec)
            spec.on_stage("booting", "")
            undo.push_within(self.removal_s, machine.remove)
            await machine.make()
            address = await machine.addressed(deadline)
            spec.on_stage("addressed", address)
            agent = await self._agent(spec, address, deadline)
            undo.push(agent.close)
            verify_limits(spec, agent.facts, virtual_machine=not agent.clock_claims.shared)
            instance = HypervInstance(spec, machine, agent, address, undo.pop_all())
            if options.guest == "windows":
                instance.data, instance.program_suffix = WINDOWS_DATA, WINDOWS_SUFFIX
            return instance

    def _see_room(self, spec: InstanceSpec) -> None:
        """HYPERV_NO_ROOM for one that is larger than its host."""
        facts = self._facts
        if facts is None:
            return
        if len(spec.cpu_ids) > facts.cpus or spec.memory_bytes > facts.memory_bytes:
            reason = f"it has {facts.cpus} CPUs and {exact_bytes(facts.memory_bytes)} of memory"
            host = self._options.host
            raise UllageError(HYPERV_NO_ROOM, host=host, name=spec.name, reason=reason)

    async def _agent(self, spec: InstanceSpec, address: str, deadline: Deadline) -> AgentClient:
        guest = await to_thread(ParentGuest, self._options, spec, address)
        try:
            return await guest.serve(deadline)
        except ShellError as error:
            raise UllageError(
                INSTANCE_NOT_STARTED, provider=self.label(), name=spec.name, reason=error.reason
            ) from error


class HypervInstance(Instance):
    """One machine. What `undo` holds is all that it will leave."""

    def __init__(
        self,
        spec: InstanceSpec,
        machine: HypervMachine,
        agent: AgentClient,
        address: str,
        undo: Undo,
    ) -> None:
        self.name = spec.name
        self.spec = spec
        self.agent = agent
        self.address = address
        self.own_kernel = not agent.clock_claims.shared
        self._machine = machine
        self._undo = undo
        self._state: Literal["Running", "Paused", "Gone"] = "Running"
        """What we have made of it."""

    async def freeze(self) -> None:
        """Suspend it: its virtual processors stand still, its memory stays; our ssh stands too."""
        signal_way(self.agent, signal.SIGSTOP)
        try:
            await self._machine.suspend()
        except BaseException:
            signal_way(self.agent, signal.SIGCONT)
            raise
        self._state = "Paused"

    async def thaw(self) -> None:
        """Let it run on, and read its clock anew."""
        await self._machine.resume()
        signal_way(self.agent, signal.SIGCONT)
        self._state = "Running"
        await self.agent.sync()

    async def destroy(self) -> None:
        """INSTANCE_NOT_REMOVED when the host still has it at the deadline."""
        self._state = "Gone"
        await self._undo.aclose()

    async def why_gone(self) -> UllageError | None:
        """HYPERV_STATE when the host has made something else of it than we did."""
        if self._state == "Gone":
            return None
        try:
            return self._machine.wrong(await self._machine.state(), self._state)
        except UllageError:
            return None
