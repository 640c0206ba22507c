"""What a run knows of itself before its first trial, as records of the run folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from ullage.common.errors import PARITY_UNEQUAL, UllageError
from ullage.common.files import sha256_of
from ullage.common.quantities import format_bytes
from ullage.host import clock
from ullage.meters import METERS
from ullage.plan import neighbours
from ullage.plan.matrix import AGAIN, Environment, Load, Matrix
from ullage.plan.schema import NUISANCES, Plan, Repeat
from ullage.runs.events import ClockSaid
from ullage.runs.records import EnvironmentRecord, MeterRecord, Parity, Resolved, WorkloadRecord

if TYPE_CHECKING:
    from ullage.engine.fleet import Fleet

# What of a run that goes on is not what it was: its repetitions may differ by that.

DIVERGED = "run-moved"
"""Code of the warning."""


class Recorded(Protocol):
    """`resolved.json` of a run of any kind."""

    @property
    def ullage(self) -> str:
        """The version."""

    @property
    def programs(self) -> Mapping[str, str]:
        """As `programs` tells them; none in runs of before."""

    @property
    def host(self) -> Mapping[str, Any]:
        """As `ullage.host.facts.facts` tells it."""


def programs(files: Iterable[Path]) -> dict[str, str]:
    """Name → `sha256:…` of programs of ours that work in every environment."""
    return {file.name: f"sha256:{sha256_of(file)}" for file in files}


def diverged(old: Recorded, now: Recorded) -> list[str]:
    """What was another when the run began; in words."""
    names = ("hostname", "kernel", "cpu_model", "memory_bytes", "microcode")
    found = [f"the host's {n}" for n in names if old.host.get(n) != now.host.get(n)]
    found += ["the version of ullage"] if old.ullage != now.ullage else []
    both = old.programs.keys() & now.programs.keys()
    changed = sorted(name for name in both if old.programs[name] != now.programs[name])
    return found + [f"the program {name}" for name in changed]


# Fairness: nuisances must be equal over the environments; treatments are what is compared.


def compare(nuisances: Mapping[str, Mapping[str, str]], allow: Sequence[str]) -> tuple[Parity, ...]:
    """Compare environment → nuisance → value; PARITY_UNEQUAL for the first not allowed one."""
    rows = []
    for name in NUISANCES:
        values = {environment: found[name] for environment, found in nuisances.items()}
        equal = len(set(values.values())) == 1
        if not equal and name not in allow:
            raise UllageError(PARITY_UNEQUAL, nuisance=name, values=_told(values))
        rows.append(Parity(nuisance=name, equal=equal, allowed=not equal, values=values))
    return tuple(rows)


def _told(values: Mapping[str, str]) -> str:
    return "; ".join(f"{environment}: {value}" for environment, value in values.items())


_ONCE = Repeat().model_dump()
"""What the plan's `repeat` was for runs that do not have it yet."""


def workload(load: Load) -> WorkloadRecord:
    """A workload, with the definitions of its metrics: an old run reads right for ever."""
    return WorkloadRecord(
        key=load.key,
        workload=load.workload.name,
        resource=load.workload.resource,
        title=load.workload.title(load.parameters),
        parameters=load.parameters.model_dump(mode="json"),
        factors=dict(load.factors),
        metrics=load.workload.metrics,
        scaling=load.workload.scaling,
        files={
            name: f"sha256:{sha256_of(file)}"
            for name, file in load.workload.files(load.parameters).items()
        },
        duration_s=load.workload.duration_s(load.parameters),
    )


def meters() -> tuple[MeterRecord, ...]:
    """The meters, with the definitions of their quantities."""
    return tuple(MeterRecord(name=each.name, quantities=each.quantities) for each in METERS)


def environment(found: Environment, matrix: Matrix, fleet: Fleet | None) -> EnvironmentRecord:
    """An environment; with what was verified inside once the fleet is up."""
    provider = found.provider
    up = fleet is not None and fleet.up(found.key)
    again = found.again_of is not None
    return EnvironmentRecord(
        key=found.key,
        label=label(found, matrix) + (", again" if again else ""),
        provider=provider.name,
        options=provider.options.model_dump(mode="json"),
        factors=dict(found.factors),
        again_of=found.again_of,
        price=found.price,
        emulated=provider.emulated,
        treatments={**provider.treatments(), **_beside(found)},
        nuisances=dict(nuisances(found, fleet)) if fleet and up else {},
        facts=dict(fleet.first(found.key).agent.facts) if fleet and up else {},
    )


def _beside(found: Environment) -> dict[str, str]:
    beside, instances = found.neighbour, found.instances
    return {"neighbour": neighbours.in_words(beside, instances)} if beside else {}


