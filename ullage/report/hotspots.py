"""Where the host's CPUs worked: the places of each cell, and one trial of it over time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import altair as alt

from ullage.analysis.causes import hotspots
from ullage.analysis.causes.hotspots import WHO, CellHotspots, CpuCourse, RunHotspots
from ullage.analysis.comparison.model import Analysis
from ullage.common.text import clean
from ullage.report import cores
from ullage.report.charts.lanes import (
    DataRow,
    Drawing,
    Layer,
    finish,
    lane_axis,
    lane_names,
    over,
    x_at,
)
from ullage.report.charts.text import duration
from ullage.report.charts.theme import ORDER, colours, kind, kinds
from ullage.report.views import ChartView, Section, Specs, Table, tabulate
from ullage.runs.reader import RunFolder

MOST_LINES: Final = 4
"""Lines of whole CPUs in a lane."""
LEAST_TOLD: Final = 0.005
"""CPUs in the rows that the tables did not keep: less than that reads as nothing."""
MOST_CORES: Final = 16
"""Rows of a table by core: the busiest ones."""
_AREA: Final = 0.68
"""Of a lane's height, below its name."""
_LANE: Final = 100

_NOTE: Final = (
    "Functions are named of the host's kernel, of its QEMU, and of files of the run's image, as "
    "far as these export their names. Of all else it is the file that was running: what another "
    "file in an instance calls its functions is anybody's word. "
    "What a guest does inside of a vCPU is not seen from the host; who else works on the host is "
    "told by the programs' names alone."
)


@dataclass(frozen=True)
class CpuSection:
    """The whole section; each workload is in a fold."""

    lead: str
    workloads: tuple[Section, ...]
    notes: tuple[str, ...]


def section(folder: RunFolder, analysis: Analysis, specs: Specs) -> CpuSection | None:
    """None for a run without tables of symbols."""
    run = hotspots.cells(folder)
    if not run.cells:
        return None
    both = (
        " Of a duet both halves are in it, as they ran at the same time."
        if analysis.design == "duet"
        else ""
    )
    lead = (
        "What the host's CPUs were seen at during the trials that went well, by perf. 1 is one "
        f"CPU that was busy all the time; nothing is compared here.{both}"
    )
    views = tuple(_view(mine, specs) for mine in _by_workload(run))
    left_out = (hotspots.left_out_words(run),) if run.left_out else ()
    return CpuSection(lead, views, (*left_out, _NOTE))


def drawn(folder: RunFolder) -> Iterator[tuple[str, str, Drawing]]:
    """Key of each workload that has charts, what each of them is called, and it."""
    for mine in _by_workload(hotspots.cells(folder)):
        for name, chart in (("cpus", draw(mine)), ("cores", cores.draw(mine))):
            if chart is not None:
                yield mine[0].workload, name, chart


def _by_workload(run: RunHotspots) -> list[list[CellHotspots]]:
    return [list(mine) for _, mine in groupby(run.cells, key=lambda cell: cell.workload)]


def _view(mine: Sequence[CellHotspots], specs: Specs) -> Section:
    figures = []
    if (chart := draw(mine)) is not None:
        figures.append(_figure(mine, chart, _caption(mine), specs))
    if (chart := cores.draw(mine)) is not None:
        figures.append(_figure(mine, chart, cores.CAPTION, specs))
    tables = [table for cell in mine for table in (_places(cell), _cores(cell)) if table]
    return Section(mine[0].title, figures=tuple(figures), tables=(_groups(mine), *tables))


def _figure(mine: Sequence[CellHotspots], chart: Drawing, caption: str, specs: Specs) -> ChartView:
    tables = "The tables below have the means over all trials."
    return specs.figure(chart, caption, f"Chart of {mine[0].title}: {caption} {tables}")


def _caption(mine: Sequence[CellHotspots]) -> str:
    courses = [cell.course for cell in mine if cell.course is not None and _long(cell.course)]
    metric = courses[0].median_of
    middle = f"the median one by {clean(metric, 40)}" if metric else "the middle one in time"
    parts = " to ".join(dict.fromkeys(duration(f(c.bin_s for c in courses)) for f in (min, max)))
    return (
        f"Busy CPUs over the time of one trial of each environment, {middle}, in parts of {parts}. "
        "A thin line is a whole CPU."
    )


def _groups(mine: Sequence[CellHotspots]) -> Table:
    """Whose work it was, environment by environment."""
    whose = kinds(group for cell in mine for group in cell.groups)
    some_left_out = any(cell.busy - sum(cell.groups.values()) >= LEAST_TOLD for cell in mine)
    rows = []
    for cell in mine:
        sums = [sum(v for g, v in cell.groups.items() if kind(g) == one_kind) for one_kind in whose]
        small = [max(0.0, cell.busy - sum(sums))] if some_left_out else []
        rows.append([cell.label, *(f"{value:.2f}" for value in (*sums, *small, cell.busy))])
    names = (
        "environment",
        *(name for name, _ in whose),
        *(["too small to keep"] if some_left_out else []),
        "together",
    )
    caption = f"CPUs busy by whose work it was, {mine[0].title}"
    return tabulate(caption, names, rows, numbers=names[1:])


def _places(cell: CellHotspots) -> Table:
    names = ("whose", "program", "kernel or file", "function", "CPUs")
    rows = [
        (
            WHO.get(place.group, clean(place.group, 40)),
            clean(place.program, 60),
            clean(place.object, 80) or "–",
            clean(place.symbol, 100) or "–",
            f"{place.cpus:.3f}",
        )
        for place in cell.hotspots
    ]
    rows.append(("all other places", "", "", "", f"{cell.elsewhere:.3f}"))
    return tabulate(f"{cell.label}: {hotspots.busy_words(cell)}", names, rows, numbers=("CPUs",))


