"""From a plan to the environments and workloads of a run: factors multiplied out and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ullage import environments, workloads
from ullage.common.errors import (
    IMAGE_NO_ENTRY,
    PLAN_UNKNOWN_PROVIDER,
    PLAN_UNKNOWN_WORKLOAD,
    UllageError,
)
from ullage.common.fields import allowed_fields, checked, impossible, no_environment, unknown
from ullage.common.quantities import format_bytes, many
from ullage.common.yamlfile import FieldPath, YamlFile
from ullage.environments import Provider
from ullage.environments.placement import Resources
from ullage.host.image_parts.artifacts import Artifact
from ullage.host.network.links import Between, NetworkLink
from ullage.meters.energy.base import PlannedMeter
from ullage.nodes.options import NodePlan
from ullage.nodes.provider import ON_NODES, OnNodes, inner
from ullage.plan import meters, schedule
from ullage.plan.factors import AGAIN, MAX_CELLS, combinations, keys_of, merge, refuse_twins
from ullage.plan.neighbours import PROGRAMS
from ullage.plan.nodes import nodes_of, others_of, provider_for
from ullage.plan.schema import (
    MOST,
    Causes,
    ContainerImage,
    EnvironmentPlan,
    Fit,
    Neighbour,
    OwnImage,
    Plan,
    Settings,
    WorkloadPlan,
    host_cpus,
)
from ullage.runs.records import Design, ImageRecord, Metric, Price, size
from ullage.workloads.base import (
    OTHER_NODE,
    SECOND_BRIDGE,
    Conducted,
    Parameters,
    Place,
    Workload,
)
from ullage.workloads.mpi.mpi import MpiWorkload

SETTINGS = tuple(Settings.model_fields)
COMMON_ENVIRONMENT = (*EnvironmentPlan.model_fields, *SETTINGS)
_LEAVE: Final = "leave it out, or place its environments on this machine: `{local: true}`"
COMMON_WORKLOAD = tuple(allowed_fields(WorkloadPlan, ()))

_PERF: Final = "linux-perf"


@dataclass(frozen=True)
class Environment:
    """One environment of the run, ready to be made."""

    key: str
    """Unique in the run: `vm[nic=e1000]`, `native~again`."""
    name: str
    """Of its entry in the plan: `vm`, `native`."""
    provider: Provider
    factors: Mapping[str, Any]
    resources: Resources
    instances: int
    again_of: str | None = None
    """Key of the environment that this is the second copy of: the A/A pair."""
    neighbour: Neighbour | None = None
    """What works beside each of its trials."""
    neighbour_of: str | None = None
    """Key of the environment whose neighbour stands here."""
    price: Price | None = None
    image: ContainerImage | None = None
    """None: the plan's."""
    nodes: tuple[str, ...] = ()
    """The node of each of its instances; empty: this machine, as the plan names none."""
    other_nodes: tuple[str, ...] = ()
    """Another node for each of them, where a role stands `away`; empty: there is none."""

    @property
    def away(self) -> bool:
        """Does an instance of it stand on another machine?"""
        return isinstance(self.provider, OnNodes)


@dataclass(frozen=True)
class Case:
    """One workload with one parameter set."""

    key: str
    """Unique in the run: `sysbench-cpu[threads=2]`."""
    name: str
    """Of its entry in the plan: its `as:`, or the workload's own."""
    workload: Workload[Any]
    parameters: Parameters
    factors: Mapping[str, Any]
    really_away: bool = False
    """Does a role with the place `away` stand on another machine?"""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """What its trials yield."""
        return self.workload.metrics_of(self.parameters)

    @property
    def title(self) -> str:
        """What tables and sentences call it: its `as:` where it has one."""
        if self.name != self.workload.name:
            factors = (f"{name} {value}" for name, value in self.factors.items())
            return ", ".join([self.name, *factors])
        title = self.workload.title(self.parameters)
        if self.really_away or "away" not in self.places:
            return title
        return title.replace(OTHER_NODE, SECOND_BRIDGE)

    @property
    def places(self) -> set[Place]:
        """Where its roles stand."""
        return {role.place for role in self.workload.roles(self.parameters)}


