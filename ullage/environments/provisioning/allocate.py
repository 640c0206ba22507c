"""One instance more, and one less, while others work: timed by events, bounded, nothing left.

`allocate` chooses where an instance goes, copies its image, has its provider make it, and starts
its application; each step leaves its instant on this host's clock, which is the run's global one.
`release` takes it away again. Both end within a limit of time, whatever a provider does; what was
begun is then taken down. Whoever calls them decides whether to try again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from ullage.common.cleanup import Undo
from ullage.common.errors import (
    ALLOCATION_APPLICATION,
    ALLOCATION_TOO_LATE,
    RELEASE_TOO_LATE,
    UllageError,
)
from ullage.environments.agent.client import Command, Process, printable
from ullage.environments.base import Instance, InstanceSpec, Stage
from ullage.environments.provisioning import image_copy
from ullage.environments.provisioning.node import Site
from ullage.environments.provisioning.probe import (
    FAR_SILENT_S,
    SILENT_S,
    first_reply,
    introduce,
    watch_port,
)
from ullage.environments.provisioning.release import bounded, kill, unwind
from ullage.host import clock, disks
from ullage.host.network.bridge import Network
from ullage.runs.allocations import Batch, InstanceSteps, Step

__all__ = ["Allocated", "Application", "Site", "allocate", "release"]


ALLOCATE_LIMIT_S: Final = 300.0
RELEASE_LIMIT_S: Final = 60.0
_NO_SUCCESS: Final = 400
LONGEST_S: Final = 30 * 86400.0
"""An application runs until its instance is released."""


@dataclass(frozen=True)
class Application:
    """A server that every instance runs once it is up."""

    argv: tuple[str, ...]
    """Started in the instance's data directory."""
    port: int
    path: str = "/"
    """What is asked for by HTTP to see that it works."""
    files: Mapping[str, bytes | Path] = field(default_factory=dict)
    """Name in the data directory → what is put there before it starts."""


@dataclass
class Allocated:
    """An instance that is up, with the instants of its making."""

    instance: Instance
    node: Site
    steps: Mapping[Step, int]
    """Step → ns on this host's clock, in the order in which they happened."""
    application: Process | None
    undo: Undo
    """All that it will leave; `release` unwinds it."""

    @property
    def seconds(self) -> float:
        """From the request until it was up."""
        return (self.steps["up"] - self.steps["asked"]) / 1e9


class AllocationSteps:
    """Instants as they come; a step that is told twice counts from the last time."""

    def __init__(self, hear: Callable[[Step, int], None] | None = None) -> None:
        self.instants: dict[Step, int] = {}
        self._hear = hear

    def now(self, step: Step) -> None:
        self.at(step, clock.ordered_ns())

    def at(self, step: Step, at_ns: int) -> None:
        self.instants[step] = at_ns
        if self._hear is not None:
            self._hear(step, at_ns)

    @property
    def last(self) -> str:
        """The newest, in words."""
        return max(self.instants, key=lambda step: self.instants[step]).replace("_", " ")

    def ordered(self) -> dict[Step, int]:
        return dict(sorted(self.instants.items(), key=lambda item: item[1]))


class Places(Protocol):
    """Where instances can be made: on a site, or on one of several."""

    async def place(self, name: str) -> tuple[Site, InstanceSpec]:
        """Where one more is to be made."""


async def allocate(
    where: Places,
    name: str,
    *,
    application: Application | None = None,
    limit_s: float = ALLOCATE_LIMIT_S,
    on_step: Callable[[Step, int], None] | None = None,
) -> Allocated:
    """Make an instance called `name`, and start its application.

    `on_step` hears each step when it happens. Raises ALLOCATION_NO_ROOM, ALLOCATION_NO_COPY,
    ALLOCATION_TOO_LATE, ALLOCATION_APPLICATION, or what the provider raises; nothing of the
    instance is left then, but for what could not be removed: that carries the run's tag, and keeps
    its place on the node.
    """
    steps = AllocationSteps(on_step)
    steps.now("asked")
    late = partial(_too_late, name, limit_s, steps)
    try:
        async with asyncio.timeout(limit_s) as limit:
            node, spec = await where.place(name)
    except TimeoutError:
        if limit.expired():
            raise late() from None
        raise
    steps.now("chosen")
    left_s = limit_s - (steps.instants["chosen"] - steps.instants["asked"]) / 1e9
    undo = Undo(lambda: node.give_back(spec))
    making = _Making(node, spec, steps, application, undo)
    try:
        return await bounded(
            making.allocate(),
            max(0.0, left_s),
            undo,
            spec,
            late,
            removal_s=node.removal_s,
        )
    except BaseException:
        await unwind(undo, spec, node.removal_s)
        raise


