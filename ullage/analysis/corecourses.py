"""How busy each core of the host was over the time of one trial, and for whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from ullage.symbolsfile import Symbols

LEAST_LOOKS: Final = 12
"""At a core in a part of the time: on a host of many cores each is looked at seldom, and parts of a
trial are put together until there are so many."""
STEPS: Final = "▁▂▃▄▅▆▇█"
"""On the terminal: an eighth of a core each; a core that was not seen busy is a blank."""


@dataclass(frozen=True)
class CoreCourses:
    """The busiest cores of the host over the time of one trial."""

    edges_s: tuple[float, ...]
    """Of the parts: one more than there are parts."""
    cores: Mapping[int, Mapping[str, tuple[float, ...]]]
    """Core → group → its share of the core in each part. Those that had too little for a course of
    their own are one, without a name."""

    @property
    def parts(self) -> int:
        """How many."""
        return len(self.edges_s) - 1

    def busy(self, core: int) -> list[float]:
        """How busy it was in each part, whoever kept it so."""
        return [sum(each) for each in zip(*self.cores[core].values(), strict=True)]

    def busiest(self) -> list[int]:
        """The busiest first."""
        return sorted(self.cores, key=lambda core: (-self.mean(core), core))

    def mean(self, core: int) -> float:
        """How busy it was over the whole time."""
        lengths_s = [end - start for start, end in pairwise(self.edges_s)]
        work_s = sum(a * b for a, b in zip(self.busy(core), lengths_s, strict=True))
        return work_s / self.edges_s[-1]


def courses(table: Symbols) -> CoreCourses | None:
    """Of the trial that has this table; None: it does not tell."""
    if not table.cores_over_time:
        return None
    each_ns, whole_ns = table.bin_ns, table.end_ns - table.start_ns
    step = -(-LEAST_LOOKS * 10**9 // (table.hz * each_ns))
    parts = len(table.cores_over_time[0].samples)
    # What is left over is too short to stand alone: it is in the last one.
    starts = list(range(0, max(parts - step, 0) + 1, step))
    edges = [start * each_ns / 1e9 for start in starts] + [whole_ns / 1e9]
    cores: dict[int, dict[str, tuple[float, ...]]] = {}
    looks = [table.hz * (end - start) for start, end in pairwise(edges)]
    for course in table.cores_over_time:
        seen = [sum(course.samples[a:b]) for a, b in pairwise([*starts, parts])]
        shares = tuple(samples / most for samples, most in zip(seen, looks, strict=True))
        cores.setdefault(course.core, {})[course.group] = shares
    return CoreCourses(tuple(edges), cores)


def steps(busy: Sequence[float]) -> str:
    """`▁▃█`: as blocks, one a part."""
    return "".join(
        STEPS[min(int(share * len(STEPS)), len(STEPS) - 1)] if share > 0 else " " for share in busy
    )