@dataclass(frozen=True)
class Matrix:
    """Everything that each block runs."""

    baseline: str
    environments: tuple[Environment, ...]
    cases: tuple[Case, ...]
    design: Design = "solo"
    meters: tuple[PlannedMeter, ...] = ()
    """Of energy or power, read during the whole run."""
    link: NetworkLink | None = None
    """What joins each instance to the run's network; None: nothing slows it."""
    nodes: Mapping[str, NodePlan] = field(default_factory=dict)
    """The machines that its instances stand on; empty: this one."""
    between: Between | None = None
    """How they are joined; None: nothing is said."""
    causes: Causes = "host"

    @property
    def keys(self) -> list[str]:
        """Of its environments."""
        return [environment.key for environment in self.environments]

    @property
    def cells(self) -> int:
        """Trials in a block."""
        return size(self.design, len(self.environments), len(self.cases))

    def turns(self, seed: int, block: int, left: schedule.Left = ()) -> tuple[schedule.Turn, ...]:
        """What runs in a block, one turn after another, without the cells that have left."""
        cases = [case.key for case in self.cases]
        if self.design == "solo":
            slots = schedule.block(seed, block, self.keys, cases, left=left)
            return tuple((slot,) for slot in slots)
        others = [key for key in self.keys if key != self.baseline]
        return schedule.duet(seed, block, others, cases, self.baseline, left=left)

    def environment(self, key: str) -> Environment:
        return next(e for e in self.environments if e.key == key)

    def case(self, key: str) -> Case:
        return next(case for case in self.cases if case.key == key)


def resolve(plan: Plan, document: YamlFile) -> Matrix:
    """Multiply the plan out; raises UllageError at the first thing that cannot be."""
    planned = _environments(plan, document)
    keys = [environment.key for environment in planned]
    baseline = _key_named(plan.baseline, keys, document, ("baseline",))
    again = [baseline] + [
        _key_named(name, keys, document, ("again", i)) for i, name in enumerate(plan.again)
    ]
    cases = _cases(plan, document)
    if plan.nodes:
        planned, cases = _apart(planned, cases, plan, document)
    copies = tuple(_copy(environment) for environment in planned if environment.key in again)
    if plan.design == "duet":
        _check_duet(plan, planned, baseline, document)
        _check_endpoints(plan, cases, document)
    _check_partners(plan, cases, keys, document)
    _check_each(plan, planned, cases, document)
    _check_memory(plan, planned, cases, document)
    _check_entry_points(plan, planned, cases, document)
    _check_link(plan, planned, cases, document)
    planned_meters = meters.resolve(plan, document)
    _check_nodes(plan, planned, cases, document)
    _check_swap(planned, cases, document)
    matrix = Matrix(
        baseline,
        (*planned, *copies),
        cases,
        plan.design,
        planned_meters,
        plan.network if plan.network and plan.network.slows else None,
        plan.nodes,
        plan.network.between if plan.network else None,
        plan.causes,
    )
    if matrix.cells > MAX_CELLS:
        raise impossible(
            document,
            ("environments",),
            f"{many(len(matrix.environments), 'environment')} × {many(len(cases), 'workload')} are "
            f"{matrix.cells} cells a block",
            f"at most {MAX_CELLS} are allowed: vary fewer factors",
        )
    return matrix


def _check_duet(
    plan: Plan, planned: Sequence[Environment], baseline: str, document: YamlFile
) -> None:
    """Refuse environments that cannot run in pairs, each on its own CPUs."""
    if plan.again:
        raise impossible(
            document,
            ("again",),
            "a duet pairs every environment with the baseline, so only the baseline can run twice",
            "leave out `again`: the baseline has a second copy anyway",
        )
    cpus = next(
        environment.resources.cpus for environment in planned if environment.key == baseline
    )
    for environment in planned:
        path: FieldPath = ("environments", environment.name)
        if environment.instances > 1:
            raise impossible(
                document,
                (*path, "instances"),
                f"{environment.key}: a duet has one instance on each side, not several",
                "leave out `instances`, or `design: duet`",
            )
        if environment.resources.cpus != cpus:
            raise impossible(
                document,
                (*path, "resources"),
                f"{environment.key}: the two sides of a duet have as many CPUs as each other",
                "give every environment the same `cpus`",
            )


def _check_endpoints(plan: Plan, cases: Sequence[Case], document: YamlFile) -> None:
    """Refuse workloads that need more than the two instances of a pair."""
    for case in cases:
        if case.places != {"instance"}:
            raise impossible(
                document,
                _path(plan, case),
                f"{case.key} has a second endpoint, which no side of a duet has CPUs for",
                "leave it out, or measure it in a plan of its own without `design: duet`",
            )


def _check_partners(
    plan: Plan, cases: Sequence[Case], keys: Sequence[str], document: YamlFile
) -> None:
    """Refuse a workload whose other end stands in an environment that is not there."""
    for case in cases:
        partner = case.workload.partner(case.parameters)
        if partner is not None and partner not in keys:
            raise no_environment(document, _path(plan, case), partner, keys)


