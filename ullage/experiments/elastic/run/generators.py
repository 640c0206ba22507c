"""Viewers who come from several machines: made, started at one instant, heard, removed.

Each machine is an instance of a provider, with its agent. It is given the same configuration but
for its share of the viewers, and starts at one instant of the run's clock, told in its own. What it
says of its viewers is untrusted: `ullage.experiments.elastic.run.merging` makes one record of all.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from ullage.common.errors import ELASTIC_GENERATOR_CUT_OFF, ELASTIC_GENERATOR_FAILED, UllageError
from ullage.common.files import put
from ullage.common.signals import to_the_end
from ullage.engine import trial_clocks
from ullage.engine.program import Part, TrialFailedError
from ullage.environments import Instance
from ullage.environments.agent.client import Command, printable
from ullage.environments.agent.clock import WIDE_NS
from ullage.environments.provisioning import allocate
from ullage.environments.provisioning.allocate import Allocated
from ullage.environments.provisioning.node import Site as Host
from ullage.experiments.elastic.folder import GENERATORS, SESSIONS, VIEWERS
from ullage.experiments.elastic.run.merging import Came, Merged, NotToBelieveError, merged
from ullage.experiments.elastic.run.viewers import LONGEST_SUMMARY, PROGRAM, ViewersOutcome
from ullage.host import binaries, clock
from ullage.runs.writer import disk_full_as_error
from ullage.workloads.base import Task

T = TypeVar("T")

_CONFIG: Final = "viewers.json"
_TRACE: Final = "arrivals.txt"
_LONGEST_SESSIONS: Final = 256 << 20
"""Bytes of one machine's records: half a million viewers."""
_LOOKS: Final = 5
_REACH_S: Final = 60.0
_ENDED: Final = (0, 1)
"""Status of viewers who came to a summary: valid, or not."""
_LEAD_NS: Final = 500_000_000
_LEAD_TIMES: Final = 10
"""The schedule begins so long after the machines were started, and so many times what the slowest
needs to start the program and ask the front. Processes for all descriptors, and a look at the
machine's clock, come before it; who is not ready by then says so, and fails."""


@dataclass(frozen=True)
class Machines:
    """Where the viewers of a run come from."""

    number: int
    host: Host


