"""The plan of an elastic run: what a user writes, checked field by field.

What people do and what a machine takes to boot is written in the users' time, in which a film has
its real length; `time_scale` says how many of the users' seconds pass in a real one. The network's
own quantities (bitrate, buffer) are real. `ullage.experiments.elastic.plan.units` does the
division.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, BaseModel, ByteSize, ConfigDict, Field, model_validator

from ullage import environments
from ullage.common.errors import (
    PLAN_BAD_FIELD,
    PLAN_NOT_ELASTIC,
    PLAN_UNKNOWN_PROVIDER,
    UllageError,
)
from ullage.common.fields import (
    Fields,
    Reader,
    allowed_fields,
    check_fields,
    check_kind,
    check_names,
    checked,
    no_environment,
    unknown,
)
from ullage.common.quantities import Bytes, Delay, Fraction, Memory, Seconds, format_seconds
from ullage.common.yamlfile import FieldPath, YamlFile
from ullage.environments import Provider
from ullage.environments.native import Native
from ullage.environments.placement import Resources
from ullage.experiments.elastic.folder import Capacity
from ullage.experiments.elastic.plan import machines, room
from ullage.experiments.elastic.plan.machines import PoolPlace
from ullage.host.network.links import Between
from ullage.nodes.options import MOST as MOST_NODES
from ullage.nodes.options import NodePlan, expanded
from ullage.plan.factors import AGAIN, refuse_twins
from ullage.plan.schema import MeterPlan
from ullage.runs.records import ServicePrice
from ullage.runs.room import OUTPUTS

MOST_VIEWERS: Final = 1_000_000
"""In a repetition: each has a record."""


COMING: Final[Mapping[str, Mapping[str, str]]] = {
    "poisson": {"rate": "rate_hz"},
    "uniform": {"rate": "rate_hz"},
    "trace": {"file": "path"},
    "flash-crowd": {"rate": "rate_hz", "peak": "peak_hz", "at": "at_s", "decay": "decay_s"},
}
"""Kind of arrivals → its fields, and what the viewers call them: rates in 1/s, times in s."""


def check_kind_fields(
    fields: Fields, kind: str, needed: Collection[str], every: Iterable[str]
) -> None:
    """ValueError unless what this kind needs is given, and of `every` field no other."""
    for name in every:
        if (getattr(fields, name) is None) == (name in needed):
            verb = "needs" if name in needed else "has no"
            raise ValueError(f"`kind: {kind}` {verb} `{name.rstrip('_')}`")


class Arrivals(Fields):
    """When viewers come, in the users' time."""

    kind: Literal["poisson", "uniform", "trace", "flash-crowd"] = Field(
        "poisson", description="`poisson`, `uniform`, `trace` (a file) or `flash-crowd`"
    )
    rate: float | None = Field(
        None, gt=0, le=1e6, allow_inf_nan=False, description="viewers a second of the users' time"
    )
    viewers: int | None = Field(
        None, ge=1, le=MOST_VIEWERS, strict=True, description="how many come; or say `lasting`"
    )
    lasting: Seconds | None = Field(
        None,
        description=f"for how long they come, about {MOST_VIEWERS:,} at most; or say `viewers`",
    )
    peak: float | None = Field(
        None, gt=0, le=1e6, allow_inf_nan=False, description="of a `flash-crowd`: its highest rate"
    )
    at: Delay | None = Field(None, description="of a `flash-crowd`: when the rate jumps")
    decay: Seconds | None = Field(
        None, description="of a `flash-crowd`: in how long the rate falls back by e"
    )
    file: Path | None = Field(
        None,
        description="of a `trace`: instants in seconds of the users' time, one a line; a relative "
        "path is one from where the command is started",
    )

    @model_validator(mode="after")
    def _whole(self) -> Arrivals:
        if self.kind != "trace" and (self.viewers is None) == (self.lasting is None):
            raise ValueError("say either `viewers` or `lasting`")
        every = dict.fromkeys(name for fields in COMING.values() for name in fields)
        check_kind_fields(self, self.kind, COMING[self.kind], every)
        if self.rate is not None and self.peak is not None and self.peak < self.rate:
            raise ValueError(f"peak ({self.peak:g}) is less than rate ({self.rate:g})")
        return self

    @property
    def expected(self) -> float:
        """Viewers who come while it lasts, on average; what `viewers` says where that is said."""
        if self.viewers is not None or self.rate is None or self.lasting is None:
            return float(self.viewers or 0)
        number = self.rate * self.lasting
        if self.peak is not None and self.at is not None and self.decay is not None:
            falling = max(0.0, self.lasting - self.at) / self.decay
            number += (self.peak - self.rate) * self.decay * -math.expm1(-falling)
        return number