def _check_each(
    plan: Plan, planned: Sequence[Environment], cases: Sequence[Case], document: YamlFile
) -> None:
    """Refuse a trial over more instances than it has work for."""
    for case in cases:
        most = case.workload.most_instances(case.parameters)
        if most is None or "each" not in case.places:
            continue
        for environment in planned:
            if environment.instances > most:
                raise impossible(
                    document,
                    _path(plan, case),
                    f"{case.key} has work for {most} instances at most, and {environment.key} has "
                    f"{environment.instances}: the others would stand idle",
                    "give as many `ranks` as there are instances",
                )


def _check_memory(
    plan: Plan, planned: Sequence[Environment], cases: Sequence[Case], document: YamlFile
) -> None:
    """Refuse a trial that would only be killed for its memory."""
    for case in cases:
        least = case.workload.least_memory(case.parameters)
        for environment in planned:
            if environment.resources.memory < least:
                raise impossible(
                    document,
                    _path(plan, case),
                    f"{case.key} takes at least {format_bytes(least)} of memory, and "
                    f"{environment.key} has {format_bytes(environment.resources.memory)}",
                    "give it more `memory`, or the workload less to do at once",
                )


def _check_entry_points(
    plan: Plan, planned: Sequence[Environment], cases: Sequence[Case], document: YamlFile
) -> None:
    """Who says no program runs that of a container image; no other image has one."""
    entered = (isinstance(plan.image, OwnImage) and plan.image.oci is not None) or all(
        environment.image is not None for environment in planned
    )
    for case in cases:
        if case.workload.runs_entry_point(case.parameters) and not entered:
            raise impossible(
                document,
                _path(plan, case),
                f"{case.key} says no `argv`, and only an image of yours has an entry point",
                "write `argv: [PROGRAM, ARGUMENT]`, or `image: {oci: NAME}` in the plan",
            )


def _check_link(
    plan: Plan, planned: Sequence[Environment], cases: Sequence[Case], document: YamlFile
) -> None:
    """A link that nothing uses would be a promise that no figure keeps."""
    if plan.network is None:
        return
    if plan.network.between and not any(environment.away for environment in planned):
        reason = "`between` joins machines, and every instance of the plan stands on this one"
        raise impossible(document, ("network", "between"), reason, "leave it out, or add `nodes`")
    if all(case.places == {"instance"} for case in cases):
        raise impossible(
            document,
            ("network",),
            "no workload of the plan uses the run's network, so its links would slow nothing",
            "leave out `network`, or add a workload between two endpoints, such as iperf3",
        )
    for environment in planned:
        if not environment.provider.on_network:
            raise impossible(
                document,
                ("network",),
                f"{environment.key} has a network of its own, which no link of the run slows",
                "leave out `network`, or the environment",
            )


def _check_swap(planned: Sequence[Environment], cases: Sequence[Case], document: YamlFile) -> None:
    """PLAN_IMPOSSIBLE_MATRIX where a trial's own instances would have no part of it."""
    conducted = [case for case in cases if isinstance(case.workload, Conducted)]
    for environment in planned:
        if conducted and environment.provider.swap_request is not None:
            raise impossible(
                document,
                ("environments", environment.name, "swap"),
                f"{conducted[0].key} makes more instances, which would have no swap",
                "leave out `swap`, or the workload",
            )


def _check_nodes(
    plan: Plan, planned: Sequence[Environment], cases: Sequence[Case], document: YamlFile
) -> None:
    """PLAN_IMPOSSIBLE_MATRIX for what is not possible on other machines."""
    away = [environment for environment in planned if environment.away]
    if not away:
        return
    if plan.design == "duet":
        reason = "the two of a duet share one machine: not on `nodes`"
        raise impossible(document, ("design",), reason, _LEAVE)
    if plan.meters:
        raise impossible(
            document, ("meters",), "energy meters are read on this machine, not on `nodes`", _LEAVE
        )
    for environment in away:
        _check_on_nodes(environment, plan, document)
    for case in cases:
        if isinstance(case.workload, Conducted):
            reason = f"{case.key} makes more instances, which stand on this machine only"
            raise impossible(document, _path(plan, case), reason, _LEAVE)
        if (
            plan.image == "host"
            and isinstance(case.workload, MpiWorkload)
            and case.places != {"instance"}
        ):
            # mpirun wants the same paths everywhere; there each machine has others.
            reason = f"{case.key} over `nodes` needs the same files everywhere, which an image has"
            raise impossible(document, _path(plan, case), reason, "leave out `image: host`")


