"""What every cloud's provider does: an instance by the API, ssh, the agent over it, and the end."""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
from abc import abstractmethod
from asyncio import to_thread
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import ClassVar, Final

from ullage.common.cleanup import Undo
from ullage.common.errors import (
    CLOUD_FLAVOR,
    CLOUD_INSTANCE_FAILED,
    CLOUD_NETWORK,
    CLOUD_NOT_UP,
    CLOUD_QUOTA,
    CLOUD_TAG_TAKEN,
    CLOUD_VANISHED,
    INSTANCE_NOT_REMOVED,
    INSTANCE_NOT_STARTED,
    UllageError,
)
from ullage.common.quantities import format_bytes
from ullage.environments.agent.client import AgentClient
from ullage.environments.base import (
    Instance,
    InstanceSpec,
    Options,
    Provider,
    Stage,
    StageListener,
    verify_limits,
)
from ullage.environments.clouds import keys
from ullage.environments.clouds.calls import POLL_S, Calls, Deadline, pauses_s
from ullage.environments.clouds.coming import CARRIED_OUT_S, Coming
from ullage.environments.clouds.driver import Driver, Flavor, Machine, PausingDriver, Request, State
from ullage.environments.clouds.options import CloudOptions
from ullage.environments.clouds.ssh import PLACE, Shell, ShellError, serving, signal_way
from ullage.environments.clouds.tags import check_machines
from ullage.host import clock, disks, user_commands

_REACH: Final = {"cloud", "region", "endpoint"}
"""Fields of a plan that say which cloud; not every provider has all of them."""
_TURN_S: Final = 120.0
"""Until an instance stands still, or runs on."""
_SHOWN_S: Final = 5.0
"""So much later than it is gone a cloud may show that."""


