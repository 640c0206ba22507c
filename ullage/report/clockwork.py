"""The run in time: the timeline's words, and how well starts were together."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ullage.folder import RunFolder
from ullage.printable import clean
from ullage.report import timeline
from ullage.report.text import quantity
from ullage.report.views import Figure, Specs, Table, TimelineView, cells, heads
from ullage.report.workloads import add
from ullage.runs import EnvironmentRecord, Trial


def view(folder: RunFolder, specs: Specs) -> TimelineView:
    """The timeline with its words."""
    environments, workloads = folder.resolved.environments, folder.resolved.workloads
    chart = timeline.timeline(environments, workloads, folder.trials)
    titles = [clean(w.title, 60) for w in workloads]
    rows = (
        f" Within a lane, from top to bottom: {'; '.join(titles)}." if 1 < len(titles) <= 12 else ""
    )
    bad = sum(t.status == "failed" for t in folder.trials)
    invalid = sum(t.status == "invalid" for t in folder.trials)
    return TimelineView(
        lead=(
            "Every trial where it stood on the controller's clock, one lane an environment. "
            f"A bar is a trial; ✕ failed ({bad}), △ ran but its figures are not valid ({invalid})."
        ),
        chart=Figure(
            id=add(specs, chart),
            caption=f"Point at a bar for its details.{rows}",
            label=(
                f"Timeline of {len(folder.trials)} trials in {len(environments)} environments, "
                f"{bad} failed and {invalid} invalid. “All trials” is the same as a table."
            ),
            height=chart.height,
            note=_thinned(folder.trials),
        ),
        lines=tuple(_pauses(folder)),
        spreads=_spreads(environments, folder.trials),
    )


def _thinned(trials: Sequence[Trial]) -> str:
    if len(trials) <= timeline.MOST_BARS:
        return ""
    return (
        f"Drawn are {timeline.MOST_BARS:,} of {len(trials):,} trials, evenly spread, and all that "
        "failed."
    )


def _pauses(folder: RunFolder) -> list[str]:
    again = [s for s in folder.sessions if s.resumed]
    if not again:
        return []
    times = "once" if len(again) == 1 else f"{len(again)} times"
    return [f"The run was taken up again {times}; long pauses are cut out and dotted."]


def _spreads(environments: Sequence[EnvironmentRecord], trials: Sequence[Trial]) -> Table | None:
    """How well the programs of a trial started together, by environment."""
    rows = []
    for environment in environments:
        mine = [t for t in trials if t.environment == environment.key]
        spreads = [t.spread_ns for t in mine if t.spread_ns is not None]
        late = [role.late_ns for t in mine for role in t.roles]
        bounds = [role.clock_bound_ns for t in mine for role in t.roles]
        if late:
            rows.append(
                cells(
                    clean(environment.label, 60),
                    str(len(mine)),
                    *(_pair(values) for values in (spreads, late)),
                    f"± {_time(max(bounds))}" if max(bounds) else "same clock",
                    numbers=(1, 2, 3, 4),
                )
            )
    names = (
        "environment",
        "trials",
        "spread of starts, median and most",
        "late after the agreed instant, median and most",
        "clock bound",
    )
    if not rows:
        return None
    return Table("How well trials started together", heads(*names, numbers=names[1:]), tuple(rows))


def _pair(values: Sequence[int]) -> str:
    if not values:
        return "one program"
    return f"{_time(median(values))}, {_time(max(values))}"


def _time(nanoseconds: float) -> str:
    return quantity(nanoseconds / 1e9, "s")
