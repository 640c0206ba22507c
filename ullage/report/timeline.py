"""The run on its own clock: every trial where it stands in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import altair as alt

from ullage.report.lanes import Layer, Row, finish, lane_axis, lane_names, thin
from ullage.report.text import clean, duration, quantity
from ullage.runs import EnvironmentRecord, Trial, WorkloadRecord

MOST_BARS: Final = 2500

_CROSS: Final = "M-0.7,-0.7L0.7,0.7M0.7,-0.7L-0.7,0.7"
_BAR_TIPS: Final = (
    ("i", "trial"),
    ("e", "environment"),
    ("w", "workload"),
    ("s", "status"),
    ("r", "reason"),
    ("d", "length"),
    ("p", "spread of starts"),
    ("l", "latest start after the agreed instant"),
    ("c", "clock may be wrong by"),
    ("g", "engine's own time"),
)


def timeline(
    environments: Sequence[EnvironmentRecord],
    workloads: Sequence[WorkloadRecord],
    trials: Sequence[Trial],
) -> Layer:
    """Every trial on the run's clock, one lane an environment, one line a workload.

    Times when nothing ran for long (the run was taken up again later) are cut out and marked.
    """
    rows = {w.key: i for i, w in enumerate(workloads)} if len(workloads) <= 12 else {}
    lines = max(len(rows), 1)
    lanes = {e.key: (i, e.label) for i, e in enumerate(environments)}
    titles = {w.key: w.title for w in workloads}
    at, cuts = _without_pauses(trials)
    shown = _some_trials(trials)
    bars: list[Row] = []
    for trial in shown:
        if trial.environment not in lanes:
            continue
        lane, label = lanes[trial.environment]
        y = lane + 0.4 + 0.56 * (rows.get(trial.workload, 0) + 0.5) / lines
        bars.append(_bar(trial, at[trial.trial], y, label, titles.get(trial.workload, "")))
    count = len(environments)
    height = (30 + max(6 * lines, 12)) * count
    x = alt.X("x:Q", title="time in the run, s", scale=alt.Scale(zero=True, nice=False))
    names = [{"y": i + 0.17, "n": clean(e.label, 60)} for i, e in enumerate(environments)]
    layers: list[Layer] = [lane_names(names, count), *_cut_marks(cuts, x)]
    base = alt.Chart(alt.InlineData(bars)).encode(
        y=lane_axis(count),
        color=alt.Color(
            "s:N",
            title=None,
            scale=alt.Scale(
                domain=["ok", "failed", "invalid"],
                range=["var(--c2)", "var(--worse)", "var(--inconclusive)"],
            ),
            legend=None,
        ),
        tooltip=[alt.Tooltip(f"{k}:N", title=t) for k, t in _BAR_TIPS],
    )
    layers.append(
        base.mark_rule(strokeWidth=min(6.0, max(2.5, 40 / lines)), strokeCap="butt").encode(
            x=x, x2="z:Q"
        )
    )
    layers.append(
        base.transform_filter(alt.FieldOneOfPredicate(field="s", oneOf=["failed", "invalid"]))
        .mark_point(size=70, strokeWidth=2.2, filled=False)
        .encode(
            x=alt.X("m:Q"),
            shape=alt.Shape(
                "s:N",
                scale=alt.Scale(domain=["failed", "invalid"], range=[_CROSS, "triangle-up"]),
                legend=None,
            ),
        )
    )
    return finish(layers, height)


def _some_trials(trials: Sequence[Trial]) -> list[Trial]:
    """All trials that did not go well, and as many of the others as can be drawn."""
    bad = [t for t in trials if t.status != "ok"]
    good = [t for t in trials if t.status == "ok"]
    return [*thin(good, MOST_BARS), *thin(bad, MOST_BARS)]


def _bar(trial: Trial, start: float, y: float, label: str, title: str) -> Row:
    length = max((trial.end_ns - trial.start_ns) / 1e9, 0.0)
    late = max((role.late_ns for role in trial.roles), default=None)
    bound = max((role.clock_bound_ns for role in trial.roles), default=None)
    return {
        "x": round(start, 4),
        "z": round(start + length, 4),
        "m": round(start + length / 2, 4),
        "y": round(y, 4),
        "s": trial.status,
        "i": clean(trial.trial, 40),
        "e": clean(label, 60),
        "w": clean(title, 80),
        "r": clean(trial.reason.message, 160) if trial.reason else "–",
        "d": duration(length),
        "p": _nanoseconds(trial.spread_ns),
        "l": _nanoseconds(late),
        "c": f"± {_nanoseconds(bound)}" if bound else "–",
        "g": duration(trial.overhead_s),
    }


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


def _cut_marks(cuts: Sequence[tuple[float, float]], x: alt.X) -> list[Layer]:
    if not cuts:
        return []
    rows = [{"x": at, "t": f"pause of {duration(lost)} cut out"} for at, lost in cuts]
    base = alt.Chart(alt.InlineData(rows)).encode(x=x)
    return [
        base.mark_rule(strokeDash=[2, 3], color="var(--ink)").encode(
            tooltip=[alt.Tooltip("t:N", title="pause")]
        ),
    ]
