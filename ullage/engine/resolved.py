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
from ullage.plan.matrix import Case, Environment, Matrix
from ullage.plan.schema import NODE_NUISANCES, NUISANCES, Plan, Repeat
from ullage.runs.events import ProcessClock
from ullage.runs.records import (
    EnvironmentRecord,
    ImageRecord,
    MeterRecord,
    NodeRecord,
    Parity,
    Resolved,
    WorkloadRecord,
)

if TYPE_CHECKING:
    from ullage.engine.fleet import Fleet
    from ullage.nodes.roster import Roster

DIVERGED = "run-moved"
"""Code of the warning that a run goes on under other circumstances than it began with."""


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
    """What is not what it was when the run began, in words."""
    names = ("hostname", "kernel", "cpu_model", "memory_bytes", "microcode")
    differences = [f"the host's {n}" for n in names if old.host.get(n) != now.host.get(n)]
    differences += ["the version of ullage"] if old.ullage != now.ullage else []
    both = old.programs.keys() & now.programs.keys()
    changed = sorted(name for name in both if old.programs[name] != now.programs[name])
    return differences + [f"the program {name}" for name in changed]


def compare(nuisances: Mapping[str, Mapping[str, str]], allow: Sequence[str]) -> tuple[Parity, ...]:
    """Compare environment → nuisance → value; PARITY_UNEQUAL for the first not allowed one."""
    rows = []
    for name in (*NUISANCES, *NODE_NUISANCES):
        if not all(name in values_of for values_of in nuisances.values()):
            continue  # the plan has no nodes
        values = {environment: values_of[name] for environment, values_of in nuisances.items()}
        equal = len(set(values.values())) == 1
        if not equal and name not in allow:
            raise UllageError(PARITY_UNEQUAL, nuisance=name, values=_in_words(values))
        rows.append(Parity(nuisance=name, equal=equal, allowed=not equal, values=values))
    return tuple(rows)


def _in_words(values: Mapping[str, str]) -> str:
    return "; ".join(f"{environment}: {value}" for environment, value in values.items())


_ONCE = Repeat().model_dump()
"""What the plan's `repeat` was for runs that do not have it yet."""


def parameters(case: Case) -> dict[str, Any]:
    """A workload's parameters, as a record has them: by the names that a plan has."""
    return case.parameters.model_dump(mode="json", by_alias=True)


def workload(case: Case) -> WorkloadRecord:
    """A workload, with the definitions of its metrics: an old run reads right for ever."""
    return WorkloadRecord(
        key=case.key,
        name=case.name,
        workload=case.workload.name,
        resource=case.workload.resource,
        title=case.title,
        parameters=parameters(case),
        factors=dict(case.factors),
        metrics=case.metrics,
        scaling=case.workload.scaling,
        files={
            name: f"sha256:{sha256_of(file)}"
            for name, file in case.workload.files(case.parameters).items()
        },
        duration_s=case.workload.duration_s(case.parameters),
    )


def meters() -> tuple[MeterRecord, ...]:
    """The meters, with the definitions of their quantities."""
    return tuple(MeterRecord(name=meter.name, quantities=meter.quantities) for meter in METERS)


def environment(
    planned: Environment, matrix: Matrix, fleet: Fleet | None, image: ImageRecord | None = None
) -> EnvironmentRecord:
    """An environment; with what was verified inside once the fleet is up. image: its own."""
    provider = planned.provider
    up = fleet is not None and fleet.up(planned.key)
    again = planned.again_of is not None
    return EnvironmentRecord(
        key=planned.key,
        label=label(planned, matrix) + (", again" if again else ""),
        provider=provider.name,
        options=provider.options.model_dump(mode="json"),
        factors=dict(planned.factors),
        again_of=planned.again_of,
        price=planned.price,
        emulated=provider.emulated,
        treatments={
            **provider.treatments(),
            **provider.data_treatments(),
            **_image(image),
            **_root(planned, fleet),
            **_neighbour(planned),
        },
        nuisances=dict(nuisances(planned, fleet)) if fleet and up else {},
        facts=dict(fleet.first(planned.key).agent.facts) if fleet and up else {},
        image=image,
        nodes=planned.nodes,
    )


def _image(image: ImageRecord | None) -> dict[str, str]:
    return {} if image is None else {"image": f"{image.reference} ({image.digest[:19]})"}


def nodes(matrix: Matrix, roster: Roster) -> dict[str, NodeRecord]:
    """The machines of the plan."""
    addresses = {node.name: node.target.address for node in roster.away}
    return {
        name: NodeRecord(address=addresses.get(name), facts=dict(roster.facts.get(name, {})))
        for name in matrix.nodes
    }


def compare_userlands(packages: Mapping[str, Mapping[str, str]], allow: Sequence[str]) -> None:
    """PARITY_UNEQUAL where `image: host` means other packages on other nodes."""
    values = {
        node: ", ".join(f"{name} {version}" for name, version in sorted(known.items()))
        for node, known in packages.items()
    }
    if len(set(values.values())) > 1 and "userland" not in allow:
        raise UllageError(PARITY_UNEQUAL, nuisance="userland", values=_in_words(values))


