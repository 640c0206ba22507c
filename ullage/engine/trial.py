"""One trial while it runs: its programs start, are waited for and stopped, and what they leave is
parsed.

Services come up, everybody else starts at one agreed instant. Nothing here decides whether a figure
is good: `check` of the workload does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ullage.common.errors import UllageError
from ullage.common.text import printable
from ullage.engine import figures, trial_clocks
from ullage.engine.launcher import Launcher
from ullage.engine.program import LAG_NS, Part, TrialFailedError
from ullage.engine.team import Team, context, workspace
from ullage.environments import Instance
from ullage.environments.agent.client import Command, Process, ProgramEnd
from ullage.host import clock
from ullage.host.swap.request import SwapRequest
from ullage.plan import neighbours
from ullage.runs.events import InstanceClock, Reason
from ullage.runs.writer import disk_full_as_error
from ullage.workloads.base import Conducted, Figures, Output, Task

if TYPE_CHECKING:
    from ullage.engine.fleet import Fleet
    from ullage.plan.matrix import Case
    from ullage.plan.schedule import Slot

KILLED_S: Final = 30.0
"""A program has so long to be gone once it is killed; only the kernel can keep it longer."""

StartAndEnd = tuple[int, int]
"""Two instants, ns."""


@dataclass
class Attempt:
    """One trial while it runs."""

    fleet: Fleet
    case: Case
    slot: Slot
    folder: Path
    seed: int
    iterations: int
    teams: list[Team] = field(default_factory=list)
    rounds: list[list[Part]] = field(default_factory=list)
    """The programs of each iteration that has begun."""
    conducted: list[tuple[StartAndEnd, Output]] = field(default_factory=list)
    """When the controller itself worked in each iteration, and what came of it."""
    closed: list[trial_clocks.Maps] = field(default_factory=list)
    """The clocks, after each iteration."""
    figures: list[list[Figures]] = field(default_factory=list)
    """Of each iteration that went well, by team."""
    metrics: Figures = field(default_factory=dict)
    instances: dict[str, Figures] = field(default_factory=dict)
    """Instance → its own, when there are several."""
    clocks: dict[str, InstanceClock] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    steps: dict[str, float] = field(default_factory=dict)
    """Metric → the finest last digit that was printed of it."""
    status: str = "ok"
    reason: Reason | None = None
    _killed: dict[str, int] = field(default_factory=dict)
    """Of each instance, for memory, before the iteration."""

    def blame(self, status: str, code: str, message: str) -> None:
        """It has no figures, for this reason; the first one counts."""
        if self.reason is None:
            self.status, self.reason = status, Reason(code=code, message=printable(message, 2000))

    async def wake(self) -> None:
        self._refuse_broken()
        self.teams = await self.fleet.teams(self.slot.environment, self.case, self.slot.side)
        await self.fleet.preflight(self.slot.environment, self.case, self.teams)
        self._refuse_broken()  # what had died is made again, and prepared again

    def _refuse_broken(self) -> None:
        if reason := self.fleet.obstacle(self.slot.environment, self.case):
            raise TrialFailedError(reason.code, reason.message)

    async def begin(self) -> None:
        """The services of an iteration come up."""
        self.rounds.append(self._parts(len(self.rounds)))
        self._killed = await self._memory_kills()
        await _together(self._start_service(part) for part in self._now(service=True))

    async def work(self, instant_ns: int, together: bool) -> None:
        """Start everybody else at the agreed instant, and wait for all.

        together: there are others; who is alone starts when it hears of it.
        """
        if isinstance(self.case.workload, Conducted):
            await self._conduct(self.case.workload)
            return
        workers = self._now(service=False)
        at_ns = instant_ns if together else None
        await _together(self._spawn(part, at_ns=at_ns) for part in workers)
        await _together(self._finish(part) for part in workers)

    async def end(self, instant_ns: int) -> None:
        """Have the work proved, stop the services, look at the clocks, and parse what there is."""
        teams = () if self.conducted else range(len(self.teams))
        proofs = [await self._prove(number) for number in teams]
        for part in self._now(service=True):
            _check_beside(part)
        await _together(_end_service(part) for part in self._now(service=True))
        killed = await self._memory_kills()
        for part in self.rounds[-1]:
            name = part.instance.name
            part.memory_kills = killed.get(name, 0) - self._killed.get(name, 0)
            part.swap = self._swap_of(part.instance)
        self.closed.append(await trial_clocks.close(self.rounds[-1]))
        for part in self.rounds[-1]:
            if not part.task.service:
                part.check(instant_ns, len(self.rounds[-1]))
                self._tell_held(part)
            elif part.own:
                part.check_usage()
        outputs = self._outputs()
        for number, parts in enumerate(proofs):
            outputs[number] |= {part.task.role: part.output() for part in parts}
        self.figures.append([figures.parse(self.case, of_team) for of_team in outputs])
        for of_team in outputs:
            self._note_steps(self.case.workload.steps(self.case.parameters, of_team))
        self.facts = self.case.workload.facts(self.case.parameters, outputs[0])
        for part in self.rounds[-1]:
            part.process = None  # its output is on the disk

    def _note_steps(self, steps: Mapping[str, float]) -> None:
        """The finest of all instances and iterations counts."""
        for name, step in steps.items():
            self.steps[name] = min(step, self.steps.get(name, step))

    @property
    def _swap(self) -> SwapRequest | None:
        return self.fleet.matrix.environment(self.slot.environment).provider.swap_request

    def _swap_of(self, instance: Instance) -> str:
        """What its own kernel may swap; a VM's knows nothing of the host's swap."""
        return "" if instance.own_kernel else f"{self._swap or ''}"

    async def _memory_kills(self) -> dict[str, int]:
        """Instance → how many of its processes were killed for memory, where that matters."""
        if not self.case.workload.guards_memory and self._swap is None:
            return {}
        instances = {part.instance.name: part.instance for part in self.rounds[-1] if part.own}
        return {name: await instance.memory_kills() for name, instance in instances.items()}

    async def _prove(self, number: int) -> list[Part]:
        """What the workload has run after the work of a team, one after another."""
        where = context(self.teams[number], self.case, self.seed)
        tasks = self.case.workload.after(self.case.parameters, where)
        parts = self._of_team(number, tasks, len(self.rounds) - 1, own=False)
        for part in parts:
            self.rounds[-1].append(part)
            await self._spawn(part)
            await part.wait()
        return parts

    def _tell_held(self, part: Part) -> None:
        held_ns = part.finished.held_ns if part.finished else 0
        if held_ns > LAG_NS:
            self.fleet.tell_held(part.name, part.instance, held_ns / 1e9)

    async def conclude(self, own: trial_clocks.Own) -> None:
        """What all of it comes to, once the last iteration is over."""
        if self.reason is None and len(self.figures) < self.iterations:
            raise TrialFailedError("partner-failed", f"{self.slot.partner} beside it failed")
        self.clocks = trial_clocks.records(
            self.closed, [part for round_ in self.rounds for part in round_]
        )
        own.check()
        if self.status == "ok":
            self.metrics = self._mean(self.iteration_figures())
            if len(self.teams) > 1 and not self.conducted:
                names = [team.instance.name for team in self.teams]
                by_instance = zip(names, zip(*self.figures, strict=True), strict=True)
                self.instances = {name: self._mean(of_one) for name, of_one in by_instance}

    def iteration_figures(self) -> list[Figures]:
        """Of each iteration that went well, over the instances."""
        return [figures.over_instances(of_teams) for of_teams in self.figures]

    def _mean(self, of_iterations: Sequence[Figures]) -> Figures:
        return figures.over_iterations(of_iterations, self.case.metrics)

    async def stop(self) -> None:
        """Kill what still runs after a failure or an interruption.

        Where that does not end it, its instance goes: what stays would load the trials after this.
        """
        await asyncio.gather(*(self._stop(part, process) for part, process in self.unended()))

    def unended(self) -> list[tuple[Part, Process]]:
        """What still runs, where there is somebody to ask."""
        return [
            (part, part.process)
            for part in (self.rounds or [[]])[-1]
            if part.process is not None and not part.finished and part.instance.alive
        ]

    async def _stop(self, part: Part, process: Process) -> None:
        try:
            await process.kill(9)
            part.finished = await asyncio.wait_for(process.wait(), KILLED_S)
        except (UllageError, TimeoutError) as error:
            if process.running and part.instance.alive:
                why = error.message if isinstance(error, UllageError) else _stays(part)
                await self.fleet.give_up(part.instance, why)

    def spans(self) -> list[StartAndEnd | None]:
        """First start and last end of each iteration's work; None where none of it ended."""
        if self.conducted:
            return [span for span, _ in self.conducted]
        return [
            (min(d.start_ns for d in done), max(d.end_ns for d in done)) if done else None
            for done in self._finished_work()
        ]

    def spread_ns(self) -> int | None:
        """Latest minus earliest start, of the iteration where that was most; None: all alone."""
        starts = [[d.start_ns for d in done] for done in self._finished_work() if len(done) > 1]
        return max((max(instants) - min(instants) for instants in starts), default=None)

    def starters(self) -> int:
        """How many programs start at the agreed instant."""
        return len(self._now(service=False))

    def rtt_ns(self) -> int:
        """Of the slowest instance that has work to start."""
        return max((part.instance.agent.rtt_ns for part in self._now(service=False)), default=0)

    def workers(self) -> list[Instance]:
        """Whose programs take part in the work: neighbours do not."""
        return [m for team in self.teams for m in team.members if m not in team.neighbours]

    def _finished_work(self) -> list[list[ProgramEnd]]:
        return [
            [
                part.finished
                for part in round_
                if part.finished and part.own and not part.task.service
            ]
            for round_ in self.rounds
        ]

    def _now(self, *, service: bool) -> list[Part]:
        return [
            part
            for part in self.rounds[-1]
            if part.task.service == service and (part.own or service)
        ]

    def _parts(self, iteration: int) -> list[Part]:
        workload, parameters = self.case.workload, self.case.parameters
        parts = []
        for number, team in enumerate(self.teams):
            tasks = workload.tasks(parameters, context(team, self.case, self.seed))
            parts += self._of_team(number, tasks, iteration)
        return [*parts, *self._neighbours(iteration)]

    def _of_team(
        self, number: int, tasks: Sequence[Task], iteration: int, *, own: bool = True
    ) -> list[Part]:
        players = self.teams[number].players(self.case.workload.roles(self.case.parameters))
        parts = []
        for task in tasks:
            name = task.role if len(self.teams) == 1 else f"{task.role}-{number}"
            name += f"-i{iteration:02d}" if self.iterations > 1 else ""
            player = players[task.role]
            cwd = task.cwd or workspace(player, self.case)
            parts.append(Part(name, task, player, cwd, own=own))
        return parts

    def _neighbours(self, iteration: int) -> list[Part]:
        neighbour = self.fleet.matrix.environment(self.slot.environment).neighbour
        if neighbour is None:
            return []
        players = [instance for team in self.teams for instance in team.neighbours]
        tasks = [neighbours.task(neighbour, len(player.spec.cpu_ids)) for player in players]
        name = f"{neighbours.ROLE}-{iteration:02d}"
        return [
            Part(f"{name}-{number}", task, player, player.data, own=False)
            for number, (task, player) in enumerate(zip(tasks, players, strict=True))
        ]

    async def _conduct(self, workload: Conducted[Any]) -> None:
        """The controller's own work; the instances that are there anyway stand still meanwhile."""
        idle = [team.instance for team in self.teams]
        label = f"{self.slot.trial}i{len(self.conducted)}"
        node = self.fleet.node(self.slot.environment)
        await workload.make_ready(self.case.parameters, node)
        try:
            await _together(instance.freeze() for instance in idle)
            began = clock.ordered_ns()
            printed = await workload.conduct(self.case.parameters, node, label)
            ended = clock.ordered_ns()
        finally:
            await _together(instance.thaw() for instance in idle)
        name = "main" if self.iterations == 1 else f"main-i{len(self.conducted):02d}"
        with disk_full_as_error(self.folder):
            (self.folder / f"{name}.stdout").write_text(printed, "utf-8")
        output = Output(0, None, printed, "", (ended - began) / 1e9)
        self.conducted.append(((began, ended), output))

    async def _spawn(self, part: Part, *, at_ns: int | None = None) -> Process:
        task = part.task
        command = Command(task.argv, dict(task.env), part.cwd, task.user, task.timeout_s)
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
        players = mine.players(self.case.workload.roles(self.case.parameters)).values()
        addresses = {player.address: player for player in players if player.address}
        launcher = Launcher(part, addresses, lambda instance: workspace(instance, self.case))
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
        if self.conducted:
            return [{"main": self.conducted[-1][1]}]
        parts = [part for part in self.rounds[-1] if part.own]
        count = len(parts) // len(self.teams)
        return [
            {part.task.role: part.output() for part in parts[number * count : (number + 1) * count]}
            for number in range(len(self.teams))
        ]


