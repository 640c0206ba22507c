"""The instances of a run: made together, kept frozen while idle, made again when one has died.

Where the plan repeats instances, all of them are made anew between two generations of blocks: under
the same names, on the same CPUs and in the same directories, so that only chance differs.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from ullage.common.errors import HOST_NEEDS_ROOT, UllageError
from ullage.common.text import instance_name, printable
from ullage.engine import trial_clocks
from ullage.engine.team import Team, cannot_start, make_workspace, perform
from ullage.environments import Instance, placement
from ullage.environments.placement import Side
from ullage.environments.provisioning.allocate import Site
from ullage.host import devices
from ullage.host.image import Image
from ullage.host.network.bridge import Network
from ullage.host.paths import state_dir
from ullage.host.swap import area
from ullage.host.swap.request import HEAD_BYTES
from ullage.meters.perf.inside import GuestSampler
from ullage.meters.perf.sampler import Sampler, started
from ullage.nodes.base import Node, Order
from ullage.nodes.roster import Roster
from ullage.plan.instances import InstanceKind, Needs
from ullage.plan.matrix import Case, Environment, Matrix
from ullage.plan.neighbours import NEIGHBOUR
from ullage.plan.schema import ContainerImage
from ullage.runs.events import ProcessClock, Provisioned, Reason, Synchronised, Trial
from ullage.runs.writer import now_ns
from ullage.workloads.base import Conducted

T = TypeVar("T")
AT_ONCE: Final = 64
"""So many instances are made at a time: who makes hundreds at once is in time for none of them."""
MOST_ALIKE: Final = 5
"""After so many trials of a cell in a row that failed for the same reason, word for word, it is
certain that the next would too: they are skipped."""

SKIPPED: Final = "skipped"
"""The reason of a trial that was not tried."""


class AlikeFailures:
    """Cells whose trials fail alike, one after another."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], tuple[Reason, int]] = {}
        """Environment and workload → why the last trial failed, and how many in a row did so."""

    def note(self, trial: Trial) -> Reason | None:
        """Count it; why the next ones are skipped, when this one decided it."""
        cell, reason = (trial.environment, trial.workload), trial.reason
        if reason is None:
            self._last.pop(cell, None)
            return None
        if reason.code == SKIPPED:
            return None
        before, count = self._last.get(cell, (reason, 0))
        self._last[cell] = reason, count + 1 if before == reason else 1
        return self.verdict(*cell) if self._last[cell][1] == MOST_ALIKE else None

    def verdict(self, environment: str, workload: str) -> Reason | None:
        """Why the cell's trials are skipped; None: they are not."""
        reason, count = self._last.get((environment, workload), (None, 0))
        if reason is None or count < MOST_ALIKE:
            return None
        alike = f"{MOST_ALIKE} trials in a row failed alike, {reason.code}: {reason.message}"
        return Reason(code=SKIPPED, message=printable(alike, 2000))

    def forget(self) -> None:
        """All instances are others now: they may do better."""
        self._last.clear()


