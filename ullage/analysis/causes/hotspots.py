"""Where the host's CPUs were seen in each cell of a run: the places, and one trial over time.

Unlike the causes (`symbols`), nothing is compared here and nothing is left out: ullage's own work
and that of others on the host are places too. CPUs are samples over looks: 1 is one CPU that was
busy the whole time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from typing import Final

from ullage.analysis.causes import symbols
from ullage.common.quantities import many
from ullage.common.text import clean
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import Metric, WorkloadRecord
from ullage.runs.symbols import GUEST_FILE, OTHER_END, Symbols

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
        return len(self.edges_s) - 1

    def busy(self, core: int) -> list[float]:
        """How busy it was in each part, whoever kept it so."""
        return [sum(shares) for shares in zip(*self.cores[core].values(), strict=True)]

    def busiest(self) -> list[int]:
        return sorted(self.cores, key=lambda core: (-self.mean(core), core))

    def mean(self, core: int) -> float:
        """How busy it was over the whole time."""
        lengths_s = [end - start for start, end in pairwise(self.edges_s)]
        work_s = sum(a * b for a, b in zip(self.busy(core), lengths_s, strict=True))
        return work_s / self.edges_s[-1]


def core_courses(table: Symbols) -> CoreCourses | None:
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
        counts = [sum(course.samples[a:b]) for a, b in pairwise([*starts, parts])]
        shares = tuple(samples / most for samples, most in zip(counts, looks, strict=True))
        cores.setdefault(course.core, {})[course.group] = shares
    return CoreCourses(tuple(edges), cores)


def steps(busy: Sequence[float]) -> str:
    """`▁▃█`: as blocks, one a part."""
    return "".join(
        STEPS[min(int(share * len(STEPS)), len(STEPS) - 1)] if share > 0 else " " for share in busy
    )


MOST_ROWS: Final = 12
"""Places of a cell that are told."""
MOST_CELLS: Final = 48
"""Cells that are told: a report must stay small."""
LINES: Final = 5
"""Places of a cell on the terminal."""
OTHERS: Final = "others"
LEAST_PARTS: Final = 8
"""There is nothing to see in a course of fewer parts."""
NAMED: Final = 3
"""Of their programs."""
WHO: Final[Mapping[str, str]] = {
    **symbols.WHO,
    "agent": "ullage's agent",
    "controller": "ullage's controller",
    OTHERS: "others on the host",
    OTHER_END: "the other end",
}
"""Group → words."""

ProgramPlace = tuple[str, str, str, str]
"""Group, program, object and function."""


@dataclass(frozen=True)
class Hotspot:
    group: str
    program: str
    """Of others on the host, who are one place, the largest few."""
    object: str
    symbol: str
    """Empty: only the object is known."""
    cpus: float
    """Mean over the trials of the cell. Where a trial had more rows than its table keeps, a place
    that is not among them counts as none there."""


@dataclass(frozen=True)
class CpuCourse:
    """The CPUs of one trial over its time."""

    trial: str
    median_of: str
    """It is the median of the trials by this metric; empty: the middle one in order of time."""
    bin_s: float
    groups: Mapping[str, tuple[float, ...]]
    """Group → CPUs in each part of the trial."""
    cores: CoreCourses | None = None
    """The same, core by core; None: its table does not tell."""


@dataclass(frozen=True)
class CellHotspots:
    """An environment (in a duet: beside one other) under a workload."""

    environment: str
    workload: str
    label: str
    title: str
    trials: int
    """Those that went well and have a table."""
    cpus: int
    """Of the host, or of the guests together."""
    busy: float
    groups: Mapping[str, float]
    """Group → CPUs, over all rows of the tables."""
    hotspots: tuple[Hotspot, ...]
    """The largest first."""
    elsewhere: float
    """CPUs that were busy at none of these places."""
    course: CpuCourse | None
    """None: its tables are without time."""
    cores: Mapping[str, tuple[float, ...]]
    """Group → CPUs on each core of the host; empty: its tables do not tell cores apart."""
    of: str = "the host"
    """Whose CPUs they are."""

    @property
    def busiest(self) -> list[tuple[int, float]]:
        """Cores that were seen busy and how busy, the busiest first."""
        sums = [sum(shares) for shares in zip_longest(*self.cores.values(), fillvalue=0.0)]
        return sorted(
            ((core, busy) for core, busy in enumerate(sums) if busy > 0),
            key=lambda pair: (-pair[1], pair[0]),
        )


@dataclass(frozen=True)
class RunHotspots:
    """Of a whole run, workload by workload."""

    cells: tuple[CellHotspots, ...]
    left_out: int
    """More than that were not looked at."""


def cells(folder: RunFolder, most: int = MOST_CELLS) -> RunHotspots:
    """Every cell that has tables, in the plan's order; RUN_BAD_FORMAT for an unreadable one."""
    busy_cells: list[CellHotspots] = []
    left_out = 0
    for workload, environment, label, trials in _groups(folder):
        if len(busy_cells) >= most:
            left_out += any(symbols.has_table(folder, trial) for trial in trials)
        elif (cell := _cell(folder, workload, environment, label, trials)) is not None:
            busy_cells.append(cell)
            inside = f"{label}, inside"
            if cell := _cell(folder, workload, environment, inside, trials, file=GUEST_FILE):
                busy_cells.append(cell)
    return RunHotspots(tuple(busy_cells), left_out)


