"""`ullage elastic run`: environment by environment, repetition by repetition, and all removed."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from ullage.common.console import escape, print_json, stderr
from ullage.common.errors import NODE_LOST, RUN_CHANGED, ExitCode, UllageError
from ullage.common.files import put
from ullage.common.quantities import many
from ullage.common.signals import interruptible
from ullage.common.yamlfile import YamlFile
from ullage.engine.resolved import diverged, programs
from ullage.engine.session import Session, left
from ullage.environments.agent import client
from ullage.environments.provisioning.node import Site as Host
from ullage.experiments.elastic import folder as folders
from ullage.experiments.elastic.folder import (
    ElasticFinished,
    ElasticResolved,
    RepetitionDone,
    RepetitionOutcome,
)
from ullage.experiments.elastic.plan import schema, units
from ullage.experiments.elastic.plan.schema import ElasticPlan, Generators, NodeEnvironment
from ullage.experiments.elastic.plan.units import Scaled
from ullage.experiments.elastic.run import front, nodes, viewers
from ullage.experiments.elastic.run.checks import check, lacks
from ullage.experiments.elastic.run.controller import Maker
from ullage.experiments.elastic.run.generators import Machines
from ullage.experiments.elastic.run.machines import PoolNodes
from ullage.experiments.elastic.run.pool_roster import PoolRoster
from ullage.experiments.elastic.run.repetition import RunningRepetition, RunSetup
from ullage.experiments.elastic.run.resolved import changes, resolved
from ullage.host import binaries, image
from ullage.host.network.bridge import Network
from ullage.meters.energy.base import PlannedMeter
from ullage.meters.energy.metering import Metering
from ullage.plan import schedule
from ullage.plan.meters import named
from ullage.runs.events import Started
from ullage.runs.reader import typed
from ullage.runs.records import PLAN, RESOLVED, ImageRecord
from ullage.runs.room import Room
from ullage.runs.writer import Journal, now_ns
from ullage.workloads.web import clip

# A run has its own copy of the trace that its plan names.
#
# A relative path in a plan is one from where the command was started, as in any plan. So that a run
# is taken up from anywhere, and although the file has changed, it goes by what it was given first.


def keep_trace(plan: ElasticPlan, run: Path) -> ElasticPlan:
    """Copy it into the run's folder; the plan that reads it there. OSError."""
    if plan.arrivals.file is None:
        return plan
    put(run / folders.TRACE, plan.arrivals.file.read_bytes())
    return with_kept_trace(plan, run)


def with_kept_trace(plan: ElasticPlan, run: Path) -> ElasticPlan:
    """The plan with the copy of an earlier session; as it is where there is none."""
    file = run / folders.TRACE
    if plan.arrivals.file is None or not file.is_file():
        return plan
    arrivals = plan.arrivals.model_copy(update={"file": file})
    return plan.model_copy(update={"arrivals": arrivals})


SCALED = "time-scaled"
"""Code of the warning that a second is not a second."""
DOUBTFUL = "plan-doubtful"
"""Code of a warning of what the plan asks for and no host, or not this one, can do well."""


MACHINE_LOST = NODE_LOST.code
"""Code of a warning that a machine is left out of a repetition."""


@dataclass(frozen=True)
class ElasticTask:
    """A plan that was read and checked, with all that it names."""

    plan: ElasticPlan
    environments: tuple[NodeEnvironment, ...]
    document: YamlFile
    generators: Generators | None
    meters: tuple[PlannedMeter, ...]

    @property
    def repetitions(self) -> int:
        """Of all environments together."""
        return self.plan.repetitions * len(self.environments)

    async def check(self) -> None:
        """Raise what the plan lacks on this host."""
        await check(self.plan, self.environments, self.document, self.generators)

    async def lacks(self) -> list[UllageError]:
        """Everything that the plan lacks on this host."""
        return await lacks(self.plan, self.environments, self.document, self.generators)


def load(source: Path) -> ElasticTask:
    """Read a plan; a fault names its line."""
    return task_of(*schema.load(source))


def task_of(plan: ElasticPlan, document: YamlFile) -> ElasticTask:
    """A plan with all that it names; a fault names its line in the document."""
    return ElasticTask(
        plan,
        schema.resolve(plan, document),
        document,
        schema.generators(plan, document),
        named(plan.meters, document),
    )


def load_again(run: Path) -> ElasticTask:
    """The plan of an earlier session, with the run's own copy of its trace."""
    task = load(run / PLAN)
    return replace(task, plan=with_kept_trace(task.plan, run))


class ElasticRunProgress(Protocol):
    """Who is told how an elastic run goes on."""

    def step(self, text: str) -> None:
        """A stage of the set-up began."""

    def repetition(self, done: RepetitionOutcome, number: int, of_all: int) -> None:
        """A repetition ended."""

    def warning(self, text: str) -> None:
        """Something the user should know now."""


