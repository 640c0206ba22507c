"""One turn: a trial, or the two of a duet at the same time; each checked and parsed.

Services come up, everybody else starts at one agreed instant. With iterations the work is done
several times in a row in the same instances, services and all, each time at an instant of its own.
Nothing here decides whether a figure is good: `check` of the workload does, and a trial that fails
it has a reason and no figures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ullage import clock, figures, timing
from ullage.agent import Command, Finished, Process
from ullage.agentchannel import printable
from ullage.errors import RUN_DISK_FULL, UllageError
from ullage.figures import Figures
from ullage.fleet import Fleet, workspace
from ullage.journal import now_ns
from ullage.matrix import Load
from ullage.meters import metered
from ullage.part import Part, TrialFailedError
from ullage.remote import Launcher
from ullage.runs import InstanceClock, Metered, Reason, RoleRecord, Trial
from ullage.schedule import Slot, Turn
from ullage.team import Team
from ullage.workloads.base import InvalidTrialError, Output

LEAD_NS: Final = 2_000_000
"""The agreed instant lies so far ahead, plus ten round trips of the slowest instance."""

SERVICE_END_S: Final = 5.0

BESIDE: Final = 0.9
"""The two of a duet overlap for so much of the shorter one, or neither has figures. What ran alone
was not slowed by the neighbour: up to a tenth of that, a figure is off by a tenth of what the
neighbour costs. From one agreed instant they miss it only where a program did not start, or was
held up for long."""


Span = tuple[int, int]
"""Two instants, ns."""


@dataclass
class Attempt:
    """One trial while it runs."""

    fleet: Fleet
    load: Load
    slot: Slot
    folder: Path
    seed: int
    iterations: int
    teams: list[Team] = field(default_factory=list)
    rounds: list[list[Part]] = field(default_factory=list)
    """The programs of each iteration that has begun."""
    closed: list[timing.Maps] = field(default_factory=list)
    """The clocks, after each iteration."""
    figures: list[list[Figures]] = field(default_factory=list)
    """Of each iteration that went well, by team."""
    metrics: Figures = field(default_factory=dict)
    instances: dict[str, Figures] = field(default_factory=dict)
    """Instance → its own, when there are several."""
    clocks: dict[str, InstanceClock] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    status: str = "ok"
    reason: Reason | None = None

    def blame(self, status: str, code: str, message: str) -> None:
        """It has no figures, for this reason; the first one counts."""
        if self.reason is None:
            self.status, self.reason = status, Reason(code=code, message=printable(message, 2000))

    async def wake(self) -> None:
        """Thaw its instances."""
        if reason := self.fleet.broken(self.slot.environment, self.slot.workload):
            raise TrialFailedError(reason.code, reason.message)
        self.teams = await self.fleet.teams(self.slot.environment, self.load, self.slot.side)

    async def begin(self) -> None:
        """The services of an iteration come up."""
        self.rounds.append(self._parts(len(self.rounds)))
        await asyncio.gather(*(self._start_service(part) for part in self._now(service=True)))

    async def work(self, instant_ns: int) -> None:
        """Start everybody else at the agreed instant, and wait for all."""
        workers = self._now(service=False)
        await asyncio.gather(*(self._spawn(part, at_ns=instant_ns) for part in workers))
        await asyncio.gather(*(self._finish(part) for part in workers))

    async def end(self, instant_ns: int) -> None:
        """Stop the services, look at the clocks, and parse what there is."""
        await asyncio.gather(*(_end_service(part) for part in self._now(service=True)))
        self.closed.append(await timing.close(self.rounds[-1]))
        for part in self.rounds[-1]:
            if not part.task.service:
                part.check(instant_ns)
        outputs = self._outputs()
        self.figures.append([figures.parsed(self.load, each) for each in outputs])
        self.facts = self.load.workload.facts(self.load.parameters, outputs[0])
        for part in self.rounds[-1]:
            part.process = None  # its output is on the disk

    async def conclude(self, own: timing.Own) -> None:
        """What all of it comes to, once the last iteration is over."""
        if self.reason is None and len(self.figures) < self.iterations:
            raise TrialFailedError("partner-failed", f"{self.slot.partner} beside it failed")
        self.clocks = timing.records(self.closed, [part for each in self.rounds for part in each])
        own.check()
        if self.status == "ok":
            self.metrics = self._mean(self.iteration_figures())
            if len(self.teams) > 1:
                names = [team.instance.name for team in self.teams]
                each = zip(names, zip(*self.figures, strict=True), strict=True)
                self.instances = {name: self._mean(of_one) for name, of_one in each}

    def iteration_figures(self) -> list[Figures]:
        """Of each iteration that went well, over the instances."""
        return [figures.over_instances(of_teams) for of_teams in self.figures]

    def _mean(self, of_iterations: Sequence[Figures]) -> Figures:
        return figures.over_iterations(of_iterations, self.load.workload.metrics)

    async def stop(self) -> None:
        """Kill what still runs after a failure or an interruption."""
        for part in self.rounds[-1] if self.rounds else ():
            if part.process and not part.finished and part.instance.alive:
                try:
                    await part.process.kill(9)
                    part.finished = await asyncio.wait_for(part.process.wait(), SERVICE_END_S)
                except (UllageError, TimeoutError):
                    continue

    def spans(self) -> list[Span | None]:
        """First start and last end of each iteration's work; None where none of it ended."""
        return [
            (min(d.start_ns for d in done), max(d.end_ns for d in done)) if done else None
            for done in self._worked()
        ]

    def spread_ns(self) -> int | None:
        """Latest minus earliest start, of the iteration where that was most; None: all alone."""
        starts = [[d.start_ns for d in done] for done in self._worked() if len(done) > 1]
        return max((max(each) - min(each) for each in starts), default=None)

    def rtt_ns(self) -> int:
        """Of the slowest instance that has work to start."""
        return max(part.instance.agent.rtt_ns for part in self._now(service=False))

    def _worked(self) -> list[list[Finished]]:
        return [
            [part.finished for part in each if part.finished and not part.task.service]
            for each in self.rounds
        ]

    def _now(self, *, service: bool) -> list[Part]:
        return [
            part for part in self.rounds[-1] if part.task.service == service and part.by is None
        ]

    def _parts(self, iteration: int) -> list[Part]:
        workload, parameters = self.load.workload, self.load.parameters
        roles = workload.roles(parameters)
        parts = []
        for number, team in enumerate(self.teams):
            context = self.fleet.context(team, self.load, self.seed)
            players = team.players(roles)
            for task in workload.tasks(parameters, context):
                name = task.role if len(self.teams) == 1 else f"{task.role}-{number}"
                name += f"-i{iteration:02d}" if self.iterations > 1 else ""
                player = players[task.role]
                parts.append(Part(name, task, player, task.cwd or workspace(player, self.load)))
        return parts

    async def _spawn(self, part: Part, *, at_ns: int | None = None) -> Process:
        task = part.task
        command = Command(
            argv=task.argv, env=dict(task.env), cwd=part.cwd, timeout_s=task.timeout_s
        )
        part.process = await part.instance.agent.spawn(
            command,
            at_ns=at_ns,
            stdout_path=self.folder / f"{part.name}.stdout",
            stderr_path=self.folder / f"{part.name}.stderr",
        )
        return part.process

    async def _finish(self, part: Part) -> None:
        """Wait for it; and meanwhile start what it asks for."""
        if not part.task.launches:
            await part.wait()
            return
        mine = next(team for team in self.teams if part.instance in team.members)
        addresses = {each.address: each for each in mine.members if each.address}
        launcher = Launcher(part, addresses, lambda each: workspace(each, self.load))
        try:
            await launcher.run(self._spawn)
        finally:
            self.rounds[-1] += launcher.parts

    async def _start_service(self, part: Part) -> None:
        process = await self._spawn(part)
        await process.started()
        if part.task.ready is not None:
            await process.wait_for_output(part.task.ready.encode(), part.task.ready_s)

    def _outputs(self) -> list[dict[str, Output]]:
        """Role → output, for each team, of the iteration that is over."""
        parts = [part for part in self.rounds[-1] if part.by is None]
        each = len(parts) // len(self.teams)
        return [
            {part.task.role: part.output() for part in parts[number * each : (number + 1) * each]}
            for number in range(len(self.teams))
        ]