def check_number(arrivals: Arrivals, document: YamlFile) -> None:
    """PLAN_BAD_FIELD where more would come than a repetition takes: `lasting` is a number too."""
    if arrivals.lasting is None or arrivals.expected <= MOST_VIEWERS:
        return
    raise UllageError(
        PLAN_BAD_FIELD,
        file=document.name,
        line=document.line(("arrivals", "lasting")),
        field="arrivals.lasting",
        found=f"{format_seconds(arrivals.lasting)}, in which {arrivals.expected:,.0f} viewers come",
        allowed=f"at most {MOST_VIEWERS:,} come in a repetition",
        suggestion="lower `lasting` or `rate`, or say how many come with `viewers`",
    )


ALLOCATABLE: Final = tuple(name for name in environments.names() if name != Native.name)
"""Providers that can make one more: not the machine itself."""


MOST_GENERATORS: Final = 32


class NodeResources(Resources):
    """Of a node, or of a machine from which viewers come: less than what a trial has."""

    memory: Memory = Field(
        Bytes(256 << 20), ge=64 << 20, description=Resources.model_fields["memory"].description
    )


class Policy(BaseModel):
    """How many nodes to have. The fields beside `name` are the policy's own."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str = Field(
        "elastic-movie", description="`elastic-movie`, or another of docs/guide/elastic-policies.md"
    )

    @model_validator(mode="after")
    def _finite(self) -> Policy:
        # JSON has no such numbers: the decisions would be told nothing, and take their default.
        for name, value in (self.model_extra or {}).items():
            if value is None or (isinstance(value, float) and not math.isfinite(value)):
                raise ValueError(f"`{name}` is {value}; leave it out for its default")
        return self


class Nodes(Fields):
    """What bounds the nodes, and how they are had."""

    max: int | None = Field(
        None, ge=1, le=250, description="nodes at a time; left out: 250, less the generators"
    )
    min: int = Field(0, ge=0, le=250, description="nodes that are kept, used or not")
    allocation: Literal["one_at_a_time", "one_per_need", "one_per_request"] = Field(
        "one_at_a_time", description="how many are made at the same time when viewers wait"
    )
    placement: Literal["fullest", "emptiest"] = Field(
        "fullest", description="the node with room that a viewer is sent to"
    )
    waiting_room: int | None = Field(
        None, ge=0, le=1_000_000, description="viewers that may wait; left out: any number"
    )

    @model_validator(mode="after")
    def _in_order(self) -> Nodes:
        if self.max is not None and self.min > self.max:
            raise ValueError(f"min ({self.min}) is larger than max ({self.max})")
        return self


class Film(Fields):
    """What every viewer watches."""

    length: Seconds = Field(1800, description="of the users' time: `30m`")
    bitrate: float = Field(
        1_000_000, ge=8_000, le=1e9, description="bits a real second, whatever the scale"
    )
    sent: float | None = Field(
        None,
        ge=8_000,
        le=1e9,
        description="at which it is read, `bitrate` or more: bits a real second; left out: as it "
        "plays",
    )
    generate: Literal["auto", "h264", "bytes"] = Field(
        "auto",
        description="`h264`: a real clip by ffmpeg; `bytes`: as many bytes as it would have; "
        "`auto`: a clip where ffmpeg is installed and the bitrate is above 50 kbit/s",
    )
    buffer: Seconds = Field(2, description="video that a viewer holds before it plays: real time")

    @model_validator(mode="after")
    def _in_time(self) -> Film:
        if self.pace < self.bitrate:
            raise ValueError(
                f"sent ({self.sent:g}) is less than bitrate ({self.bitrate:g}): every picture "
                "would stand still"
            )
        return self

    @property
    def pace(self) -> float:
        """Bits a real second that a viewer reads."""
        return self.sent or self.bitrate


class Attempts(Fields):
    """How often, and for how long at a time, something is tried."""

    tries: int = Field(3, ge=1, le=20, description="attempts in all")
    limit: Seconds = Field(120, description="real time that an attempt may take")


class Releases(Attempts):
    """A removal is given up sooner."""

    limit: Seconds = Field(60, description=Attempts.model_fields["limit"].description)


class Budgets(Fields):
    """What is spent before something is given up: real time."""

    allocate: Attempts = Field(Attempts(), description="to make a node")
    release: Releases = Field(Releases(), description="to remove a node")
    front: int = Field(3, ge=0, le=100, description="times that a front that died is restarted")
    silence: Seconds = Field(60, description="of a front that runs and answers nobody")
    repetition: Seconds | None = Field(
        None, description="for a repetition; left out: what its viewers may take, and 5 minutes"
    )
    outputs: Bytes = Field(
        ByteSize(OUTPUTS),
        gt=0,
        description="of the disk: a run that has more stops before its next repetition",
    )


class NodeRoom(Fields):
    """How many viewers a node takes: a number, or what an earlier run has measured."""

    viewers: int | None = Field(
        None, ge=1, le=1_000_000, strict=True, description="`room: 40` is short for it"
    )
    capacity: Path | None = Field(
        None,
        description="folder of a run with the workload `streaming`, which looked for the largest "
        "number of viewers of an instance: the median of its trials. A relative path is one from "
        "where the command is started",
    )
    environment: str | None = Field(
        None, description="of that run; left out: the one that is called as here"
    )

    @model_validator(mode="before")
    @classmethod
    def _number(cls, data: Any) -> Any:
        return data if isinstance(data, Mapping) else {"viewers": data}

    @model_validator(mode="after")
    def _one_of_both(self) -> NodeRoom:
        if (self.viewers is None) == (self.capacity is None):
            raise ValueError("a number of viewers, or `{capacity: RUN}`")
        if self.capacity is None and self.environment is not None:
            raise ValueError("`environment` is one of the run that `capacity` names")
        return self


class ProviderPlan(BaseModel):
    """Machines of one kind. Fields not named here belong to their provider."""

    model_config = ConfigDict(extra="allow", frozen=True)

    @property
    def options(self) -> dict[str, Any]:
        """The provider's own fields."""
        return dict(self.model_extra or {})