async def _together(todo: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Do all at once. The first that fails ends the others, and is raised when they have ended.

    So none of them starts a program, or waits for one, when the trial is over already.
    """
    coroutines = list(todo)
    if len(coroutines) < 2:  # who is alone needs no task of its own
        for coroutine in coroutines:
            await coroutine
        return
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in coroutines:
                group.create_task(coroutine)
    except ExceptionGroup as several:
        raise several.exceptions[0] from several


def _check_beside(part: Part) -> None:
    """TrialFailedError unless the neighbour was there to the end."""
    if part.task.role == neighbours.ROLE and (part.process is None or not part.process.running):
        raise TrialFailedError("neighbour-ended", f"{part.task.argv[0]} beside it ended by itself")


async def _end_service(part: Part) -> None:
    """A service may end by itself (`iperf3 -1`); else it is told to, then made to.

    TrialFailedError where not even that ends it.
    """
    assert part.process is not None
    task = part.task
    for wait_s, signal in ((0.3, task.stop_signal), (task.stop_s, 9), (KILLED_S, None)):
        try:
            part.finished = await asyncio.wait_for(part.process.wait(), wait_s)
        except TimeoutError:
            if signal is None:
                raise TrialFailedError("not-ended", _stays(part)) from None
            await part.process.kill(signal)
        else:
            return


def _stays(part: Part) -> str:
    return (
        f"{part.name} ({part.task.argv[0]}) has not ended in {part.instance.name}, although it "
        "was killed: the kernel does not let it go"
    )
