"""What an elastic plan would do, without doing it: environments, order, time, parity, what is
missing here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from ullage.cli.output.dryrun import disk
from ullage.common.console import escape, print_json, stderr, stdout
from ullage.common.errors import PLAN_BAD_FIELD, UllageError
from ullage.common.quantities import format_bytes, format_seconds, many
from ullage.environments import placement
from ullage.experiments.elastic import folder as folders
from ullage.experiments.elastic.folder import RepetitionDone
from ullage.experiments.elastic.plan import units
from ullage.experiments.elastic.plan.schema import ElasticPlan, NodeEnvironment
from ullage.experiments.elastic.plan.units import Scaled
from ullage.experiments.elastic.run.run import ElasticTask
from ullage.meters.energy import metering
from ullage.plan import schedule
from ullage.runs.records import Parity


@dataclass(frozen=True)
class RunDuration:
    """How long the run will take, in real seconds."""

    repetition_s: Mapping[str, float]
    """Environment → one repetition: the mean of an earlier run's, else that of its viewers."""
    learned: str | None
    """Name of the earlier run; None: reckoned from the plan, without what nodes take to come."""
    total_s: float
    most_s: float
    """When each repetition takes all that it may."""


@dataclass(frozen=True)
class TimeForecast:
    """All that is known of a run before it begins."""

    task: ElasticTask
    order: tuple[str, ...]
    """Of the first repetition."""
    time: RunDuration | None
    """None: its trace cannot be read, which is among the lacks."""
    parity: tuple[Parity, ...]
    treatments: Mapping[str, Mapping[str, str]]
    """What differs on purpose → environment → how it is there."""
    lacks: Sequence[UllageError]
    """Why it could not be run here and now."""
    doubts: tuple[str, ...]
    """What this host, or any, cannot do well; and the limits of the time scale."""


def show(task: ElasticTask, *, runs: Path, as_json: bool) -> None:
    """Print it; a plan may be for another host, so what is missing here is said, not refused."""
    outlook = forecast(task, runs)
    if as_json:
        print_json(as_dict(outlook))
        return
    for line in (*_lines(outlook), disk(task.plan.budgets.outputs, runs)):
        stdout.print(escape(line), soft_wrap=True)
    for error in outlook.lacks:
        message = f"{error.message}; {error.hint}" if error.hint else error.message
        stderr.print(f"[yellow]warning:[/] not on this host: {escape(message)}", soft_wrap=True)
    for doubt in outlook.doubts:
        stderr.print(f"[yellow]warning:[/] {escape(doubt)}", soft_wrap=True)


def forecast(task: ElasticTask, runs: Path) -> TimeForecast:
    """Look ahead. runs: where an earlier run of the plan may tell how long one takes.

    PLAN_BAD_FIELD of a policy's field, which is wrong on any host.
    """
    plan, environments = task.plan, task.environments
    scale = units.limits_of_scale(plan)
    missing = asyncio.run(_missing(task))
    for error in missing:
        if error.kind is PLAN_BAD_FIELD:
            raise error
    keys = [environment.key for environment in environments]
    time = _time(plan, environments, runs)
    return TimeForecast(
        task=task,
        order=tuple(slot.environment for slot in schedule.block(plan.seed or 0, 0, keys, ["film"])),
        time=time,
        parity=parity(plan, environments),
        treatments=_treatments(environments),
        # Environments of one kind lack the same: once is enough.
        lacks=list({error.message: error for error in missing}.values()),
        doubts=(
            *units.said_before(plan, environments),
            *_cut_short(plan, time),
            *([scale] if scale else []),
        ),
    )


def _cut_short(plan: ElasticPlan, time: RunDuration | None) -> Iterator[str]:
    """Repetitions that are ended before their viewers are gone."""
    if time is None:
        return
    most_s = Scaled(plan).repetition_s
    if longer := [key for key, s in time.repetition_s.items() if s > most_s]:
        yield (
            f"a repetition of {' and '.join(longer)} takes longer than the "
            f"{format_seconds(most_s)} that one may take, and would fail: "
            "see `budgets: repetition:`"
        )


async def _missing(task: ElasticTask) -> list[UllageError]:
    """Of the host, and of energy meters that the run cannot do without."""
    absent = await metering.absent(task.meters)
    needed = [error for meter, error in absent if not meter.optional]
    return [*await task.lacks(), *needed]


def parity(plan: ElasticPlan, environments: Sequence[NodeEnvironment]) -> tuple[Parity, ...]:
    """What should be equal over the environments, by the plan.

    Room, film, arrivals, patience and budgets are the plan's, so they are equal in any case. What a
    plan makes unequal is allowed: each environment may have resources of its own.
    """
    image = "host" if plan.image == "host" else "one built image"
    values: dict[str, dict[str, str]] = {"cpus": {}, "pinning": {}, "memory": {}, "userland": {}}
    for environment in environments:
        cpus, pinning = _cpus(environment)
        values["cpus"][environment.key] = cpus
        values["pinning"][environment.key] = pinning
        values["memory"][environment.key] = format_bytes(environment.resources.memory)
        values["userland"][environment.key] = image
    return tuple(
        Parity(
            nuisance=name, equal=(equal := len(set(of.values())) == 1), allowed=not equal, values=of
        )
        for name, of in values.items()
    )