class GeneratorsPlan(ProviderPlan):
    """Machines from which the viewers come."""

    number: int = Field(2, ge=1, le=MOST_GENERATORS, strict=True, description="machines")
    provider: str = Field("oci", description="`native`, `oci`, `lxc`, `qemu`: what they are")
    resources: NodeResources = Field(NodeResources(), description="of each")


class AllocationTime(Fields):
    """How long nodes take from their request, whatever makes them."""

    mean: Delay = Field(gt=0, description="users' time")
    deviation: Delay = Field(0, description="users' time: each node has a draw of its own")


class ElasticEnvironment(ProviderPlan):
    provider: str = Field(description="`oci`, `lxc`, `qemu`: one that can make one more")
    resources: NodeResources | None = Field(None, description="of a node, other than the plan's")
    price: ServicePrice | None = Field(
        None,
        description="of a node: `{per_hour: 0.02, currency: EUR, billed: minute}`, and of what "
        "it serves: `per_gb`, `per_request`",
    )
    boot_delay: Delay | None = Field(None, description="other than the plan's")
    allocation_time: AllocationTime | None = Field(
        None,
        description="`{mean: 40s, deviation: 2s}`: nodes are held back until they took so long "
        "from their request; in place of `boot_delay`",
    )
    policy: Policy | None = Field(None, description="other than the plan's")
    nodes: Nodes | None = Field(None, description="other than the plan's")
    room: NodeRoom | None = Field(None, description="other than the plan's")
    place: PoolPlace | None = Field(None, description="other than the plan's")

    @model_validator(mode="after")
    def _held_in_one_way(self) -> ElasticEnvironment:
        if self.boot_delay is not None and self.allocation_time is not None:
            raise ValueError("boot_delay or allocation_time, not both: each holds a node back")
        return self


