"""One repetition: a front, nodes that come and go, viewers from the first to the last."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ullage import meters
from ullage.common import sums
from ullage.common.errors import ELASTIC_TOO_LONG, UllageError
from ullage.common.files import put
from ullage.common.quantities import many
from ullage.common.text import instance_name
from ullage.engine import resolved
from ullage.experiments.elastic.folder import (
    CONTROLLER_LOG,
    FRONT_LOG,
    OUTCOME,
    SESSIONS,
    RepetitionOutcome,
    Status,
    repetition_folder,
)
from ullage.experiments.elastic.plan import units
from ullage.experiments.elastic.plan.hold import Hold
from ullage.experiments.elastic.plan.schema import COMING, ElasticPlan, NodeEnvironment
from ullage.experiments.elastic.plan.units import Scaled
from ullage.experiments.elastic.run.controller import Acts, Controller, Maker
from ullage.experiments.elastic.run.front import Front, moving, shared_clock, silence
from ullage.experiments.elastic.run.generators import GeneratorFleet, Machines
from ullage.experiments.elastic.run.viewers import AnyViewers, Viewers, ViewersOutcome
from ullage.host import clock
from ullage.host.network.bridge import Network
from ullage.runs.events import Reason
from ullage.runs.records import Metered
from ullage.runs.writer import disk_full_as_error, now_ns
from ullage.workloads.web.clip import Clip

TRACE: Final = "arrivals.txt"
_SETTLE_S: Final = 60.0
_LOOK_S: Final = 0.05
_CHUNK_S: Final = 0.5
"""Seconds of video in a viewer's request."""
_LEAST_CHUNK: Final = 1024
_ASKS: Final = 10
"""How often a viewer asks whose nodes die: the front may send it to a dead one until it hears."""


@dataclass(frozen=True)
class RunSetup:
    """What all repetitions of a run share."""

    plan: ElasticPlan
    folder: Path
    """Of the run."""
    tag: str
    seed: int
    network: Network
    makers: dict[str, Callable[[str, Path], Maker]]
    """Environment → who makes its nodes, for what their names begin with and a film."""
    clip: Clip
    machines: Machines | None = None
    """From which the viewers come; None: from this host."""
    beyond: tuple[str, ...] = ()
    """The networks of the run on other machines."""

    @property
    def scaled(self) -> Scaled:
        """The plan in real time."""
        return Scaled(self.plan)

    def maker(self, environment: NodeEnvironment, repetition: int) -> Maker:
        """Who makes the nodes of a repetition; none has a name that another has."""
        # The last word that is no number: a node and its attempt are written after it.
        prefix = f"{instance_name(environment.key)}-{self._number(environment, repetition)}"
        return self.makers[environment.key](prefix, self.clip.file)

    def viewers(self, environment: NodeEnvironment, repetition: int, folder: Path) -> AnyViewers:
        """Who watches in a repetition."""
        if self.machines is None:
            return Viewers(folder, self.tag)
        prefix = f"generator-of-{self._number(environment, repetition)}"
        return GeneratorFleet(self.machines, prefix, folder, self.scaled.repetition_s)

    def _number(self, environment: NodeEnvironment, repetition: int) -> str:
        return f"{list(self.makers).index(environment.key)}r{repetition}"


def seed_of(run: int, repetition: int) -> int:
    """Of the arrivals of a repetition: the same for all its environments, so that these pair."""
    return (run * 1_000_003 + repetition * 7919 + 1) % (1 << 53)


