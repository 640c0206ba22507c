"""The `ssh` provider: a machine that is there already."""

from __future__ import annotations

from asyncio import to_thread
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Final

from ullage.common.cleanup import Undo
from ullage.common.errors import (
    INSTANCE_NOT_STARTED,
    SSH_LOST,
    SSH_NETWORK,
    SSH_NO_KEY,
    UllageError,
)
from ullage.environments.agent.client import AgentClient, windows_binary
from ullage.environments.base import Instance, InstanceSpec, Options, Provider, verify_limits
from ullage.environments.clouds.calls import Deadline
from ullage.environments.clouds.ssh import SSH_FAILED, ShellError
from ullage.environments.containers.base import container_id, environment, starting
from ullage.environments.ssh.machine import RemoteMachine
from ullage.environments.ssh.options import SshOptions
from ullage.environments.ssh.removal import machine, removal
from ullage.environments.systems import SYSTEMS, WINDOWS_SUFFIX, inside
from ullage.host import user_commands

_LEAST_S: Final = 10.0
_REMOVAL_S: Final = 120.0
"""A machine that is off keeps what was put there, however long one waits."""


class Ssh(Provider):
    """[A machine that you reach by ssh](../guide/windows.md#a-machine-that-you-reach-by-ssh).

    Another Linux, or a Windows.

    Nothing is made there but a folder, which goes at the end: the machine is used as it is, so it
    must have the CPUs and the memory that the plan says. On Linux the plan's image is unpacked
    there, and workloads run in it, as root, on the machine's own kernel. On Windows with OpenSSH
    (`system: windows`) the agent for Windows runs, and the machine's own programs, so that the plan
    must allow another userland too. Never seen on a real Windows.

    ssh uses the plan's key and host key, and nothing of your own configuration; nobody is asked for
    a password. What is idle is not frozen: nothing of ours runs in it then. Which CPU of that
    machine a program runs on is not this host's to say: a plan must write `allow: [pinning]`. A
    machine that is to hold containers or VMs is a [node](../guide/nodes.md) instead.
    """

    name: ClassVar[str] = "ssh"
    options_model: ClassVar[type[Options]] = SshOptions
    last_seen: ClassVar[str] = (
        "2026-11-28: OpenSSH 9.2 of Debian 12; its Windows is Wine 8.0, never a real one"
    )
    elsewhere: ClassVar[bool] = True
    optional: ClassVar[bool] = True
    provision_s: ClassVar[float] = 10.0

    def __init__(self, options: Options) -> None:
        assert isinstance(options, SshOptions)
        super().__init__(options)
        self._options = options

    @property
    def removal_s(self) -> float:
        return min(self._options.deadline_s, _REMOVAL_S)

    async def check(self) -> None:
        """SSH_NO_KEY, AGENT_BINARY_MISSING, SSH_OTHER_SYSTEM, and why ssh does not come in."""
        options = self._options
        if not options.key.is_file():
            raise UllageError(SSH_NO_KEY, key=options.key, host=options.host)
        if options.system == "windows":
            windows_binary()
        with TemporaryDirectory() as folder:
            remote = machine(options, self.name, Path(folder))
            await remote.recognise(SYSTEMS[options.system])

    @property
    def on_network(self) -> bool:
        """It is on a network of its own."""
        return False

    def pinning(self) -> str:
        """Its CPUs are none of this host's."""
        return f"on {self._options.host}"

    def label(self) -> str:
        """`ssh HOST`; it says so where that is a Windows."""
        return f"ssh {self._options.host}" + inside(self._options.system)

    def userland(self) -> str | None:
        """Windows' own."""
        return f"Windows of {self._options.host}" if self._windows else None

    def treatments(self) -> dict[str, str]:
        """Whose machine it is."""
        host = self._options.host
        return {"machine": host, "kernel of": host, "idle": "not frozen"}

    @property
    def _windows(self) -> bool:
        return self._options.system == "windows"

    async def create(self, spec: InstanceSpec) -> Instance:
        """Put the agent there, and see that it is what was asked for. The errors of ssh."""
        options, deadline, name = self._options, Deadline(self._options.deadline_s), self.label()
        async with starting(name, spec) as undo:
            if spec.network is not None:
                raise UllageError(SSH_NETWORK, name=spec.name, host=options.host)
            remote = await to_thread(machine, options, container_id(spec), spec.state_dir)
            await remote.recognise(SYSTEMS[options.system])
            record = removal(options, spec.tag, remote.name)
            await to_thread(user_commands.keep, record)
            undo.push(_remove, remote, record, self.removal_s)
            agent = await self._agent(spec, remote, deadline)
            undo.push(agent.bye)
            verify_limits(spec, agent.facts, virtual_machine=not agent.clock_claims.shared)
            data = await remote.data(agent)
            return SshInstance(spec, remote, agent, data, undo)

    async def _agent(
        self, spec: InstanceSpec, remote: RemoteMachine, deadline: Deadline
    ) -> AgentClient:
        spec.on_stage("booting", "")
        try:
            words = await remote.furnish(spec, deadline)
        except ShellError as error:
            raise UllageError(
                INSTANCE_NOT_STARTED, provider=self.label(), name=spec.name, reason=error.reason
            ) from error
        return await AgentClient.launch(
            remote.shell.argv(words),
            deadline_s=max(_LEAST_S, deadline.left_s),
            stderr=spec.state_dir / "ssh.log",
            env=environment(spec),
            name=spec.name,
        )


class SshInstance(Instance):
    """A machine while a run uses it. What `undo` holds is all that it will leave."""

    def __init__(
        self,
        spec: InstanceSpec,
        remote: RemoteMachine,
        agent: AgentClient,
        data: str,
        undo: Undo,
    ) -> None:
        self.name = spec.name
        self.spec = spec
        self.agent = agent
        self.address = remote.shell.address
        self.data = data
        self.program_suffix = WINDOWS_SUFFIX if remote.shell.windows else ""
        self.own_kernel = not agent.clock_claims.shared
        self._remote = remote
        self._undo = undo

    async def freeze(self) -> None:
        """Nothing of ours runs in it while it is idle."""

    async def thaw(self) -> None:
        """Read its clock anew: it ran on meanwhile, for as long as others had their turn."""
        await self.agent.sync()

    async def destroy(self) -> None:
        """Its folder goes. INSTANCE_NOT_REMOVED when it is still there at the deadline."""
        await self._undo.aclose()

    async def why_gone(self) -> UllageError | None:
        """SSH_LOST where the connection was, and whether the machine answers again."""
        if self.alive:
            return None
        remote = self._remote
        try:
            await remote.shell.run(["hostname"], sudo=False)
            if await self.agent.transport_status() != SSH_FAILED:
                return None  # the agent has gone by itself
            reason = "it answers now: its sshd, or the machine, was restarted"
        except ShellError as error:
            reason = error.reason
        return UllageError(SSH_LOST, name=self.name, host=remote.shell.address, reason=reason)


async def _remove(remote: RemoteMachine, record: user_commands.Removal, deadline_s: float) -> None:
    await remote.clear(Deadline(deadline_s), record.by_hand)
    await to_thread(user_commands.forget, record)
