"""What an elastic plan would do, without doing it: environments, order, time, parity, what is
missing here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.markup import escape

from ullage.common.console import print_json, stderr, stdout
from ullage.common.errors import PLAN_BAD_FIELD, UllageError
from ullage.common.quantities import format_bytes, format_seconds
from ullage.common.yamlfile import YamlFile
from ullage.environments import placement
from ullage.experiments.elastic import folder as folders
from ullage.experiments.elastic.folder import RepetitionDone
from ullage.experiments.elastic.plan import units
from ullage.experiments.elastic.plan.schema import ElasticPlan, Environment, Generators
from ullage.experiments.elastic.plan.units import Scaled
from ullage.experiments.elastic.run.checks import lacks
from ullage.meters.energy import metering
from ullage.meters.energy.base import PlannedMeter
from ullage.plan import schedule
from ullage.runs.records import Parity


@dataclass(frozen=True)
class Time:
    """How long the run will take, in real seconds."""

    each: Mapping[str, float]
    """Environment → one repetition: the mean of an earlier run's, else that of its viewers."""
    learned: str | None
    """Name of the earlier run; None: reckoned from the plan, without what nodes take to come."""
    total_s: float
    most_s: float
    """When each repetition takes all that it may."""


@dataclass(frozen=True)
class Forecast:
    """All that is known of a run before it begins."""

    plan: ElasticPlan
    environments: Sequence[Environment]
    order: tuple[str, ...]
    """Of the first repetition."""
    time: Time | None
    """None: its trace cannot be read, which is among the lacks."""
    parity: tuple[Parity, ...]
    treatments: Mapping[str, Mapping[str, str]]
    """What differs on purpose → environment → how it is there."""
    meters: Sequence[PlannedMeter]
    generators: Generators | None
    lacks: Sequence[UllageError]
    """Why it could not be run here and now."""
    doubts: tuple[str, ...]
    """What this host, or any, cannot do well; and the limits of the time scale."""


def show(
    plan: ElasticPlan,
    environments: Sequence[Environment],
    document: YamlFile,
    meters: Sequence[PlannedMeter],
    *,
    generators: Generators | None = None,
    runs: Path,
    as_json: bool,
) -> None:
    """Print it; a plan may be for another host, so what is missing here is said, not refused."""
    found = forecast(plan, environments, document, meters, runs, generators=generators)
    if as_json:
        print_json(as_dict(found))
        return
    for line in _lines(found):
        stdout.print(escape(line), soft_wrap=True)
    for error in found.lacks:
        said = f"{error.message}; {error.hint}" if error.hint else error.message
        stderr.print(f"[yellow]warning:[/] not on this host: {escape(said)}", soft_wrap=True)
    for doubt in found.doubts:
        stderr.print(f"[yellow]warning:[/] {escape(doubt)}", soft_wrap=True)


def forecast(
    plan: ElasticPlan,
    environments: Sequence[Environment],
    document: YamlFile,
    meters: Sequence[PlannedMeter],
    runs: Path,
    *,
    generators: Generators | None = None,
) -> Forecast:
    """Look ahead. runs: where an earlier run of the plan may tell how long one takes.

    PLAN_BAD_FIELD of a policy's field, which is wrong on any host.
    """
    scale = units.limits_of_scale(plan)
    missing = asyncio.run(_missing(plan, environments, document, meters, generators))
    for error in missing:
        if error.kind is PLAN_BAD_FIELD:
            raise error
    keys = [each.key for each in environments]
    time = _time(plan, environments, runs)
    return Forecast(
        plan=plan,
        environments=environments,
        order=tuple(slot.environment for slot in schedule.block(plan.seed or 0, 0, keys, ["film"])),
        time=time,
        parity=parity(plan, environments),
        treatments=_treatments(environments),
        meters=meters,
        generators=generators,
        # Environments of one kind lack the same: once is enough.
        lacks=list({error.message: error for error in missing}.values()),
        doubts=(
            *units.said_before(plan, environments),
            *_cut_short(plan, time),
            *([scale] if scale else []),
        ),
    )


