"""The command provider: environments that commands of the user's make, and what they cannot be."""

from __future__ import annotations

import shlex
import shutil
from asyncio import to_thread
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Address
from string import Formatter
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from ullage.common.cleanup import Undo
from ullage.common.commands import CommandError, run
from ullage.common.errors import HOST_MISSING, HOST_NO_ANSWER, UllageError
from ullage.common.quantities import Seconds
from ullage.common.text import printable
from ullage.environments.agent.client import AgentClient
from ullage.environments.base import Instance, InstanceSpec, Options, Provider, verify_limits
from ullage.environments.containers.base import container_id, environment, starting
from ullage.host import user_commands

WORDS: Final = {
    "name": "what the platform is to call the instance; carries the run's tag",
    "tag": "the run's tag",
    "agent": "path of the static agent binary, to be put into the instance",
    "image": "path of the image as a tar archive",
    "root": "path of the image as a directory, to be read only",
    "digest": "of the image, in 12 digits: a name for it there",
    "cpus": "number of CPUs",
    "cpu_ids": "the host's CPUs that it gets: `0,1`",
    "cpu_ranges": "the same as `0-0,1-1`: to LXD a plain `1` is a number of CPUs",
    "memory_bytes": "memory limit in bytes",
    "memory_mib": "the same in whole MiB",
}
"""What stands in braces in a command → what comes in its place."""


def _known(argument: str) -> str:
    """The argument; ValueError when braces hold what nobody fills in."""
    for _, word, form, conversion in Formatter().parse(argument):
        if word is not None and (word not in WORDS or form or conversion):
            known = ", ".join(f"{{{name}}}" for name in WORDS)
            raise ValueError(f"{{{word}}} is none of {known}; braces are written twice: {{{{")
    return argument


Argument = Annotated[
    str,
    StringConstraints(pattern=r"^[^\x00]*$", min_length=1, max_length=4096),
    AfterValidator(_known),
]
Argv = Annotated[tuple[Argument, ...], Field(min_length=1, max_length=256)]
Argvs = Annotated[tuple[Argv, ...], Field(min_length=1, max_length=32)]


class CommandOptions(Options):
    """Fields of a `command` environment in the plan."""

    label: str = Field(
        pattern=r"^[^\x00-\x1f\x7f]+$",
        max_length=60,
        description="what tables and sentences call it: `incus 6.0`",
    )
    create: Argvs = Field(
        description="commands that make the instance `{name}` and put `{agent}` into it, one after "
        "the other; no shell reads them"
    )
    exec: Argv = Field(
        description="runs the agent inside with `serve`, its standard input and output the "
        "command's own"
    )
    destroy: Argvs = Field(description="commands that remove it, however far it has come")
    list: Argv = Field(description="prints the names of all that are there, one a line")
    freeze: Argv | None = Field(
        None, description="stops all its processes; left out: what is idle is not frozen"
    )
    thaw: Argv | None = Field(None, description="undoes `freeze`")
    address: Argv | None = Field(
        None, description="prints its IPv4 address; needed where a plan needs a network"
    )
    machine: bool = Field(
        False, description="its instances are virtual machines, with a kernel of their own"
    )
    cpu_limit: Literal["set", "quota"] = Field(
        "set", description="`set`: CPUs of its own, `{cpu_ids}`; `quota`: the time of `{cpus}` CPUs"
    )
    data: str = Field(
        "/data",
        pattern=r"^/[^\x00]*$",
        max_length=4096,
        description="directory inside that workloads write to; it must be there",
    )
    deadline_s: Seconds = Field(300.0, description="each command, and the agent, has so long")

    @model_validator(mode="after")
    def _whole(self) -> CommandOptions:
        if (self.freeze is None) != (self.thaw is None):
            raise ValueError("`freeze` and `thaw` belong together: write both or none")
        if any(word is not None for part in self.list for _, word, *_ in Formatter().parse(part)):
            raise ValueError("`list` is of all instances, so it takes no {word}")
        return self