def lines(folder: RunFolder) -> list[str]:
    """The largest places of each cell, for the terminal; nothing without tables."""
    run = cells(folder)
    text_lines = []
    for cell in run.cells:
        text_lines += ["", f"{cell.title}, {cell.label}: {busy_words(cell)}"]
        text_lines += [f"  {place.cpus:.3f} in {_words(place)}" for place in cell.hotspots[:LINES]]
        text_lines += [f"  by core: {words}"] if (words := core_words(cell)) else []
        text_lines += _course_lines(cell)
    if run.left_out:
        text_lines += ["", left_out_words(run)]
    return text_lines


def busy_words(cell: CellHotspots) -> str:
    """`1.32 of 2 CPUs of the host busy, mean of 12 trials`."""
    mean = f"mean of {cell.trials:,} trials" if cell.trials != 1 else "in one trial"
    return f"{cell.busy:.2f} of {many(cell.cpus, 'CPU')} of {cell.of} busy, {mean}"


def core_words(cell: CellHotspots) -> str:
    """`0 0.97 (most of it the programs, 0.90)`: the busiest ones, and how many more there are."""
    cores = []
    for core, busy in cell.busiest[:LINES]:
        mine = {group: cpus[core] for group, cpus in cell.cores.items() if core < len(cpus)}
        group = max(mine, key=lambda group: (mine[group], group))
        owner = WHO.get(group, clean(group, 40))
        cores.append(f"{core} {busy:.2f} (most of it {owner}, {mine[group]:.2f})")
    more = len(cell.busiest) - LINES
    return ", ".join([*cores, f"{more:,} more"] if more > 0 else cores)


def _course_lines(cell: CellHotspots) -> list[str]:
    """The busiest cores over the time of one trial, a part a character."""
    course = cell.course
    if course is None or course.cores is None or course.cores.parts < LEAST_PARTS:
        return []
    courses = course.cores
    busiest = courses.busiest()
    chosen, more = sorted(busiest[:LINES]), len(busiest) - LINES
    width = max(len(f"{core}") for core in chosen)
    return [
        f"  over {courses.edges_s[-1]:.3g} s of trial {clean(course.trial, 20)}, core by core:",
        *(f"    {core:{width}} |{steps(courses.busy(core))}|" for core in chosen),
        *([f"    and {more:,} more"] if more > 0 else []),
    ]


def left_out_words(run: RunHotspots) -> str:
    """What a reader must know of a run that is too large."""
    return (
        f"Of {len(run.cells) + run.left_out:,} cells the first {len(run.cells):,} are told; the "
        "tables of all trials are in the run folder."
    )


def _words(place: Hotspot) -> str:
    """`the programs: nginx in kernel, tcp_sendmsg`."""
    parts = [WHO.get(place.group, clean(place.group, 40))]
    parts.append(f": {clean(place.program, 60)}")
    parts.append(f" in {clean(place.object, 80)}" if place.object else "")
    parts.append(f", {clean(place.symbol, 100)}" if place.symbol else "")
    return "".join(parts)


def _groups(folder: RunFolder) -> Iterator[tuple[WorkloadRecord, str, str, list[Trial]]]:
    """Workload, environment, its label and its trials that went well."""
    resolved = folder.resolved
    trials: dict[tuple[str, str, str | None], list[Trial]] = defaultdict(list)
    for trial in folder.trials:
        if trial.status == "ok":
            trials[trial.workload, trial.environment, trial.partner].append(trial)
    partners = (None, *(e.key for e in resolved.environments))
    labels = {e.key: clean(e.label, 60) for e in resolved.environments}
    for workload in resolved.workloads:
        for environment, label in labels.items():
            for partner in partners:
                if mine := trials.get((workload.key, environment, partner)):
                    suffix = f" beside {labels[partner]}" if partner is not None else ""
                    yield workload, environment, f"{label}{suffix}", mine


