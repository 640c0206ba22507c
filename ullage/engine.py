"""Runs a plan: provision, prepare, blocks of trials, tear down; the journal hears it all."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ullage import __version__, host, image, leftovers, parity, places, schedule, trial
from ullage.agent import binary
from ullage.estimate import History, learn_from, provision_key
from ullage.fleet import HOST, Fleet, nuisances
from ullage.folder import RunFolder
from ullage.journal import RESOLVED, Journal, now_ns
from ullage.matrix import Environment, Load, Matrix, packages
from ullage.plan import Plan
from ullage.runs import (
    BlockDone,
    EnvironmentRecord,
    Finished,
    ImageRecord,
    Metric,
    Parity,
    Provisioned,
    Resolved,
    Started,
    Trial,
    Warned,
    WorkloadRecord,
)
from ullage.stats.stop import StopRule

DIVERGED = "run-changed"


class Progress(Protocol):
    """Who is told how a run goes on."""

    def step(self, text: str) -> None:
        """A stage of the set-up began."""

    def trial(self, done: Trial, number: int, of_block: int) -> None:
        """A trial ended."""

    def block(self, number: int, most: int, half_width: float | None) -> None:
        """A block ended; the widest primary interval so far, relative."""

    def warning(self, text: str) -> None:
        """Something the user should know now."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    folder: Path
    reason: str
    blocks: int
    trials: int
    failed: int


