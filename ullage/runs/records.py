"""The run folder: what a run leaves behind, typed. Here what stands in `resolved.json`.

`journal.jsonl` (`events`), `resolved.json` and the raw outputs under `trials/` are the truth; all
else is derived from them. `docs/guide/run-folder.md` describes the same for readers of other
languages. All times are seconds or nanoseconds as the name says; instants `*_ns` are the
controller's clock, which is the run's global one (`ullage.host.clock`), unless the name says
`epoch` or `local`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

# A figure at the wall is never taken for one of a package, nor an estimate for a measurement.
Measurand = Literal["power", "energy"]
"""A power in W at the instant of the reading; or an energy in J that only grows, until it wraps."""
Method = Literal["measured", "attributed", "estimated"]
"""By an instrument; divided among several by their use; or from a model."""
Scope = Literal["wall", "package", "memory", "guest"]
"""The whole machine behind its plug, a processor, its memory, or what one guest is said to take."""
Observer = Literal["host", "guest", "bmc"]
"""Who looked: this host's operating system, a guest's, or the board's own controller."""

LARGEST = 1e150
"""No reading is so far from zero: its square is still a number."""

Label = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,39}$")]


class Channel(BaseModel):
    """One thing that a meter tells."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Label
    """Unique in its meter: `wall`, `package-0`, `memory-1`."""
    kind: Measurand
    method: Method
    scope: Scope
    observer: Observer
    resolution: float = Field(ge=0, le=LARGEST)
    """The smallest step of its value, in W or J; 0: not known to have one."""
    accuracy: float | None = Field(None, ge=0, lt=1)
    """Relative half width that its maker states, such as 0.015; None: the maker states none."""
    wraps_at: float | None = Field(None, gt=0, le=LARGEST)
    """J at which a counter starts at 0 again; None: it does not."""
    source: str = ""
    """What exactly is read, for a reader who checks: `/sys/class/powercap/intel-rapl:0`."""


def addable(channels: Iterable[Channel], scope: Scope, method: Method) -> tuple[Channel, ...]:
    """The channels of a scope and method that add up.

    A power and a counter of the same thing are never added: where a meter has both, it is the
    power's, as the counters of boards that have both are coarse.
    """
    matching = [
        channel for channel in channels if (channel.scope, channel.method) == (scope, method)
    ]
    powers = [channel for channel in matching if channel.kind == "power"]
    return tuple(powers or matching)


JOURNAL: Final = "journal.jsonl"
PLAN: Final = "plan.yaml"
RESOLVED: Final = "resolved.json"
TRIALS: Final = "trials"

FORMAT: Final = 2
LATEST_NS = 1 << 62
"""No instant is so late, by any clock: the sum of two fits in the tables' 64 bits."""

Nanoseconds = Annotated[int, Field(ge=0, lt=LATEST_NS)]
NanosecondDifference = Annotated[int, Field(gt=-LATEST_NS, lt=LATEST_NS)]
"""Between two clocks, in nanoseconds."""
Natural = Annotated[int, Field(ge=0, lt=1 << 31)]
"""The number of a block, a place in it, or how often something was seen."""

Finite = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, lt=LATEST_NS / 1e9, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, lt=1 << 62)]
"""Of whatever: no more than the tables' 64 bits hold."""
Seed = Annotated[int, Field(ge=0, lt=1 << 63)]
Digests = dict[str, Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]]
"""Path of a file, relative to the run folder → what it holds."""

Better = Literal["higher", "lower"]
Resource = Literal["cpu", "memory", "disk", "network", "other"]
Scalar = Annotated[float, Field(ge=-sys.float_info.max, le=sys.float_info.max)]
"""A figure: as large as a number can be. What analysis cannot square it refuses itself."""
Curve = list[tuple[Scalar, Scalar]]
Metered = dict[str, dict[str, Finite]]
"""Meter → quantity → value."""

Design = Literal["solo", "duet"]
"""Trials one after another, or in pairs at the same time on disjoint halves of the CPUs."""
Correction = Literal["holm", "benjamini-hochberg"]
"""Of the family of verdicts: of the chance of any false claim, or of the share of false claims."""


