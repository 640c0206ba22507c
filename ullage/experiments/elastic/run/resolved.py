"""`resolved.json` of an elastic run, and whether a resumed run is still the same one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ullage import __version__
from ullage.common.files import sha256_of
from ullage.experiments.elastic.folder import AllocationDraw, ElasticResolved, Setting, Video
from ullage.experiments.elastic.plan.machines import between
from ullage.experiments.elastic.plan.schema import ElasticPlan, Generators, NodeEnvironment
from ullage.experiments.elastic.plan.units import Scaled
from ullage.experiments.elastic.run.repetition import TRACE, arrivals_settings
from ullage.host import facts
from ullage.runs.records import EnergyMeterRecord, EnvironmentRecord, ImageRecord, NodeRecord
from ullage.workloads.web.clip import Clip


def resolved(
    plan: ElasticPlan,
    environments: Sequence[NodeEnvironment],
    film: Clip,
    built: ImageRecord | None,
    *,
    run: Path,
    tag: str,
    seed: int,
    generators: Generators | None = None,
    energy_meters: tuple[EnergyMeterRecord, ...] = (),
    programs: Mapping[str, str] = MappingProxyType({}),
    machines: Mapping[str, NodeRecord] = MappingProxyType({}),
) -> ElasticResolved:
    """The record of a run with this plan; providers must have been checked."""
    scaled = Scaled(plan)
    return ElasticResolved(
        ullage=__version__,
        run=run.name,
        tag=tag,
        name=plan.name,
        seed=seed,
        baseline=plan.baseline,
        confidence=plan.confidence,
        repetitions=plan.repetitions,
        time_scale=plan.time_scale,
        room=environments[0].room,
        arrivals=_arrivals(plan, run),
        patience_s=scaled.patience_s,
        buffer_s=plan.video.buffer,
        video=Video(
            bytes=film.size,
            bitrate_bps=film.size * 8 / scaled.length_s,
            length_s=scaled.length_s,
            kind=film.kind,
            sha256=film.sha256,
            made_by=film.made_by,
            sent_bps=plan.video.sent,
        ),
        users_time=scaled.users_time(environments),
        resources=plan.resources.model_dump(mode="json"),
        budgets=plan.budgets.model_dump(mode="json"),
        settings={
            environment.key: Setting(
                boot_delay_s=scaled.boot_delay_s(environment),
                allocation=_allocated(scaled, environment),
                machine=scaled.machine(environment),
                policy=environment.policy.model_dump(mode="json"),
                room=None if environment.room == environments[0].room else environment.room,
                capacity=environment.capacity,
                price=environment.price,
                place=environment.place or "",
            )
            for environment in environments
        },
        environments=tuple(_record(environment) for environment in environments),
        generators=None if generators is None else _machines(generators),
        machines=dict(machines),
        between=between(plan) or "",
        energy_meters=energy_meters,
        image=built,
        programs=dict(programs),
        host=facts.facts(),
    )


def _allocated(scaled: Scaled, environment: NodeEnvironment) -> AllocationDraw | None:
    allocation = scaled.allocation_s(environment)
    if allocation is None:
        return None
    mean_s, deviation_s = allocation
    return AllocationDraw(mean_s=mean_s, deviation_s=deviation_s)


def _arrivals(plan: ElasticPlan, run: Path) -> dict[str, Any]:
    """As the viewers are told, without the seed; a trace by what stands in it."""
    settings = arrivals_settings(plan, None, run / TRACE)
    if plan.arrivals.kind == "trace":
        settings |= {"path": TRACE, "sha256": sha256_of(run / TRACE)}
    return settings


def _record(environment: NodeEnvironment) -> EnvironmentRecord:
    provider = environment.provider
    return EnvironmentRecord(
        key=environment.key,
        label=f"{environment.key}: {provider.label()}",
        provider=provider.name,
        options=provider.options.model_dump(mode="json"),
        again_of=environment.again_of,
        emulated=provider.emulated,
        treatments={**provider.treatments(), **provider.data_treatments()},
    )


def _machines(generators: Generators) -> dict[str, Any]:
    """What they are, for the record."""
    provider = generators.provider
    return {
        "number": generators.number,
        "provider": provider.name,
        "label": provider.label(),
        "options": provider.options.model_dump(mode="json"),
        "resources": generators.resources.model_dump(mode="json"),
    }


def changes(old: ElasticResolved, now: ElasticResolved) -> list[str]:
    """What of a run may not change while it goes on, and did."""
    free = {"ullage", "run", "tag", "repetitions", "budgets", "programs", "host", "machines"}
    before, after = (record.model_dump(mode="json", exclude=free) for record in (old, now))
    # A machine's facts may change, as this host's may; which machines there are may not.
    for record, fields in ((old, before), (now, after)):
        fields["machines"] = {name: machine.address for name, machine in record.machines.items()}
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]