def _too_late(name: str, limit_s: float, steps: AllocationSteps) -> UllageError:
    return UllageError(ALLOCATION_TOO_LATE, name=name, seconds=limit_s, last=steps.last)


async def release(allocated: Allocated, *, limit_s: float = RELEASE_LIMIT_S) -> tuple[int, int]:
    """Take an instance away; when that was asked, and when nothing of it was left (ns).

    RELEASE_TOO_LATE when it took too long, or what the provider raises. Its processes are killed
    then, what could not be removed is tried again when this is called again, and until all is gone
    its place on the node is not free. What is left for good carries the run's tag.
    """
    asked_ns = clock.ordered_ns()
    spec, undo = allocated.instance.spec, allocated.undo
    try:
        await bounded(
            undo.aclose(),
            limit_s,
            undo,
            spec,
            lambda: UllageError(RELEASE_TOO_LATE, name=spec.name, seconds=limit_s),
        )
    except BaseException:
        await kill(spec)
        raise
    return asked_ns, clock.ordered_ns()


@dataclass(frozen=True)
class _Making:
    """One instance on its way."""

    node: Site
    spec: InstanceSpec
    steps: AllocationSteps
    application: Application | None
    undo: Undo

    async def allocate(self) -> Allocated:
        """The instance, up, with its application."""
        await asyncio.to_thread(self._make_directories)
        self.undo.push(asyncio.to_thread, self._remove_directories)
        node, spec = self.node, self.spec
        await node.fetch()
        image, remove = await image_copy.copy(
            node.image, node.copy, node.provider, spec, node.filler
        )
        self.undo.push(remove)
        self.steps.now("copied")
        watch = _Watch(self.steps, spec.network, self._port)
        try:
            own = replace(spec, image=image, on_stage=watch.on_stage)
            instance = await node.create(own, self.undo)
            if instance.address is not None and "addressed" not in self.steps.instants:
                watch.on_stage("addressed", instance.address)  # a provider that tells nothing
            self.steps.now("up")
            self.steps.at("hello", instance.agent.greeted_ns)
            if instance.kernel_ns is not None and instance.kernel_ns > self.steps.instants["asked"]:
                self.steps.at("kernel", instance.kernel_ns)
            process = None
            if self.application is not None:
                process = await self._start(instance, self.application, watch.expected)
                if watch.task is not None:
                    await self._works(instance, self.application, watch.task, process)
        finally:
            watch.end()
        return Allocated(instance, node, self.steps.ordered(), process, self.undo)

    @property
    def _port(self) -> int | None:
        """Where to knock; None without an address, or without anybody who would open."""
        if self.application is None or not self.node.reachable:
            return None
        return self.application.port

    async def _start(
        self, instance: Instance, application: Application, expected: asyncio.Event
    ) -> Process:
        for name, content in application.files.items():
            await instance.agent.put(content, f"{instance.data}/{name}")
        expected.set()
        command = Command(argv=application.argv, cwd=instance.data, timeout_s=LONGEST_S)
        process = await instance.agent.spawn(command)
        self.steps.at("started", await process.started())
        return process

    async def _works(
        self,
        instance: Instance,
        application: Application,
        opened: asyncio.Task[None],
        process: Process,
    ) -> None:
        """Wait for the first reply; ALLOCATION_APPLICATION when none will come."""
        ended = asyncio.ensure_future(process.wait())
        reply = asyncio.ensure_future(_reply(instance, application, opened))
        try:
            await asyncio.wait({ended, reply}, return_when=asyncio.FIRST_COMPLETED)
            if reply.done():
                status = reply.result()
                reason = None if status < _NO_SUCCESS else f"it replies with status {status}"
            else:
                printed = printable(
                    (process.stderr or process.stdout).decode(errors="replace"), 300
                )
                reason = f"it ended with {ended.result().status}: {printed or 'it printed nothing'}"
        except (OSError, ValueError) as error:
            reason = str(error)
        finally:
            reply.cancel()
            ended.cancel()
        if reason is not None:
            raise UllageError(ALLOCATION_APPLICATION, name=self.spec.name, reason=reason)
        self.steps.now("replied")

    def _make_directories(self) -> None:
        for directory in (self.spec.state_dir, self.spec.data_dir):
            directory.mkdir(parents=True)

    def _remove_directories(self) -> None:
        for directory in (self.spec.state_dir, self.spec.data_dir):
            disks.remove_tree(directory)