def _cut_short(plan: ElasticPlan, time: Time | None) -> Iterator[str]:
    """Repetitions that are ended before their viewers are gone."""
    if time is None:
        return
    most_s = Scaled(plan).repetition_s
    if longer := [key for key, s in time.each.items() if s > most_s]:
        yield (
            f"a repetition of {' and '.join(longer)} takes longer than the "
            f"{format_seconds(most_s)} that one may take, and would fail: "
            "see `budgets: repetition:`"
        )


async def _missing(
    plan: ElasticPlan,
    environments: Sequence[Environment],
    document: YamlFile,
    meters: Sequence[PlannedMeter],
    generators: Generators | None,
) -> list[UllageError]:
    """Of the host, and of energy meters that the run cannot do without."""
    absent = await metering.absent(meters)
    needed = [error for meter, error in absent if not meter.optional]
    return [*await lacks(plan, environments, document, generators), *needed]


def parity(plan: ElasticPlan, environments: Sequence[Environment]) -> tuple[Parity, ...]:
    """What should be equal over the environments, by the plan.

    Room, film, arrivals, patience and budgets are the plan's, so they are equal in any case. What a
    plan makes unequal is allowed: each environment may have resources of its own.
    """
    image = "host" if plan.image == "host" else "one built image"
    values: dict[str, dict[str, str]] = {"cpus": {}, "pinning": {}, "memory": {}, "userland": {}}
    for each in environments:
        cpus, pinning = _cpus(each)
        values["cpus"][each.key] = cpus
        values["pinning"][each.key] = pinning
        values["memory"][each.key] = format_bytes(each.resources.memory)
        values["userland"][each.key] = image
    return tuple(
        Parity(
            nuisance=name, equal=(equal := len(set(of.values())) == 1), allowed=not equal, values=of
        )
        for name, of in values.items()
    )


def _cpus(environment: Environment) -> tuple[str, str]:
    """CPUs of a node, and how it has them."""
    asked = environment.resources.cpus
    try:
        own, quota = placement.place(environment.resources, 0)
    except UllageError:  # more than this host has: among the lacks
        return f"{asked:g}", "not on this host"
    part = f", quota {quota:g}" if quota is not None else ""
    return f"{len(own)}{part}", "the host's CPUs in turn"


def _treatments(environments: Sequence[Environment]) -> dict[str, dict[str, str]]:
    """What is compared: everything that is not the same in all of them."""
    found: dict[str, dict[str, str]] = {}
    for each in environments:
        nodes = each.nodes.model_dump(mode="json", exclude_defaults=True)
        told = {
            "provider": each.provider.name,
            "options": _plain(each.provider.options.model_dump(mode="json", exclude_defaults=True)),
            "boot_delay": format_seconds(each.boot_delay),
            "policy": _plain(each.policy.model_dump(mode="json")),
            "nodes": _plain(nodes),
        }
        for name, how in told.items():
            found.setdefault(name, {})[each.key] = how
    return {name: of for name, of in found.items() if len(set(of.values())) > 1}


def _plain(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items()) or "as usual"