def _cell(
    folder: RunFolder,
    workload: WorkloadRecord,
    environment: str,
    label: str,
    trials: Sequence[Trial],
    *,
    file: str = symbols.FILE,
) -> CellHotspots | None:
    count, cpus, total = 0, 0, 0.0
    places: dict[ProgramPlace, float] = defaultdict(float)
    courses: list[tuple[Trial, CpuCourse]] = []
    cores: list[Mapping[str, Sequence[float]]] = []
    for trial in trials:
        table = symbols.read(folder, trial, file)
        if table is None:
            continue
        count, cpus = count + 1, max(cpus, table.cpus)
        looks = table.hz * (table.end_ns - table.start_ns) / 1e9
        for row in table.rows:
            places[row.group, row.program, row.object, row.symbol] += row.samples / looks
        total += (sum(row.samples for row in table.rows) + table.rest) / looks
        if table.by_core:
            cores.append(
                {e.group: [samples / looks for samples in e.samples] for e in table.by_core}
            )
        if table.over_time:
            courses.append((trial, _course(trial, table)))
    if not count:
        return None
    groups: dict[str, float] = defaultdict(float)
    for place, value in places.items():
        groups[place[0]] += value / count
    merged = _others_as_one(places)
    largest = sorted(merged, key=lambda place: (-merged[place], place))[:MOST_ROWS]
    hotspots = tuple(Hotspot(*place, cpus=merged[place] / count) for place in largest)
    return CellHotspots(
        environment=environment,
        workload=workload.key,
        label=label,
        title=clean(workload.title, 120),
        trials=count,
        cpus=cpus,
        busy=total / count,
        groups=groups,
        hotspots=hotspots,
        elsewhere=max(0.0, total / count - sum(spot.cpus for spot in hotspots)),
        course=_median(workload, courses),
        cores=_mean(cores),
        of="the guests" if file == GUEST_FILE else "the host",
    )


def _others_as_one(places: Mapping[ProgramPlace, float]) -> dict[ProgramPlace, float]:
    """Whoever else works on the host is no concern of the run, and must not hide what is."""
    merged = {place: cpus for place, cpus in places.items() if place[0] != OTHERS}
    programs: dict[str, float] = defaultdict(float)
    for (group, program, _, _), cpus in places.items():
        if group == OTHERS:
            programs[program] += cpus
    if programs:
        largest = sorted(programs, key=lambda program: (-programs[program], program))
        names = [clean(name, 16) for name in largest[:NAMED]]
        named = ", ".join([*names, "…"] if len(largest) > NAMED else names)
        merged[OTHERS, named, "", ""] = sum(programs.values())
    return merged


def _mean(trials: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, tuple[float, ...]]:
    """Group by group and core by core; a trial that did not see a group there counts as none."""
    groups = sorted({group for trial in trials for group in trial})
    return {
        group: tuple(
            sum(core) / len(trials)
            for core in zip_longest(*(trial.get(group, ()) for trial in trials), fillvalue=0.0)
        )
        for group in groups
    }


def _course(trial: Trial, table: Symbols) -> CpuCourse:
    bin_s = table.bin_ns / 1e9
    groups = {
        course.group: tuple(samples / table.hz / bin_s for samples in course.samples)
        for course in table.over_time
    }
    return CpuCourse(trial.trial, "", bin_s, groups, core_courses(table))


def _median(
    workload: WorkloadRecord, courses: Sequence[tuple[Trial, CpuCourse]]
) -> CpuCourse | None:
    """Of one trial: the lower median by the primary metric, or the middle one where it has none."""
    if not courses:
        return None
    middle = (len(courses) - 1) // 2
    metric = next((m for m in workload.metrics if m.primary and m.coordinate is None), None)
    figures = {
        trial.trial: figure
        for trial, _ in courses
        if metric is not None and (figure := _figure(trial, metric)) is not None
    }
    if metric is None or len(figures) < len(courses):
        return courses[middle][1]
    _, median = sorted(courses, key=lambda pair: figures[pair[0].trial])[middle]
    return replace(median, median_of=metric.name)


def _figure(trial: Trial, metric: Metric) -> float | None:
    value = trial.metrics.get(metric.name)
    return value if isinstance(value, float) and math.isfinite(value) else None