@dataclass
class Fleet:
    """All instances of a run."""

    tag: str
    matrix: Matrix
    image: Image | None
    """None: the host's own files."""
    images: Mapping[ContainerImage, Image]
    """Of environments that have one of their own."""
    agent: Path
    seed: int
    on_provisioned: Callable[[Provisioned], None]
    on_synchronised: Callable[[Synchronised], None]
    warn: Callable[[str, str], None]
    """Told a code and a sentence about what goes wrong beside the trials."""
    roster: Roster
    """The machines that instances stand on."""
    generation: int = 0
    """How often the plan had all instances made anew."""
    network: Network | None = None
    away: Network | None = None
    """The second bridge of this host."""
    sampler: Sampler | None = None
    """Looks at what the host's CPUs work at; None where it cannot, and before the start."""
    inside: GuestSampler | None = None
    """The same in guests; None: the plan does not ask for it."""
    needs: Needs = field(init=False)
    _instances: dict[str, list[Instance]] = field(default_factory=dict)
    """In a duet those of the two sides, in their order."""
    _names: dict[str, str] = field(default_factory=dict)
    _broken: dict[tuple[str, str], Reason] = field(default_factory=dict)
    """Preparations that failed, by environment and workload."""
    _unmade: dict[str, Reason] = field(default_factory=dict)
    """Environments that could not be made for this generation."""
    _keys: dict[str, str] = field(default_factory=dict)
    """Instance → environment."""
    _nodes: dict[str, str | None] = field(default_factory=dict)
    """Instance → the node that it stands on."""
    _joined: bool = False
    """Do instances stand on the network that joins the nodes?"""
    _untidy: set[str] = field(default_factory=set)
    """Instances of which it was said that a trial left processes; they are ended each time."""

    _looked: set[tuple[str, str]] = field(default_factory=set)
    """Environments and workloads whose programs were looked for."""
    _alike: AlikeFailures = field(default_factory=AlikeFailures)
    _held: set[str] = field(default_factory=set)
    """Instances of which it was said that others held a program's output."""

    def __post_init__(self) -> None:
        self.needs = Needs(self.matrix)

    async def start(self) -> None:
        """Make the network and every instance, in parallel, prepare them, and freeze them."""
        if trouble := self.needs.check():
            self.warn("memory-overcommitted", trouble)
        self.sampler = await started(state_dir(self.tag) / "perf", self.warn, self._root_of_all())
        if self.matrix.causes == "guest":
            self.inside = GuestSampler(self._root_of_all(), self.warn)
        if self.needs.duet and (
            trouble := placement.shared_core(self.matrix.environments[0].resources)
        ):
            self.warn("core-shared", trouble)
        if self.needs.places - {"instance"}:
            await self._connect()
        for environment in self.matrix.environments:
            for case in self.matrix.cases:
                if isinstance(case.workload, Conducted):
                    case.workload.feasible(case.parameters, self.node(environment.key))
        keys = self.needs.all
        here = [key for key in keys if not self.needs.environment(key).away]
        requests = [self.needs.environment(key).provider.data_request for key in here]
        await devices.mount(self.tag, requests)
        await self._give_swap()
        try:
            async with asyncio.TaskGroup() as group:
                for key in keys:
                    group.create_task(self._provision(key))
        except ExceptionGroup as several:
            ours, others = several.split(UllageError)
            if ours is None or others is not None:
                raise
            raise ours.exceptions[0] from several

    async def _give_swap(self) -> None:
        """What all instances may swap together. SWAP_UNUSABLE."""
        environments = [self.needs.environment(key) for key in self.needs.all]
        swapping = [
            (request, self.needs.count(one))
            for one in environments
            if (request := one.provider.swap_request) is not None and not one.away
        ]
        for one in environments:
            request, provider = one.provider.swap_request, one.provider
            if request is not None and not one.away:
                request.refuse_wrong(one.key, one.resources.memory + provider.overhead_bytes)
        if swapping:
            total = sum(request.size * count for request, count in swapping)
            on = swapping[0][0].on
            size = total + HEAD_BYTES
            giving = asyncio.ensure_future(asyncio.to_thread(area.turn_on, self.tag, on, size))
            try:
                await asyncio.shield(giving)
            finally:  # no thread goes on giving what was taken away meanwhile
                await asyncio.wait((giving,))

    async def _connect(self) -> None:
        """The network of this machine, or one over all nodes. NODE_NETWORK, HOST_NEEDS_ROOT."""
        if any(environment.away for environment in self.matrix.environments):
            await self.roster.join(self.matrix.link, self.matrix.between or "routes")
            self._joined = True
            return
        if os.geteuid() != 0:
            raise UllageError(
                HOST_NEEDS_ROOT,
                what="a workload between two endpoints",
                otherwise="leave network workloads out",
            )
        self.network = await Network.create(self.tag, self.matrix.link)
        await self.network.check_forwarding()
        if "away" in self.needs.places:
            self.away = await self.network.neighbour()

    async def renew(self, generation: int) -> None:
        """Destroy all instances of all environments, and make them anew as at the start.

        The network and the endpoints that stand for the host remain. An environment that cannot be
        made fails its trials until it is tried again, in the next generation.
        """
        await self.cleanup()
        hosts = [one for key in self.needs.hosts for one in self._instances[key]]
        await asyncio.gather(*(self._sweep(one) for one in hosts if one.alive))
        keys = self.needs.renewed
        await asyncio.gather(*(self._destroy(key) for key in keys))
        self.generation = generation
        self._unmade.clear()
        self._alike.forget()
        async with asyncio.TaskGroup() as group:
            for key in keys:
                group.create_task(self._make_anew(key))

    async def _make_anew(self, key: str) -> None:
        try:
            await self._provision(key)
        except (UllageError, OSError) as error:
            reason = error.message if isinstance(error, UllageError) else str(error)
            text = f"{key} could not be made anew: {printable(reason, 2000)}"
            self._unmade[key] = Reason(code="not-made", message=text)
            self.warn("not-made", text)

    async def stop(self) -> None:
        """Remove everything that `start` made; warn of what cannot be removed, and go on."""
        if self.sampler:
            try:
                await self.sampler.stop()
            except (UllageError, OSError) as error:
                self.warn("not-removed", f"perf could not be ended in order: {error}")
        await asyncio.gather(
            *(self._put_away(i) for instances in self._instances.values() for i in instances)
        )
        try:
            await asyncio.to_thread(area.end, self.tag)
        except (UllageError, OSError) as error:
            self.warn("not-removed", str(error))
        if self.network:
            await self.network.destroy()

    def up(self, environment: str) -> bool:
        """True once its instances exist."""
        return environment in self._instances

    def node(self, environment: str) -> Site:
        """Where more instances of the environment can be made, for a trial's own use."""
        planned = self.needs.environment(environment)
        return Site(
            self.tag,
            planned.provider,
            planned.resources,
            self.image_of(planned),
            self.agent,
            self.network,
        )

    def image_of(self, environment: Environment) -> Image | None:
        """What it runs from; None: the host's own files."""
        return self.images[environment.image] if environment.image else self.image

    def first(self, environment: str) -> Instance:
        """The first instance of an environment."""
        return self._instances[environment][0]

    def instances(self, environment: str) -> Sequence[Instance]:
        """All instances of an environment, whatever has become of them."""
        return tuple(self._instances.get(environment, ()))

    def obstacle(self, environment: str, case: Case) -> Reason | None:
        """Why the case cannot run there.

        An instance could not be made again or prepared, a program is missing, or too many trials
        failed alike.
        """
        unmade = (self._unmade.get(key) for key in self._keys_of(environment, case))
        return (
            next(filter(None, unmade), None)
            or self._broken.get((environment, case.key))
            or self._alike.verdict(environment, case.key)
        )

    async def preflight(self, environment: str, case: Case, teams: Sequence[Team]) -> None:
        """Before a case's first trial in instances: are its programs there at all?"""
        cell = (environment, case.key)
        if cell in self._looked:
            return
        self._looked.add(cell)
        if reason := await cannot_start(teams[0], case, self.seed):
            self._broken[cell] = reason
            self.warn("not-there", f"{case.key} in {environment} has no figures: {reason.message}")

    def note(self, trials: Iterable[Trial]) -> None:
        """How they ended; a cell that only fails is given up, which is said once."""
        for trial in trials:
            if verdict := self._alike.note(trial):
                cell = f"{trial.workload} in {trial.environment}"
                self.warn("cell-skipped", f"the rest of {cell} is skipped: {verdict.message}")

    def _keys_of(self, environment: str, case: Case) -> list[str]:
        """Keys of the environments whose instances a trial needs, its own first."""
        keys, partner = [environment], case.workload.partner(case.parameters)
        if self.needs.environment(environment).neighbour:
            keys.append(environment + NEIGHBOUR)
        if partner:
            keys.append(partner)
        if "host" in case.places:
            keys.append(self.needs.host_key(self.needs.environment(environment)))
        return list(dict.fromkeys(keys))

    async def teams(self, environment: str, case: Case, side: Side | None = None) -> list[Team]:
        """The teams of one trial, thawed and with their clocks read anew.

        side: of a duet; None: both. An instance that died in an earlier trial is made again here.
        """
        for key in self._keys_of(environment, case):
            if any(not instance.alive for instance in self._instances[key]):
                await self._destroy(key)
                await self._provision(key)
        teams = self._complete(environment, case)
        teams = teams if side is None else [teams[side]]
        try:
            await _all_at_once([m for team in teams for m in team.members], do=_wake)
            for team in teams:
                self._tell_clocks(team.members)
        except BaseException:
            await self.freeze(teams)
            raise
        return teams

    def _teams(self, environment: Environment, case: Case) -> list[Team]:
        """A team for each instance of the plan, or for each side of a duet.

        Where every instance plays a role, there is one team of all.
        """
        copies = self._copies_of(environment)
        if self.needs.duet:
            return [Team(instance) for instance in (*copies["instance"], *copies["side"])]
        none: list[None] = [None] * environment.instances
        teams = [
            Team(instance, second, away, each=copies["instance"])
            for instance, second, away in zip(
                copies["instance"],
                copies.get("second", none),
                copies.get("away", none),
                strict=True,
            )
        ]
        return teams[:1] if "each" in case.places else teams

    def _complete(self, environment: str, case: Case) -> list[Team]:
        """The environment's teams, each with its neighbours and with the instances of others."""
        tested = self.needs.environment(environment)
        teams = self._teams(tested, case)
        partner = case.workload.partner(case.parameters)
        none: list[None] = [None] * len(teams)
        hosts = self._instances.get(self.needs.host_key(tested), none)
        spares = self._copies_of(self.needs.environment(partner))["spare"] if partner else none
        neighbours = self._instances.get(environment + NEIGHBOUR, [])
        return [
            replace(team, host=host, partner=spare, neighbours=neighbours[i :: len(teams)]).only(
                case.places
            )
            for i, (team, host, spare) in enumerate(zip(teams, hosts, spares, strict=False))
        ]

    async def freeze(self, teams: Iterable[Team]) -> None:
        """End what the trial left running, and freeze the members that are alive.

        One that cannot be frozen would load the others' trials: it is removed, and made again when
        its turn comes.
        """
        members = [m for team in teams for m in team.members]
        self._tell_clocks(members)
        alive = [m for m in members if m.alive]
        if len(alive) == 1:  # who is alone needs no task of its own
            await self._sweep(alive[0])
        else:
            await asyncio.gather(*map(self._sweep, alive))

    def _tell_clocks(self, instances: Iterable[Instance]) -> None:
        """Write down the looks at their clocks."""
        for instance in instances:
            for look in instance.agent.take_looks():
                key = self._keys[instance.name]
                self.on_synchronised(trial_clocks.event(key, instance.name, look))

    async def _sweep(self, instance: Instance) -> None:
        try:
            outlived = await instance.agent.sweep()
            await instance.freeze()
        except (UllageError, OSError) as error:
            if instance.alive:
                self.warn("not-frozen", f"{instance.name} is made again: {error}")
            await self._put_away(instance)
            return
        if outlived and instance.name not in self._untidy:
            self._untidy.add(instance.name)
            self.warn(
                "left-running", f"processes outlived a trial in {instance.name}: {outlived}, ended"
            )

    def tell_held(self, name: str, instance: Instance, seconds: float) -> None:
        """Warn once of each instance where others held a program's output after its end."""
        if instance.name not in self._held:
            self._held.add(instance.name)
            self.warn(
                "output-held",
                f"processes held the output of {name} in {instance.name} for {seconds:.2f} s after "
                "its end, so the end was seen that much later",
            )

    async def give_up(self, instance: Instance, why: str) -> None:
        """Remove one that no trial can use any more; it is made again when its turn comes."""
        self.warn("not-ended", f"{instance.name} is made again: {why}")
        await self._put_away(instance)

    async def _put_away(self, instance: Instance) -> None:
        try:
            await instance.destroy()
        except Exception as error:  # whatever a provider's programs do: the others go too
            self.warn("not-removed", f"{instance.name} could not be removed in order: {error}")
            with suppress(UllageError, OSError):
                await instance.thaw()  # who stays must not stay frozen: it could not even end

    async def cleanup(self) -> None:
        """Run every workload's cleanup tasks, where there is still somebody to run them."""
        for environment in self.matrix.environments:
            for case in self.matrix.cases:
                keys = self._keys_of(environment.key, case)
                if not all(instance.alive for key in keys for instance in self._instances[key]):
                    continue
                try:
                    for team in await self.teams(environment.key, case):
                        await perform(team, case, self.seed, case.workload.cleanup)
                except (UllageError, OSError) as error:
                    self.warn("no-cleanup", f"{case.key} in {environment.key}: {error}")

    async def _provision(self, key: str) -> None:
        environment = self.needs.environment(key)
        started = time.monotonic()
        count = self.needs.count(environment)
        instances = await _all_or_none(
            [
                self._node(environment, index).create(self._order(environment, index))
                for index in range(count)
            ]
        )
        self._instances[key] = instances
        for index, instance in enumerate(instances):
            self._keys[instance.name] = key
            self._nodes[instance.name] = self.needs.node(environment, index)
            self.on_provisioned(
                Provisioned(
                    environment=key,
                    instance=instance.name,
                    generation=self.generation,
                    epoch_ns=now_ns(),
                    seconds=time.monotonic() - started,
                    facts=dict(instance.agent.facts),
                    clock=ProcessClock(**asdict(instance.agent.clock_claims)),
                )
            )
        self._tell_clocks(instances)
        try:
            await self._prepare(environment)
            await _all_at_once(instances, do=_freeze)
        except BaseException:
            await self._destroy(key)  # the next trial makes them again
            raise

    async def _prepare(self, environment: Environment) -> None:
        """Workspaces and preparation of every workload, in each instance that takes part."""
        mine = self._instances[environment.key]
        for case in self.matrix.cases:
            for result in await _in_turns([make_workspace(one, case) for one in mine]):
                if isinstance(result, BaseException):
                    raise result
            if environment.key not in self.matrix.keys:
                continue
            self._broken.pop((environment.key, case.key), None)
            self._looked.discard((environment.key, case.key))
            for team in self._teams(environment, case):
                reason = await perform(team, case, self.seed, case.workload.prepare)
                if reason:
                    self._broken[environment.key, case.key] = reason

    async def _destroy(self, key: str) -> None:
        await asyncio.gather(*(self._put_away(instance) for instance in self._instances[key]))

    def _copies_of(self, environment: Environment) -> dict[InstanceKind, list[Instance]]:
        """Kind → the instances of that kind."""
        remaining = iter(self._instances[environment.key])
        copies = self.needs.copies(environment)
        return {kind: list(itertools.islice(remaining, count)) for kind, count in copies.items()}

    def _root_of_all(self) -> Path | None:
        """Where the programs' files lie, for the names of functions; None where there are several
        images: nobody knows of which a path is.
        """
        images = map(self.image_of, self.matrix.environments)
        roots = {image.root if image else None for image in images}
        return roots.pop() if len(roots) == 1 else None

    def _node(self, environment: Environment, index: int) -> Node:
        """The machine of the instance with that number."""
        return self.roster.node(self.needs.node(environment, index))

    def _order(self, environment: Environment, index: int) -> Order:
        away = self.needs.kind(environment, index) == "away"
        return Order(
            provider=environment.provider,
            name=self._name(environment.key, index),
            resources=environment.resources,
            turn=self.needs.turn(environment, index) if environment.away else index,
            image=self.image_of(environment),
            place=None if environment.away else self.needs.place(environment, index),
            network=self._network_of(environment, away=away),
            joined=self._joined,
        )

    def _network_of(self, environment: Environment, *, away: bool) -> Network | None:
        """None: it is a cloud's, and what wants the run's network only makes more of its like."""
        networked = [case.workload for case in self.matrix.cases if case.places != {"instance"}]
        if environment.provider.elsewhere and all(isinstance(w, Conducted) for w in networked):
            return None
        return self.away if away else self.network

    def metered_on(self, members: Iterable[Instance]) -> Node | None:
        """The machine whose meters see all of them; None: they are on several."""
        names = {self._nodes[member.name] for member in members}
        return self.roster.node(names.pop()) if len(names) == 1 else None

    def _name(self, key: str, index: int) -> str:
        """A short name that no other environment of the run has."""
        if key not in self._names:
            base = instance_name(key)
            name, suffix = base, 2
            while name in self._names.values():
                name, suffix = f"{base}-x{suffix}", suffix + 1
            self._names[key] = name
        return f"{self._names[key]}-{index}"