class ElasticPlan(Fields):
    DESCRIBED: ClassVar = "docs/guide/elastic.md"

    name: str = Field(description="becomes part of the run folder's name")
    environments: dict[str, ElasticEnvironment] = Field(min_length=1)
    baseline: str | None = Field(
        None, description="the environment that others are compared with; left out: none"
    )
    again: bool = Field(
        False,
        description="the baseline runs twice in each repetition: their difference is what chance "
        "makes, and is never judged",
    )
    image: Literal["built", "host"] = Field(
        "built", description="`host`: the host's own NGINX, for `oci` with crun only"
    )
    resources: NodeResources = Field(
        NodeResources(), description="of every node of every environment"
    )
    meters: dict[str, MeterPlan] = Field(
        {},
        description="of energy: label → `{meter: NAME, …}`; the figure is that of the first "
        "one present",
    )
    room: NodeRoom = Field(
        description="viewers that one node takes: a number, or `{capacity: RUN}` of `streaming`"
    )
    policy: Policy = Field(
        Policy(name="elastic-movie"), description="how many nodes to have: `{name: elastic-movie}`"
    )
    nodes: Nodes = Field(Nodes(), description="what bounds the nodes, and how they are had")
    machines: Annotated[dict[str, NodePlan], AfterValidator(expanded)] = Field(
        {},
        max_length=MOST_NODES,
        description="on which nodes are made: name → `{ssh: root@a}`, `{local: true}` or "
        "`{slurm: 2}`, as `nodes` of an ordinary plan has them (here `nodes` are the pool's); left "
        "out: this one alone",
    )
    place: PoolPlace | None = Field(
        None,
        description="of a node on `machines`: `spread`, the default: on the one of which the least "
        "is taken; `pack`: every CPU of one has a node before another gets any",
    )
    between: Between | None = Field(
        None, description="how `machines` are joined: `routes`, the default, or `vxlan`"
    )
    arrivals: Arrivals = Field(description="when viewers come")
    video: Film = Field(Film(), description="what they watch")
    generators: GeneratorsPlan | None = Field(
        None,
        description="instances of this host from which the viewers come, each with its share; "
        "left out: they are processes of the host",
    )
    patience: Delay = Field(
        60,
        description="users' time that a viewer waits for a node; 0: who finds no room is blocked "
        "at once",
    )
    boot_delay: Delay = Field(
        0, description="users' time that every node is held back: injected, and labelled"
    )
    time_scale: float = Field(
        1, ge=1, le=3600, allow_inf_nan=False, description="users' seconds in a real one"
    )
    repetitions: int = Field(3, ge=1, le=10_000, strict=True, description="of each environment")
    lateness_limit: Seconds = Field(
        0.05, description="real time; viewers who come later than this make it invalid"
    )
    budgets: Budgets = Field(Budgets(), description="what is spent before something is given up")
    confidence: Fraction = Field(0.95, description="of every interval")
    seed: int | None = Field(
        None, ge=0, lt=1 << 48, description="of order and arrivals; drawn when absent"
    )


@dataclass(frozen=True)
class NodeEnvironment:
    """One environment of the run, ready to make nodes."""

    key: str
    provider: Provider
    resources: Resources
    boot_delay: float
    """In the users' time."""
    allocation_time: AllocationTime | None
    policy: Policy
    nodes: Nodes
    room: int
    """Viewers that a node takes."""
    capacity: Capacity | None
    """Where the room was measured; None: the plan says it."""
    price: ServicePrice | None = None
    again_of: str | None = None
    """This is the baseline's second copy."""
    place: PoolPlace | None = None
    """How its nodes are spread over the machines; None: the plan names none."""


