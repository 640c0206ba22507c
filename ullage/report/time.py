"""The run in time: the timeline's words, how starts were together, how well time is known."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ullage.common.clock_reasons import ADVICE, meanings
from ullage.common.quantities import many
from ullage.common.text import clean
from ullage.report.charts import timeline
from ullage.report.charts.text import quantity
from ullage.report.views import Section, Specs, Table, tabulate
from ullage.runs.events import InstanceClock, Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import EnvironmentRecord

_NOTE = (
    "A shared clock is the controller's own, by one line of one counter. The others are looked at "
    "before and after each trial, and what lies between is corrected along the line between the "
    "two looks. The hard bound holds as long as clocks' rates keep within 500 ppm of each other, "
    "whatever ways the messages took; the other one takes rates for steady within 1 ppm. The "
    "residual is how far looks are off a straight line; a clock that stands still while its "
    "machine is halted has too few for one."
)


def view(folder: RunFolder, specs: Specs) -> Section:
    environments, workloads = folder.resolved.environments, folder.resolved.workloads
    chart = timeline.timeline(environments, workloads, folder.trials)
    titles = [clean(w.title, 60) for w in workloads]
    rows = (
        f" Within a lane, from top to bottom: {'; '.join(titles)}." if 1 < len(titles) <= 12 else ""
    )
    bad = sum(t.status == "failed" for t in folder.trials)
    invalid = sum(t.status == "invalid" for t in folder.trials)
    tables = (_spreads(environments, folder.trials), _clocks(environments, folder.trials))
    return Section(
        "The run in time",
        lead=(
            "Every trial where it stood on the controller's clock, one lane an environment; no "
            "start or end in it is further off than the ± at its right. "
            f"A bar is a trial; ✕ failed ({bad}), △ ran but its figures are not valid ({invalid})."
        ),
        figures=(
            specs.figure(
                chart,
                f"Point at a bar for its details.{rows}",
                f"Timeline of {many(len(folder.trials), 'trial')} in "
                f"{many(len(environments), 'environment')}, "
                f"{bad} failed and {invalid} invalid. “All trials” is the same as a table.",
                note=_thinned(folder.trials),
            ),
        ),
        notes=tuple(_pauses(folder)),
        tables=tuple(filter(None, tables)),
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
        bound = max((clock.hard_ns for t in mine for clock in t.clocks.values()), default=0)
        if late:
            rows.append(
                (
                    clean(environment.label, 60),
                    str(len(mine)),
                    _pair(spreads),
                    _late(late, bound),
                )
            )
    names = (
        "environment",
        "trials",
        "spread of starts, median and most",
        "late after the agreed instant, median and most",
    )
    if not rows:
        return None
    return tabulate("How well trials started together", names, rows, numbers=names[1:])


def _clocks(environments: Sequence[EnvironmentRecord], trials: Sequence[Trial]) -> Table | None:
    """How well the instants of an environment are known, and what was done for it."""
    rows, named = [], set()
    for environment in environments:
        mine = [t for t in trials if t.environment == environment.key]
        clocks = [clock for t in mine for clock in t.clocks.values()]
        reasons = [n for n in ADVICE if any(n in clock.reasons for clock in clocks)]
        named.update(reasons)
        if clocks:
            rows.append(
                (
                    clean(environment.label, 60),
                    _how(clocks),
                    f"± {_time(max(clock.hard_ns for clock in clocks))}",
                    f"± {_time(max(clock.sure_ns for clock in clocks))}",
                    _drift(clocks),
                    _most(
                        [abs(clock.drifted_ns) for clock in clocks if clock.drifted_ns is not None]
                    ),
                    _most([clock.residual_ns for clock in clocks if clock.residual_ns is not None]),
                    f"{median(clock.messages for clock in clocks):g}",
                    ", ".join(reasons) or "–",
                )
            )
    if not rows:
        return None
    names = (
        "environment",
        "clock",
        "hard bound",
        "in 99.9 %",
        "drift",
        "corrected by",
        "residual",
        "messages",
        "what its clock says",
    )
    note = f"{_NOTE} {_meanings(named)}".rstrip()
    return tabulate("How well time is known", names, rows, numbers=names[2:8], note=note)


def _meanings(named: set[str]) -> str:
    """Of reasons; where they are not known the names must do."""
    reasons = meanings()
    return " ".join(f"{n}: {clean(reasons[n], 200)}." for n in reasons if n in named)


def _how(clocks: Sequence[InstanceClock]) -> str:
    shared = sum(clock.shared for clock in clocks)
    if shared in (0, len(clocks)):
        return "shared" if shared else "exchanged"
    return f"shared in {shared} of {len(clocks)}"


def _drift(clocks: Sequence[InstanceClock]) -> str:
    """As a rate, from the trial whose looks were furthest apart: it says most."""
    drifted = [clock for clock in clocks if clock.drifted_ns is not None and clock.between_ns]
    if not drifted:
        return "–"
    best = max(drifted, key=lambda clock: clock.between_ns or 0)
    per_ppm = (best.between_ns or 1) / 1e6
    moved, unsure = (best.drifted_ns or 0) / per_ppm, (best.drift_unsure_ns or 0) / per_ppm
    return f"{moved:+.3g} ± {unsure:.2g} ppm"


def _most(values: Sequence[int]) -> str:
    return _time(max(values)) if values else "–"


def _pair(values: Sequence[int]) -> str:
    if not values:
        return "one program"
    return f"{_time(median(values))}, {_time(max(values))}"


def _late(values: Sequence[int], bound_ns: int) -> str:
    """As `_pair`, but nothing is told finer than the clocks are known."""
    if max(values) <= bound_ns:
        return f"within the bound, {_time(bound_ns)}"
    middle = median(values)
    first = "within the bound" if middle <= bound_ns else _time(middle)
    return f"{first}, {_time(max(values))}"


def _time(nanoseconds: float) -> str:
    return quantity(nanoseconds / 1e9, "s")