def _time(plan: ElasticPlan, environments: Sequence[Environment], runs: Path) -> Time | None:
    scaled = Scaled(plan)
    try:
        watched_s, most_s = scaled.arriving_s + scaled.length_s, scaled.repetition_s
    except (OSError, ValueError):
        return None
    name, taken = _earlier(plan, runs)
    each = {
        one.key: taken.get(
            (one.key, scaled.boot_delay_s(one)), watched_s + scaled.boot_delay_s(one)
        )
        for one in environments
    }
    number = plan.repetitions
    return Time(
        each=each,
        learned=name,
        total_s=number * sum(each.values()),
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
        told = {**resolved.users_time, "boot_delay_s": {}}
        if (resolved.name, resolved.time_scale, told) != (plan.name, plan.time_scale, same):
            continue
        taken: dict[str, list[float]] = {}
        for event in events:
            if isinstance(event, RepetitionDone) and event.status == "ok":
                taken.setdefault(event.environment, []).append(event.seconds)
        if taken:
            held = {key: setting.boot_delay_s for key, setting in resolved.settings.items()}
            return folder.name, {
                (key, held.get(key, 0.0)): fmean(seconds) for key, seconds in taken.items()
            }
    return None, {}


def _lines(found: Forecast) -> list[str]:
    plan, number = found.plan, found.plan.repetitions
    count = len(found.environments)
    told = [
        f"{_count(count, 'environment')} × {_count(number, 'repetition')}, each with the same "
        f"viewers: {_viewers(plan)}",
        *(f"  {_environment(plan, each)}" for each in found.environments),
    ]
    if (more := found.generators) is not None:
        told.append(
            f"they come from {_count(more.number, 'machine')} of {more.provider.name}, "
            f"{more.resources.cpus:g} CPU and {format_bytes(more.resources.memory)} each"
        )
    if found.meters:
        names = (f"{one.label} ({one.kind.name})" for one in found.meters)
        told.append(f"energy meters: {', '.join(names)}")
    drawn = "" if plan.seed is not None else " (the seed is drawn at the start; this is seed 0's)"
    told.append(f"order of the first repetition{drawn}: {', '.join(found.order)}")
    told.append(_duration(found))
    told += [_parity(row) for row in found.parity]
    told += [
        f"compared: {name}: {'; '.join(f'{key}: {how}' for key, how in of.items())}"
        for name, of in found.treatments.items()
    ]
    if plan.baseline is None and count > 1:
        told.append("no baseline: the environments are shown side by side, without verdicts")
    return told


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


def _environment(plan: ElasticPlan, each: Environment) -> str:
    most = each.nodes.max or Scaled(plan).most_nodes
    parts = [
        f"{each.key}: {each.provider.name}",
        f"{_count(most, 'node')}"
        if each.nodes.min == most
        else f"{each.nodes.min} to {most} nodes",
        f"{each.resources.cpus:g} CPU and {format_bytes(each.resources.memory)} each",
        f"policy {each.policy.name}",
    ]
    if each.boot_delay:
        parts.append(f"held back for {format_seconds(each.boot_delay)}")
    return ", ".join(parts)


def _duration(found: Forecast) -> str:
    time = found.time
    if time is None:
        return "time: not known, as the trace cannot be read"
    source = (
        f"as in {time.learned}"
        if time.learned
        else "nominal: without what nodes take to come and go"
    )
    each = ", ".join(f"{key} {format_seconds(s)}" for key, s in time.each.items())
    return (
        f"time: {format_seconds(time.total_s)}, at most {format_seconds(time.most_s)}; a "
        f"repetition: {each}; {source}"
    )


def _parity(row: Parity) -> str:
    if row.equal:
        return f"equal: {row.nuisance}: {next(iter(row.values.values()))}"
    values = "; ".join(f"{key}: {value}" for key, value in row.values.items())
    return f"not equal, as the plan has it: {row.nuisance}: {values}"


def as_dict(found: Forecast) -> dict[str, Any]:
    """All of it, for `--json`."""
    plan, time = found.plan, found.time
    return {
        "name": plan.name,
        "baseline": plan.baseline,
        "environments": [
            {
                "key": each.key,
                "provider": each.provider.name,
                "resources": each.resources.model_dump(mode="json"),
                "boot_delay_s": Scaled(plan).boot_delay_s(each),
                "machine": Scaled(plan).machine(each),
                "policy": each.policy.model_dump(mode="json"),
            }
            for each in found.environments
        ],
        "generators": None
        if found.generators is None
        else {
            "number": found.generators.number,
            "provider": found.generators.provider.name,
            "resources": found.generators.resources.model_dump(mode="json"),
        },
        "repetitions": plan.repetitions,
        "time_scale": plan.time_scale,
        "patience_s": Scaled(plan).patience_s,
        "seed": plan.seed,
        "order": list(found.order),
        "repetition_s": None if time is None else dict(time.each),
        "learned": None if time is None else time.learned,
        "total_s": None if time is None else time.total_s,
        "most_s": None if time is None else time.most_s,
        "parity": [row.model_dump(mode="json") for row in found.parity],
        "treatments": {name: dict(of) for name, of in found.treatments.items()},
        "energy_meters": [
            {"label": one.label, "meter": one.kind.name, "optional": one.optional}
            for one in found.meters
        ],
        "lacks": [
            {"code": error.code, "message": error.message, "hint": error.hint}
            for error in found.lacks
        ],
        "doubts": list(found.doubts),
    }


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