def _apart(
    planned: tuple[Environment, ...], cases: tuple[Case, ...], plan: Plan, document: YamlFile
) -> tuple[tuple[Environment, ...], tuple[Case, ...]]:
    """The same, where a role that stands `away` is on another of the nodes."""
    away = [case for case in cases if "away" in case.places]
    if not away or all(node.local for node in plan.nodes.values()):
        return planned, cases
    if len(plan.nodes) < 2:
        reason = f"{away[0].key} needs another node, and `nodes` has one"
        raise impossible(document, _path(plan, away[0]), reason, "name a second one in `nodes`")
    environments_ = []
    for environment in planned:
        others = others_of(environment.nodes, plan)
        provider = provider_for(inner(environment.provider), (*environment.nodes, *others), plan)
        environments_.append(replace(environment, other_nodes=others, provider=provider))
    return tuple(environments_), tuple(replace(case, really_away=True) for case in cases)


def _check_on_nodes(environment: Environment, plan: Plan, document: YamlFile) -> None:
    path: FieldPath = ("environments", environment.name)
    if environment.provider.name not in ON_NODES:
        raise impossible(
            document,
            path,
            f"{environment.name}: `{environment.provider.name}` works on this machine only",
            f"on `nodes` there are {', '.join(ON_NODES)}",
        )
    if environment.provider.swap_request is not None:
        reason = "swap is made on this machine only"
        raise impossible(document, (*path, "swap"), reason, _LEAVE)
    if environment.provider.data_request.file_system is not None:
        reason = "a device is given a file system on this machine only"
        raise impossible(document, (*path, "disk"), reason, _LEAVE)
    if environment.neighbour is not None:
        raise impossible(
            document, (*path, "neighbour"), "a neighbour works on this machine only", _LEAVE
        )
    if isinstance(plan.environments[environment.name].written.get("instances"), str | Fit):
        raise impossible(
            document,
            (*path, "instances"),
            "`fit` counts the CPUs of this machine, not those of `nodes`",
            "write their number",
        )


def require_entry_point(matrix: Matrix, image: ImageRecord) -> None:
    """IMAGE_NO_ENTRY when a workload runs what the image says, and the image says nothing."""
    says = image.config is not None and image.config.argv
    if not says and any(case.workload.runs_entry_point(case.parameters) for case in matrix.cases):
        raise UllageError(IMAGE_NO_ENTRY, reference=image.reference)


def _path(plan: Plan, case: Case) -> FieldPath:
    """Where the workload stands in the plan."""
    names = [entry.alias or entry.name for entry in plan.workloads]
    return ("workloads", names.index(case.name))


def _copy(environment: Environment) -> Environment:
    return replace(environment, key=environment.key + AGAIN, again_of=environment.key)


def _key_named(name: str, keys: list[str], document: YamlFile, path: FieldPath) -> str:
    if name in keys:
        return name
    raise no_environment(document, path, name, keys)


def _environments(plan: Plan, document: YamlFile) -> tuple[Environment, ...]:
    planned: list[Environment] = []
    for name, entry in plan.environments.items():
        path: FieldPath = ("environments", name)
        try:
            kind = environments.get(entry.provider)
        except KeyError:
            providers = environments.names()
            at = (*path, "provider")
            advice = environments.OTHER_NAMES.get(entry.provider.lower(), "")
            raise unknown(
                PLAN_UNKNOWN_PROVIDER, document, at, entry.provider, providers, suggestion=advice
            ) from None
        written = entry.written
        written["resources"] = _resources(written.get("resources"), document)
        vary: FieldPath = (*path, "vary")
        combined = combinations(entry.vary, document, vary, kind.options_model, also=SETTINGS)
        for key, factors in zip(keys_of(name, combined), combined, strict=True):
            data = merge(written, factors, document, path)
            own = {field: data.pop(field) for field in SETTINGS if field in data}
            settings = checked(Settings, own, document, path)
            if plan.image == "host" and settings.image is None and not kind.host_image:
                raise impossible(
                    document,
                    path,
                    f"{name}: a {kind.name} environment cannot run from the host's own userland",
                    "leave out `image: host`, so that one image is built for all",
                )
            options = checked(kind.options_model, data, document, path, also=COMMON_ENVIRONMENT)
            instances = _instances(settings, name, document, path)
            where = nodes_of(settings, instances, plan, document, path)
            planned.append(
                Environment(
                    key=key,
                    name=name,
                    provider=provider_for(kind(options), where, plan),
                    factors=factors,
                    resources=settings.resources,
                    instances=instances,
                    price=entry.price,
                    neighbour=settings.neighbour,
                    image=settings.image,
                    nodes=where,
                )
            )
    for environment in planned:
        _check_neighbour(environment, plan, document)
    refuse_twins([e.key for e in planned], document, ("environments",))
    return tuple(planned)