class CloudProvider(Provider):
    """What the providers of all clouds share."""

    elsewhere: ClassVar[bool] = True
    optional: ClassVar[bool] = True
    provision_s: ClassVar[float] = 60.0
    _names: ClassVar[set[str]] = set()
    """Names of all instances that this process has asked for: each has its run's tag."""

    def __init__(self, options: Options) -> None:
        assert isinstance(options, CloudOptions)
        super().__init__(options)
        self._cloud = options
        self._flavor: Flavor | None = None
        self._image = ""
        self._own_tag = ""
        """Known to be this run's alone."""

    @abstractmethod
    def driver(self) -> Driver:
        """A client of its own. HOST_MISSING without the library, CLOUD_CREDENTIALS without any."""

    def reach(self) -> tuple[str, ...]:
        """Options of `ullage cloud` that lead to the same cloud."""
        words = self._cloud.model_dump(include=_REACH, exclude_none=True)
        return tuple(part for name, word in words.items() for part in (f"--{name}", word))

    @property
    def removal_s(self) -> float:
        """With a request for an instance that must be answered before it can be taken back."""
        return CARRIED_OUT_S + self._cloud.deadline_s

    async def check(self) -> None:
        """The cloud answers, and has the flavor and the image. CLOUD_CREDENTIALS, CLOUD_LACKS …"""
        calls = Calls(await to_thread(self.driver), self.name)
        self._flavor = await calls.ask(calls.driver.flavor, self._cloud.flavor)
        self._image = await calls.ask(calls.driver.find_image, self._cloud.boot_image)

    async def limits(self) -> str:
        """How many instances we may have, in the cloud's words. CLOUD_CREDENTIALS …"""
        calls = Calls(await to_thread(self.driver), self.name)
        return await calls.ask(calls.driver.limits)

    async def check_at_once(self) -> None:
        """HOST_MISSING without the cloud's client."""
        await to_thread(self.driver)

    @property
    def on_network(self) -> bool:
        """Its network is the cloud's."""
        return False

    def userland(self) -> str | None:
        """The cloud's image's own, where the plan wants that."""
        if self._cloud.userland == "image":
            return None
        reach = self._cloud.model_dump(include=_REACH, exclude_none=True)
        where = " ".join((self.name, *reach.values()))
        return f"of the image {self._cloud.boot_image} of {where}"

    def pinning(self) -> str:
        """Where its virtual CPUs run the cloud decides."""
        return f"by {self.name}"

    def label(self) -> str:
        """The cloud and the flavor."""
        return f"{self.name} {self._cloud.flavor}"

    def treatments(self) -> dict[str, str]:
        """What the cloud gives."""
        options = self._cloud
        shown = {
            **options.model_dump(include=_REACH),
            "zone": options.zone,
            "flavor": options.flavor,
            "kernel of": options.boot_image,
            "idle": "paused" if self.pauses else "not frozen",
        }
        return {name: value for name, value in shown.items() if value is not None}

    @property
    def pauses(self) -> bool:
        """Does an idle instance stand still?"""
        return False

    async def create(self, spec: InstanceSpec) -> Instance:
        """Make one, and see that it is what was asked for. The errors of clouds."""
        removal = self._removal(spec)
        coming = Coming(lambda until: user_commands.keep(_until(removal, until)))
        calls = Calls(await to_thread(self.driver), spec.name, coming=coming)
        deadline = Deadline(self._cloud.deadline_s)
        async with self._starting(spec) as undo:
            if spec.network is not None:
                raise UllageError(CLOUD_NETWORK, name=spec.name, cloud=self.name)
            if not self._image:
                await self.check()
            self._check_flavor(spec)
            await self._check_tag(calls, spec.tag)
            own, host = await self._keys(spec)
            user_data = "" if host is None else keys.cloud_init(host)
            request = self._request(removal.name, spec.tag, own.public, user_data)
            machine = await self._requested(calls, request, removal, undo)
            spec.on_stage("requested", "")
            machine, address = await self._addressed(calls, machine, deadline, spec.on_stage)
            spec.on_stage("addressed", address)
            hosts, user = spec.state_dir / "known_hosts", self._cloud.user
            shell = Shell(spec.name, address, user, own.private, hosts, pausable=self.pauses)
            await shell.listening(deadline)
            known = (host.public,) if host else await _printed(calls, machine, deadline)
            await to_thread(keys.known_hosts, hosts, address, known)
            uptime_s = await shell.wait(deadline)
            reached_ns = clock.ordered_ns()
            spec.on_stage("reached", "")
            agent = await self._agent(spec, shell, deadline)
            undo.push(agent.bye)
            verify_limits(spec, agent.facts, virtual_machine=not agent.clock_claims.shared)
            for facts in (calls.driver.stands_on, calls.driver.history):
                agent.facts.update(await calls.ask(facts, machine.id))
            new = NewInstance(machine, address, agent, _pausing(calls.driver, self.pauses))
            instance = CloudInstance(spec, calls, new, undo)
            if self.userland() is not None:
                instance.data = f"{PLACE}/data"
            instance.kernel_ns = reached_ns - round(uptime_s * 1e9) if uptime_s else None
            return instance
        raise AssertionError  # what starts hides no exception

    @asynccontextmanager
    async def _starting(self, spec: InstanceSpec) -> AsyncIterator[Undo]:
        """What to undo; undone when the body fails."""
        undo = Undo()
        undo.push(_remove_files, spec)
        try:
            yield undo
        except BaseException as error:
            with suppress(Exception):  # what was wrong first is what counts
                await undo.aclose()
            if isinstance(error, ShellError):
                raise UllageError(
                    INSTANCE_NOT_STARTED, provider=self.name, name=spec.name, reason=error.reason
                ) from error
            raise

    def _check_flavor(self, spec: InstanceSpec) -> None:
        flavor, cpus = self._flavor, spec.cpu_quota or len(spec.cpu_ids)
        if flavor is None:  # what the agent sees inside is all that there is
            return
        # Clouds count in MiB.
        if (flavor.cpus, flavor.memory_bytes >> 20) != (cpus, spec.memory_bytes >> 20):
            raise UllageError(
                CLOUD_FLAVOR,
                flavor=self._cloud.flavor,
                cloud=self.name,
                has=f"{flavor.cpus} CPUs and {format_bytes(flavor.memory_bytes)}",
                asked=f"{cpus:g} and {format_bytes(spec.memory_bytes)}",
            )

    async def _check_tag(self, calls: Calls, tag: str) -> None:
        """Once a run, before there is anything to remove. CLOUD_TAG_TAKEN."""
        if self._own_tag != tag:
            machines = await calls.ask(calls.driver.machines, tag)
            check_machines(calls.driver.title, machines, self._names)
            self._own_tag = tag

    async def _requested(
        self, calls: Calls, request: Request, removal: user_commands.Removal, undo: Undo
    ) -> Machine:
        """Ask for it, with what takes it back; with CLOUD_TAG_TAKEN none of ours is there."""
        before = request.name in self._names
        self._names.add(request.name)
        await to_thread(user_commands.keep, removal)
        own = Undo()
        own.push_within(self.removal_s, _remove, calls, removal, self._cloud.deadline_s)
        undo.push_within(self.removal_s, own.aclose)
        try:
            return await calls.ask(calls.driver.launch, request)
        except UllageError as error:
            if error.kind is CLOUD_TAG_TAKEN and not before:
                own.pop_all()
                self._names.discard(request.name)
                await to_thread(user_commands.forget, removal)
            raise

    async def _keys(self, spec: InstanceSpec) -> tuple[keys.KeyPair, keys.KeyPair | None]:
        """Ours, and the instance's where it gets that from us."""
        own = await keys.new_pair(spec.state_dir / "key")
        inject = self._cloud.host_key == "inject"
        return own, await keys.new_pair(spec.state_dir / "host-key") if inject else None

    def _request(self, name: str, tag: str, public_key: str, user_data: str) -> Request:
        options = self._cloud
        return Request(
            name=name,
            tag=tag,
            flavor=options.flavor,
            image=self._image,
            network=options.network,
            zone=options.zone,
            security_groups=options.security_groups,
            public_key=public_key,
            user_data=user_data,
            token=secrets.token_hex(16),
        )

    def _removal(self, spec: InstanceSpec) -> user_commands.Removal:
        """For `ullage clean`, should we die: it asks the cloud."""
        name = f"ullage-{spec.tag}-{spec.name}"
        command = (sys.executable, "-m", "ullage", "cloud")
        of_cloud = (self.name, *self.reach(), "--tag", spec.tag)
        return user_commands.Removal(
            tag=spec.tag,
            name=name,
            listing=(*command, "list", *of_cloud, "--names"),
            destroy=((*command, "remove", *of_cloud, "--name", name),),
            deadline_s=self._cloud.deadline_s,
            lasting=True,
        )

    async def _addressed(
        self, calls: Calls, machine: Machine, deadline: Deadline, on_stage: StageListener
    ) -> tuple[Machine, str]:
        """Once it runs and has an address. CLOUD_INSTANCE_FAILED, CLOUD_NOT_UP, CLOUD_QUOTA."""
        passed: set[Stage] = set()
        while True:
            for stage in _stages(machine):
                if stage not in passed:
                    on_stage(stage, "")
                passed.add(stage)
            address = _ip(machine.public if self._cloud.address == "public" else machine.private)
            if machine.state == "running" and address:
                return machine, address
            if machine.state in {"failed", "gone"}:
                cloud, name, reason = calls.driver.title, calls.name, machine.words
                if machine.crowded_out:
                    raise UllageError(CLOUD_QUOTA, cloud=cloud, name=name, reason=reason)
                raise UllageError(CLOUD_INSTANCE_FAILED, cloud=cloud, name=name, reason=reason)
            if deadline.passed:
                lacks = f"{machine.words}, without a {self._cloud.address} address"
                last = machine.words if machine.state != "running" else lacks
                raise UllageError(
                    CLOUD_NOT_UP, name=calls.name, seconds=deadline.seconds, last=last
                )
            await asyncio.sleep(POLL_S)
            machine = await calls.ask(calls.driver.machine, machine.id)

    async def _agent(self, spec: InstanceSpec, shell: Shell, deadline: Deadline) -> AgentClient:
        """Put it there with the image, and start it on the image."""
        assert spec.image is not None  # `image: host` is refused before
        image = None if self.userland() else spec.image
        sent = await shell.furnish(spec.agent, image, deadline)
        agent = await AgentClient.launch(
            shell.argv(serving(spec, image)),
            deadline_s=max(10.0, deadline.left_s),
            stderr=spec.state_dir / "ssh.log",
            name=spec.name,
        )
        if image is not None:
            agent.facts["cloud_image"] = "sent" if sent else "on its disk"
        return agent