def _cpus(environment: NodeEnvironment) -> tuple[str, str]:
    """CPUs of a node, and how it has them."""
    number = environment.resources.cpus
    try:
        own, quota = placement.place(environment.resources, 0)
    except UllageError:  # more than this host has: among the lacks
        return f"{number:g}", "not on this host"
    part = f", quota {quota:g}" if quota is not None else ""
    return f"{len(own)}{part}", "the host's CPUs in turn"


def _treatments(environments: Sequence[NodeEnvironment]) -> dict[str, dict[str, str]]:
    """What is compared: everything that is not the same in all of them."""
    treatments: dict[str, dict[str, str]] = {}
    for environment in environments:
        nodes = environment.nodes.model_dump(mode="json", exclude_defaults=True)
        settings = {
            "provider": environment.provider.name,
            "options": _plain(
                environment.provider.options.model_dump(mode="json", exclude_defaults=True)
            ),
            "boot_delay": format_seconds(environment.boot_delay),
            "allocation_time": _allocation(environment),
            "policy": _plain(environment.policy.model_dump(mode="json")),
            "nodes": _plain(nodes),
            "place": environment.place or "on this host",
        }
        for name, how in settings.items():
            treatments.setdefault(name, {})[environment.key] = how
    return {name: of for name, of in treatments.items() if len(set(of.values())) > 1}


def _allocation(environment: NodeEnvironment) -> str:
    own = environment.allocation_time
    if own is None:
        return "as long as it takes"
    return f"{format_seconds(own.mean)} ± {format_seconds(own.deviation)}"


def _plain(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items()) or "as usual"


def _time(
    plan: ElasticPlan, environments: Sequence[NodeEnvironment], runs: Path
) -> RunDuration | None:
    scaled = Scaled(plan)
    try:
        watched_s, most_s = scaled.arriving_s + scaled.length_s, scaled.repetition_s
    except (OSError, ValueError):
        return None
    name, means_s = _earlier(plan, runs)
    repetition_s = {
        environment.key: means_s.get(
            (environment.key, scaled.held_s(environment)),
            watched_s + scaled.held_s(environment),
        )
        for environment in environments
    }
    number = plan.repetitions
    return RunDuration(
        repetition_s=repetition_s,
        learned=name,
        total_s=number * sum(repetition_s.values()),
        most_s=number * len(environments) * most_s,
    )


def _earlier(plan: ElasticPlan, runs: Path) -> tuple[str | None, dict[tuple[str, float], float]]:
    """The newest run with the same viewers, and what its repetitions took: environment and how
    long its nodes were held back → mean."""
    scaled = Scaled(plan)
    same = scaled.users_time(())
    for folder in folders.find(runs):
        try:
            resolved, events = folders.read_resolved(folder), folders.read_events(folder)
        except UllageError:
            continue
        users_time = {**resolved.users_time, "boot_delay_s": {}}
        if (resolved.name, resolved.time_scale, users_time) != (plan.name, plan.time_scale, same):
            continue
        seconds_by_key: dict[str, list[float]] = {}
        for event in events:
            if isinstance(event, RepetitionDone) and event.status == "ok":
                seconds_by_key.setdefault(event.environment, []).append(event.seconds)
        if seconds_by_key:
            held_s = {
                key: own.boot_delay_s if own.allocation is None else own.allocation.mean_s
                for key, own in resolved.settings.items()
            }
            return folder.name, {
                (key, held_s.get(key, 0.0)): fmean(seconds)
                for key, seconds in seconds_by_key.items()
            }
    return None, {}


def _lines(outlook: TimeForecast) -> list[str]:
    plan, number = outlook.task.plan, outlook.task.plan.repetitions
    count = len(outlook.task.environments)
    lines = [
        f"{many(count, 'environment')} × {many(number, 'repetition')}, each with the same "
        f"viewers: {_viewers(plan)}",
        *(f"  {_environment(plan, environment)}" for environment in outlook.task.environments),
    ]
    if (more := outlook.task.generators) is not None:
        lines.append(
            f"they come from {many(more.number, 'machine')} of {more.provider.name}, "
            f"{more.resources.cpus:g} CPU and {format_bytes(more.resources.memory)} each"
        )
    if plan.machines:
        where = ", ".join(f"{name} ({own.where})" for name, own in plan.machines.items())
        lines.append(f"nodes are made on {where}, which are not asked now")
    if outlook.task.meters:
        names = (f"{meter.label} ({meter.kind.name})" for meter in outlook.task.meters)
        lines.append(f"energy meters: {', '.join(names)}")
    drawn = "" if plan.seed is not None else " (the seed is drawn at the start; this is seed 0's)"
    lines.append(f"order of the first repetition{drawn}: {', '.join(outlook.order)}")
    lines.append(_duration(outlook))
    lines += [_parity(row) for row in outlook.parity]
    lines += [
        f"compared: {name}: {'; '.join(f'{key}: {how}' for key, how in of.items())}"
        for name, of in outlook.treatments.items()
    ]
    if plan.baseline is None and count > 1:
        lines.append("no baseline: the environments are shown side by side, without verdicts")
    return lines