class Record(BaseModel):
    """Base of everything stored: unknown fields are kept out, values are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Coordinate(Record):
    """What a curve runs along, such as message size in bytes."""

    name: str
    unit: str
    scale: Literal["linear", "log", "quantile"] = "linear"
    """How charts draw it; `quantile`: a distribution, by the share that is not above the value."""


class Metric(Record):
    """One figure that a workload yields: its definition, kept with every run."""

    name: str
    unit: str
    """SI unit: `s`, `1/s`, `B/s`, `bit/s`, `1` …"""
    better: Better
    description: str
    primary: bool = False
    coordinate: Coordinate | None = None
    """None: one number a trial; else a curve of (coordinate, value) points."""
    part: bool = False
    """A time of a part of the work, such as of one answer among many, or a CPU's: no cost and no
    energy of the work follows from it."""
    resolution: float | None = Field(None, gt=0, le=LARGEST)
    """The last digit that the tool prints, in the unit; None: more digits than matter, or unknown.
    Figures of it need not show it: a constant does not."""


class Quantity(Record):
    """One figure that a meter yields: its definition, kept with every run."""

    name: str
    unit: str
    """SI unit, as of a metric."""
    description: str


class MeterRecord(Record):
    """A meter, as it stands in `resolved.json`."""

    name: str
    quantities: tuple[Quantity, ...]


class EnergyMeterRecord(Record):
    """A meter of energy or power that the plan names; its readings are in `meters/LABEL.jsonl`."""

    label: str
    """What the plan calls it."""
    meter: str
    options: dict[str, Any]
    every_s: Seconds
    """Between two readings."""
    channels: tuple[Channel, ...] = ()
    """None: it was not there when the run began, and the plan calls it optional."""


def _several(value: Any) -> Any:
    """Runs of before there could be several have one, or null."""
    if value is None or isinstance(value, str):
        return () if value is None else (value,)
    return value


class WorkloadRecord(Record):
    """A workload with one parameter set, as it stands in `resolved.json`."""

    key: str
    """`sysbench-cpu[threads=2]`: unique in the run."""
    name: str = ""
    """Of its entry in the plan: its `as:`, or the workload's own."""
    workload: str
    resource: Resource
    title: str
    parameters: dict[str, Any]
    factors: dict[str, Any] = {}
    """The parameters that vary in this plan: what tells the keys apart."""
    metrics: tuple[Metric, ...]
    scaling: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()
    """The parameters that show how the work scales, when they vary."""
    files: dict[str, str] = {}
    """What of ours was put inside → `sha256:…`."""
    duration_s: Seconds
    """Nominal length of one trial."""

    @model_validator(mode="before")
    @classmethod
    def _named(cls, data: Any) -> Any:
        """Runs of before tell the name only in the key."""
        if isinstance(data, dict) and "name" not in data and isinstance(data.get("key"), str):
            return {**data, "name": data["key"].split("[")[0]}
        return data


_BILLED_S: Final = {"second": 1, "minute": 60, "hour": 3600}


class Price(Record):
    """What somebody pays for one instance."""

    per_hour: float = Field(gt=0, lt=1e12, allow_inf_nan=False, description="for one hour of it")
    currency: str = Field(pattern=r"^[A-Z]{3}$", description="by ISO 4217: `EUR`, `USD`")
    billed: Literal["second", "minute", "hour"] = Field(
        "second",
        exclude_if=lambda given: bool(given == "second"),
        description="what begins is paid whole",
    )
    least_s: float = Field(
        0.0,
        ge=0,
        le=86400,
        exclude_if=lambda given: not given,
        description="so many seconds are paid at least, however short it lived",
    )

    def bill(self, lived_s: float) -> float:
        """What one instance costs that lived so long."""
        step = _BILLED_S[self.billed]
        return self.per_hour / 3600 * step * math.ceil(max(lived_s, self.least_s) / step)


class ServicePrice(Price):
    """What somebody pays for a service on instances that come and go."""

    per_gb: float = Field(
        0.0,
        ge=0,
        lt=1e9,
        allow_inf_nan=False,
        exclude_if=lambda given: not given,
        description="for 10⁹ bytes that its nodes send to viewers",
    )
    per_request: float = Field(
        0.0,
        ge=0,
        lt=1e9,
        allow_inf_nan=False,
        exclude_if=lambda given: not given,
        description="for each viewer who asks",
    )


