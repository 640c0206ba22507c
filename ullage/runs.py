"""The run folder: what a run leaves behind, typed, written and read.

`journal.jsonl`, `resolved.json` and the raw outputs under `trials/` are the truth; all else is
derived from them. `docs/run-folder.md` describes the same for readers of other languages.
All times are seconds or nanoseconds as the name says; instants `*_ns` are the controller's clock,
which is the run's global one (`ullage.clock`), unless the name says `epoch` or `local`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ullage.channels import Channel

FORMAT = 2
HOST_SHARED = "host-shared"
"""Code of the warning that another run worked on the host meanwhile."""
LATEST_NS = 1 << 62
"""No instant is so late, by any clock: the sum of two fits in the tables' 64 bits."""

MOST_BINS = 60
"""Equal parts of a trial in which its samples are counted, at most."""
LEAST_BIN_NS = 500_000_000
"""Such a part is no shorter, unless the trial is."""

Nanoseconds = Annotated[int, Field(ge=0, lt=LATEST_NS)]
Difference = Annotated[int, Field(gt=-LATEST_NS, lt=LATEST_NS)]
"""Between two clocks, in nanoseconds."""
Place = Annotated[int, Field(ge=0, lt=1 << 31)]
"""Of a block in the run, or within a block."""

Better = Literal["higher", "lower"]
Resource = Literal["cpu", "memory", "disk", "network", "other"]
Scalar = float
Curve = list[tuple[float, float]]
Metered = dict[str, dict[str, float]]
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
    every_s: float
    """Between two readings."""
    channels: tuple[Channel, ...] = ()
    """None: it was not there when the run began, and the plan calls it optional."""


class WorkloadRecord(Record):
    """A workload with one parameter set, as it stands in `resolved.json`."""

    key: str
    """`sysbench-cpu[threads=2]`: unique in the run."""
    workload: str
    resource: Resource
    title: str
    parameters: dict[str, Any]
    factors: dict[str, Any] = {}
    """The parameters that vary in this plan: what tells the keys apart."""
    metrics: tuple[Metric, ...]
    scaling: str | None = None
    """The parameter that shows how the work scales."""
    files: dict[str, str] = {}
    """What of ours was put inside → `sha256:…`."""
    duration_s: float
    """Nominal length of one trial."""


class Price(Record):
    """What somebody pays for one instance."""

    per_hour: float = Field(gt=0, lt=1e12, allow_inf_nan=False, description="for one hour of it")
    currency: str = Field(pattern=r"^[A-Z]{3}$", description="by ISO 4217: `EUR`, `USD`")


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


class Parity(Record):
    """One nuisance, compared over the environments."""

    nuisance: str
    equal: bool
    allowed: bool
    values: dict[str, str]


class ImageRecord(Record):
    """The root filesystem that every environment ran from."""

    kind: Literal["built", "host"]
    digest: str
    packages: dict[str, str] = {}
    """Debian package → version."""


class Resolved(Record):
    """`resolved.json`: the plan as it was understood, with all that was found out."""

    format: Literal[2] = 2
    ullage: str
    run: str
    tag: str
    name: str
    seed: int
    baseline: str
    confidence: float
    margin: float
    resources: dict[str, Any]
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
    host: dict[str, Any] = {}


class Usage(Record):
    """What one process and its waited-for children used."""

    user_s: float
    system_s: float
    max_rss_bytes: int
    minor_faults: int = 0
    major_faults: int = 0
    voluntary_switches: int = 0
    involuntary_switches: int = 0


class RoleRecord(Record):
    """One program of a trial, in one instance."""

    role: str
    instance: str
    argv: tuple[str, ...]
    status: int | None
    signal: int | None
    start_ns: Nanoseconds
    end_ns: Nanoseconds
    late_ns: Nanoseconds = 0
    start_local_ns: Nanoseconds = 0
    """By the instance's own clock, as it said; of another time where the line is not shared."""
    end_local_ns: Nanoseconds = 0
    clock_bound_ns: Nanoseconds = 0
    """start_ns and end_ns are never further off, either way: the hard bound."""
    clock_sure_ns: Nanoseconds = 0
    """The same in 99.9 % of all cases: the statistical bound."""
    usage: Usage | None = None
    stdout: str | None = None
    """Path of the raw output, relative to the run folder."""
    stderr: str | None = None


