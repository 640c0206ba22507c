"""What the measurements of the clock are asked and find: `ullage-clocklab`'s JSON as models.

An option that is None is the measurement's own default.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ullage.common.clock_model import FrozenModel

ClockReader = Literal[
    "counter",
    "counter-fenced",
    "rdtscp",
    "rvec",
    "rvec-ordered",
    "rvec-stamp",
    "monotonic",
    "monotonic-raw",
    "monotonic-syscall",
]
"""A way to read time."""

Placement = Literal["pinned", "moves-itself", "is-moved"]
"""Where the thread runs."""


class MeasuredMachine(FrozenModel):
    """Where a figure comes from."""

    architecture: str
    clocksource: str | None
    """The kernel's; None where it does not say."""
    virtual_machine: bool
    cpus: list[int]
    promise: str
    reasons: list[str]


class Absent(FrozenModel):
    """Something that could not be measured here, and why."""

    what: str
    why: str


class MedianInterval(FrozenModel):
    """A median with its interval, by order statistics."""

    median: float
    low: float
    high: float
    confidence: float
    """Less than 0.95 if there were too few values (under six)."""


class Distribution(FrozenModel):
    """A distribution, in nanoseconds; quantiles are values that occurred."""

    count: int
    min_ns: float
    p01_ns: float
    p25_ns: float
    p50_ns: float
    p75_ns: float
    p99_ns: float
    p999_ns: float
    max_ns: float
    mean_ns: float
    sd_ns: float


class Bin(FrozenModel):
    """From its lower edge up to, and not with, its upper one."""

    from_ns: float
    to_ns: float
    count: int


class Histogram(FrozenModel):
    """Counts in bins of equal width in the logarithm."""

    per_decade: int
    under: int
    """Values below a nanosecond."""
    bins: list[Bin]


class EcpOptions(FrozenModel):
    iterations: int | None = None
    runs: int | None = None


class Elapsed(FrozenModel):
    clock: ClockReader
    how: str
    durations: Distribution | None
    """Of the additions alone."""
    with_move: Distribution | None
    """Of the additions and the thread's own move to another core."""
    zero: int
    """Durations that are zero: not precise."""
    backward: int
    """Durations that are negative."""
    steps: int
    equal_steps: int
    backward_steps: int
    migrations: int


class PlacementOutcome(FrozenModel):
    placement: Placement
    moves: int
    clocks: list[Elapsed]


class EcpOutcome(FrozenModel):
    """Of the ECP test: is even the shortest piece of work told to take time?"""

    machine: MeasuredMachine
    additions: int
    work: str
    iterations: int
    runs: int
    placements: list[PlacementOutcome]
    absent: list[Absent]


class StrictOptions(FrozenModel):
    reads: int | None = None
    comparisons: int | None = None
    cap_s: int | None = None


class Alone(FrozenModel):
    """Threads by themselves, under forced migration."""

    threads: int
    reads: int
    ordered: int
    backward: int
    equal: int
    moves: int
    migrations: int
    kernel_migrations: int | None
    elapsed_ns: int
    capped: bool


class Across(FrozenModel):
    clock: ClockReader
    how: str
    cores: int
    comparisons: int
    repeated: int
    backward: int
    equal: int
    worst_ticks: int
    worst_ns: int
    capped: bool


class StrictOutcome(FrozenModel):
    """Of the test of strictness: does every value exceed the one before?"""

    machine: MeasuredMachine
    alone: Alone | None
    across: list[Across]
    promised_ns: int | None
    absent: list[Absent]


class CostOptions(FrozenModel):
    """Of the measurement of what a read costs."""

    rounds: int | None = None
    reads: int | None = None


class Ratio(FrozenModel):
    """One clock's cost divided by another's, over the rounds."""

    over: ClockReader
    ratio: MedianInterval


class ReadCost(FrozenModel):
    """What a read of one clock costs."""

    clock: ClockReader
    how: str
    ns: MedianInterval
    ratios: list[Ratio]


class CostOutcome(FrozenModel):
    """What a read of each clock costs."""

    machine: MeasuredMachine
    rounds: int
    reads: int
    clocks: list[ReadCost]
    absent: list[Absent]
    capped: bool


class LoopsOptions(FrozenModel):
    samples: int | None = None
    keep: int | None = None


class External(FrozenModel):
    """A clock beside the processor's counter."""

    kind: Literal["ptp", "hpet"]
    device: str
    name: str
    independent: bool | None
    """Whether it has an oscillator of its own; None where that cannot be known."""
    why: str
    passed_over: list[str]
    """Other clocks that would not do, with the reason."""


class Apart(FrozenModel):
    """How much faster the clock runs than another."""

    ppb: float
    bound_ppb: float
    over_ns: float


class Timed(FrozenModel):
    """The durations of one loop by one clock."""

    durations: Distribution
    histogram: Histogram
    first_ns: list[float]


class Loop(FrozenModel):
    instructions: int
    rvec: Timed
    raw: Timed
    external: Timed | None


class LoopsOutcome(FrozenModel):
    """How long loops of a known number of instructions take."""

    machine: MeasuredMachine
    external: External | None
    external_apart: Apart | None
    raw_is: str
    """What CLOCK_MONOTONIC_RAW is worth as a witness here."""
    raw_apart: Apart | None
    loops: list[Loop]
    absent: list[Absent]
    capped: bool


class Flat(FrozenModel):
    """All with the first server."""

    kind: Literal["flat"] = "flat"


class TwoLevel(FrozenModel):
    """The first server serves the heads of groups, each head its group."""

    kind: Literal["two-level"] = "two-level"
    groups: int | None = None
    """None: about the square root of the number of nodes."""


class Binomial(FrozenModel):
    """Everybody that is synchronised serves others until there are none left."""

    kind: Literal["binomial"] = "binomial"


class KAry(FrozenModel):
    """Everybody serves so many others, level by level."""

    kind: Literal["k-ary"] = "k-ary"
    children: int = 4


Topology = Annotated[Flat | TwoLevel | Binomial | KAry, Field(discriminator="kind")]


class Synchronisation(FrozenModel):
    """One that was measured."""

    ns: int
    messages: int
    round_trip_ns: int
    """The shortest."""


class Synchronisations(FrozenModel):
    """Whole synchronisations, drawn as they are."""

    kind: Literal["synchronisations"] = "synchronisations"
    measured: list[Synchronisation]


class ScalingOptions(FrozenModel):
    times: Synchronisations
    nodes: list[int] | None = None
    topologies: list[Topology] | None = None
    repetitions: int | None = None
    cap_s: int | None = None
    seed: int | None = None


class ScalingPoint(FrozenModel):
    """One number of nodes in one topology."""

    topology: Topology
    nodes: int
    depth: int
    total_ns: MedianInterval
    """Until the last node is synchronised."""
    messages: MedianInterval
    busiest_messages: MedianInterval
    bound_ns: MedianInterval
    """Of the worst node."""


class ScalingOutcome(FrozenModel):
    points: list[ScalingPoint]
    capped: bool