@dataclass(frozen=True)
class Generators:
    """The machines from which the viewers come."""

    number: int
    provider: Provider
    resources: Resources


COMMON: Final = tuple(allowed_fields(ElasticEnvironment, ()))
GENERATORS: Final = tuple(allowed_fields(GeneratorsPlan, ()))


def check(document: YamlFile) -> ElasticPlan:
    """Check every field but those that belong to providers; `resolve` checks these."""
    check_fields(document, "plan", "docs/plans/elastic-lxc.yaml is one")
    check_kind(document, own="arrivals", foreign="workloads", wrong=PLAN_NOT_ELASTIC)
    plan = checked(ElasticPlan, document.data, document, ())
    named: list[tuple[FieldPath, str]] = [(("name",), plan.name)]
    named += [(("environments", key), key) for key in plan.environments]
    check_names(document, named + [(("machines", key), key) for key in plan.machines])
    if plan.baseline is not None and plan.baseline not in plan.environments:
        raise no_environment(document, ("baseline",), plan.baseline, list(plan.environments))
    if plan.again:
        _check_again(plan, document)
    check_number(plan.arrivals, document)
    _check_currency(plan, document)
    machines.check(plan, document)
    return plan


def _check_currency(plan: ElasticPlan, document: YamlFile) -> None:
    """PLAN_BAD_FIELD where prices are in several: their rate of exchange is not known here."""
    prices = {key: e.price.currency for key, e in plan.environments.items() if e.price is not None}
    first = next(iter(prices.values()), "")
    for key, currency in prices.items():
        if currency != first:
            raise UllageError(
                PLAN_BAD_FIELD,
                file=document.name,
                line=document.line(("environments", key, "price")),
                field=f"environments.{key}.price.currency",
                found=currency,
                allowed=f"all prices of a plan are in one currency, here {first}",
                suggestion="convert it: no rate of exchange is known here",
            )


_READER: Final = Reader(check)
load, loads = _READER.load, _READER.loads


def _check_again(plan: ElasticPlan, document: YamlFile) -> None:
    """A baseline is needed, and its copy's folder must not be another's."""
    copy_name = f"{plan.baseline}-again"
    if plan.baseline is not None and copy_name not in plan.environments:
        return
    raise UllageError(
        PLAN_BAD_FIELD,
        file=document.name,
        line=document.line(("again",)),
        field="again",
        found="true, and no `baseline`" if plan.baseline is None else f"true, and {copy_name}",
        allowed="`again: true` has the baseline run a second time, under its name with `-again`",
        suggestion="name a `baseline`" if plan.baseline is None else f"call {copy_name} otherwise",
    )


def resolve(plan: ElasticPlan, document: YamlFile) -> tuple[NodeEnvironment, ...]:
    """The environments, with their providers, the baseline's copy last; the first fault is
    raised. Two that would be one as folders (`a-b`, `a--b`) are refused: PLAN_IMPOSSIBLE_MATRIX.
    """
    resolved = [_environment(plan, name, document) for name in plan.environments]
    if plan.again and plan.baseline is not None:
        copy = _environment(plan, plan.baseline, document)
        resolved.append(replace(copy, key=plan.baseline + AGAIN, again_of=plan.baseline))
    refuse_twins([environment.key for environment in resolved], document, ("environments",))
    return tuple(resolved)


def generators(plan: ElasticPlan, document: YamlFile) -> Generators | None:
    """Where the viewers come from, with its provider; None: from the host itself."""
    entry, path = plan.generators, ("generators",)
    if entry is None:
        return None
    provider = _made_by(plan, document, path, entry, environments.names())
    _check_beside(plan, provider, document)
    return Generators(entry.number, provider, entry.resources)