async def run(
    fleet: Fleet,
    load: Load,
    turn: Turn,
    folders: Sequence[Path],
    *,
    seed: int,
    iterations: int = 1,
) -> list[Trial]:
    """Run the trials of one turn. Whatever goes wrong inside one becomes its reason."""
    began, epoch_ns = clock.ordered_ns(), now_ns()
    attempts = [
        Attempt(fleet, load, slot, folder, seed, iterations)
        for slot, folder in zip(turn, folders, strict=True)
    ]
    seen: Metered = {}
    try:
        with _blamed(*attempts):
            own = timing.Own.now()
            if await _each(attempts, Attempt.wake):
                seen = await _rounds(attempts, iterations)
            await _each(attempts, Attempt.conclude, own)
        _judge_beside(attempts)
    finally:
        await asyncio.gather(*(attempt.stop() for attempt in attempts))
        await fleet.rest([team for attempt in attempts for team in attempt.teams])
    return [_trial(attempt, began, epoch_ns, seen) for attempt in attempts]


async def _rounds(attempts: Sequence[Attempt], iterations: int) -> Metered:
    """All iterations, or up to the first that goes wrong; returns what the meters saw meanwhile.

    Nobody goes on before all are ready: the one that ends first waits.
    """
    seen: Metered = {}
    with ExitStack() as meters:
        for number in range(iterations):
            if not await _each(attempts, Attempt.begin):
                break
            if number == 0:
                seen = meters.enter_context(metered())
            instant = clock.ordered_ns() + LEAD_NS
            instant += 10 * max(attempt.rtt_ns() for attempt in attempts)
            await _each(attempts, Attempt.work, instant)
            if number == iterations - 1:
                meters.close()
            if not await _each(attempts, Attempt.end, instant):
                break
    return seen