def _cores(cell: CellHotspots) -> Table | None:
    """Which of the host's cores did it, and for whom; None: its tables do not tell."""
    busiest = cell.busiest
    if not busiest:
        return None
    whose = kinds(cell.cores)
    rows = []
    for core, busy in sorted(busiest[:MOST_CORES]):
        sums = [
            sum(v[core] for g, v in cell.cores.items() if kind(g) == one_kind and core < len(v))
            for one_kind in whose
        ]
        rows.append([str(core), *(f"{value:.2f}" for value in (*sums, busy))])
    if others := busiest[MOST_CORES:]:
        together = f"{sum(busy for _, busy in others):.2f}"
        name = f"{len(others):,} other{'s' if len(others) > 1 else ''}"
        rows.append([name, *([""] * len(whose)), together])
    names = ("core", *(name for name, _ in whose), "together")
    caption = f"{cell.label}: how busy each core of the host was"
    return tabulate(caption, names, rows, numbers=names[1:])


def _long(course: CpuCourse) -> bool:
    return any(len(values) >= hotspots.LEAST_PARTS for values in course.groups.values())


def draw(mine: Sequence[CellHotspots]) -> Drawing | None:
    """Stacked areas, a lane an environment, all on one scale; None: no trial is long enough."""
    lanes = [(cell, cell.course) for cell in mine if cell.course and _long(cell.course)]
    if not lanes:
        return None
    stacks = [_stack(course) for _, course in lanes]
    top = max(1.0, *(high for stack in stacks for _, bounds in stack for _, high in bounds))
    count = len(lanes)
    areas: list[DataRow] = []
    for lane, ((_, course), stack) in enumerate(zip(lanes, stacks, strict=True)):
        for name, bounds in stack:
            areas += _area(lane, name, bounds, course.bin_s, top)
    data: dict[str, list[DataRow]] = {
        "whole": _whole(count, top),
        "areas": areas,
        "names": [
            {"y": lane + 0.15, "n": cell.label, "m": f"trial {clean(course.trial, 20)}"}
            for lane, (cell, course) in enumerate(lanes)
        ],
    }
    return finish(_layers(stacks, count, data), (_LANE * count) + 50, data)


Stack = list[tuple[str, list[tuple[float, float]]]]
"""What a chart calls the groups, each with its lower and upper bound in each part."""


def _stack(course: CpuCourse) -> Stack:
    """The groups on one another, those of one name as one."""
    parts = max(map(len, course.groups.values()))
    floor = [0.0] * parts
    stack: Stack = []
    for whose in ORDER:
        groups = [values for group, values in course.groups.items() if kind(group) == whose]
        if groups:
            ceiling = [low + sum(more) for low, *more in zip(floor, *groups, strict=True)]
            stack.append((whose[0], list(zip(floor, ceiling, strict=True))))
            floor = ceiling
    return stack


def _area(
    lane: int, name: str, bounds: Sequence[tuple[float, float]], bin_s: float, top: float
) -> list[DataRow]:
    """Corners of one area; the last part is there twice, as it begins and as it ends."""
    return [
        {
            "l": lane,
            "g": name,
            "x": float(f"{part * bin_s:.6g}"),
            "y": round(_height(lane, low, top), 4),
            "z": round(_height(lane, high, top), 4),
        }
        for part, (low, high) in enumerate([*bounds, bounds[-1]])
    ]


def _height(lane: int, value: float, top: float) -> float:
    return lane + 1 - _AREA * value / top


def _whole(count: int, top: float) -> list[DataRow]:
    """Lines at whole CPUs, a few at most."""
    step = math.ceil(top / MOST_LINES) if top >= MOST_LINES else 1
    return [
        {"y": round(_height(lane, at, top), 4), "t": f"{at:,} CPU{'s' if at > 1 else ''}"}
        for lane in range(count)
        for at in range(step, math.floor(top) + 1, step)
    ]


def _layers(stacks: Sequence[Stack], count: int, data: dict[str, list[DataRow]]) -> list[Layer]:
    used = {name for stack in stacks for name, _ in stack}
    x = alt.X("x:Q", title="time in the trial, s", scale=alt.Scale(zero=True, nice=False))
    areas = over("areas").mark_area(
        interpolate="step-after", opacity=1, stroke="var(--bg)", strokeWidth=0.5
    )
    rule = over("whole").mark_rule(color="var(--ink)", opacity=0.35, strokeDash=[2, 3])
    words = over("whole").encode(y=lane_axis(count), x=x_at("width"), text=alt.Text("t:N"))
    rim: dict[str, Any] = {"stroke": "var(--bg)", "strokeWidth": 4, "strokeJoin": "round"}
    small: dict[str, Any] = {
        "align": "right",
        "baseline": "middle",
        "fontSize": 10.5,
        "color": "var(--soft)",
    }
    y = lane_axis(count)
    return [
        areas.encode(
            x=x,
            y=y,
            y2=alt.Y2("z:Q"),
            color=colours([whose for whose in ORDER if whose[0] in used]),
            detail=alt.Detail("l:N"),
            tooltip=[alt.Tooltip("g:N", title="whose")],
        ),
        rule.encode(y=y),
        *(words.mark_text(**look) for look in (small | rim, small)),
        *lane_names(data["names"], count),
    ]