class Reason(Record):
    """Why a trial has no figures."""

    code: str
    message: str


class ClockSaid(Record):
    """What a process says of its clock."""

    source: Literal["counter", "monotonic-raw"]
    ordered_ns: Nanoseconds | None
    """Its threads see the time no further apart; None: not promised."""
    reasons: tuple[str, ...]
    """Why it is not better: names of `ullage.clock.REASONS`."""
    shared: bool
    """It is the controller's time, from the same line of the same counter."""


class InstanceClock(Record):
    """An instance's clock during one trial."""

    shared: bool
    looks: tuple[int, ...]
    """Numbers of the `synchronised` events that it was told by: before, and after."""
    messages: int
    took_ns: Nanoseconds
    hard_ns: Nanoseconds
    """No instant of its programs is further off, either way."""
    sure_ns: Nanoseconds
    """The same in 99.9 % of all cases."""
    drifted_ns: Difference | None = None
    """How much further ahead it was after than before: what was corrected. None: it is shared."""
    drift_unsure_ns: Nanoseconds | None = None
    """That may be off by so much."""
    between_ns: Nanoseconds | None = None
    """Between the two looks."""
    residual_ns: Nanoseconds | None = None
    """How far all looks since it last stood still are off a straight line; None: fewer than 3."""
    reasons: tuple[str, ...] = ()


class Trial(Record):
    """One trial, as journaled."""

    event: Literal["trial"] = "trial"
    trial: str
    """`b003-t017`."""
    block: Place
    order: Place
    """Place in the block, over all groups."""
    position: Place
    """Place among the environments of its group."""
    environment: str
    workload: str
    generation: Place = 0
    """How often the plan's `repeat` had made all instances anew before it."""
    partner: str | None = None
    """Of a duet: the environment whose trial ran at the same time."""
    side: Literal[0, 1] | None = None
    """Of a duet: which half of the CPUs it had."""
    status: Literal["ok", "failed", "invalid"]
    reason: Reason | None = None
    epoch_ns: Nanoseconds
    start_ns: Nanoseconds
    end_ns: Nanoseconds
    spread_ns: Nanoseconds | None = None
    """Latest minus earliest start of the instances that had one agreed instant."""
    overhead_s: float = 0.0
    """What the engine itself took around the work."""
    metrics: dict[str, Scalar | Curve] = {}
    """With several instances in the environment: the mean over them; so for iterations."""
    iterations: tuple[dict[str, Scalar | Curve], ...] = ()
    """The figures of each, when the work was done several times in a row."""
    instances: dict[str, dict[str, Scalar | Curve]] = {}
    """Instance → its own figures, when there are several."""
    facts: dict[str, str] = {}
    """What the tools told that is no figure: versions, the congestion control in force."""
    roles: tuple[RoleRecord, ...] = ()
    clocks: dict[str, InstanceClock] = {}
    """Instance → its clock; empty when the trial did not come to its end."""
    meters: Metered = {}
    """What was seen during the trial."""

    @property
    def host(self) -> dict[str, float]:
        """What the meter `host` saw."""
        return self.meters.get("host", {})


class SymbolRow(Record):
    """Where the host's CPUs were seen during a trial: one place of one program."""

    group: str
    """Whose it is: `vcpu`, `hypervisor`, `programs` … as of the meter `threads`."""
    program: str
    """Name of the thread, numbers taken out: `CPU N/KVM`, `vhost-N`, `kworker`."""
    object: str
    """`kernel`, `kernel (kvm)` of a module, a file such as `libc.so.6`,
    `generated code`; of `others` `kernel` or nothing."""
    symbol: str
    """The function; empty where only the object is known."""
    samples: Place


class GroupOverTime(Record):
    """How often a group was seen in each part of a trial."""

    group: str
    samples: tuple[Place, ...] = Field(min_length=1, max_length=MOST_BINS)