def run_plan(
    task: ElasticTask, folder: Path, progress: ElasticRunProgress, *, resume: bool
) -> ExitCode:
    """Run it in `folder`, which has its plan; where it was interrupted, the user is told so."""
    run = ElasticExecution(task, folder, progress, resume=resume)
    try:
        outcomes = interruptible(run.run(), left)
    except asyncio.CancelledError:
        again = typed(folder)
        stderr.print(
            escape(f"interrupted; take it up with: ullage elastic run --resume {again}"),
            soft_wrap=True,
        )
        return ExitCode.INTERRUPTED
    failed = any(outcome.status != "ok" for outcome in outcomes)
    return ExitCode.SOME_CELLS_FAILED if failed else ExitCode.DONE


def conclude(folder: Path, *, as_json: bool) -> None:
    """The answer first, which needs no disk; then the page."""
    # Nothing that measures is beside what computes and draws.
    from ullage.experiments.elastic.report import page, show  # noqa: PLC0415

    analysed = show.find(folder, folder.parent)
    if not as_json:
        show.tell(analysed)
    file = page.write(analysed)
    if as_json:
        print_json({"folder": str(folder), "report": str(file), **show.dumped(analysed)})
    else:
        stderr.print(f"report: {escape(str(file))}", soft_wrap=True)