class _Watch:
    """Hears the provider; once the address can be reached, knocks at the application's port."""

    def __init__(self, steps: AllocationSteps, network: Network | None, port: int | None) -> None:
        """network: the run's, where it stands on it; port: None, nobody would open."""
        self.task: asyncio.Task[None] | None = None
        self.expected = asyncio.Event()
        """The application is about to start."""
        self._steps = steps
        self._network = network
        self._port = port

    def on_stage(self, stage: Stage, address: str) -> None:
        """A stage is reached."""
        self._steps.now(stage)
        if stage != "addressed":
            return
        silent_s = FAR_SILENT_S
        if self._network is not None:
            introduce(address, self._network.mac(address), self._network.bridge)
            silent_s = SILENT_S
        if self._port is not None and self.task is None:
            watching = watch_port(
                address, self._port, self._steps.now, self.expected, silent_s=silent_s
            )
            self.task = asyncio.create_task(watching)

    def end(self) -> None:
        if self.task is not None:
            self.task.cancel()


async def _reply(instance: Instance, application: Application, opened: asyncio.Task[None]) -> int:
    await opened
    assert instance.address is not None, "it was told"
    return await first_reply(instance.address, application.port, application.path)


async def together(
    node: Site,
    names: Sequence[str],
    *,
    application: Application | None,
    allocate_limit_s: float,
    release_limit_s: float,
) -> Batch:
    """Make them all at once, then take them all away at once.

    ALLOCATION_NO_ROOM before anything is made. Where one fails, those that are still on their way
    are given up, the others are taken away, and its error is raised: there is no figure then.
    """
    node.check_room(len(names))
    allocations = await _allocate_all(node, names, application, allocate_limit_s)
    try:
        instants = await _release_all(allocations, release_limit_s)
    finally:
        await asyncio.gather(*(_unwind(allocated) for allocated in allocations))
    return Batch(
        copy_kind=node.copy,
        image_size=node.image_size,
        applied=application is not None,
        instances=tuple(
            InstanceSteps(
                name=allocated.instance.name,
                steps=dict(allocated.steps),
                release_asked=asked_ns,
                released=gone,
            )
            for allocated, (asked_ns, gone) in zip(allocations, instants, strict=True)
        ),
    )


async def _allocate_all(
    node: Site, names: Sequence[str], application: Application | None, limit_s: float
) -> list[Allocated]:
    tasks: list[asyncio.Task[Allocated]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks += [
                group.create_task(allocate(node, name, application=application, limit_s=limit_s))
                for name in names
            ]
    except BaseException as error:
        # Who fails or is cancelled has taken itself down; what was up by then has not.
        up = [task.result() for task in tasks if not task.cancelled() and not task.exception()]
        await asyncio.gather(*(_unwind(allocated) for allocated in up))
        raise (_first(error) if isinstance(error, BaseExceptionGroup) else error) from None
    return [task.result() for task in tasks]


async def _unwind(allocated: Allocated) -> None:
    await unwind(allocated.undo, allocated.instance.spec, allocated.node.removal_s)


async def _release_all(allocations: Sequence[Allocated], limit_s: float) -> list[tuple[int, int]]:
    """All are tried, whatever becomes of one; the first error counts."""
    tasks = [release(allocated, limit_s=limit_s) for allocated in allocations]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """What went wrong first, if it is one of ours; else all of it."""
    ours = several.subgroup(UllageError)
    if ours is None or len(ours.exceptions) != len(several.exceptions):
        return several
    return ours.exceptions[0]