@dataclass(frozen=True)
class NewInstance:
    """What came of a request."""

    machine: Machine
    address: str
    """By which we reach it."""
    agent: AgentClient
    pausing: PausingDriver | None
    """By which it stands still while it is idle; None: it runs on."""


class CloudInstance(Instance):
    """One instance. What `undo` holds is all that it will leave."""

    def __init__(self, spec: InstanceSpec, cloud: Calls, new: NewInstance, undo: Undo) -> None:
        self.name = spec.name
        self.spec = spec
        self.agent = new.agent
        self.address = new.address
        self.own_kernel = not new.agent.clock_claims.shared
        self.machine = new.machine
        self._calls = cloud
        self._undo = undo
        self._pausing = new.pausing
        self._paused = False

    async def freeze(self) -> None:
        """It stands still, where the cloud can do that; else nothing of ours runs in it.

        Our ssh stands still with it: who is not answered for a while would hang up.
        """
        if self._pausing is not None and not self._paused:
            signal_way(self.agent, signal.SIGSTOP)
            try:
                await self._turned(self._pausing.pause, "paused")
            except BaseException:
                signal_way(self.agent, signal.SIGCONT)
                raise
            self._paused = True

    async def thaw(self) -> None:
        """Let it run on; it has lost the time meanwhile, so its clock is read anew."""
        if self._pausing is not None and self._paused:
            await self._turned(self._pausing.resume, "running")
            signal_way(self.agent, signal.SIGCONT)
            self._paused = False
            await self.agent.sync()

    async def _turned(self, call: Callable[[str], None], state: State) -> None:
        """Ask for a state, and wait until it has come. CLOUD_NOT_UP, CLOUD_VANISHED."""
        identifier, deadline = self.machine.id, Deadline(_TURN_S)
        await self._calls.ask(call, identifier)
        while (now := await self._calls.ask(self._calls.driver.machine, identifier)).state != state:
            if now.state in {"failed", "gone"}:
                cloud = self._calls.driver.title
                raise UllageError(CLOUD_VANISHED, name=self.name, cloud=cloud, state=now.words)
            if deadline.passed:
                raise UllageError(
                    CLOUD_NOT_UP, name=self.name, seconds=deadline.seconds, last=now.words
                )
            await asyncio.sleep(POLL_S)

    async def destroy(self) -> None:
        """INSTANCE_NOT_REMOVED when the cloud still has it at the deadline."""
        if self._paused:  # who stands still cannot say goodbye
            await self.agent.close()
        await self._undo.aclose()

    async def why_gone(self) -> UllageError | None:
        """CLOUD_VANISHED when the cloud does not run it any more."""
        deadline = Deadline(0.0 if self.alive else _SHOWN_S)
        try:
            while (machine := await self._look()).state in {"running", "paused", "pending"}:
                if deadline.passed:
                    return None
                await asyncio.sleep(POLL_S)
        except UllageError:
            return None
        cloud = self._calls.driver.title
        return UllageError(CLOUD_VANISHED, name=self.name, cloud=cloud, state=machine.words)

    async def _look(self) -> Machine:
        return await self._calls.ask(self._calls.driver.machine, self.machine.id)


