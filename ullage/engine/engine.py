"""Runs a plan: provision, prepare, blocks of trials, tear down; the journal hears it all."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ullage import __version__
from ullage.common.errors import RUN_BAD_FORMAT, RUN_CHANGED, UllageError
from ullage.common.quantities import format_seconds, many
from ullage.engine import resolved
from ullage.engine.estimate import DurationHistory, learn_from, provision_key
from ullage.engine.fleet import Fleet
from ullage.engine.progress import Progress, RunOutcome
from ullage.engine.resolved import programs
from ullage.engine.session import Session
from ullage.engine.turn import run as run_turn
from ullage.environments.agent.client import binary
from ullage.host import facts, image, storage
from ullage.host.paths import data_dir
from ullage.meters.energy import metering
from ullage.nodes.roster import Roster
from ullage.plan import schedule
from ullage.plan.image import environment_images, planned_image
from ullage.plan.matrix import Matrix, artifacts, needed_programs
from ullage.plan.meters import idle_s
from ullage.plan.schema import ContainerImage, Plan
from ullage.runs.events import (
    BlockDone,
    CellLeft,
    Finished,
    Judged,
    Provisioned,
    Recalled,
    Synchronised,
    Trial,
)
from ullage.runs.leaving import absent, returning
from ullage.runs.pairs import PairsSoFar
from ullage.runs.reader import RunFolder, sessions
from ullage.runs.records import FORMAT, RESOLVED, TRIALS, ImageRecord, Parity, Resolved
from ullage.runs.room import Room
from ullage.runs.writer import Journal, now_ns
from ullage.stats import RULES
from ullage.stats.stop import Race, StopRule

_HASHED_AT_ONCE: Final = 1 << 16
"""Bytes of outputs; more are hashed beside what else goes on meanwhile."""

Judge = Callable[[RunFolder], tuple[CellLeft, ...]]
"""Who says, of a run as its folder has it, which cells are decided and leave now."""


class Engine(Session):
    """One execution of one plan, or its resumption."""

    ended = Finished

    def __init__(
        self,
        plan: Plan,
        matrix: Matrix,
        folder: Path,
        progress: Progress,
        *,
        resume: bool = False,
        judge: Judge | None = None,
    ) -> None:
        """judge: needed by a plan that races, and asked by no other."""
        super().__init__(folder, progress.warning)
        self.plan, self.matrix, self.progress = plan, matrix, progress
        self.resume, self.judge = resume, judge
        if plan.blocks.races and judge is None:
            raise ValueError("nobody judges which comparisons leave")
        self.moves: list[Judged | Recalled] = []
        """The looks so far and what was called back between them, of earlier sessions too."""
        self.recalled: Recalled | None = None
        """By this session."""
        self.earlier: RunFolder | None = None
        self.trials: dict[str, Trial] = {}
        self._of_block: dict[int, list[Trial]] = {}
        """Of the blocks that are not paired yet."""
        self._paired: PairsSoFar | None = None
        self._paired_blocks = 0
        self.spent_s = 0.0
        self.seed = random.SystemRandom().getrandbits(48) if plan.seed is None else plan.seed
        self.history = DurationHistory()
        self.parity: tuple[Parity, ...] = ()
        self.image: ImageRecord | None = None
        self.images: Mapping[ContainerImage, image.Image] = {}
        """Those that environments have of their own."""
        self.fleet: Fleet | None = None
        self.roster: Roster
        self.room: Room
        self.metering = metering.Metering(matrix.meters, self.tag, folder, self._warn)

    async def run(self) -> RunOutcome:
        """Run to the end, an error or a cancellation; whatever was made is removed again."""
        with Journal(self.folder) as self.journal:
            self._take_up()
            if over := self._over():
                return self._outcome(over)
            self.room = Room(self.folder, self.plan.outputs)
            await self._work_to_the_end()
        return self._outcome(self.reason)

    async def _work(self) -> None:
        before = sessions(self.folder)
        self.roster = Roster(
            self.matrix.nodes,
            self.tag,
            self.folder.name,
            [session.tag for session in before],
            binary(),
        )
        await self._begin(before, resumed=self.earlier is not None)
        async with self._provisioned() as fleet:
            self._watch_disks()
            await self._idle()
            self.reason = await self._blocks(fleet)
            await self.metering.stop()

    def _watch_disks(self) -> None:
        """Those of `/data`: what is low now, when all is prepared, is said."""
        paths = [cell.provider.data_request.path for cell in self.matrix.environments]
        chosen = [storage.base(self.tag, path) for path in paths if path is not None]
        for error in self.room.watch(filter(Path.is_dir, [*chosen, data_dir(self.tag)])):
            free, path = error.facts["free"], error.facts["path"]
            self._warn(
                "disk-low",
                f"the disk of {path} has {free} left with all prepared: programs that write more"
                " may fail, and what is nearly full is slow",
            )

    def _take_up(self) -> None:
        """What earlier sessions have done. RUN_BAD_FORMAT where some of it is missing."""
        if not self.resume:
            return
        if not (self.folder / RESOLVED).exists():
            if any((self.folder / TRIALS).glob("*")):
                raise UllageError(
                    RUN_BAD_FORMAT, path=self.folder, format=FORMAT, reason=f"{RESOLVED} is missing"
                )
            return  # it was stopped before the first trial
        self.earlier = RunFolder.open(self.folder)
        self.seed = self.earlier.resolved.seed
        for done in self.earlier.trials:
            self._keep(done)
        self.moves = list(self.earlier.moves)
        self._recall(self.earlier)
        self.spent_s = self.earlier.spent_s

    def _recall(self, earlier: RunFolder) -> None:
        """What left without a verdict comes back where more blocks are allowed now."""
        if self.plan.blocks.max <= int(earlier.resolved.blocks.get("max") or 0):
            return
        begun = 1 + max((trial.block for trial in earlier.trials), default=-1)
        environments = {e.key: e.again_of for e in self.matrix.environments}
        workloads = [case.key for case in self.matrix.cases]
        gone = absent(self.moves, begun)
        if back := returning(gone.values(), environments, self.matrix.baseline, workloads):
            self.recalled = Recalled(epoch_ns=now_ns(), blocks=begun, cells=back)
            self.moves.append(self.recalled)

    def _over(self) -> str | None:
        """Why there is nothing left to do, when the run has ended and its plan allows no more."""
        if self.earlier is None or self.earlier.finished is None:
            return None
        old, now = self.earlier.resolved.blocks, self.plan.blocks.model_dump()
        reason = self.earlier.finished.reason
        settled = reason == "verdicts" and self.recalled is None
        ended = settled or (reason in ("precision", "blocks", "budget") and old == now)
        # With another plan it is not this run that is over: that is refused as ever.
        another_plan = resolved.planned_otherwise(self.earlier.resolved, self.plan, self.matrix)
        return reason if ended and not another_plan else None

    @contextlib.asynccontextmanager
    async def _provisioned(self) -> AsyncIterator[Fleet]:
        """Everything up, compared and written down."""
        self.progress.step("checking what this host can do")
        await self.roster.open()
        self._warn_of_remains()
        for environment in self.matrix.environments:
            nodes = (*environment.nodes, *environment.other_nodes)
            await self.roster.check(environment.provider, nodes)
        for meter, error in await metering.absent(self.matrix.meters):
            if not meter.optional:
                raise error
        built = await self._image()
        await self._spread(built)
        await self.metering.open()
        if self.earlier is None:
            self._write_resolved()
        else:
            self._compare(self.earlier.resolved)
        if self.recalled is not None:
            # Before the larger `max` is written down, by which a kill would make it forgotten.
            self.journal.append(self.recalled)
        self._meter()
        self.fleet = fleet = Fleet(
            self.tag,
            self.matrix,
            built,
            self.images,
            binary(),
            self.seed,
            self._on_provisioned,
            self._on_synchronised,
            self._warn,
            roster=self.roster,
            generation=self._generation(self._first_block()),
        )
        self.progress.step(f"starting {many(len(self.matrix.environments), 'environment')}")
        await fleet.start()
        nuisances = {e.key: resolved.nuisances(e, fleet) for e in self.matrix.environments}
        self.parity = resolved.compare(nuisances, self.plan.allow)
        self._write_resolved()
        yield fleet
        await fleet.cleanup()

    async def _spread(self, built: image.Image | None) -> None:
        """See that every node works from the same image, or has the same packages of its own.

        An environment's own image goes to the nodes that it stands on. PARITY_UNEQUAL where their
        own userlands differ and the plan does not allow it.
        """
        if not self.roster.away:
            return
        for environment in self.matrix.environments:
            if environment.image and environment.away:
                self.progress.step(f"sending the image of {environment.key}")
                nodes = (*environment.nodes, *environment.other_nodes)
                await self.roster.take(self.images[environment.image], nodes)
        if built is not None:
            self.progress.step(f"sending the image to {many(len(self.roster.away), 'node')}")
            await self.roster.take(built, list(self.roster.nodes))
        if self.image is None or built is not None:
            return
        packages = await self.roster.packages(needed_programs(self.matrix))
        resolved.compare_userlands(packages, self.plan.allow)

    def _warn_of_remains(self) -> None:
        for node in self.roster.away:
            for text in node.not_removed:
                self._warn("not-removed", f"{node.name}: {text}")

    def _meter(self) -> None:
        """Read the energy meters that are there, from now on."""
        self.metering.start()
        if meters := self.metering.in_words():
            self.progress.step(f"reading the energy meters {meters}")
            if self.plan.design == "duet":
                self._warn(metering.NOT_PER_TRIAL, metering.TWO_AT_ONCE)

    async def _idle(self) -> None:
        """Let the host be idle before the first block, so that its meters see what that takes."""
        seconds = idle_s(self.plan)
        if seconds and self.metering.in_words():
            self.progress.step(f"resting {format_seconds(seconds)}, for the idle power")
            self.journal.append(await self.metering.idle(seconds))

    def _on_provisioned(self, event: Provisioned) -> None:
        self.journal.append(event)
        if event.environment in self.matrix.keys:
            provider = self.matrix.environment(event.environment).provider
            self.history.learn(provision_key(provider.name), event.seconds)

    def _on_synchronised(self, event: Synchronised) -> None:
        """On the disk with the trial that it belongs to."""
        self.journal.append(event, wait=False)

    async def _image(self) -> image.Image | None:
        """Find or build what everything runs from, with every program that the workloads need.

        None: the host's own files, or every environment has an image of its own.
        """
        programs = needed_programs(self.matrix)
        self.images = await environment_images(
            self.matrix, lambda text: self.progress.step(f"image: {text}")
        )
        for own in self.images.values():
            own.require(programs)
            await own.verify()
        if all(environment.image for environment in self.matrix.environments):
            return None
        if self.plan.image == "host":
            image.require_on_host(programs, artifacts(self.matrix))
            self.image = await asyncio.to_thread(image.host_image, programs)
            return None
        self.progress.step("finding the image (built once, then cached)")
        built = await planned_image(
            self.plan, self.matrix, lambda text: self.progress.step(f"image: {text}")
        )
        built.require(programs)
        await built.verify()
        self.image = built.record()
        return built

    def _compare(self, old: Resolved) -> None:
        """What a run is made of must be what it was: its trials are paired and averaged."""
        now = self._resolved()
        if changed := resolved.changed(old, now):
            raise UllageError(RUN_CHANGED, path=self.folder, what=", ".join(changed))
        self._warn_of_changes(resolved.moved(old, now))

    async def _blocks(self, fleet: Fleet) -> str:
        """Run blocks until a rule says stop; returns which one.

        Where instances are made anew, the rule counts generations and looks only between two: their
        means are what the intervals rest on.
        """
        blocks, step = self.plan.blocks, self.plan.repeat.instances or 1
        until = blocks.until.half_width if blocks.until else None
        rule = StopRule(
            blocks.min // step, blocks.max // step, until, confidence=self.plan.confidence
        )
        number, width = 0, None
        while True:
            over: str | None = None
            if number % step == 0:
                decision = rule.decide(self._log_ratios(number), number // step)
                width, over = decision.widest_half_width, decision.reason
                if not over and number >= blocks.min and self._over_budget(number, step):
                    over = "budget"
            if number:
                self.progress.block(number, blocks.max, width)
            if blocks.races and await self._nothing_left(number, step, over):
                return "verdicts"
            if over:
                return over
            await self._block(fleet, number)
            number += 1

    async def _nothing_left(self, number: int, step: int, over: str | None) -> bool:
        """Judge where it is time to, or the run ends; True when every comparison has left."""
        blocks = self.plan.blocks
        race = Race.between(blocks.min // step, blocks.max // step)
        last = max((look.blocks for look in self.moves if isinstance(look, Judged)), default=0)
        due = race.next_look(last // step)
        if number > last and (over or (due is not None and number == due * step)):
            assert self.judge is not None
            # The meters go on while it is computed.
            left = await asyncio.to_thread(self.judge, RunFolder.open(self.folder))
            look = Judged(epoch_ns=now_ns(), blocks=number, left=left)
            self.journal.append(look)
            self.moves.append(look)
            self._say_who_left(look)
        return number > 0 and not self._turns(number)

    def _say_who_left(self, look: Judged) -> None:
        """Who left at it."""
        for undecided, words in ((False, "decided"), (True, "a verdict is unlikely")):
            cells = [cell for cell in look.left if cell.undecided == undecided]
            if cells:
                text = ", ".join(f"{cell.workload} in {cell.environment}" for cell in cells)
                self.progress.step(f"{words} after {many(look.blocks, 'block')}: {text}")

    def _turns(self, number: int) -> tuple[schedule.Turn, ...]:
        """What a block runs: all that has not left before it."""
        return self.matrix.turns(self.seed, number, absent(self.moves, number).keys())

    async def _block(self, fleet: Fleet, number: int) -> None:
        began = time.monotonic()
        turns = self._turns(number)
        todo = [turn for turn in turns if any(slot.trial not in self.trials for slot in turn)]
        if todo and fleet.generation != self._generation(number):
            self.progress.step(f"making all instances anew, after {many(number, 'block')}")
            await fleet.renew(self._generation(number))
        for turn in todo:
            self.room.check()
            folders = [self.journal.trial_folder(slot.trial) for slot in turn]
            trials = await run_turn(
                fleet,
                self.matrix.case(turn[0].workload),
                turn,
                folders,
                seed=self.seed + number,
                iterations=self.plan.repeat.iterations,
            )
            if self.room.add(*folders) <= _HASHED_AT_ONCE:
                trials = self._with_digests(trials)
            else:
                trials = await asyncio.to_thread(self._with_digests, trials)
            self.journal.append(*trials)
            self.metering.check()
            for done in trials:
                self._keep(done)
                self.progress.trial(done, done.order + 1, sum(map(len, turns)))
        if todo:
            seconds = time.monotonic() - began
            self.spent_s += seconds
            self._look_for_others()
            self.journal.append(BlockDone(block=number, epoch_ns=now_ns(), seconds=seconds))

    def _keep(self, done: Trial) -> None:
        self.trials[done.trial] = done
        self._of_block.setdefault(done.block, []).append(done)

    def _with_digests(self, trials: Sequence[Trial]) -> list[Trial]:
        """With what tells later whether their raw outputs are as they were."""
        digests = self.journal.digests
        return [
            trial.model_copy(update={"files": digests(self.folder / TRIALS / trial.trial)})
            for trial in trials
        ]

    def _generation(self, block: int) -> int:
        return schedule.generation(block, self.plan.repeat.instances)

    def _first_block(self) -> int:
        """The first that has anything left to do."""
        number = 0
        while (turns := self._turns(number)) and all(
            slot.trial in self.trials for turn in turns for slot in turn
        ):
            number += 1
        return number

    def _over_budget(self, blocks: int, more: int) -> bool:
        """Would so many more blocks end too late?"""
        budget = self.plan.blocks.budget
        if budget is None:
            return False
        earlier = self.earlier.spent_s if self.earlier else 0.0
        spent = earlier + time.monotonic() - self.began
        trial_s = self.spent_s / len(self.trials)
        return spent + more * trial_s * sum(map(len, self._turns(blocks))) > budget

    def _log_ratios(self, blocks: int) -> dict[str, Sequence[float]]:
        """Comparison → log-ratios of so many blocks or their generations, above 0 worse.

        A block that was looked at is not looked at again.
        """
        if self._paired is None:
            self._paired = PairsSoFar(
                self.matrix.baseline,
                [
                    e.key
                    for e in self.matrix.environments
                    if e.key != self.matrix.baseline and e.again_of is None
                ],
                {case.key: case.metrics for case in self.matrix.cases},
            )
        for block in range(self._paired_blocks, blocks):
            self._paired.add(self._of_block.pop(block, ()))
        self._paired_blocks = blocks
        return self._paired.log_ratios()

    async def _tear_down(self) -> None:
        """Remove everything, in order where that works, by its tag where not."""
        try:
            await self.metering.stop()
            if self.fleet:
                self.progress.step("removing the environments")
                await self.fleet.stop()
            await self.roster.close()
        except Exception as error:  # whatever it is, the rest must go too
            self._warn("not-removed", f"the environments could not be removed in order: {error}")
        finally:
            await self._remove(self.tag)

    def _end(self, message: str) -> None:
        super()._end(message)
        providers = {e.key: e.provider.name for e in self.matrix.environments}
        learn_from(self.history, providers, self.trials.values())
        self.history.save()

    def _outcome(self, reason: str) -> RunOutcome:
        trials = list(self.trials.values())
        return RunOutcome(
            folder=self.folder,
            reason=reason,
            blocks=len({done.block for done in trials}),
            trials=len(trials),
            failed=sum(done.status != "ok" for done in trials),
        )

    def _write_resolved(self) -> None:
        self.journal.resolve(self._resolved())

    def _resolved(self) -> Resolved:
        return Resolved(
            ullage=__version__,
            rules=RULES,
            run=self.folder.name,
            tag=self.tag,
            name=self.plan.name,
            seed=self.seed,
            baseline=self.matrix.baseline,
            confidence=self.plan.confidence,
            margin=self.plan.margin,
            resources=self.plan.resources.model_dump(),
            network=self.plan.network and self.plan.network.model_dump(),
            blocks=self.plan.blocks.model_dump(),
            repeat=self.plan.repeat.model_dump(),
            design=self.plan.design,
            correction=self.plan.correction,
            environments=tuple(
                resolved.environment(
                    e, self.matrix, self.fleet, self.images[e.image].record() if e.image else None
                )
                for e in self.matrix.environments
            ),
            workloads=tuple(resolved.workload(case) for case in self.matrix.cases),
            meters=resolved.meters(),
            energy_meters=self.metering.records(),
            parity=self.parity,
            image=self.image,
            programs=programs([binary()]),
            host=facts.facts(),
            labels=self.plan.labels if self.earlier is None else self.earlier.resolved.labels,
            nodes=resolved.nodes(self.matrix, self.roster),
        )