def _root(planned: Environment, fleet: Fleet | None) -> dict[str, str]:
    image = fleet.image_of(planned) if fleet is not None else None
    writable = image is not None and image.writable and planned.provider.userland() is None
    return {"root": planned.provider.writable_root()} if writable else {}


def _neighbour(planned: Environment) -> dict[str, str]:
    neighbour, instances = planned.neighbour, planned.instances
    return {"neighbour": neighbours.in_words(neighbour, instances)} if neighbour else {}


def own_clock() -> ProcessClock:
    """What is to be said of the controller's clock."""
    promise = clock.promise()
    return ProcessClock(
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
        "the image": record.image and (record.image.digest, record.image.root),
        **{f"environment {cell.key}": _identity(cell) for cell in record.environments},
        **{f"workload {case.key}": _identity(case) for case in record.workloads},
        **{f"the energy meter {label}": meter for label, meter in _energy_meters(record).items()},
    }


_SETTINGS: Final = {
    "resources": "resources",
    "network": "the network's links",
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
    return {meter.label: (meter.meter, meter.options) for meter in resolved.energy_meters}


def planned_otherwise(old: Resolved, plan: Plan, matrix: Matrix) -> bool:
    """True when the plan is not the one of the run; asks nothing of the host, unlike `changed`."""
    return (
        _settings(old, old.baseline) != _settings(plan, matrix.baseline)
        or _energy_meters(old) != {m.label: (m.kind.name, m.plain_options) for m in matrix.meters}
        or [
            (e.key, e.provider, e.options, e.factors, e.image and e.image.reference)
            for e in old.environments
        ]
        != [
            (
                e.key,
                e.provider.name,
                e.provider.options.model_dump(mode="json"),
                dict(e.factors),
                e.image and e.image.oci,
            )
            for e in matrix.environments
        ]
        or [(w.key, w.workload, w.parameters) for w in old.workloads]
        != [(case.key, case.workload.name, parameters(case)) for case in matrix.cases]
    )


def moved(old: Resolved, now: Resolved) -> list[str]:
    """What has changed that makes blocks of a run differ, though not the trials of one block."""
    before = {meter.label: meter.channels for meter in old.energy_meters}
    meters = [
        f"what the energy meter {meter.label} tells"
        for meter in now.energy_meters
        if before.get(meter.label) != meter.channels
    ]
    return diverged(old, now) + meters


def _identity(record: EnvironmentRecord | WorkloadRecord) -> object:
    """What it is by the plan and the provider's check; not what was seen inside, or is drawn."""
    return record.model_dump(mode="json", exclude={"nuisances", "facts", "scaling", "title"})


def label(planned: Environment, matrix: Matrix) -> str:
    """The provider's label; with the factors that vary, and a name where two are alike."""
    factors = [f"{name} {value}" for name, value in planned.factors.items()]
    neighbour = [f"beside {planned.neighbour.program}"] if planned.neighbour else []
    text = ", ".join([planned.provider.label(), *neighbour, *factors, *_where(planned)])
    alike = {e.name for e in matrix.environments if e.provider.label() == planned.provider.label()}
    return f"{planned.name}: {text}" if alike != {planned.name} and planned.name != text else text


def nuisances(planned: Environment, fleet: Fleet) -> Mapping[str, str]:
    """What must be equal over the environments.

    Limits are those of the specification: an instance in which others are seen is refused when it
    is made. CPUs are those of the first instance; those of the n-th follow from n everywhere.
    """
    spec, image = fleet.first(planned.key).spec, fleet.image_of(planned)
    quota = f", quota {spec.cpu_quota:g}" if spec.cpu_quota is not None else ""
    return {
        "cpus": f"{len(spec.cpu_ids)}{quota}",
        "pinning": planned.provider.pinning() or ",".join(map(str, spec.cpu_ids)),
        "memory": format_bytes(spec.memory_bytes),
        "userland": planned.provider.userland() or (image.digest[:19] if image else "host"),
        "instances": str(planned.instances),
        **_machines(planned, fleet.roster.facts),
    }


def _where(planned: Environment) -> list[str]:
    """`on a`, or `on a and b`: never `place`, which a table shows as a factor."""
    names = list(dict.fromkeys(planned.nodes))
    return [f"on {' and '.join(names)}"] if names else []


_GIB: Final = 1 << 30


def _machines(planned: Environment, facts: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """What must be equal of the machines that it stands on, where the plan names them."""
    machines = [facts.get(name, {}) for name in dict.fromkeys(planned.nodes)]
    if not machines:
        return {}
    values = {
        "cpu-model": [str(machine.get("cpu_model", "unknown")) for machine in machines],
        "kernel": [str(machine.get("kernel", "unknown")) for machine in machines],
        "governor": [str(machine.get("governor", "none")) for machine in machines],
        "node-memory": [f"{_bytes(machine) / _GIB:.1f}GiB" for machine in machines],
    }
    return {name: " and ".join(dict.fromkeys(of_nodes)) for name, of_nodes in values.items()}


def _bytes(machine: Mapping[str, Any]) -> int:
    memory = machine.get("memory_bytes")
    return memory if isinstance(memory, int) else 0