@dataclass
class RunningRepetition:
    """One of one environment."""

    setting: RunSetup
    environment: NodeEnvironment
    number: int
    order: int
    maker: Maker | None = None
    """Other than the setting's."""
    front: Front = field(init=False)
    controller: Controller = field(init=False)
    viewers: AnyViewers = field(init=False)
    unsettled: list[str] = field(default_factory=list, init=False)
    """When nodes still came or went although nothing was left to wait for."""

    def __post_init__(self) -> None:
        run = self.setting.folder
        self.folder = repetition_folder(run, self.environment.key, self.number)
        self.viewers = self.setting.viewers(self.environment, self.number, self.folder)

    async def run(self) -> RepetitionOutcome:
        """Run it; whatever goes wrong with it is its outcome, which is on the disk then.

        A cancellation goes through, after everything was removed.
        """
        with disk_full_as_error(self.folder):
            shutil.rmtree(self.folder, ignore_errors=True)  # of an attempt that was interrupted
            self.folder.mkdir(parents=True)
        epoch_ns, start_ns, end_ns = now_ns(), clock.ordered_ns(), None
        status: Status = "ok"
        reason: Reason | None = None
        readings: Metered = {}
        try:
            with meters.metered() as readings:
                summary = await self._work()
            if self.setting.beyond:  # they are of this machine, and the nodes are on others too
                readings = {}
            start_ns, end_ns = summary.started_ns, summary.ended_ns
            reason = self._doubt(summary)
            status = "ok" if reason is None else "invalid"
        except (UllageError, OSError) as error:
            status, reason = "failed", _reason(error)
        outcome = RepetitionOutcome(
            environment=self.environment.key,
            repetition=self.number,
            order=self.order,
            seed=seed_of(self.setting.seed, self.number),
            status=status,
            reason=reason,
            notes=tuple(self._notes()),
            epoch_ns=epoch_ns,
            start_ns=start_ns,
            end_ns=clock.ordered_ns() if end_ns is None else end_ns,
            clock=resolved.own_clock(),
            clock_bound_ns=max(clock.promise().ordered_ns or 0, self.viewers.clock_bound_ns),
            meters=readings if status == "ok" else {},
        )
        with disk_full_as_error(self.folder):
            put(self.folder / OUTCOME, sums.sealed(outcome.model_dump_json(indent=1).encode()))
        return outcome

    def _doubt(self, summary: ViewersOutcome) -> Reason | None:
        """Why what was measured means nothing; None: it does."""
        if not summary.valid:
            return Reason(code="viewers-invalid", message=summary.reason)
        if summary.interrupted:
            message = "they were ended from outside, before the last of them was gone"
            return Reason(code="viewers-invalid", message=message)
        if not self.front.shares_clock:
            return Reason(
                code="clock-unknown",
                message="the front could not go over to the run's clock: what it says of time "
                "cannot be compared with what viewers and nodes say",
            )
        return None

    async def _work(self) -> ViewersOutcome:
        async with self.viewers:
            return await self._served()

    async def _served(self) -> ViewersOutcome:
        """The viewers' word, with a front and nodes for them."""
        setting = self.setting
        budgets = setting.plan.budgets
        self.front = Front(self._front_settings(), self.folder, setting.tag, budgets.front)
        await self.front.start()
        maker = self.maker or setting.maker(self.environment, self.number)
        with Acts(self.folder / CONTROLLER_LOG) as acts:
            self.controller = Controller(self.front, maker, acts, budgets, self._hold)
            control = asyncio.create_task(self.controller.run())
            try:
                summary = await self._heard(control)
            finally:
                await self.front.quit()  # which ends the controller too
                await asyncio.wait({control})
            control.result()
            return summary

    async def _heard(self, control: asyncio.Task[None]) -> ViewersOutcome:
        """The viewers' word, while the front answers. ELASTIC_FRONT_SILENT."""
        limit_s = self.setting.plan.budgets.silence
        watching = asyncio.create_task(self._watch(control))
        silent = asyncio.create_task(silence(self.front, limit_s))
        both: set[asyncio.Task[ViewersOutcome]] = {watching, silent}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            return await (silent if silent.done() and not watching.done() else watching)
        finally:
            for task in both:
                task.cancel()
            await asyncio.wait(both)

    async def _watch(self, control: asyncio.Task[None]) -> ViewersOutcome:
        """The viewers from first to last; raises what ends them, or the front, before its time."""
        limit_s = self.setting.scaled.repetition_s
        deadline = time.monotonic() + limit_s
        if not await self._settle(control):  # the nodes that are kept from the beginning
            self.unsettled.append("when the first viewer came")
        watching = asyncio.create_task(self.viewers.run(self._viewers_settings()))
        try:
            left_s = max(0.0, deadline - time.monotonic())
            await asyncio.wait(
                {control, watching}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
            )
            if control.done() and not watching.done():
                control.result()
            if not watching.done():
                raise UllageError(ELASTIC_TOO_LONG, seconds=limit_s)
            summary = watching.result()
        finally:
            watching.cancel()
            await asyncio.wait({watching})
        if not await self._settle(control):  # the nodes that the last viewers left
            self.unsettled.append("when it was ended")
        return summary

    async def _settle(self, control: asyncio.Task[None]) -> bool:
        """Wait until no node comes or goes, as the front sees it. False: one still does."""
        until = time.monotonic() + _SETTLE_S + self._hold.longest_s
        while time.monotonic() < until and not control.done():
            idle = asyncio.create_task(self.controller.idle())
            await asyncio.wait({idle, control}, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
            idle.cancel()
            if idle.done() and not await moving(self.front.address):
                return True
            await asyncio.sleep(_LOOK_S)
        return control.done()

    @property
    def _hold(self) -> Hold:
        """What the plan holds this environment's nodes back by, in this repetition."""
        setting, environment = self.setting, self.environment
        allocation = setting.scaled.allocation_s(environment)
        if allocation is None:
            return Hold(setting.scaled.boot_delay_s(environment))
        mean_s, deviation_s = allocation
        seed = f"{setting.seed}:{environment.key}:{self.number}"
        return Hold(0.0, mean_s, deviation_s, seed)

    def _front_settings(self) -> dict[str, Any]:
        setting, environment = self.setting, self.environment
        return front_settings(
            setting.plan, environment, f"{setting.network.gateway}:0", self.folder / FRONT_LOG
        )

    @property
    def _nodes_are_in(self) -> list[str]:
        """Where viewers may be sent: the run's networks, or wherever a cloud has addresses."""
        if self.environment.provider.elsewhere:
            return ["0.0.0.0/0"]
        return [str(self.setting.network.subnet), *self.setting.beyond]

    def _viewers_settings(self) -> dict[str, Any]:
        setting, scaled, clip = self.setting, self.setting.scaled, self.setting.clip
        plan = setting.plan
        bitrate = clip.size * 8 / scaled.length_s
        plays, sent = max(8, round(bitrate)), plan.video.sent
        return {
            "front": f"http://{self.front.address}",
            "allow": self._nodes_are_in,
            "arrivals": arrivals_settings(
                plan, seed_of(setting.seed, self.number), self.folder / TRACE
            ),
            "video": {
                "bytes": clip.size,
                "bitrate_bps": plays,
                **({} if sent is None else {"sent_bps": max(plays, round(sent))}),
                "chunk_bytes": max(_LEAST_CHUNK, round(bitrate / 8 * _CHUNK_S)),
            },
            "playback": {"buffer_s": plan.video.buffer},
            "patience_s": scaled.patience_s,
            "sessions": str(self.folder / SESSIONS),
            "limits": {"asks": _ASKS},
            "timing": {"realtime": may_go_first()},
            "lateness_limit_ms": plan.lateness_limit * 1e3,
            "clock": shared_clock(),
        }

    def _notes(self) -> list[str]:
        """What a reader of the figures must know."""
        notes = []
        if deaths := getattr(getattr(self, "front", None), "deaths", []):
            times = many(len(deaths), "time")
            notes.append(f"the front died {times} and was started again on its log")
        controller: Controller | None = getattr(self, "controller", None)
        if controller is not None:
            if controller.lost:
                notes.append(f"{many(controller.lost, 'node')} died while streaming")
            if controller.failed:
                notes.append(f"{many(controller.failed, 'node')} could not be allocated")
            notes += [f"not removed: {leftover}" for leftover in controller.leftovers]
        notes += [f"not removed: {leftover}" for leftover in self.viewers.leftovers]
        notes += self.viewers.notes
        notes += [f"nodes still came or went {when}" for when in self.unsettled]
        return notes


def may_go_first() -> bool:
    """May our programs go before all ordinary ones (SCHED_FIFO)? Not in every container of a root.

    Viewers that wait for nodes to give way on a busy host would be late, and measure that.
    """
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        return False
    os.sched_setscheduler(0, policy, parameters)
    return True


def front_settings(
    plan: ElasticPlan, environment: NodeEnvironment, listen: str, log: Path
) -> dict[str, Any]:
    scaled = Scaled(plan)
    return {
        "listen": listen,
        "config": scaled.machine(environment),
        "policy": environment.policy.model_dump(mode="json"),
        "log": str(log),
        "patience_ms_max": math.ceil(scaled.patience_s * 1e3),
        "alone_ms": 0,
    }


def arrivals_settings(plan: ElasticPlan, seed: int | None, trace: Path) -> dict[str, Any]:
    """The viewers' `arrivals`, in real time; a trace is written there, divided."""
    arrivals, scale = plan.arrivals, plan.time_scale
    if arrivals.kind == "trace":
        times = units.trace_times(arrivals)
        trace.write_text("".join(f"{at / scale:.9f}\n" for at in times), encoding="ascii")
        return {"kind": "trace", "path": str(trace)}
    settings: dict[str, Any] = {"kind": arrivals.kind}
    for ours, name in COMING[arrivals.kind].items():
        value = getattr(arrivals, ours)
        settings[name] = value * scale if name.endswith("_hz") else value / scale
    if arrivals.viewers is not None:
        settings["count"] = arrivals.viewers
    if arrivals.lasting is not None:
        settings["duration_s"] = arrivals.lasting / scale
    if arrivals.kind != "uniform" and seed is not None:
        settings["seed"] = seed
    return settings


def _reason(error: UllageError | OSError) -> Reason:
    if isinstance(error, UllageError):
        return Reason(code=error.code, message=error.message[:2000])
    return Reason(code="os-error", message=(str(error) or type(error).__name__)[:2000])
