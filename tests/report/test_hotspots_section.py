"""The report's section on where the CPUs worked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from testing.synthetic import ENVIRONMENTS, WORKLOADS, make_run
from tests.analysis.hotspotkit import HZ, Place, put, table
from tests.report.conftest import watch
from tests.report.made import HOSTILE
from ullage.analysis import overhead
from ullage.analysis.causes import hotspots as causes
from ullage.report import hotspots, page
from ullage.report import pictures as charts
from ullage.report.views import Specs, Table
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder

CPU, MEMORY = WORKLOADS[0], WORKLOADS[1]
HEAD = '<h2 id="cpus">Where the CPUs worked</h2>'
JUMP = '<a href="#cpus">'
WORK: Place = ("programs", "sysbench", "libm.so.6", "")
POLL: Place = ("hypervisor", "qemu", "kernel", "do_sys_poll")


def run_with(path: Path, parts: int, **more: Any) -> RunFolder:
    """A run of ten seconds a trial; of the VM the first half of the time is busier."""
    options: dict[str, Any] = {"blocks": 6, "workloads": (CPU, MEMORY), "failures": [], **more}
    options["workloads"] = [w.model_copy(update={"duration_s": 10.0}) for w in options["workloads"]]
    folder = RunFolder.open(make_run(path, raw=False, **options))
    for trial in folder.trials:
        put(folder, trial, _table(trial, parts).model_dump_json())
    return folder


def _table(trial: Trial, parts: int) -> Any:
    samples = round(HZ * 10 / parts) if parts else 0
    if trial.environment != "vm":
        over = {"programs": [samples] * parts} if parts else None
        return table(trial, {WORK: 1.0}, over)
    over = {"hypervisor": [samples] * (parts // 2) + [0] * (parts - parts // 2)} if parts else {}
    over |= {"vcpu": [samples] * parts, "kworker": [samples // 10] * parts} if parts else {}
    return table(trial, {("vcpu", "CPU N/TCG", "generated code", ""): 1.0, POLL: 0.5}, over)


def text_of(grid: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in grid.rows]


def test_a_run_without_tables_has_none(tmp_path: Path) -> None:
    folder = RunFolder.open(make_run(tmp_path / "run", blocks=6, raw=False))
    analysis = overhead.analyse(folder)
    assert hotspots.section(folder, analysis, Specs()) is None
    text = page.render(folder, analysis)
    assert HEAD not in text
    assert JUMP not in text


def test_a_fold_for_each_workload(tmp_path: Path) -> None:
    folder = run_with(tmp_path / "run", 10)
    analysis = overhead.analyse(folder)
    specs = Specs()
    section = hotspots.section(folder, analysis, specs)
    assert section is not None
    assert [workload.title for workload in section.workloads] == [CPU.title, MEMORY.title]
    assert len(specs.items) == 2
    by_group, *places = section.workloads[0].tables
    heads = [head.text for head in by_group.heads]
    assert heads == ["environment", "programs", "vCPUs", "QEMU", "together"]
    rows = {row[0]: row[1:] for row in text_of(by_group)}
    assert list(rows) == [environment.label for environment in ENVIRONMENTS]
    assert rows[ENVIRONMENTS[0].label] == ["1.00", "0.00", "0.00", "1.00"]
    assert rows[ENVIRONMENTS[-1].label] == ["0.00", "1.00", "0.50", "1.50"]
    assert len(places) == len(ENVIRONMENTS)
    vm = text_of(places[-1])
    assert places[-1].caption == (
        f"{ENVIRONMENTS[-1].label}: 1.50 of 2 CPUs of the host busy, mean of 6 trials"
    )
    assert vm == [
        ["vCPUs", "CPU N/TCG", "generated code", "–", "1.000"],
        ["QEMU beside its vCPUs", "qemu", "kernel", "do_sys_poll", "0.500"],
        ["all other places", "", "", "", "0.000"],
    ]
    for grid in section.workloads[0].tables:
        assert all(len(row) == len(grid.heads) for row in grid.rows)
    text = page.render(folder, analysis)
    assert HEAD in text
    assert JUMP in text


def test_what_tables_did_not_keep_is_a_column(tmp_path: Path) -> None:
    folder = run_with(tmp_path / "run", 0, workloads=(CPU,))
    for trial in folder.trials:
        put(folder, trial, table(trial, {WORK: 1.0}, uncounted=HZ).model_dump_json())
    section = hotspots.section(folder, overhead.analyse(folder), Specs())
    assert section is not None
    (by_group, *_) = section.workloads[0].tables
    assert [head.text for head in by_group.heads][2:] == ["too small to keep", "together"]
    assert text_of(by_group)[0][1:] == ["1.00", "0.10", "1.10"]


def test_cores_are_a_table_of_each_cell_that_tells_them(tmp_path: Path) -> None:
    """In the order of their numbers; of many the busiest, and the others as one."""
    folder = run_with(tmp_path / "run", 0, workloads=(CPU,))
    by_core = {"programs": [HZ * n for n in range(18)], "vhost": [0, HZ * 9], "x": [0] * 17 + [HZ]}
    for trial in folder.trials:
        mine = by_core if trial.environment == "vm" else None
        put(folder, trial, table(trial, {WORK: 1.0}, by_core=mine).model_dump_json())
    section = hotspots.section(folder, overhead.analyse(folder), Specs())
    assert section is not None
    tables = section.workloads[0].tables
    (cores,) = (grid for grid in tables if "each core" in grid.caption)
    assert cores.caption == f"{ENVIRONMENTS[-1].label}: how busy each core of the host was"
    heads = [head.text for head in cores.heads]
    assert heads == ["core", "programs", "vhost", "not told whose", "together"]
    rows = text_of(cores)
    assert rows[0] == ["1", "0.10", "0.90", "0.00", "1.00"]
    assert rows[1] == ["3", "0.30", "0.00", "0.00", "0.30"]
    assert [row[0] for row in rows[1:]] == [*(str(n) for n in range(3, 18)), "1 other"]
    assert rows[-2] == ["17", "1.70", "0.00", "0.10", "1.80"]
    assert rows[-1] == ["1 other", "", "", "", "0.20"]
    assert all(len(row) == len(heads) for row in rows)


def test_areas_stand_on_one_another(tmp_path: Path) -> None:
    folder = run_with(tmp_path / "run", 10)
    (_, _, chart), _ = hotspots.drawn(folder)
    lane = len(ENVIRONMENTS) - 1
    mine = [row for row in chart.data["areas"] if row["l"] == lane]
    assert [row["n"] for row in chart.data["names"]] == [
        environment.label for environment in ENVIRONMENTS
    ]
    assert list(dict.fromkeys(row["g"] for row in mine)) == ["vCPUs", "QEMU", "kernel threads"]
    for at in range(11):
        stack = [row for row in mine if row["x"] == at]
        assert [row["y"] for row in stack] == [lane + 1, *(row["z"] for row in stack[:-1])]
        high = (lane + 1 - stack[-1]["z"]) / 0.68 * 2.1
        assert high == pytest.approx(2.1 if at < 5 else 1.1, abs=0.001)
    assert {row["t"] for row in chart.data["whole"]} == {"1 CPU", "2 CPUs"}


def test_short_trials_have_tables_alone(tmp_path: Path) -> None:
    for parts in (0, 7):
        folder = run_with(tmp_path / f"run{parts}", parts, workloads=(CPU,))
        specs = Specs()
        section = hotspots.section(folder, overhead.analyse(folder), specs)
        assert section is not None
        assert section.workloads[0].figures == ()
        assert section.workloads[0].tables
        assert not specs.items


def test_which_trial_is_drawn_is_said(tmp_path: Path) -> None:
    folder = run_with(tmp_path / "run", 10)
    section = hotspots.section(folder, overhead.analyse(folder), Specs())
    assert section is not None
    (figure,) = section.workloads[0].figures
    name = next(metric.name for metric in CPU.metrics if metric.primary)
    assert f"the median one by {name}" in figure.caption


def test_a_large_run_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    works = [CPU.model_copy(update={"key": f"work-{n}"}) for n in range(20)]
    folder = run_with(tmp_path / "run", 60, blocks=1, workloads=works)
    analysis = overhead.analyse(folder)
    specs = Specs()
    section = hotspots.section(folder, analysis, specs)
    assert section is not None
    cells = sum(len(workload.tables) - 1 for workload in section.workloads)
    assert cells == causes.MOST_CELLS < len(works) * len(ENVIRONMENTS)
    assert "cells the first 48 are told" in section.notes[0]
    assert sum(len(spec.json) for spec in specs.items) < 400_000


def test_the_chart_is_a_picture_for_a_paper(tmp_path: Path) -> None:
    folder = run_with(tmp_path / "run", 10, workloads=(CPU,))
    pictures = dict(charts.pictures(folder, overhead.analyse(folder)))
    svg = pictures[f"{charts._slug(CPU.key)}-cpus"]
    assert svg.startswith("<svg")
    assert "kernel threads" in svg


def test_a_browser_draws_it_and_untrusted_text_is_only_text(
    tmp_path: Path, browser: Browser
) -> None:
    """Names of threads, files and functions, and of groups that there are none of."""
    hostile = CPU.model_copy(update={"title": HOSTILE})
    folder = run_with(tmp_path / "run", 10, workloads=(hostile,))
    for trial in folder.trials:
        over = {HOSTILE: [HZ] * 10, "programs": [HZ] * 10}
        places = {(HOSTILE, HOSTILE, HOSTILE, HOSTILE): 1.0, WORK: 1.0}
        put(folder, trial, table(trial, places, over).model_dump_json())
    file = page.write(folder, overhead.analyse(folder))
    watched = watch(browser, file)
    try:
        watched.open_folds()
        body = watched.page.locator("section[aria-labelledby=cpus]").inner_text()
        assert "not told whose" in body
        assert "{{7*7}}" in body
        assert "\u202e" not in body
        assert "\x1b" not in body
        assert watched.page.locator("section[aria-labelledby=cpus] .plot svg").count() == 1
        assert watched.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert watched.complaints == []
    finally:
        watched.page.close()