def _stages(machine: Machine) -> Iterator[Stage]:
    """How far it has come, as its cloud tells it."""
    if machine.placed:
        yield "chosen"
    if machine.image_there or machine.state == "running":
        yield "copied"


def _ip(text: object) -> str | None:
    """What the cloud calls an address, if it is one: it stands in files and command lines."""
    try:
        return str(ip_address(str(text)))
    except ValueError:
        return None


def _pausing(driver: Driver, wanted: bool) -> PausingDriver | None:
    return driver if wanted and isinstance(driver, PausingDriver) else None


async def _printed(calls: Calls, machine: Machine, deadline: Deadline) -> tuple[str, ...]:
    """The host keys on its console, which a cloud reads at some cost: once its sshd listens, not
    as long as it boots. CLOUD_NOT_UP."""
    while not (known := keys.printed(await calls.ask(calls.driver.console, machine.id))):
        if deadline.passed:
            last = "no host keys on its console"
            raise UllageError(CLOUD_NOT_UP, name=calls.name, seconds=deadline.seconds, last=last)
        await asyncio.sleep(POLL_S)
    return known


async def _remove(calls: Calls, removal: user_commands.Removal, deadline_s: float) -> None:
    """Until the cloud does not name it any more, and makes none later. INSTANCE_NOT_REMOVED."""
    try:
        async with asyncio.timeout(deadline_s):
            await _go(calls, removal)
    except (UllageError, TimeoutError) as error:
        has = "may still make it" if calls.coming.possible else "still has it"
        late = f"{calls.driver.title} {has} after {deadline_s:g} s"
        raise UllageError(
            INSTANCE_NOT_REMOVED,
            name=removal.name,
            reason=error.message if isinstance(error, UllageError) else late,
            command=removal.by_hand,
        ) from error
    await to_thread(user_commands.forget, removal)


async def _go(calls: Calls, removal: user_commands.Removal) -> None:
    """Ask until it has gone, and none can come after it."""
    for pause_s in pauses_s():
        possible = calls.coming.possible  # asked first: what comes meanwhile is seen by the look
        gone = await calls.ask(calls.driver.remove, removal.name, removal.tag)
        if gone and not possible:
            return
        await asyncio.sleep(pause_s)


def _until(removal: user_commands.Removal, until: float | None) -> user_commands.Removal:
    return removal.model_copy(update={"may_come_until": until})


async def _remove_files(spec: InstanceSpec) -> None:
    for directory in (spec.state_dir, spec.data_dir):
        await to_thread(disks.remove_tree, directory)