class UserCommand(Provider):
    """Whatever commands of yours make: LXD, Incus, Kubernetes, Vagrant, Firecracker, Proxmox.

    Each command is a list of arguments in which [words in braces](../guide/any-platform.md#words)
    are replaced. `exec` must hand through standard input and output unchanged (no terminal). What
    the commands make is seen: `list` must name it when `create` has ended, and must not when
    `destroy` has; the limits are looked for inside. `ullage clean` runs `destroy` for what a killed
    run left.

    The image's packages are inside only where `create` makes the instance from `{image}` or
    `{root}`; else userlands differ, and the plan must `allow` it. Seen on LXD 5.0.
    """

    name: ClassVar[str] = "command"
    options_model: ClassVar[type[Options]] = CommandOptions
    last_seen: ClassVar[str] = "2026-11-27: LXD 5.0.2 of Debian 12"
    provision_s: ClassVar[float] = 10.0

    def __init__(self, options: Options) -> None:
        assert isinstance(options, CommandOptions)
        super().__init__(options)
        self._options = options

    async def check(self) -> None:
        """HOST_NO_ANSWER when the command that lists fails; HOST_MISSING without its program."""
        listing = self._listing()
        if shutil.which(listing[0]) is None:
            raise UllageError(
                HOST_MISSING, what=listing[0], command="or write its whole path in `list`"
            )
        try:
            await run(listing, timeout_s=self._options.deadline_s)
        except CommandError as error:
            command = f"`{shlex.join(listing)}` must work"
            raise UllageError(
                HOST_NO_ANSWER, what=listing[0], reason=error.reason, command=command
            ) from error

    def _listing(self) -> tuple[str, ...]:
        """Of no instance in particular: it has no words."""
        return _filled(self._options.list, {})

    @property
    def on_network(self) -> bool:
        """Its network is the user's own."""
        return False

    def label(self) -> str:
        """What the plan says."""
        return printable(self._options.label, 60)

    def treatments(self) -> dict[str, str]:
        """The commands: nothing else is known of it."""
        options = self._options
        return {
            "made by": "; ".join(" ".join(argv) for argv in options.create),
            "agent by": " ".join(options.exec),
            "idle": "frozen" if options.freeze else "not frozen",
            "CPUs": "pinned" if options.cpu_limit == "set" else "by quota",
        }

    async def create(self, spec: InstanceSpec) -> Instance:
        """Run the commands, and see what they made. INSTANCE_NOT_STARTED, LIMIT_NOT_APPLIED."""
        options, words = self._options, _words(spec)
        removal = user_commands.Removal(
            tag=spec.tag,
            name=container_id(spec),
            listing=self._listing(),
            destroy=tuple(_filled(argv, words) for argv in options.destroy),
            deadline_s=options.deadline_s,
        )
        async with starting(options.label, spec) as undo:
            await to_thread(user_commands.keep, removal)
            undo.push(to_thread, user_commands.remove, removal)
            spec.on_stage("booting", "")
            for argv in options.create:
                await run(_filled(argv, words), timeout_s=options.deadline_s)
            await self._see_it(removal)
            address = await self._address(spec, words)
            agent = await AgentClient.launch(
                _filled(options.exec, words),
                deadline_s=options.deadline_s,
                stderr=spec.state_dir / "exec.log",
                env=environment(spec),
                name=spec.name,
            )
            undo.push(agent.bye)
            self._verify(spec, agent)
            return UserCommandInstance(spec, options, agent, address, undo)

    async def _see_it(self, removal: user_commands.Removal) -> None:
        names = await to_thread(user_commands.names, removal.listing, removal.deadline_s)
        if removal.name not in names:
            reason = f"`create` ended well, but `list` does not name {removal.name}"
            raise CommandError(self._options.create[-1][0], 0, reason)

    async def _address(self, spec: InstanceSpec, words: Mapping[str, str]) -> str | None:
        if spec.network is None:
            return None
        argv = self._options.address
        if argv is None:
            raise CommandError("address", None, "the plan needs a network: say `address:`")
        printed = await run(_filled(argv, words), timeout_s=self._options.deadline_s)
        try:
            address = str(IPv4Address(printed.strip()))
        except ValueError:
            reason = f"printed {printable(printed.strip(), 80)!r}, which is no IPv4 address"
            raise CommandError(argv[0], 0, reason) from None
        spec.on_stage("addressed", address)
        return address

    def _verify(self, spec: InstanceSpec, agent: AgentClient) -> None:
        """A quota on all CPUs is as good as that many CPUs, where the plan says so."""
        allowed = agent.facts.get("cpus_allowed")
        if self._options.cpu_limit == "quota" and isinstance(allowed, list):
            quota = float(spec.cpu_quota or len(spec.cpu_ids))
            spec = replace(spec, cpu_ids=tuple(allowed), cpu_quota=quota)
        verify_limits(spec, agent.facts, virtual_machine=self._options.machine)


class UserCommandInstance(Instance):
    """One instance. What `undo` holds is all that it will leave."""

    def __init__(
        self,
        spec: InstanceSpec,
        options: CommandOptions,
        agent: AgentClient,
        address: str | None,
        undo: Undo,
    ) -> None:
        self.name = spec.name
        self.spec = spec
        self.agent = agent
        self.address = address
        self.data = options.data
        self.own_kernel = options.machine
        self._options = options
        self._undo = undo

    async def freeze(self) -> None:
        """By the plan's command; without one it runs on, idle."""
        await self._call(self._options.freeze)

    async def thaw(self) -> None:
        """Let it run on; a VM has lost the time meanwhile, so its clock is read anew."""
        await self._call(self._options.thaw)
        if self.own_kernel and self._options.thaw is not None:
            await self.agent.sync()

    async def destroy(self) -> None:
        """By the plan's commands; INSTANCE_NOT_REMOVED when it is still listed then."""
        await self._undo.aclose()

    async def _call(self, argv: Argv | None) -> None:
        if argv is not None:
            await run(_filled(argv, _words(self.spec)), timeout_s=self._options.deadline_s)


def _words(spec: InstanceSpec) -> dict[str, str]:
    """What comes in place of the words. `image: host` is refused before."""
    assert spec.image is not None
    return {
        "name": container_id(spec),
        "tag": spec.tag,
        "agent": str(spec.agent),
        "image": str(spec.image.tar),
        "root": str(spec.image.root),
        "digest": spec.image.digest.removeprefix("sha256:")[:12],
        "cpus": f"{spec.cpu_quota or len(spec.cpu_ids):g}",
        "cpu_ids": ",".join(map(str, spec.cpu_ids)),
        "cpu_ranges": ",".join(f"{cpu}-{cpu}" for cpu in spec.cpu_ids),
        "memory_bytes": str(spec.memory_bytes),
        "memory_mib": str(spec.memory_bytes >> 20),
    }


def _filled(argv: Argv, words: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(argument.format_map(words) for argument in argv)
