"""`trials/…/symbols.json`: what the host's CPUs were seen at during a trial.

`guest-symbols.json` beside it: the same of its guests' CPUs, seen from inside, all guests together.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from ullage.runs.records import Nanoseconds, Natural, Record

GUEST_FILE = "guest-symbols.json"
MOST_BINS = 60
"""Equal parts of a trial in which its samples are counted, at most."""
LEAST_BIN_NS = 500_000_000
"""Such a part is no shorter, unless the trial is."""
MOST_CORES = 4_096
"""Of a host; those of higher numbers are not told apart."""
MOST_COURSES = 256
"""Of cores over time, the largest ones; and no more cores."""
OTHER_END = "other_end"
"""On a core over time: whatever works in an instance at the other end (viewers, a load generator)
but the agent."""
KERNEL = "kernel"
"""The object of what the host's kernel does."""


def of_kernel(file: str) -> bool:
    """The host's kernel, or a module of it: `kernel (kvm)`."""
    return file == KERNEL or file.startswith(f"{KERNEL} (")


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
    samples: Natural


class GroupOverTime(Record):
    """How often a group was seen in each part of a trial."""

    group: str
    samples: tuple[Natural, ...] = Field(min_length=1, max_length=MOST_BINS)


class GroupByCore(Record):
    """How often a group was seen on each core of the host, from the first to the last seen."""

    group: str
    samples: tuple[Natural, ...] = Field(min_length=1, max_length=MOST_CORES)


class CoreOverTime(Record):
    """How often somebody was seen on one core of the host in each part of a trial."""

    core: int = Field(ge=0, lt=MOST_CORES)
    group: str
    """Or `other_end`; empty: of all who have no course of their own there."""
    samples: tuple[Natural, ...] = Field(min_length=1, max_length=MOST_BINS)


class Symbols(Record):
    """`trials/…/symbols.json`: what the host's CPUs were seen at, within the trial exactly."""

    format: Literal[1] = 1
    hz: int = Field(ge=1, lt=1 << 31)
    """Looks at each CPU in a second, while it is not idle."""
    cpus: int = Field(ge=1, lt=1 << 31)
    start_ns: Nanoseconds
    end_ns: Nanoseconds
    """The trial's own, by the run's clock."""
    bound_ns: Nanoseconds
    """Its edges are no further off on the clock of the samples."""
    lost: Natural
    """Samples and other records that the kernel could not deliver, at about that time."""
    rows: tuple[SymbolRow, ...]
    rest: Natural
    """Samples in rows that were too small to keep."""
    folded: Natural = 0
    """Samples of functions that stand with their file, as one row: there were too many of them."""
    bin_ns: Nanoseconds = 0
    """The trial in equal parts of so long, the last one shorter by nanoseconds; 0: not counted."""
    over_time: tuple[GroupOverTime, ...] = Field(default=(), max_length=32)
    """The same samples by these parts, of each group that was seen."""
    by_core: tuple[GroupByCore, ...] = Field(default=(), max_length=32)
    """The same samples by core; empty in tables of older runs."""
    cores_over_time: tuple[CoreOverTime, ...] = Field(default=(), max_length=2 * MOST_COURSES)
    """The same samples by core and part, of the busiest cores; empty in tables of older runs."""

    @model_validator(mode="after")
    def _parts_are_those_of_the_trial(self) -> Symbols:
        parts = -(-(self.end_ns - self.start_ns) // self.bin_ns) if self.bin_ns else 0
        courses: tuple[GroupOverTime | CoreOverTime, ...]
        courses = (*self.over_time, *self.cores_over_time)
        if any(len(course.samples) != parts for course in courses):
            raise ValueError(f"over_time: the trial has {parts} parts")
        if len({course.group for course in self.over_time}) != len(self.over_time):
            raise ValueError("over_time: a group stands twice")
        if len({core.group for core in self.by_core}) != len(self.by_core):
            raise ValueError("by_core: a group stands twice")
        if len({(course.core, course.group) for course in self.cores_over_time}) != len(
            self.cores_over_time
        ):
            raise ValueError("cores_over_time: a group stands twice on a core")
        return self