class ElasticExecution(Session):
    """One execution of one plan, or its resumption."""

    ended = ElasticFinished

    def __init__(
        self, task: ElasticTask, folder: Path, progress: ElasticRunProgress, *, resume: bool = False
    ) -> None:
        super().__init__(folder, progress.warning)
        plan = self.plan = task.plan
        self.environments, self.generators = task.environments, task.generators
        self.progress, self.resume = progress, resume
        self.scaled = Scaled(plan)
        self.seed = random.SystemRandom().getrandbits(48) if plan.seed is None else plan.seed
        self.outcomes: dict[tuple[str, int], RepetitionOutcome] = {}
        self.earlier: ElasticResolved | None = None
        self.sessions: list[Started] = []
        self.image: ImageRecord | None = None
        self.network: Network | None = None
        self.machines: PoolRoster | None = None
        self.room: Room
        self.metering = Metering(task.meters, self.tag, folder, self._warn)

    async def run(self) -> list[RepetitionOutcome]:
        """Run to the end, an error or a cancellation; whatever was made is removed again."""
        with Journal(self.folder) as self.journal:
            self._take_up()
            self.room = Room(self.folder, self.plan.budgets.outputs)
            await self._work_to_the_end()
        return list(self.outcomes.values())

    async def _work(self) -> None:
        await self._begin(self.sessions, resumed=self.earlier is not None)
        for doubt in units.said_before(self.plan, self.environments):
            self._warn(DOUBTFUL, doubt)
        if limits := units.limits_of_scale(self.plan):
            self._warn(SCALED, limits)
        setting = await self._prepared()
        await self._repetitions(setting)
        await self.metering.stop()
        self.reason = "repetitions"

    def _take_up(self) -> None:
        """What earlier sessions have done."""
        if not self.resume:
            return
        events = folders.read_events(self.folder)
        self.sessions = [event for event in events if isinstance(event, Started)]
        done = [event for event in events if isinstance(event, RepetitionDone)]
        if not (self.folder / RESOLVED).exists() and not done:
            return  # it was stopped before the first repetition
        self.earlier = folders.read_resolved(self.folder)
        self.seed = self.earlier.seed
        for ended in done:
            place = folders.repetition_folder(self.folder, ended.environment, ended.repetition)
            outcome = folders.read_outcome(place)
            if outcome is None:
                where = place.relative_to(self.folder)
                raise folders.ELASTIC.bad(self.folder, f"{where}/{folders.OUTCOME} is missing")
            self.outcomes[ended.environment, ended.repetition] = outcome
        has = 1 + max((ended.repetition for ended in done), default=-1)
        if has > self.plan.repetitions:
            change = f"`repetitions` ({self.plan.repetitions}, and it has begun no. {has})"
            raise UllageError(RUN_CHANGED, path=self.folder, what=change)

    async def _prepared(self) -> RunSetup:
        """Image, film and bridge: what all repetitions share."""
        plan = self.plan
        if plan.machines:
            self.progress.step(f"reaching {many(len(plan.machines), 'machine')}")
            self.machines = PoolRoster(plan, self.tag, self.folder, self.sessions)
            for text in await self.machines.open(self.environments):
                self._warn("not-removed", text)
        built = await self._image()
        # Before the record is written: what the machines are on the network stands in it.
        joined = None if self.machines is None else await self._joined(self.machines, built)
        film = await clip.make(
            self.scaled.length_s, plan.video.bitrate, plan.video.generate, self.progress.step
        )
        await self.metering.open()
        now = resolved(
            plan,
            self.environments,
            film,
            self.image,
            run=self.folder,
            tag=self.tag,
            seed=self.seed,
            generators=self.generators,
            energy_meters=self.metering.records(),
            programs=programs(self._programs()),
            machines={} if self.machines is None else self.machines.records(),
        )
        if self.earlier is not None and (changed := changes(self.earlier, now)):
            raise UllageError(RUN_CHANGED, path=self.folder, what=", ".join(changed))
        self._warn_of_changes(diverged(self.earlier, now) if self.earlier is not None else ())
        self.journal.resolve(now)
        self.metering.start()
        self.network = joined or await Network.create(self.tag)
        await self.network.check_forwarding()
        makers = {
            environment.key: self._maker(environment, built) for environment in self.environments
        }
        more = self.generators
        machines = None if more is None else Machines(more.number, self._host(more, built))
        shared = (plan, self.folder, self.tag, self.seed, self.network, makers, film)
        beyond = () if self.network.beyond is None else self.network.beyond.subnets
        return RunSetup(*shared, machines, tuple(map(str, beyond)))

    async def _joined(self, machines: PoolRoster, built: image.Image | None) -> Network:
        """The run's network, with those of other machines."""
        assert built is not None
        self.progress.step("joining the machines' networks")
        return await machines.join(built)

    def _maker(
        self, environment: NodeEnvironment, built: image.Image | None
    ) -> Callable[[str, Path], Maker]:
        """Who makes its nodes, for a beginning of names and a film."""
        host, cpus = self._host(environment, built), environment.resources.cpus
        if self.machines is None or environment.place is None:
            return partial(nodes.StreamingNodes, host, cpus)
        pool = self.machines.pool(host, environment.place)
        return partial(PoolNodes, pool, cpus, pool=pool)

    @staticmethod
    def _programs() -> Iterator[Path]:
        yield client.binary()
        for name in (front.PROGRAM, viewers.PROGRAM):
            yield binaries.program(name)

    def _host(self, of: NodeEnvironment | Generators, built: image.Image | None) -> Host:
        """Where its instances are made."""
        return Host(
            tag=self.tag,
            provider=of.provider,
            resources=of.resources,
            image=built,
            agent=client.binary(),
            network=self.network,
        )

    async def _image(self) -> image.Image | None:
        if self.plan.image == "host":
            self.image = await asyncio.to_thread(image.host_image, nodes.PROGRAMS)
            return None
        self.progress.step("finding the image (built once, then cached)")
        more = [] if self.generators is None else [self.generators.provider]
        providers = [*(environment.provider for environment in self.environments), *more]
        packages = {name for provider in providers for name in provider.packages()}
        built = await image.build([*nodes.PACKAGES, *sorted(packages)])
        built.require(nodes.PROGRAMS)
        await built.verify()
        for provider in providers:
            if provider.stands_on == "disk":
                await built.disk(provider.image_format)  # not in the first node's time
        self.image = built.record()
        return built

    async def _repetitions(self, setting: RunSetup) -> None:
        todo = list(self._todo())
        for environment, number, order in todo:
            key = environment.key
            self.progress.step(f"repetition {number + 1} of {self.plan.repetitions}: {key}")
            self._look_for_others()
            self.room.check()
            if self.machines is not None:
                for text in await self.machines.reach_anew():
                    self._warn(MACHINE_LOST, text)
            began = time.monotonic()
            outcome = await RunningRepetition(setting, environment, number, order).run()
            place = folders.repetition_folder(self.folder, key, number)
            self.journal.append(
                RepetitionDone(
                    environment=key,
                    repetition=number,
                    epoch_ns=now_ns(),
                    seconds=time.monotonic() - began,
                    status=outcome.status,
                    reason=outcome.reason,
                    files=await asyncio.to_thread(self.journal.digests, place),
                )
            )
            self._look_for_others()
            self.room.add(place)
            self.metering.check()
            self.outcomes[key, number] = outcome
            all_of_them = self.plan.repetitions * len(self.environments)
            self.progress.repetition(outcome, len(self.outcomes), all_of_them)

    def _todo(self) -> Iterator[tuple[NodeEnvironment, int, int]]:
        """What is left to do: environments within each repetition, in balanced order by seed."""
        by_key = {environment.key: environment for environment in self.environments}
        for number in range(self.plan.repetitions):
            for slot in schedule.block(self.seed, number, list(by_key), ["film"]):
                if (slot.environment, number) not in self.outcomes:
                    yield by_key[slot.environment], number, slot.order

    async def _tear_down(self) -> None:
        """Remove everything, in order where that works, by its tag where not."""
        try:
            await self.metering.stop()
            if self.machines is not None:
                await self.machines.close()
            elif self.network is not None:
                await self.network.destroy()
        finally:
            await self._remove(self.tag)
