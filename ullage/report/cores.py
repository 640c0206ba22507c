"""How busy each core of the host was over the time of one trial: a strip a core."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, Final

import altair as alt

from ullage.analysis.causes import hotspots
from ullage.analysis.causes.hotspots import CellHotspots, CoreCourses
from ullage.common.text import clean
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
from ullage.report.charts.theme import ORDER, colours, kind

CAPTION: Final = (
    "How busy each core of the host was over the same time, and for whom: a strip a core, which is "
    "full where that was busy all the time."
)
MOST_CORES: Final = 16
"""Strips of a lane: the busiest cores of any lane, and one for all others."""
_HEAD_PX: Final = 28
"""Of a lane, for its name."""
_WIDE: Final = (28, 20)
_THIN: Final = (12, 10)
"""Pixels of a strip, where there are few of them or more, and in how many steps it is filled: a
part has few looks at a core, and equal neighbours are one."""
_FEW: Final = 4
_FULL: Final = 0.86
"""Of a strip's height is drawn on."""


@dataclass(frozen=True)
class _Strip:
    """A line of a lane: a core, or those that have none of their own."""

    name: str
    cores: tuple[int, ...]


def draw(mine: Sequence[CellHotspots]) -> Drawing | None:
    """A lane an environment, a strip a core; None: no table tells, or no trial is long enough."""
    lanes = [
        (cell.label, cell.course, cell.course.cores)
        for cell in mine
        if cell.course is not None
        and cell.course.cores is not None
        and cell.course.cores.parts >= hotspots.LEAST_PARTS
    ]
    if not lanes:
        return None
    strips = _strips([cores for _, _, cores in lanes], max(cell.cpus for cell in mine))
    strip_px, steps = _WIDE if len(strips) <= _FEW else _THIN
    lane_px = _HEAD_PX + strip_px * len(strips)
    data: dict[str, list[DataRow]] = {"grounds": [], "areas": [], "cores": []}
    for lane, (_, _, cores) in enumerate(lanes):
        for number, strip in enumerate(strips):
            top = lane + (_HEAD_PX + strip_px * number) / lane_px
            high = strip_px * _FULL / lane_px
            whole = {"x": 0, "e": round(cores.edges_s[-1], 3), "y": round(top, 4)}
            data["grounds"].append(whole | {"z": round(top + high, 4)})
            data["cores"].append({"y": round(top + high / 2, 4), "t": strip.name})
            for name, start, end, low, up in _areas(cores, strip, steps):
                data["areas"].append(
                    {
                        "c": strip.name,
                        "g": name,
                        "x": round(start, 3),
                        "e": round(end, 3),
                        "y": round(top + high * (1 - up / steps), 4),
                        "z": round(top + high * (1 - low / steps), 4),
                        "b": round((up - low) / steps, 2),
                    }
                )
    data["names"] = [
        {"y": lane + 12 / lane_px, "n": label, "m": f"trial {clean(course.trial, 20)}"}
        for lane, (label, course, _) in enumerate(lanes)
    ]
    return finish(_layers(len(lanes), data), lane_px * len(lanes) + 80, data)


def _strips(lanes: Sequence[CoreCourses], cpus: int) -> list[_Strip]:
    """The same in all lanes, so that they can be compared: every core of a small host."""
    most: dict[int, float] = dict.fromkeys(range(cpus if cpus <= MOST_CORES else 0), 0.0)
    for lane in lanes:
        for core in lane.cores:
            most[core] = max(most.get(core, 0.0), lane.mean(core))
    busiest = sorted(most, key=lambda core: (-most[core], core))
    strips = [_Strip(f"{core}", (core,)) for core in sorted(busiest[:MOST_CORES])]
    others = tuple(busiest[MOST_CORES:])
    return [*strips, _Strip(f"{len(others):,} others", others)] if others else strips


def _areas(
    cores: CoreCourses, strip: _Strip, steps: int
) -> Iterator[tuple[str, float, float, int, int]]:
    """Whose, from when, to when, from which step to which: they stand on one another."""
    sums: dict[str, list[float]] = {}
    for core in strip.cores:
        for group, shares in cores.cores.get(core, {}).items():
            name = kind(group)[0]
            before = sums.get(name, [0.0] * cores.parts)
            sums[name] = [a + b / len(strip.cores) for a, b in zip(before, shares, strict=True)]
    floor, below = [0.0] * cores.parts, [0] * cores.parts
    for name, _ in ORDER:
        if name not in sums:
            continue
        floor = [low + more for low, more in zip(floor, sums[name], strict=True)]
        above = [min(round(share * steps), steps) for share in floor]
        bounds = zip(below, above, pairwise(cores.edges_s), strict=True)
        for (low, up), parts in groupby(bounds, key=lambda area: area[:2]):
            times = [edges for _, _, edges in parts]
            if up > low:
                yield name, times[0][0], times[-1][1], low, up
        below = above


def _layers(count: int, data: dict[str, list[DataRow]]) -> list[Layer]:
    used = {row["g"] for row in data["areas"]}
    x = alt.X("x:Q", title="time in the trial, s", scale=alt.Scale(zero=True, nice=False))
    y = lane_axis(count)
    grounds = over("grounds").mark_rect(color="var(--grid)")
    areas = over("areas").mark_rect()
    small: dict[str, Any] = {
        "align": "right",
        "baseline": "middle",
        "fontSize": 10,
        "color": "var(--soft)",
    }
    cores = over("cores").mark_text(dx=-5, **small)
    return [
        grounds.encode(x=x, x2=alt.X2("e:Q"), y=y, y2=alt.Y2("z:Q")),
        areas.encode(
            x=x,
            x2=alt.X2("e:Q"),
            y=y,
            y2=alt.Y2("z:Q"),
            color=colours([whose for whose in ORDER if whose[0] in used]),
            tooltip=[
                alt.Tooltip("c:N", title="core"),
                alt.Tooltip("g:N", title="whose"),
                alt.Tooltip("b:Q", title="of the core", format=".0%"),
            ],
        ),
        cores.encode(x=x_at(0), y=y, text=alt.Text("t:N")),
        *lane_names(data["names"], count),
    ]
