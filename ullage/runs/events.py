"""What a run writes into `journal.jsonl`, a line for each event, and what a trial left."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ullage.runs.records import (
    LARGEST,
    Count,
    Curve,
    Digests,
    Finite,
    Metered,
    NanosecondDifference,
    Nanoseconds,
    Natural,
    Record,
    Scalar,
    Seconds,
)

Small = Annotated[int, Field(ge=-(1 << 31), lt=1 << 32)]
"""The exit status or the signal of a process; Windows has statuses of 32 bits."""
Step = Annotated[float, Field(gt=0, le=LARGEST, allow_inf_nan=False)]
HOST_SHARED = "host-shared"
"""Code of the warning that another run worked on the host meanwhile."""


class Usage(Record):
    """What one process and its waited-for children used; on Windows its peak memory is its own."""

    user_s: Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False)]
    """Of a guest's own saying, as `system_s` is: a lie stands there as it was told."""
    system_s: Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False)]
    max_rss_bytes: Annotated[int, Field(ge=0, lt=1 << 63)]
    minor_faults: Count | None = 0
    major_faults: Count | None = 0
    voluntary_switches: Count | None = 0
    involuntary_switches: Count | None = 0
    """None, as the three before it: the instance's system does not count them."""


class RoleRecord(Record):
    """One program of a trial, in one instance."""

    role: str
    instance: str
    argv: tuple[str, ...]
    status: Small | None
    signal: Small | None
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


class ProcessClock(Record):
    """What a process says of its clock."""

    source: Literal["counter", "monotonic-raw"]
    ordered_ns: Nanoseconds | None
    """Its threads see the time no further apart; None: not promised."""
    reasons: tuple[str, ...]
    """Why it is not better: names of `ullage.host.clock.REASONS`."""
    shared: bool
    """It is the controller's time, from the same line of the same counter."""


class InstanceClock(Record):
    """An instance's clock during one trial."""

    shared: bool
    looks: tuple[Natural, ...]
    """Numbers of the `synchronised` events that it was told by: before, and after."""
    messages: Count
    took_ns: Nanoseconds
    hard_ns: Nanoseconds
    """No instant of its programs is further off, either way."""
    sure_ns: Nanoseconds
    """The same in 99.9 % of all cases."""
    drifted_ns: NanosecondDifference | None = None
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
    block: Natural
    order: Natural
    """Place in the block, over all groups."""
    position: Natural
    """Place among the environments of its group."""
    environment: str
    workload: str
    generation: Natural = 0
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
    overhead_s: Finite = 0.0
    """What the engine itself took around the work."""
    metrics: dict[str, Scalar | Curve] = Field(default={})
    """With several instances in the environment: the mean over them; so for iterations."""
    iterations: tuple[dict[str, Scalar | Curve], ...] = ()
    """The figures of each, when the work was done several times in a row."""
    instances: dict[str, dict[str, Scalar | Curve]] = Field(default={})
    """Instance → its own figures, when there are several."""
    steps: dict[str, Step] = Field(default={})
    """Metric → the finest last digit that was printed of it; of tools that always print alike see
    `Metric.resolution`."""
    facts: dict[str, str] = Field(default={})
    """What the tools told that is no figure: versions, the congestion control in force."""
    roles: tuple[RoleRecord, ...] = ()
    clocks: dict[str, InstanceClock] = Field(default={})
    """Instance → its clock; empty when the trial did not come to its end."""
    meters: Metered = Field(default={})
    """What was seen during the trial."""
    files: Digests = Field(default={})
    """Its raw outputs, as they were when it ended; those of older runs are not known."""

    @property
    def host(self) -> dict[str, float]:
        """What the meter `host` saw."""
        return self.meters.get("host", {})


class Started(Record):
    """The controller started, or took the run up again."""

    event: Literal["started"] = "started"
    epoch_ns: Nanoseconds
    start_ns: Nanoseconds
    pid: Count
    tag: str
    """Of this session: what it makes outside the run folder carries it."""
    resumed: bool
    boot_id: str
    clock: ProcessClock | None = None
    """The controller's own: the global one."""
    files: Digests = Field(default={})
    """What it was given, as it was then: the plan."""


class Provisioned(Record):
    """One instance is up."""

    event: Literal["provisioned"] = "provisioned"
    environment: str
    instance: str
    generation: Natural = 0
    """As of the trials that it is made for."""
    epoch_ns: Nanoseconds
    seconds: Seconds
    facts: dict[str, Any]
    clock: ProcessClock | None = None


class Synchronised(Record):
    """A look at an instance's clock."""

    event: Literal["synchronised"] = "synchronised"
    epoch_ns: Nanoseconds
    environment: str
    instance: str
    number: Natural
    """Of this instance's looks since it was made."""
    why: Literal["connect", "thaw", "after"]
    shared: bool
    """One exchange, which shows that its time is the controller's."""
    at_ns: Nanoseconds
    """When the offset was this, by the controller's clock."""
    offset_ns: NanosecondDifference
    """What the instance's clock was ahead."""
    hard_ns: Nanoseconds
    """The offset was not further off, whatever the paths of messages were."""
    sure_ns: Nanoseconds
    """The same in 99.9 % of all cases, if paths are alike."""
    rtt_ns: Nanoseconds
    messages: Count
    took_ns: Nanoseconds
    reasons: tuple[str, ...]
    way: Literal["udp"] | None = Field(None, exclude_if=lambda way: way is None)
    """By datagrams to the instance's machine, whose clock it shows; None: over its channel."""


class Idle(Record):
    """Before its first block the host rested, all instances frozen, for the energy meters."""

    event: Literal["idle"] = "idle"
    epoch_ns: Nanoseconds
    start_ns: Nanoseconds
    end_ns: Nanoseconds


class BlockDone(Record):
    """Every cell of the block has its trial."""

    event: Literal["block"] = "block"
    block: Natural
    epoch_ns: Nanoseconds
    seconds: Seconds


class CellLeft(Record):
    """An environment that no longer runs a workload."""

    environment: str
    workload: str
    undecided: bool = False
    """It left without a verdict, which was unlikely by the most blocks."""


class Judged(Record):
    """Every comparison was judged between two blocks; what is decided leaves the run."""

    event: Literal["judged"] = "judged"
    epoch_ns: Nanoseconds
    blocks: Natural
    """So many had been done."""
    left: tuple[CellLeft, ...]
    """In no later block: what was decided now, its second copy, and the baseline of a workload in
    which nothing is left to compare."""


class Recalled(Record):
    """More blocks are allowed than before, so what had left without a verdict runs again."""

    event: Literal["recalled"] = "recalled"
    epoch_ns: Nanoseconds
    blocks: Natural
    """So many had been begun: it is in all later ones."""
    cells: tuple[CellLeft, ...]


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
    seconds: Seconds
    reason: Literal["precision", "verdicts", "budget", "blocks", "interrupted", "failed"]
    message: str = ""


Event = Annotated[
    Started
    | Provisioned
    | Synchronised
    | Idle
    | Trial
    | BlockDone
    | Judged
    | Recalled
    | Warned
    | Finished,
    Field(discriminator="event"),
]