def _check_beside(plan: ElasticPlan, provider: Provider, document: YamlFile) -> None:
    """PLAN_BAD_FIELD where the generators, which have the run's network alone, reach no node."""
    nodes = [environments.get(entry.provider) for entry in plan.environments.values()]
    if not provider.elsewhere and not any(kind.elsewhere for kind in nodes):
        return
    raise UllageError(
        PLAN_BAD_FIELD,
        file=document.name,
        line=document.line(("generators",)),
        field="generators",
        found=provider.name,
        allowed="they stand on the run's own network, which no cloud is on",
        suggestion="leave `generators` out where nodes are instances of a cloud",
    )


def _environment(plan: ElasticPlan, name: str, document: YamlFile) -> NodeEnvironment:
    entry = plan.environments[name]
    path = ("environments", name)
    viewers, capacity = _room(plan, name)
    return NodeEnvironment(
        key=name,
        provider=machines.provider(
            _made_by(plan, document, path, entry, ALLOCATABLE), plan, document, path
        ),
        resources=_resources(plan, entry),
        room=viewers,
        capacity=capacity,
        boot_delay=_boot_delay(plan, entry),
        allocation_time=entry.allocation_time,
        policy=entry.policy or plan.policy,
        nodes=entry.nodes or plan.nodes,
        price=entry.price,
        place=machines.place(plan, entry.place, document, path),
    )


def _room(plan: ElasticPlan, name: str) -> tuple[int, Capacity | None]:
    """Viewers that a node takes, and where that was measured, if that is what the plan says."""
    entry = plan.environments[name]
    own = entry.room or plan.room
    if own.viewers is not None:
        return own.viewers, None
    assert own.capacity is not None
    resources, rates = _resources(plan, entry), room.Rates(plan.video.bitrate, plan.video.sent)
    capacity = room.measured(own.capacity, own.environment or name, resources, rates)
    return capacity.viewers, capacity


def _boot_delay(plan: ElasticPlan, entry: ElasticEnvironment) -> float:
    """The plan's, unless the environment holds its nodes in a way of its own."""
    if entry.allocation_time is not None:
        return 0.0
    return plan.boot_delay if entry.boot_delay is None else entry.boot_delay


def _resources(plan: ElasticPlan, entry: ElasticEnvironment) -> NodeResources:
    """The plan's, with what the environment says otherwise of them."""
    if entry.resources is None:
        return plan.resources
    return plan.resources.model_copy(update=entry.resources.model_dump(exclude_unset=True))


def _made_by(
    plan: ElasticPlan,
    document: YamlFile,
    path: tuple[str, ...],
    entry: ElasticEnvironment | GeneratorsPlan,
    allowed: Sequence[str],
) -> Provider:
    """The provider that `entry`, which stands at `path`, names, with its fields for it."""
    name = entry.provider
    if name not in allowed:
        only_one = "native is the machine itself: there is no second one"
        raise unknown(
            PLAN_UNKNOWN_PROVIDER,
            document,
            (*path, "provider"),
            name,
            allowed,
            suggestion=only_one if name == Native.name else "",
        )
    kind = environments.get(name)
    if plan.image == "host" and not kind.host_image:
        raise UllageError(
            PLAN_BAD_FIELD,
            file=document.name,
            line=document.line(("image",)),
            field="image",
            found="host",
            allowed=f"{path[-1]}: {name} cannot run from the host's own userland",
            suggestion="leave out `image: host`, so that one image is built for all",
        )
    also = COMMON if path[0] == "environments" else GENERATORS
    provider = kind(checked(kind.options_model, entry.options, document, path, also=also))
    if entry.options.get("userland") == "own":
        raise UllageError(
            PLAN_BAD_FIELD,
            file=document.name,
            line=document.line((*path, "userland")),
            field=f"{'.'.join(path)}.userland",
            found="own",
            allowed="all nodes of an elastic run serve from the image",
            suggestion="leave it out",
        )
    if provider.swap_request is not None:
        raise UllageError(
            PLAN_BAD_FIELD,
            file=document.name,
            line=document.line((*path, "swap")),
            field=f"{'.'.join(path)}.swap",
            found=str(provider.swap_request),
            allowed="machines of an elastic run do not swap",
            suggestion="leave it out",
        )
    return provider