class Symbols(Record):
    """`trials/…/symbols.json`: what the host's CPUs were seen at, within the trial exactly."""

    format: Literal[1] = 1
    hz: int = Field(ge=1)
    """Looks at each CPU in a second, while it is not idle."""
    cpus: int = Field(ge=1)
    start_ns: Nanoseconds
    end_ns: Nanoseconds
    """The trial's own, by the run's clock."""
    bound_ns: Nanoseconds
    """Its edges are no further off on the clock of the samples."""
    lost: Place
    """Samples and other records that the kernel could not deliver, at about that time."""
    rows: tuple[SymbolRow, ...]
    rest: Place
    """Samples in rows that were too small to keep."""
    bin_ns: Nanoseconds = 0
    """The trial in equal parts of so long, the last one shorter by nanoseconds; 0: not counted."""
    over_time: tuple[GroupOverTime, ...] = Field(default=(), max_length=32)
    """The same samples by these parts, of each group that was seen."""

    @model_validator(mode="after")
    def _parts_are_those_of_the_trial(self) -> Symbols:
        parts = -(-(self.end_ns - self.start_ns) // self.bin_ns) if self.bin_ns else 0
        if any(len(each.samples) != parts for each in self.over_time):
            raise ValueError(f"over_time: the trial has {parts} parts")
        if len({each.group for each in self.over_time}) != len(self.over_time):
            raise ValueError("over_time: a group stands twice")
        return self


class Started(Record):
    """The controller started, or took the run up again."""

    event: Literal["started"] = "started"
    epoch_ns: Nanoseconds
    start_ns: Nanoseconds
    pid: int
    tag: str
    """Of this session: what it makes outside the run folder carries it."""
    resumed: bool
    boot_id: str
    clock: ClockSaid | None = None
    """The controller's own: the global one."""


class Provisioned(Record):
    """One instance is up."""

    event: Literal["provisioned"] = "provisioned"
    environment: str
    instance: str
    generation: Place = 0
    """As of the trials that it is made for."""
    epoch_ns: Nanoseconds
    seconds: float
    facts: dict[str, Any]
    clock: ClockSaid | None = None


class Synchronised(Record):
    """A look at an instance's clock."""

    event: Literal["synchronised"] = "synchronised"
    epoch_ns: Nanoseconds
    environment: str
    instance: str
    number: Place
    """Of this instance's looks since it was made."""
    why: Literal["connect", "thaw", "after"]
    shared: bool
    """One exchange, which shows that its time is the controller's."""
    at_ns: Nanoseconds
    """When the offset was this, by the controller's clock."""
    offset_ns: Difference
    """What the instance's clock was ahead."""
    hard_ns: Nanoseconds
    """The offset was not further off, whatever the paths of messages were."""
    sure_ns: Nanoseconds
    """The same in 99.9 % of all cases, if paths are alike."""
    rtt_ns: Nanoseconds
    messages: int
    took_ns: Nanoseconds
    reasons: tuple[str, ...]


class Idle(Record):
    """Before its first block the host rested, all instances frozen, for the energy meters."""

    event: Literal["idle"] = "idle"
    epoch_ns: Nanoseconds
    start_ns: Nanoseconds
    end_ns: Nanoseconds


class BlockDone(Record):
    """Every cell of the block has its trial."""

    event: Literal["block"] = "block"
    block: Place
    epoch_ns: Nanoseconds
    seconds: float


class Warned(Record):
    """Something a reader of the results should know, found while running."""

    event: Literal["warning"] = "warning"
    epoch_ns: Nanoseconds
    code: str
    message: str


class Finished(Record):
    """The run ended in order."""

    event: Literal["finished"] = "finished"
    epoch_ns: Nanoseconds
    seconds: float
    reason: Literal["precision", "budget", "blocks", "interrupted", "failed"]
    message: str = ""


Event = Annotated[
    Started | Provisioned | Synchronised | Idle | Trial | BlockDone | Warned | Finished,
    Field(discriminator="event"),
]