def own_clock() -> ClockSaid:
    """What is to be said of the controller's clock."""
    promise = clock.promise()
    return ClockSaid(
        source=promise.source,
        ordered_ns=promise.ordered_ns,
        reasons=tuple(clock.stamp()[1]),
        shared=True,
    )


def changed(old: Resolved, now: Resolved) -> list[str]:
    """What of a run may not change while it goes on, and did."""
    before, after = _fixed(old), _fixed(now)
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]


def _fixed(record: Resolved) -> dict[str, object]:
    """In words → what may not change."""
    return {
        **_settings(record, record.baseline),
        "the stop rule": (record.blocks.get("min"), record.blocks.get("until")),
        "the image": record.image and record.image.digest,
        **{f"environment {each.key}": _identity(each) for each in record.environments},
        **{f"workload {each.key}": _identity(each) for each in record.workloads},
        **{f"the energy meter {label}": said for label, said in _energy_meters(record).items()},
    }


_SETTINGS: Final = {
    "resources": "resources",
    "confidence": "confidence",
    "margin": "margin",
    "design": "the design",
    "repeat": "the levels of repetition",
    "correction": "the correction",
}
"""Fields that a plan and its record have in common → what they are called in words."""


def _settings(source: Resolved | Plan, baseline: str) -> dict[str, object]:
    """In words → what the plan says of the whole run."""
    fields = source.model_dump(include=set(_SETTINGS))
    fields["repeat"] = {**_ONCE, **fields["repeat"]}
    return {"the baseline": baseline} | {name: fields[key] for key, name in _SETTINGS.items()}


def _energy_meters(resolved: Resolved) -> dict[str, object]:
    """Label → what the plan says of it; not how often it is read, nor what was found there."""
    return {each.label: (each.meter, each.options) for each in resolved.energy_meters}


def planned_otherwise(old: Resolved, plan: Plan, matrix: Matrix) -> bool:
    """True when the plan is not the one of the run; asks nothing of the host, unlike `changed`."""
    return (
        _settings(old, old.baseline) != _settings(plan, matrix.baseline)
        or _energy_meters(old) != {m.label: (m.kind.name, m.plain_options) for m in matrix.meters}
        or [(e.key, e.provider, e.options, e.factors) for e in old.environments]
        != [
            (e.key, e.provider.name, e.provider.options.model_dump(mode="json"), dict(e.factors))
            for e in matrix.environments
        ]
        or [(w.key, w.workload, w.parameters) for w in old.workloads]
        != [
            (load.key, load.workload.name, load.parameters.model_dump(mode="json"))
            for load in matrix.loads
        ]
    )


def moved(old: Resolved, now: Resolved) -> list[str]:
    """What makes blocks of one run differ, but not the trials of one block."""
    before = {each.label: each.channels for each in old.energy_meters}
    meters = [
        f"what the energy meter {each.label} tells"
        for each in now.energy_meters
        if before.get(each.label) != each.channels
    ]
    return diverged(old, now) + meters


def _identity(record: EnvironmentRecord | WorkloadRecord) -> object:
    """What it is by the plan and the provider's check; not what was seen inside, or is drawn."""
    return record.model_dump(mode="json", exclude={"nuisances", "facts", "scaling"})


def label(found: Environment, matrix: Matrix) -> str:
    """The provider's label; with the factors that vary, and a name where two are alike."""
    factors = [f"{name} {value}" for name, value in found.factors.items()]
    beside = [f"beside {found.neighbour.program}"] if found.neighbour else []
    text = ", ".join([found.provider.label(), *beside, *factors])
    name = _name(found)
    alike = {_name(e) for e in matrix.environments if e.provider.label() == found.provider.label()}
    return f"{name}: {text}" if alike != {name} and name != text else text


def nuisances(found: Environment, fleet: Fleet) -> Mapping[str, str]:
    """What must be equal over the environments.

    Limits are those of the specification: an instance in which others are seen is refused when it
    is made. CPUs are those of the first instance; those of the n-th follow from n everywhere.
    """
    spec = fleet.first(found.key).spec
    quota = f", quota {spec.cpu_quota:g}" if spec.cpu_quota is not None else ""
    return {
        "cpus": f"{len(spec.cpus)}{quota}",
        "pinning": ",".join(map(str, spec.cpus)),
        "memory": format_bytes(spec.memory_bytes),
        "userland": fleet.image.digest[:19] if fleet.image else "host",
        "instances": str(found.instances),
    }


def _name(found: Environment) -> str:
    """The plan's own name of it, without factors."""
    return found.key.removesuffix(AGAIN).partition("[")[0]
