"""One trial: services up, everybody else at one agreed instant, checked, parsed.

Nothing here decides whether a figure is good: `check` of the workload does, and a trial that fails
it has a reason and no figures.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from ullage import clock, timing
from ullage.agent import Command, Process
from ullage.agentchannel import printable
from ullage.errors import RUN_DISK_FULL, UllageError
from ullage.fleet import Fleet, Team, workspace
from ullage.journal import now_ns
from ullage.matrix import Load
from ullage.meters import metered
from ullage.part import Part, TrialFailedError
from ullage.runs import Curve, InstanceClock, Metered, Reason, RoleRecord, Scalar, Trial
from ullage.schedule import Slot
from ullage.workloads.base import InvalidTrialError, Output

LEAD_NS = 2_000_000
"""The agreed instant lies so far ahead, plus ten round trips of the slowest instance."""

SERVICE_READY_S = 20.0
SERVICE_END_S = 5.0


async def run(fleet: Fleet, load: Load, slot: Slot, folder: Path, seed: int) -> Trial:
    """Run the trial of one slot. Whatever goes wrong inside it becomes its reason."""
    began = clock.ordered_ns()
    epoch_ns = now_ns()
    parts: list[Part] = []
    figures: list[dict[str, Scalar | Curve]] = []
    meters: Metered = {}
    clocks: dict[str, InstanceClock] = {}
    facts: dict[str, str] = {}
    status, reason = "ok", fleet.broken(slot.environment, slot.workload)
    teams: list[Team] = []
    try:
        if reason:
            raise TrialFailedError(reason.code, reason.message)
        own = timing.Own.now()
        teams = await fleet.teams(slot.environment, load)
        parts = _parts(fleet, load, teams, seed)
        meters, clocks = await _work(parts, folder, own)
        outputs = _outputs(parts, len(teams))
        figures = [_figures(load, each) for each in outputs]
        facts = load.workload.facts(load.parameters, outputs[0])
    except TrialFailedError as error:
        status, reason = "failed", error.reason
    except InvalidTrialError as error:
        status, reason = "invalid", Reason(code="not-valid", message=printable(str(error), 2000))
    except UllageError as error:
        if error.kind is RUN_DISK_FULL:
            raise
        status, reason = "failed", Reason(code=error.code, message=printable(error.message, 2000))
    finally:
        await _stop(parts)
        await fleet.rest(teams)
    records = tuple(_record(part, folder) for part in parts if part.finished)
    workers = [p.finished for p in parts if p.finished and not p.task.service]
    starts, ends = [w.start_ns for w in workers], [w.end_ns for w in workers]
    ended = clock.ordered_ns()
    return Trial.model_validate(
        {
            "trial": slot.trial,
            "block": slot.block,
            "order": slot.order,
            "position": slot.position,
            "environment": slot.environment,
            "workload": slot.workload,
            "status": status,
            "reason": reason,
            "epoch_ns": epoch_ns + min(starts, default=began) - began,
            "start_ns": min(starts, default=began),
            "end_ns": max(ends, default=ended),
            "spread_ns": max(starts) - min(starts) if len(starts) > 1 else None,
            "overhead_s": (ended - began - (max(ends) - min(starts) if ends else 0)) / 1e9,
            "metrics": _mean(figures) if status == "ok" else {},
            "instances": _by_instance(teams, figures) if status == "ok" else {},
            "facts": facts,
            "roles": records,
            "clocks": clocks,
            "meters": meters,
        }
    )


def _parts(fleet: Fleet, load: Load, teams: Sequence[Team], seed: int) -> list[Part]:
    roles = load.workload.roles(load.parameters)
    parts = []
    for number, team in enumerate(teams):
        context = fleet.context(team, load, seed)
        players = team.players(roles)
        for task in load.workload.tasks(load.parameters, context):
            name = task.role if len(teams) == 1 else f"{task.role}-{number}"
            player = players[task.role]
            parts.append(Part(name, task, player, task.cwd or workspace(player, load)))
    return parts


async def _work(
    parts: Sequence[Part], folder: Path, own: timing.Own
) -> tuple[Metered, dict[str, InstanceClock]]:
    """Start and wait for everything; returns what the meters saw during it, and the clocks."""
    services = [part for part in parts if part.task.service]
    workers = [part for part in parts if not part.task.service]
    await asyncio.gather(*(_start_service(part, folder) for part in services))
    with metered() as seen:
        instant = clock.ordered_ns() + LEAD_NS
        instant += 10 * max(part.instance.agent.rtt_ns for part in workers)
        await asyncio.gather(*(_spawn(part, folder, at_ns=instant) for part in workers))
        await asyncio.gather(*(_wait(part) for part in workers))
    await asyncio.gather(*(_end_service(part) for part in services))
    clocks = await timing.close(parts)
    for part in workers:
        part.check(instant)
    own.check()
    return seen, clocks


async def _spawn(part: Part, folder: Path, *, at_ns: int | None = None) -> Process:
    task = part.task
    command = Command(argv=task.argv, env=dict(task.env), cwd=part.cwd, timeout_s=task.timeout_s)
    part.process = await part.instance.agent.spawn(
        command,
        at_ns=at_ns,
        stdout_path=folder / f"{part.name}.stdout",
        stderr_path=folder / f"{part.name}.stderr",
    )
    return part.process


async def _start_service(part: Part, folder: Path) -> None:
    process = await _spawn(part, folder)
    await process.started()
    if part.task.ready is None:
        return
    await process.wait_for_output(part.task.ready.encode(), SERVICE_READY_S)


async def _wait(part: Part) -> None:
    assert part.process is not None
    await part.process.started()
    part.finished = await part.process.wait()


async def _end_service(part: Part) -> None:
    """A service may end by itself (`iperf3 -1`); else it is told to, then made to."""
    assert part.process is not None
    for wait_s, signal in ((0.3, 15), (SERVICE_END_S, 9)):
        try:
            part.finished = await asyncio.wait_for(asyncio.shield(part.process.wait()), wait_s)
        except TimeoutError:
            await part.process.kill(signal)
        else:
            return
    part.finished = await part.process.wait()


def _outputs(parts: Sequence[Part], teams: int) -> list[dict[str, Output]]:
    """Role → output, for each team."""
    each = len(parts) // teams
    return [
        {part.task.role: part.output() for part in parts[number * each : (number + 1) * each]}
        for number in range(teams)
    ]


def _figures(load: Load, outputs: Mapping[str, Output]) -> dict[str, Scalar | Curve]:
    """Check, then parse: no figure comes from an invalid trial.

    What a guest printed may be anything: a check that it brings to fall has refused it.
    """
    try:
        load.workload.check(load.parameters, outputs)
        return _checked(load, load.workload.parse(load.parameters, outputs))
    except InvalidTrialError:
        raise
    except Exception as error:
        raise InvalidTrialError(f"{type(error).__name__} in the check: {error}") from error


def _checked(load: Load, figures: dict[str, Scalar | Curve]) -> dict[str, Scalar | Curve]:
    """Figures are finite, declared, and the primary ones are positive: a ratio can be taken."""
    declared = {metric.name: metric for metric in load.workload.metrics}
    for name, value in figures.items():
        values = [y for _, y in value] if isinstance(value, list) else [value]
        if name not in declared:
            raise InvalidTrialError(f"{load.key} gave the undeclared metric {name}")
        if not all(math.isfinite(y) for y in values):
            raise InvalidTrialError(f"{name} is not a finite number")
        if declared[name].primary and not all(y > 0 for y in values):
            raise InvalidTrialError(f"{name} is not positive, so no ratio can be taken")
    missing = [m.name for m in load.workload.metrics if m.primary and m.name not in figures]
    if missing:
        raise InvalidTrialError(f"the output lacks {', '.join(missing)}")
    return figures


def _mean(figures: Sequence[Mapping[str, Scalar | Curve]]) -> dict[str, Scalar | Curve]:
    """The mean over the instances, for each metric that all of them gave."""
    if len(figures) == 1:
        return dict(figures[0])
    common = set.intersection(*(set(each) for each in figures))
    return {name: _mean_value([each[name] for each in figures]) for name in sorted(common)}


def _mean_value(values: Sequence[Scalar | Curve]) -> Scalar | Curve:
    scalars = [value for value in values if not isinstance(value, list)]
    if len(scalars) == len(values):
        return math.fsum(scalars) / len(scalars)
    curves = [dict(value) for value in values if isinstance(value, list)]
    shared = set.intersection(*(set(curve) for curve in curves))
    return [(x, math.fsum(curve[x] for curve in curves) / len(curves)) for x in sorted(shared)]


def _by_instance(
    teams: Sequence[Team], figures: Sequence[dict[str, Scalar | Curve]]
) -> dict[str, dict[str, Scalar | Curve]]:
    if len(teams) < 2:
        return {}
    return {team.instance.name: each for team, each in zip(teams, figures, strict=True)}


async def _stop(parts: Sequence[Part]) -> None:
    """Kill what still runs after a failure or an interruption."""
    for part in parts:
        if part.process and not part.finished and part.instance.alive:
            try:
                await part.process.kill(9)
                part.finished = await asyncio.wait_for(part.process.wait(), SERVICE_END_S)
            except (UllageError, TimeoutError):
                continue


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