class GeneratorFleet:
    """All viewers of one repetition, as `viewers.Viewers`."""

    def __init__(
        self,
        machines: Machines,
        prefix: str,
        folder: Path,
        limit_s: float,
    ) -> None:
        """`prefix`: of their names; `limit_s`: for the viewers of a repetition."""
        self.machines, self.prefix, self.folder, self.limit_s = machines, prefix, folder, limit_s
        self.notes: Sequence[str] = ()
        """How well they did, when they have."""
        self.clock_bound_ns = 0
        """Their instants are not further off."""
        self.leftovers: Sequence[str] = ()
        """What could not be removed, and why."""
        self._allocated: list[Allocated] = []

    async def __aenter__(self) -> GeneratorFleet:
        """Make all machines. What `allocate.allocate` raises; nothing is left then."""
        try:
            self._allocated = await _all(map(self._make, self.names))  # in their order
        except BaseException:
            await self._remove()
            raise
        return self

    async def _make(self, name: str) -> Allocated:
        machine = await allocate.allocate(self.machines.host, name)
        self._allocated.append(
            machine
        )  # so that it is removed, even if nobody waits for the others
        return machine

    async def __aexit__(self, *_: object) -> None:
        await self._remove()

    @property
    def names(self) -> list[str]:
        """Of the machines: a node's ends with a number."""
        return [f"{self.prefix}-m{index}" for index in range(self.machines.number)]

    @property
    def instances(self) -> list[Instance]:
        """Those that are there."""
        return [machine.instance for machine in self._allocated]

    async def run(self, settings: dict[str, Any]) -> ViewersOutcome:
        """Let them all come, and write what they saw as if they had come from one place.

        ELASTIC_GENERATOR_FAILED, ELASTIC_GENERATOR_CUT_OFF, or what an agent raises: of one, and
        the others are ended.
        """
        (self.folder / GENERATORS).mkdir()
        instances = self.instances
        try:
            slowest_s = max(
                await _all(self._prepared(instance, settings) for instance in instances)
            )
            for instance in instances:
                await _look(instance)
            instant = clock.ordered_ns() + _LEAD_NS + 10 * max(i.agent.rtt_ns for i in instances)
            zero = instant + _LEAD_NS + round(_LEAD_TIMES * slowest_s * 1e9)
            parts = [self._part(instance) for instance in instances]
            try:
                await _all(
                    self._start(part, settings, number, instant, zero)
                    for number, part in enumerate(parts)
                )
                await _all(map(_ended, parts))
            finally:
                await _stop(parts)
            return await self._heard(parts, instant, zero, _most_bytes(settings))
        finally:
            for instance in instances:
                instance.agent.take_looks()

    # --- before ----------------------------------------------------------------------------------
    async def _prepared(self, instance: Instance, settings: dict[str, Any]) -> float:
        """Put there what it needs, and have it ask the front; how long that took, in seconds."""
        agent, data = instance.agent, instance.data
        await agent.put(binaries.program(PROGRAM), f"{data}/{PROGRAM}", mode=0o755)
        if "path" in settings["arrivals"]:
            await agent.put(Path(settings["arrivals"]["path"]), f"{data}/{_TRACE}")
        if agent.line is None:
            raise _failed(instance, "its agent does not tell by which line its clock runs")
        argv = (f"./{PROGRAM}", "reach", "--front", settings["front"])
        asked_ns = clock.ordered_ns()
        done, _, stderr = await agent.run(Command(argv, cwd=data, timeout_s=_REACH_S))
        if done.status != 0:
            text = printable(stderr.decode(errors="replace").removeprefix("error: ").strip(), 300)
            reason = text or "it does not say why"
            raise UllageError(ELASTIC_GENERATOR_CUT_OFF, name=instance.name, reason=reason)
        return (done.arrived_ns - asked_ns) / 1e9

    def _part(self, instance: Instance) -> Part:
        argv = (f"./{PROGRAM}", "run", "--config", _CONFIG)
        task = Task(instance.name, argv, timeout_s=self.limit_s)
        return Part(instance.name, task, instance, instance.data)

    async def _start(
        self, part: Part, settings: dict[str, Any], number: int, instant: int, zero: int
    ) -> None:
        """Tell it its share, and have its agent start it then; the schedule begins at `zero`."""
        agent = part.instance.agent
        own = settings | {
            "share": {"index": number, "of": self.machines.number},
            "start_at_ns": agent.clock.to_agent(zero),
            "sessions": SESSIONS,
            "clock": agent.line,
            "timing": {},  # nobody in an instance goes before others
        }
        if "path" in settings["arrivals"]:
            own["arrivals"] = settings["arrivals"] | {"path": _TRACE}
        config = json.dumps(own, indent=1).encode()
        with disk_full_as_error(self.folder):
            put(self._place(part, "config.json"), config)
        await agent.put(config, f"{part.cwd}/{_CONFIG}")
        with disk_full_as_error(self.folder):
            part.process = await agent.spawn(
                Command(part.task.argv, cwd=part.cwd, timeout_s=self.limit_s),
                at_ns=instant,
                stdout_path=self._place(part, "json"),
                stderr_path=self._place(part, "stderr"),
                keep_bytes=LONGEST_SUMMARY,
            )
        await part.process.started()

    # --- after -----------------------------------------------------------------------------------
    async def _heard(
        self, parts: Sequence[Part], instant: int, zero: int, most_bytes: int
    ) -> ViewersOutcome:
        """What they say, on the run's clock, in the repetition's folder."""
        try:
            maps = await trial_clocks.close(parts)
            for part in parts:
                part.check(instant)
        except TrialFailedError as error:
            raise UllageError(
                ELASTIC_GENERATOR_FAILED, name=self.prefix, reason=error.reason.message
            ) from error
        records = await _all(self._records(part) for part in parts)
        came = [
            Came(part.name, maps[part.instance.name], part.finished, part.process.stdout, lines)
            for part, lines in zip(parts, records, strict=True)
            if part.finished is not None and part.process is not None
        ]
        try:
            record: Merged = await asyncio.to_thread(merged, came, zero, most_bytes)
        except NotToBelieveError as error:
            raise UllageError(
                ELASTIC_GENERATOR_FAILED, name=error.name, reason=error.reason
            ) from error
        with disk_full_as_error(self.folder):
            put(self.folder / SESSIONS, record.sessions)
            put(self.folder / VIEWERS, json.dumps(record.summary, indent=1).encode())
        self.clock_bound_ns, self.notes = record.clock_bound_ns, (record.note,)
        return ViewersOutcome.model_validate(record.summary)

    async def _records(self, part: Part) -> bytes:
        """Of its viewers, in its own time; verbatim in the folder too."""
        records = await part.instance.agent.get(f"{part.cwd}/{SESSIONS}", _LONGEST_SESSIONS)
        with disk_full_as_error(self.folder):
            put(self._place(part, "jsonl"), records)
        return records

    def _place(self, part: Part, kind: str) -> Path:
        return self.folder / GENERATORS / f"{part.name}.{kind}"

    async def _remove(self) -> None:
        """All machines, side by side; the end of the run tries `leftovers` again."""
        machines, self._allocated = self._allocated, []
        releases = asyncio.ensure_future(self._release_all(machines))
        try:
            await asyncio.shield(releases)
        except asyncio.CancelledError:
            await to_the_end(_until(releases))
            raise

    async def _release_all(self, machines: Sequence[Allocated]) -> None:
        async with asyncio.TaskGroup() as group:
            for machine in machines:
                group.create_task(self._release(machine))

    async def _release(self, machine: Allocated) -> None:
        try:
            await allocate.release(machine)
        except Exception as error:  # whatever a provider does
            message = error.message if isinstance(error, UllageError) else str(error)
            leftover = f"{machine.instance.name}: {printable(message, 500)}"
            self.leftovers = (*self.leftovers, leftover)