async def _each(
    attempts: Sequence[Attempt], step: Callable[..., Awaitable[None]], *arguments: Any
) -> bool:
    """A step of all that have not failed, at the same time; who fails at it holds up no other.

    True when all is well.
    """

    async def one(attempt: Attempt) -> None:
        with _blamed(attempt):
            await step(attempt, *arguments)

    todo = [one(attempt) for attempt in attempts if attempt.status != "failed"]
    for result in await asyncio.gather(*todo, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
    return not any(attempt.reason for attempt in attempts)


@contextmanager
def _blamed(*attempts: Attempt) -> Iterator[None]:
    """What goes wrong within is the reason of these trials; a full disk ends the run."""
    try:
        yield
    except TrialFailedError as error:
        found = "failed", error.reason.code, error.reason.message
    except InvalidTrialError as error:
        found = "invalid", "not-valid", str(error)
    except UllageError as error:
        if error.kind is RUN_DISK_FULL:
            raise
        found = "failed", error.code, error.message
    else:
        return
    for attempt in attempts:
        attempt.blame(*found)


def _judge_beside(attempts: Sequence[Attempt]) -> None:
    """The two of a duet have figures only if they ran beside each other, in every iteration."""
    if len(attempts) == 1:
        return
    for one, other in zip(*(attempt.spans() for attempt in attempts), strict=False):
        if (share := _overlap(one, other)) < BESIDE:
            for attempt in attempts:
                attempt.blame(
                    "invalid",
                    "not-beside",
                    f"{share:.0%} of the shorter of the two ran beside {attempt.slot.partner}: "
                    f"at least {BESIDE:.0%} must",
                )


def _overlap(one: Span | None, other: Span | None) -> float:
    """Share of the shorter of two spans that lies within the other."""
    if one is None or other is None:
        return 0.0
    shorter = min(end - start for start, end in (one, other))
    return max(0, min(one[1], other[1]) - max(one[0], other[0])) / max(1, shorter)


async def _end_service(part: Part) -> None:
    """A service may end by itself (`iperf3 -1`); else it is told to, then made to."""
    assert part.process is not None
    task = part.task
    for wait_s, signal in ((0.3, task.stop_signal), (task.stop_s, 9)):
        try:
            part.finished = await asyncio.wait_for(asyncio.shield(part.process.wait()), wait_s)
        except TimeoutError:
            await part.process.kill(signal)
        else:
            return
    part.finished = await part.process.wait()


def _trial(attempt: Attempt, began: int, epoch_ns: int, seen: Metered) -> Trial:
    """What is kept of it, whatever became of it."""
    ended = clock.ordered_ns()
    slot, ok, failed = attempt.slot, attempt.status == "ok", attempt.status == "failed"
    parts = [part for each in attempt.rounds for part in each]
    spans = [span for span in attempt.spans() if span is not None]
    start = min((first for first, _ in spans), default=began)
    end = max((last for _, last in spans), default=ended)
    return Trial.model_validate(
        {
            "trial": slot.trial,
            "block": slot.block,
            "order": slot.order,
            "position": slot.position,
            "environment": slot.environment,
            "workload": slot.workload,
            "generation": attempt.fleet.generation,
            "partner": slot.partner,
            "side": slot.side,
            "status": attempt.status,
            "reason": attempt.reason,
            "epoch_ns": epoch_ns + start - began,
            "start_ns": start,
            "end_ns": end,
            "spread_ns": attempt.spread_ns(),
            "overhead_s": (ended - began - (end - start if spans else 0)) / 1e9,
            "metrics": attempt.metrics if ok else {},
            "iterations": attempt.iteration_figures() if ok and attempt.iterations > 1 else (),
            "instances": attempt.instances if ok else {},
            "facts": attempt.facts,
            "roles": tuple(_record(part, attempt.folder) for part in parts if part.finished),
            "clocks": {} if failed else attempt.clocks,
            "meters": {} if failed else seen,
        }
    )


def _record(part: Part, folder: Path) -> RoleRecord:
    done = part.finished
    assert done is not None
    raw = f"trials/{folder.name}/{part.name}"
    return RoleRecord(
        role=part.name,
        instance=part.instance.name,
        argv=part.task.argv,
        status=done.status,
        signal=done.signal,
        start_ns=done.start_ns,
        end_ns=done.end_ns,
        late_ns=done.late_ns,
        start_local_ns=done.start_local_ns,
        end_local_ns=done.end_local_ns,
        clock_bound_ns=done.clock_bound_ns,
        clock_sure_ns=done.clock_sure_ns,
        usage=done.usage,
        stdout=f"{raw}.stdout",
        stderr=f"{raw}.stderr",
    )
