"""The report on time: bounds on the timeline, and how well each clock is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from testing.synthetic import make_run
from ullage.report import time
from ullage.report.charts import timeline
from ullage.report.charts.lanes import Drawing
from ullage.report.views import Specs
from ullage.runs.events import InstanceClock, Trial
from ullage.runs.reader import RunFolder

CLOCKS = "How well time is known"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.open(make_run(tmp_path / "run", blocks=2, raw=False))


def drawn(folder: RunFolder, trials: list[Trial]) -> Drawing:
    resolved = folder.resolved
    return timeline.timeline(resolved.environments, resolved.workloads, trials)


def test_a_lane_says_how_well_its_time_is_known(folder: RunFolder) -> None:
    names = drawn(folder, list(folder.trials)).data["names"]
    bounds = {name["n"]: name["m"] for name in names}
    keys = {e.label: e.key for e in folder.resolved.environments}
    assert {keys[label]: bound for label, bound in bounds.items()}["vm"] == "± 400\xa0µs"
    assert {keys[label]: bound for label, bound in bounds.items()}["lxc"] == "± 120\xa0ns"


def test_a_bound_that_can_be_seen_is_drawn(folder: RunFolder) -> None:
    assert "whiskers" not in drawn(folder, list(folder.trials)).data
    first = folder.trials[0]
    role = first.roles[0].model_copy(update={"clock_bound_ns": 5_000_000_000})
    unsure = first.model_copy(update={"roles": (role,)})
    data = drawn(folder, [unsure, *folder.trials[1:]]).data
    (whisker,) = data["whiskers"]
    (bar,) = [drawn_bar for drawn_bar in data["bars"] if drawn_bar["i"] == first.trial]
    assert whisker["x"] == pytest.approx(bar["x"] - 5)
    assert whisker["z"] == pytest.approx(bar["z"] + 5)
    assert "± 5.00" in whisker["c"]


def table(
    folder: RunFolder, clocks: dict[str, InstanceClock] | None = None
) -> dict[str, list[str]]:
    trials = folder.trials
    if clocks is not None:
        trials = tuple(trial.model_copy(update={"clocks": clocks}) for trial in trials)
    folder.__dict__["trials"] = trials
    labels = {e.label: e.key for e in folder.resolved.environments}
    tables = time.view(folder, Specs()).tables
    rows = [row for grid in tables if grid.caption == CLOCKS for row in grid.rows]
    return {labels[row[0].text]: [cell.text for cell in row[1:]] for row in rows}


def test_each_clock_has_a_row(folder: RunFolder) -> None:
    rows = table(folder)
    bounds = ["± 400\xa0µs", "± 300\xa0µs"]
    drift = ["+11.2 ± 0.9 ppm", "11.3\xa0µs", "700\xa0ns"]
    assert rows["vm"] == ["exchanged", *bounds, *drift, "40", "moves-unseen"]
    same = ["± 120\xa0ns", "± 120\xa0ns"]
    assert rows["lxc"] == ["shared", *same, "–", "–", "–", "2", "–"]
    clocks = time.view(folder, Specs()).tables[-1]
    assert "moves-unseen: a virtual machine without vmclock" in clocks.note
    assert "suspended" not in clocks.note


def test_reasons_that_nobody_knows_and_clocks_that_change(folder: RunFolder) -> None:
    common = {"looks": (1,), "messages": 2, "took_ns": 5, "hard_ns": 100, "sure_ns": 90}
    shared = InstanceClock.model_validate({**common, "shared": True})
    own = InstanceClock.model_validate({**common, "shared": False, "reasons": ("<b>", "moved")})
    (how, *others) = table(folder, {"a-0": shared, "a-1": own})["vm"]
    count = sum(trial.environment == "vm" for trial in folder.trials)
    assert how == f"shared in {count} of {2 * count}"
    assert others[-1] == "moved"


def test_nothing_is_told_finer_than_clocks_are_known(folder: RunFolder) -> None:
    """A start that is 3 ns late by a clock that is right to 100 ns."""
    lateness = {}
    for late in (3, 5_000):
        trials = [
            trial.model_copy(
                update={
                    "roles": tuple(
                        role.model_copy(update={"late_ns": late}) for role in trial.roles
                    ),
                    "clocks": {
                        name: clock.model_copy(update={"hard_ns": 100})
                        for name, clock in trial.clocks.items()
                    },
                }
            )
            for trial in folder.trials
        ]
        folder.__dict__["trials"] = tuple(trials)
        spreads, _ = time.view(folder, Specs()).tables
        lateness[late] = {row[3].text for row in spreads.rows}
    assert lateness == {3: {"within the bound, 100\xa0ns"}, 5_000: {"5.00\xa0µs, 5.00\xa0µs"}}


def test_no_clocks_no_table(folder: RunFolder) -> None:
    assert table(folder, {}) == {}