def _viewers(plan: ElasticPlan) -> str:
    arrivals = plan.arrivals
    if arrivals.kind == "trace":
        come = f"by the trace {arrivals.file}"
    elif arrivals.viewers is not None:
        come = f"{arrivals.viewers:,}, {arrivals.kind}"
    else:
        assert arrivals.lasting is not None
        come = f"{arrivals.kind}, for {format_seconds(arrivals.lasting)}"
    patience = (
        "who finds no room is blocked at once"
        if plan.patience == 0
        else f"they wait for {format_seconds(plan.patience)}"
    )
    scale = "" if plan.time_scale == 1 else f", in time ×{plan.time_scale:g}"
    return f"{come}, {format_seconds(plan.video.length)} of film, {patience}{scale}"


def _environment(plan: ElasticPlan, environment: NodeEnvironment) -> str:
    most = environment.nodes.max or Scaled(plan).most_nodes
    parts = [
        f"{environment.key}: {environment.provider.name}",
        f"{many(most, 'node')}"
        if environment.nodes.min == most
        else f"{environment.nodes.min} to {most} nodes",
        f"{environment.resources.cpus:g} CPU and {format_bytes(environment.resources.memory)} each",
        f"policy {environment.policy.name}",
    ]
    if environment.boot_delay:
        parts.append(f"held back for {format_seconds(environment.boot_delay)}")
    if environment.allocation_time is not None:
        parts.append(f"held back until it took {_allocation(environment)} from its request")
    return ", ".join(parts)


def _duration(outlook: TimeForecast) -> str:
    time = outlook.time
    if time is None:
        return "time: not known, as the trace cannot be read"
    source = (
        f"as in {time.learned}"
        if time.learned
        else "nominal: without what nodes take to come and go"
    )
    lengths = ", ".join(f"{key} {format_seconds(s)}" for key, s in time.repetition_s.items())
    return (
        f"time: {format_seconds(time.total_s)}, at most {format_seconds(time.most_s)}; a "
        f"repetition: {lengths}; {source}"
    )


def _parity(row: Parity) -> str:
    if row.equal:
        return f"equal: {row.nuisance}: {next(iter(row.values.values()))}"
    values = "; ".join(f"{key}: {value}" for key, value in row.values.items())
    return f"not equal, as the plan has it: {row.nuisance}: {values}"


def _machines(plan: ElasticPlan) -> dict[str, dict[str, str]]:
    """Machine → where it is; left out where the plan names none."""
    where = {name: own.where for name, own in plan.machines.items()}
    return {"machines": where} if where else {}


def as_dict(outlook: TimeForecast) -> dict[str, Any]:
    """All of it, for `--json`."""
    plan, time = outlook.task.plan, outlook.time
    return {
        "name": plan.name,
        "baseline": plan.baseline,
        "environments": [
            {
                "key": environment.key,
                "provider": environment.provider.name,
                "resources": environment.resources.model_dump(mode="json"),
                "boot_delay_s": Scaled(plan).boot_delay_s(environment),
                "allocation_s": Scaled(plan).allocation_s(environment),
                "machine": Scaled(plan).machine(environment),
                "policy": environment.policy.model_dump(mode="json"),
            }
            for environment in outlook.task.environments
        ],
        "generators": None
        if outlook.task.generators is None
        else {
            "number": outlook.task.generators.number,
            "provider": outlook.task.generators.provider.name,
            "resources": outlook.task.generators.resources.model_dump(mode="json"),
        },
        **_machines(plan),
        "repetitions": plan.repetitions,
        "time_scale": plan.time_scale,
        "patience_s": Scaled(plan).patience_s,
        "seed": plan.seed,
        "order": list(outlook.order),
        "repetition_s": None if time is None else dict(time.repetition_s),
        "learned": None if time is None else time.learned,
        "total_s": None if time is None else time.total_s,
        "most_s": None if time is None else time.most_s,
        "parity": [row.model_dump(mode="json") for row in outlook.parity],
        "treatments": {name: dict(of) for name, of in outlook.treatments.items()},
        "energy_meters": [
            {"label": meter.label, "meter": meter.kind.name, "optional": meter.optional}
            for meter in outlook.task.meters
        ],
        "lacks": [
            {"code": error.code, "message": error.message, "hint": error.hint}
            for error in outlook.lacks
        ],
        "doubts": list(outlook.doubts),
    }