class EnvironmentRecord(Record):
    """An environment as it stands in `resolved.json`."""

    key: str
    """`vm[nic=e1000]`, `native~again`: unique in the run."""
    label: str
    """What tables and sentences call it: `qemu-tcg (emulated)`."""
    provider: str
    options: dict[str, Any] = {}
    factors: dict[str, Any] = {}
    again_of: str | None = None
    """This is the second copy of that environment: the A/A pair."""
    price: Price | None = None
    emulated: bool = False
    treatments: dict[str, str] = {}
    """What differs on purpose: kernel, CPU model, devices, cache modes."""
    nuisances: dict[str, str] = {}
    """What must not differ: CPUs, memory, userland … as verified inside."""
    facts: dict[str, Any] = {}
    """What the agent saw inside the first instance."""
    image: ImageRecord | None = None
    """A container image of its own; None: the run's."""
    nodes: tuple[str, ...] = ()
    """The machine of each instance, as the plan names it; empty: the controller's."""


class NodeRecord(Record):
    """A machine that instances stand on."""

    address: str | None = None
    """As ssh was given it; None: the controller's own machine."""
    facts: dict[str, Any] = {}
    """Kernel, CPU, memory, power state, as it tells them."""


class Parity(Record):
    """One nuisance, compared over the environments."""

    nuisance: str
    equal: bool
    allowed: bool
    values: dict[str, str]


class User(Record):
    """Whom a program runs as."""

    uid: int = Field(0, ge=0, lt=1 << 32)
    gid: int = Field(0, ge=0, lt=1 << 32)
    groups: tuple[Annotated[int, Field(ge=0, lt=1 << 32)], ...] = ()
    """Beside the first one."""

    @property
    def ids(self) -> tuple[int, int]:
        """As `chown` takes them."""
        return self.uid, self.gid


class ImageConfig(Record):
    """How a container image wants its program to be run."""

    user: User = User()
    env: dict[str, str] = {}
    workdir: str = "/"
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    stop_signal: int = Field(default=15, ge=1, lt=32, exclude_if=lambda number: bool(number == 15))
    """What a server of it is told to end with."""

    @property
    def argv(self) -> tuple[str, ...]:
        """What runs when nothing else is asked for; empty: the image does not say."""
        return (*self.entrypoint, *self.cmd)


class ImageRecord(Record):
    """The root filesystem that every environment ran from."""

    kind: Literal["built", "host", "oci"]
    digest: str
    reference: str | None = None
    """What the plan called it: a container image of the user's own."""
    id: str | None = None
    """`sha256:…` of that image's configuration, which names the digest of each layer."""
    config: ImageConfig | None = None
    packages: dict[str, str] = {}
    """Name → version."""
    hashes: dict[str, str] = {}
    """Name → SHA-256 of the `.deb` that it came from."""
    snapshot: str | None = None
    """Address of the archive of one instant; None: what the host's sources had then."""
    root: Literal["read-only", "writable"] = "read-only"
    """For the programs of an instance; what they write is in a layer of its own."""


class Resolved(Record):
    """`resolved.json`: the plan as it was understood, with all that was found out."""

    format: Literal[2] = 2
    ullage: str
    rules: Natural = 1
    """Of the verdicts, as the ullage that made the run had them (`stats.RULES`)."""
    run: str
    tag: str
    name: str
    seed: Seed
    baseline: str
    confidence: Share
    margin: Share
    resources: dict[str, Any]
    network: dict[str, Any] | None = None
    """What joins each instance to the others: `rate` in bit/s, `queue` in seconds; None: nothing
    slows it."""
    blocks: dict[str, Any]
    repeat: dict[str, Any] = {}
    design: Design = "solo"
    correction: Correction = "holm"
    environments: tuple[EnvironmentRecord, ...]
    workloads: tuple[WorkloadRecord, ...]
    meters: tuple[MeterRecord, ...] = ()
    energy_meters: tuple[EnergyMeterRecord, ...] = ()
    parity: tuple[Parity, ...] = ()
    image: ImageRecord | None = None
    programs: dict[str, str] = {}
    """Ours that work in every environment: name → `sha256:…`; what workloads bring is with them."""
    host: dict[str, Any] = {}
    labels: dict[str, str] = {}
    """Of whoever ran it: the commit, the branch."""
    nodes: dict[str, NodeRecord] = {}
    """Name in the plan → the machine; empty: all was on the controller's."""


def size(design: Design, environments: int, workloads: int) -> int:
    """Trials in a block, of so many environments, the baseline among them, and workloads."""
    return workloads * (environments if design == "solo" else 2 * (environments - 1))
