"""The run on its own clock: every trial where it stands in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import altair as alt

from ullage.common.text import clean
from ullage.report.charts.lanes import (
    DataRow,
    Drawing,
    Layer,
    finish,
    lane_axis,
    lane_names,
    over,
    thin,
)
from ullage.report.charts.text import duration, quantity
from ullage.runs.events import Trial
from ullage.runs.records import EnvironmentRecord, WorkloadRecord

MOST_BARS: Final = 2000
SEEN: Final = 1 / 500
"""A bound is drawn when it is at least this share of the time axis: about a pixel."""

_CROSS: Final = "M-0.7,-0.7L0.7,0.7M0.7,-0.7L-0.7,0.7"
_BAR_TIPS: Final = (
    ("i", "trial"),
    ("e", "environment"),
    ("w", "workload"),
    ("d", "length"),
    ("p", "spread of starts"),
    ("l", "latest start after the agreed instant"),
    ("c", "start and end may be wrong by"),
    ("b", "the same, in 99.9 % of all cases"),
    ("g", "engine's own time"),
)


def timeline(
    environments: Sequence[EnvironmentRecord],
    workloads: Sequence[WorkloadRecord],
    trials: Sequence[Trial],
) -> Drawing:
    """Every trial on the run's clock, one lane an environment, one line a workload.

    Times when nothing ran for long (the run was taken up again later) are cut out and marked.
    """
    rows = {w.key: i for i, w in enumerate(workloads)} if len(workloads) <= 12 else {}
    lines = max(len(rows), 1)
    lanes = {e.key: (i, clean(e.label, 60)) for i, e in enumerate(environments)}
    titles = {w.key: clean(w.title, 80) for w in workloads}
    at, cuts = _without_pauses(trials)
    bars: list[DataRow] = []
    for trial in _some_trials(trials):
        lane, label = lanes[trial.environment]
        y = lane + 0.4 + 0.56 * (rows.get(trial.workload, 0) + 0.5) / lines
        bars.append(_bar(trial, at[trial.trial], y, label, titles[trial.workload]))
    count = len(environments)
    bounds = [
        (e, max((_bound_ns(t) for t in trials if t.environment == e.key), default=0))
        for e in environments
    ]
    x = alt.X("x:Q", title="time in the run, s", scale=alt.Scale(zero=True, nice=False))
    data = {
        "names": [
            {
                "y": i + 0.17,
                "n": clean(e.label, 60),
                "m": f"± {_nanoseconds(bound)}" if bound else "",
            }
            for i, (e, bound) in enumerate(bounds)
        ],
        "bars": [bar for bar in bars if bar["s"] == "ok"],
        "bad": [bar for bar in bars if bar["s"] != "ok"],
        "cuts": [{"x": at, "t": f"pause of {duration(lost)} cut out"} for at, lost in cuts],
    }
    thick = min(6.0, max(2.5, 40 / lines))
    layers: list[Layer] = []
    if cuts:
        tip = alt.Tooltip("t:N", title="pause")
        mark = over("cuts").mark_rule(strokeDash=[2, 3], color="var(--ink)")
        layers.append(mark.encode(x=x, tooltip=[tip]))
    bar = over("bars").mark_rule(strokeWidth=thick, strokeCap="butt", color="var(--c2)")
    layers.append(bar.encode(x=x, x2=alt.X2("z:Q"), y=lane_axis(count), tooltip=_tips(_BAR_TIPS)))
    if data["bad"]:
        layers += _bad(x, count, thick)
    if whiskers := _whiskers(bars, trials):
        data["whiskers"] = whiskers
        mark = over("whiskers").mark_rule(strokeWidth=1.2, color="var(--ink)")
        layers.append(
            mark.encode(x=x, x2=alt.X2("z:Q"), y=lane_axis(count), tooltip=_tips(_BAR_TIPS))
        )
    layers += lane_names(data["names"], count)
    return finish(layers, (30 + max(6 * lines, 12)) * count, data)


def _tips(tips: Sequence[tuple[str, str]]) -> list[alt.Tooltip]:
    return [alt.Tooltip(f"{key}:N", title=title) for key, title in tips]


def _bad(x: alt.X, count: int, thick: float) -> list[Layer]:
    """Trials without figures: a bar and a shape, told apart without their colour."""
    states, colours = ["failed", "invalid"], ["var(--worse)", "var(--inconclusive)"]
    base = over("bad").encode(
        y=lane_axis(count),
        color=alt.Color("s:N", scale=alt.Scale(domain=states, range=colours), legend=None),
        tooltip=_tips((*_BAR_TIPS, ("s", "status"), ("r", "reason"))),
    )
    shapes = alt.Scale(domain=states, range=[_CROSS, "triangle-up"])
    return [
        base.mark_rule(strokeWidth=thick, strokeCap="butt").encode(x=x, x2=alt.X2("z:Q")),
        base.mark_point(size=70, strokeWidth=2.2, filled=False).encode(
            x=alt.X("m:Q"), shape=alt.Shape("s:N", scale=shapes, legend=None)
        ),
    ]


def _some_trials(trials: Sequence[Trial]) -> list[Trial]:
    """All trials that did not go well, and as many of the others as can be drawn."""
    bad = [t for t in trials if t.status != "ok"]
    good = [t for t in trials if t.status == "ok"]
    return [*thin(good, MOST_BARS), *thin(bad, MOST_BARS)]


def _bound_ns(trial: Trial) -> int:
    return max((role.clock_bound_ns for role in trial.roles), default=0)


def _whiskers(bars: Sequence[DataRow], trials: Sequence[Trial]) -> list[DataRow]:
    """How much longer, either way, the bars may have to be; those that can be seen."""
    span = max((bar["z"] for bar in bars), default=0) - min((bar["x"] for bar in bars), default=0)
    whiskers = []
    bounds = {clean(t.trial, 40): _bound_ns(t) / 1e9 for t in trials}
    for bar in bars:
        bound = bounds[bar["i"]]
        if bound > span * SEEN:
            whiskers.append(bar | {"x": bar["x"] - bound, "z": bar["z"] + bound})
    return whiskers


def _bar(trial: Trial, start: float, y: float, label: str, title: str) -> DataRow:
    length = max((trial.end_ns - trial.start_ns) / 1e9, 0.0)
    late = max((role.late_ns for role in trial.roles), default=None)
    sure = max((role.clock_sure_ns for role in trial.roles), default=0)
    row = {
        "x": round(start, 3),
        "z": round(start + length, 3),
        "y": round(y, 3),
        "s": trial.status,
        "i": clean(trial.trial, 40),
        "e": label,
        "w": title,
        "d": duration(length),
        "p": _nanoseconds(trial.spread_ns),
        "l": _nanoseconds(late),
        "c": f"± {_nanoseconds(_bound_ns(trial))}" if trial.roles else "–",
        "b": f"± {_nanoseconds(sure)}" if trial.roles else "–",
        "g": duration(trial.overhead_s),
    }
    if trial.status != "ok":
        reason = clean(trial.reason.message, 160) if trial.reason else "–"
        row |= {"m": round(start + length / 2, 3), "r": reason}
    return row


def _nanoseconds(value: int | None) -> str:
    return "–" if value is None else quantity(value / 1e9, "s")


def _without_pauses(trials: Sequence[Trial]) -> tuple[dict[str, float], list[tuple[float, float]]]:
    """Start of each trial in seconds of the run, and (place, length) of each pause cut out."""
    ordered = sorted(trials, key=lambda t: t.epoch_ns)
    if not ordered:
        return {}, []
    work = sum(t.end_ns - t.start_ns for t in ordered) / 1e9
    limit = max(60.0, 0.15 * work)
    begin, cut = ordered[0].epoch_ns / 1e9, 0.0
    at: dict[str, float] = {}
    cuts: list[tuple[float, float]] = []
    end = 0.0
    for trial in ordered:
        start = trial.epoch_ns / 1e9 - begin - cut
        if start - end > limit:
            lost = start - end
            cuts.append((end, lost))
            cut += lost
            start = end
        at[trial.trial] = start
        end = max(end, start + (trial.end_ns - trial.start_ns) / 1e9)
    return at, cuts