class Engine:
    """One execution of one plan, or its resumption."""

    def __init__(
        self, plan: Plan, matrix: Matrix, folder: Path, progress: Progress, *, resume: bool = False
    ) -> None:
        self.plan, self.matrix, self.folder, self.progress = plan, matrix, folder, progress
        self.earlier = _earlier(folder) if resume else None
        self.tag = places.new_tag()
        self.began = time.monotonic()
        self.trials: dict[str, Trial] = (
            {done.trial: done for done in self.earlier.trials} if self.earlier else {}
        )
        self.spent_s = sum(b.seconds for b in self.earlier.blocks) if self.earlier else 0.0
        self.seed = self._seed()
        self.history = History()
        self.parity: tuple[Parity, ...] = ()
        self.image: ImageRecord | None = None
        self.journal: Journal
        self.fleet: Fleet

    async def run(self) -> Outcome:
        """Run to the end, an error or a cancellation; whatever was made is removed again."""
        reason, message = "failed", ""
        with Journal(self.folder) as self.journal:
            places.claim(self.tag, str(self.folder))
            try:
                await self._started()
                async with self._provisioned():
                    reason = await self._blocks()
            except asyncio.CancelledError:
                reason = "interrupted"
                raise
            except Exception as error:
                message = str(error)[:2000]
                raise
            finally:
                await asyncio.shield(self._tear_down())
                self._finished(reason, message)
        return self._outcome(reason)

    def _seed(self) -> int:
        if self.earlier:
            return self.earlier.resolved.seed
        return random.SystemRandom().getrandbits(48) if self.plan.seed is None else self.plan.seed

    async def _started(self) -> None:
        self.journal.append(
            Started(
                epoch_ns=now_ns(),
                start_ns=time.monotonic_ns(),
                pid=os.getpid(),
                resumed=self.earlier is not None,
                boot_id=places.boot_id(),
            )
        )
        if self.earlier:
            await self._remove(self.earlier.resolved.tag)

    @contextlib.asynccontextmanager
    async def _provisioned(self) -> AsyncIterator[None]:
        """Everything up, compared and written down."""
        self.progress.step("checking what this host can do")
        for environment in self.matrix.environments:
            await environment.provider.check()
        built = await self._image()
        self._write_resolved()
        self.fleet = Fleet(self.tag, self.matrix, built, binary(), self.seed, self._on_provisioned)
        self.progress.step(f"starting {len(self.matrix.environments)} environments")
        await self.fleet.start()
        found = {e.key: nuisances(self.fleet, e) for e in self.matrix.environments}
        self.parity = parity.compare(found, self.plan.allow)
        self._write_resolved()
        yield
        await self.fleet.cleanup()

    def _on_provisioned(self, event: Provisioned) -> None:
        self.journal.append(event)
        if event.environment != HOST:
            provider = self.matrix.environment(event.environment).provider
            self.history.learn(provision_key(provider.name), event.seconds)

    async def _image(self) -> image.Image | None:
        """Find or build what everything runs from, with every program that the workloads need."""
        programs = sorted({p for load in self.matrix.loads for p in load.workload.programs})
        if self.plan.image == "host":
            self.image = await asyncio.to_thread(image.host_image, programs)
            return None
        self.progress.step("building the image (once; cached afterwards)")
        built = await image.build(packages(self.matrix))
        built.require(programs)
        self.image = built.record()
        old = self.earlier.resolved.image if self.earlier else None
        if old and old.digest != built.digest:
            self._warn(DIVERGED, f"the image was {old.digest}, is now {built.digest}")
        return built

    async def _blocks(self) -> str:
        """Run blocks until a rule says stop; returns which one."""
        blocks = self.plan.blocks
        until = blocks.until.half_width if blocks.until else None
        rule = StopRule(blocks.min, blocks.max, until, confidence=self.plan.confidence)
        number = 0
        while True:
            decision = rule.decide(self._log_ratios(number), number)
            if number:
                self.progress.block(number, blocks.max, decision.widest_half_width)
            if decision.stop:
                return "precision" if decision.reason == "precision" else "blocks"
            if number >= blocks.min and self._over_budget(number):
                return "budget"
            await self._block(number)
            number += 1

    async def _block(self, number: int) -> None:
        began = time.monotonic()
        slots = schedule.block(
            self.seed,
            number,
            [e.key for e in self.matrix.environments],
            [load.key for load in self.matrix.loads],
        )
        todo = [slot for slot in slots if slot.trial not in self.trials]
        for slot in todo:
            done = await trial.run(
                self.fleet,
                self.matrix.load(slot.workload),
                slot,
                self.journal.trial_folder(slot.trial),
                seed=self.seed + number,
            )
            self.journal.append(done)
            self.trials[done.trial] = done
            self.progress.trial(done, slot.order + 1, len(slots))
        if todo:
            seconds = time.monotonic() - began
            self.spent_s += seconds
            self.journal.append(BlockDone(block=number, epoch_ns=now_ns(), seconds=seconds))

    def _over_budget(self, blocks: int) -> bool:
        budget = self.plan.blocks.budget
        if budget is None:
            return False
        earlier = sum(b.seconds for b in self.earlier.blocks) if self.earlier else 0.0
        spent = earlier + time.monotonic() - self.began
        return spent + self.spent_s / blocks > budget

    def _log_ratios(self, blocks: int) -> dict[str, list[float]]:
        """Comparison → log ratios of the blocks so far, above 0 worse; for the stop rule."""
        cells: dict[tuple[str, int], dict[str, Trial]] = defaultdict(dict)
        for done in self.trials.values():
            if done.status == "ok" and done.block < blocks:
                cells[done.workload, done.block][done.environment] = done
        found: dict[str, list[float]] = defaultdict(list)
        for load in self.matrix.loads:
            for environment in self._compared():
                for metric in (m for m in load.workload.metrics if m.primary):
                    key = f"{environment.key}/{load.key}/{metric.name}"
                    found[key] = []
                    for block in range(blocks):
                        pair = cells[load.key, block]
                        if environment.key in pair and self.matrix.baseline in pair:
                            found[key].append(
                                log_ratio(metric, pair[environment.key], pair[self.matrix.baseline])
                            )
        return found

    def _compared(self) -> Iterable[Environment]:
        return [
            e
            for e in self.matrix.environments
            if e.key != self.matrix.baseline and e.again_of is None
        ]

    async def _tear_down(self) -> None:
        if hasattr(self, "fleet"):
            self.progress.step("removing the environments")
            await self.fleet.stop()
        await self._remove(self.tag)

    async def _remove(self, tag: str) -> None:
        """Remove whatever carries the tag; what stays is said, for `ullage clean` to try again."""
        found = await asyncio.to_thread(leftovers.find, tag, own=True)
        for left, why in await asyncio.to_thread(leftovers.remove, found):
            self._warn("not-removed", f"{left.kind} {left.name} could not be removed: {why}")

    def _finished(self, reason: str, message: str) -> None:
        self.journal.append(
            Finished.model_validate(
                {
                    "epoch_ns": now_ns(),
                    "seconds": time.monotonic() - self.began,
                    "reason": reason,
                    "message": message,
                }
            )
        )
        providers = {e.key: e.provider.name for e in self.matrix.environments}
        learn_from(self.history, providers, self.trials.values())
        self.history.save()

    def _outcome(self, reason: str) -> Outcome:
        trials = list(self.trials.values())
        return Outcome(
            folder=self.folder,
            reason=reason,
            blocks=len({done.block for done in trials}),
            trials=len(trials),
            failed=sum(done.status != "ok" for done in trials),
        )

    def _warn(self, code: str, text: str) -> None:
        self.journal.append(Warned(epoch_ns=now_ns(), code=code, message=text))
        self.progress.warning(text)

    def _write_resolved(self) -> None:
        self.journal.resolve(
            Resolved(
                ullage=__version__,
                run=self.folder.name,
                tag=self.tag,
                name=self.plan.name,
                seed=self.seed,
                baseline=self.matrix.baseline,
                confidence=self.plan.confidence,
                margin=self.plan.margin,
                resources=self.plan.resources.model_dump(),
                blocks=self.plan.blocks.model_dump(),
                environments=tuple(self._environment_record(e) for e in self.matrix.environments),
                workloads=tuple(workload_record(load) for load in self.matrix.loads),
                parity=self.parity,
                image=self.image,
                host=host.facts(),
            )
        )

    def _environment_record(self, environment: Environment) -> EnvironmentRecord:
        provider = environment.provider
        up = hasattr(self, "fleet") and self.fleet.up(environment.key)
        again = environment.again_of is not None
        factors = ", ".join(f"{k} {v}" for k, v in environment.factors.items())
        label = provider.label() + (f", {factors}" if factors else "")
        return EnvironmentRecord(
            key=environment.key,
            label=label + (", again" if again else ""),
            provider=provider.name,
            options=provider.options.model_dump(mode="json"),
            factors=dict(environment.factors),
            again_of=environment.again_of,
            emulated=provider.emulated,
            treatments=provider.treatments(),
            nuisances=dict(nuisances(self.fleet, environment)) if up else {},
            facts=dict(self.fleet.first(environment.key).agent.facts) if up else {},
        )