def _most_bytes(settings: dict[str, Any]) -> int:
    """That a viewer can get: the film, and a part anew whenever it asks for another node."""
    video = settings["video"]
    return int(video["bytes"]) + int(settings["limits"]["asks"]) * int(video["chunk_bytes"])


async def _until(task: asyncio.Future[None]) -> None:
    await task


async def _all(works: Any) -> list[Any]:
    """What all of them come to; the first that fails ends the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _ended(part: Part) -> None:
    """Until its viewers are gone. ELASTIC_GENERATOR_FAILED unless they came to a summary."""
    await part.wait()
    done = part.finished
    assert done is not None
    if done.timed_out:
        raise _failed(part.instance, f"they were not done within {part.task.timeout_s:g} s")
    if done.signal is not None:
        raise _failed(part.instance, f"they were killed by signal {done.signal}")
    if done.status not in _ENDED or not part.output().stdout.startswith("{"):
        raise _failed(part.instance, f"status {done.status}: {part.tail()}")


async def _look(instance: Instance) -> None:
    """At its clock, again where somebody had to wait for a processor meanwhile."""
    for _ in range(_LOOKS):
        if (await instance.agent.sync()).bound_ns <= WIDE_NS:
            return


async def _stop(parts: Sequence[Part]) -> None:
    """End what still runs."""
    for part in parts:
        if part.process is not None and part.process.running:
            part.process.kill_unheard()


def _failed(instance: Instance, reason: str) -> UllageError:
    return UllageError(ELASTIC_GENERATOR_FAILED, name=instance.name, reason=reason)