async def _wake(instance: Instance) -> None:
    """Let it go on, and look at its clock, unless the provider has done so."""
    before = instance.agent.clock
    await instance.thaw()
    if instance.agent.clock is before:
        await instance.agent.sync()


async def _freeze(instance: Instance) -> None:
    await instance.freeze()


async def _all_at_once(
    instances: Iterable[Instance], *, do: Callable[[Instance], Awaitable[None]]
) -> None:
    """Do it to all at once; an instance that is lost on the way shows in its trial, not here."""
    todo = list(instances)
    if len(todo) == 1:  # who is alone needs no task of its own
        try:
            await do(todo[0])
        except Exception:
            if todo[0].alive:
                raise
        return
    results = await asyncio.gather(*map(do, todo), return_exceptions=True)
    for instance, result in zip(todo, results, strict=True):
        if isinstance(result, BaseException) and instance.alive:
            raise result


async def _in_turns(work: Sequence[Awaitable[T]]) -> list[T | BaseException]:
    """All of it, `AT_ONCE` at a time: what waits for its turn is not near its own deadline yet."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(part: Awaitable[T]) -> T:
        async with turns:
            return await part

    return await asyncio.gather(*map(one, work), return_exceptions=True)


async def _all_or_none(coroutines: Sequence[Awaitable[Instance]]) -> list[Instance]:
    """Make several instances at once; when one fails, the others are removed again."""
    results = await _in_turns(coroutines)
    instances = [r for r in results if isinstance(r, Instance)]
    for result in results:
        if isinstance(result, BaseException):
            await asyncio.gather(*(instance.destroy() for instance in instances))
            raise result
    return instances