def _earlier(folder: Path) -> RunFolder | None:
    """The run to take up; None when it was killed before it had anything to keep."""
    if folder.is_dir() and not (folder / RESOLVED).exists():
        return None
    return RunFolder.open(folder)


def workload_record(load: Load) -> WorkloadRecord:
    """A workload as it goes into the run folder, with the definitions of its metrics."""
    return WorkloadRecord(
        key=load.key,
        workload=load.workload.name,
        resource=load.workload.resource,
        title=load.workload.title(load.parameters),
        parameters=load.parameters.model_dump(mode="json"),
        factors=dict(load.factors),
        metrics=load.workload.metrics,
        duration_s=load.workload.duration_s(load.parameters),
    )


def log_ratio(metric: Metric, environment: Trial, baseline: Trial) -> float:
    """Log of the ratio to the baseline, above 0 is worse; of a curve: the mean along it."""
    mine, theirs = environment.metrics[metric.name], baseline.metrics[metric.name]
    if isinstance(mine, list) and isinstance(theirs, list):
        points = dict(theirs)
        ratios = [math.log(y / points[x]) for x, y in mine if x in points]
        raw = math.fsum(ratios) / len(ratios) if ratios else math.nan
    elif not isinstance(mine, list) and not isinstance(theirs, list):
        raw = math.log(mine / theirs)
    else:
        raise TypeError(f"{metric.name} is a curve in one trial and a number in the other")
    return -raw if metric.better == "higher" else raw