def _resources(own: Any, document: YamlFile) -> Any:
    """The plan's, with what the environment says otherwise of them."""
    shared = document.data.get("resources") or {}
    if own is None:
        return shared
    return {**shared, **own} if isinstance(own, dict) else own


def _instances(settings: Settings, name: str, document: YamlFile, path: FieldPath) -> int:
    """Their number; PLAN_IMPOSSIBLE_MATRIX when none fits on this host, or too many do."""
    instances = settings.instances
    if isinstance(instances, int):
        return instances
    cpus, host = settings.resources.cpus, host_cpus()
    fits = instances.copies(cpus, host)
    if not 1 <= fits <= MOST:
        raise impossible(
            document,
            (*path, "instances"),
            f"{name}: `{instances}` of {host} CPUs is room for {fits} instances with "
            f"{cpus:g} CPUs each; from 1 to {MOST} can be made",
            "give another factor, or other `cpus`",
        )
    return fits


def _check_neighbour(environment: Environment, plan: Plan, document: YamlFile) -> None:
    neighbour = environment.neighbour
    if neighbour is None:
        return
    path: FieldPath = ("environments", environment.name, "neighbour")
    names = [*plan.environments]
    if neighbour.environment != "host" and neighbour.environment not in names:
        raise no_environment(document, (*path, "environment"), neighbour.environment, names)
    stands_in = plan.environments.get(neighbour.environment)
    if stands_in is not None and stands_in.vary:
        raise impossible(
            document,
            (*path, "environment"),
            f"{neighbour.environment} is varied, so it is not one environment",
            "let the neighbour stand in one that is not varied",
        )
    if plan.design == "duet":
        raise impossible(
            document,
            path,
            "a duet has all CPUs: there is none for a neighbour",
            "leave out `neighbour`, or `design: duet`",
        )


def _cases(plan: Plan, document: YamlFile) -> tuple[Case, ...]:
    cases: list[Case] = []
    for i, entry in enumerate(plan.workloads):
        path: FieldPath = ("workloads", i)
        try:
            workload = workloads.get(entry.name)
        except KeyError:
            names = workloads.names()
            at = (*path, "name")
            raise unknown(PLAN_UNKNOWN_WORKLOAD, document, at, entry.name, names) from None
        model = workload.parameters_model
        name = entry.alias or entry.name
        combined = combinations(entry.vary, document, (*path, "vary"), model)
        for key, factors in zip(keys_of(name, combined), combined, strict=True):
            data = merge(entry.parameters, factors, document, path)
            parameters = checked(model, data, document, path, also=COMMON_WORKLOAD)
            cases.append(Case(key, name, workload, parameters, factors))
    refuse_twins([case.key for case in cases], document, ("workloads",))
    return tuple(cases)


def packages(matrix: Matrix | None) -> list[str]:
    """Debian packages that a run's image needs; without a matrix, those of every workload."""
    if matrix is None:
        return sorted({name for workload in workloads.WORKLOADS for name in workload.packages})
    names = {name for case in matrix.cases for name in case.workload.packages}
    for environment in matrix.environments:
        names |= set(environment.provider.packages())
        if environment.neighbour:
            names.add(PROGRAMS[environment.neighbour.program].package)
    if matrix.causes == "guest":
        names.add(_PERF)
    return sorted(names)


def artifacts(matrix: Matrix | None) -> list[Artifact]:
    """The same of files that no package holds."""
    if matrix is None:
        files = {file for workload in workloads.WORKLOADS for file in workload.artifacts}
    else:
        files = {file for case in matrix.cases for file in case.workload.artifacts}
    return sorted(files, key=lambda file: file.path)


def needed_programs(matrix: Matrix) -> dict[str, str]:
    """Programs that must be on the PATH of every instance → the Debian packages that hold them."""
    packages_by_program: dict[str, str] = {}
    for case in matrix.cases:
        packages_by_program |= case.workload.programs(case.parameters)
    for environment in matrix.environments:
        if neighbour := environment.neighbour:
            packages_by_program[neighbour.program] = PROGRAMS[neighbour.program].package
    return dict(sorted(packages_by_program.items()))
