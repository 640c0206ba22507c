"""The chart of cores over time: a strip a core."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from testing.synthetic import ENVIRONMENTS, WORKLOADS, make_run
from tests.analysis.hotspotkit import HZ, Place, put, table
from tests.report.conftest import watch
from tests.report.made import HOSTILE
from ullage.analysis import overhead
from ullage.analysis.causes import hotspots
from ullage.report import cores
from ullage.report import hotspots as section
from ullage.report import pictures as charts
from ullage.report.charts.lanes import DataRow, Drawing
from ullage.report.page import write
from ullage.report.views import Specs
from ullage.runs.reader import RunFolder
from ullage.runs.symbols import OTHER_END

CPU = WORKLOADS[0]
WORK: Place = ("programs", "nginx", "kernel", "sendfile")
Courses = Mapping[tuple[int, str], Sequence[int]]


def run_with(path: Path, courses: Courses, cpus: int = 2) -> RunFolder:
    """Trials of ten seconds, each with these samples."""
    workload = CPU.model_copy(update={"duration_s": 10.0})
    run = make_run(path, raw=False, blocks=1, workloads=(workload,), failures=[])
    folder = RunFolder.open(run)
    parts = max(map(len, courses.values()), default=0)
    for trial in folder.trials:
        over = {"programs": [HZ] * parts} if parts else None
        symbols = table(trial, {WORK: 1.0}, over, cores_over_time=courses)
        put(folder, trial, symbols.model_copy(update={"cpus": cpus}).model_dump_json())
    return folder


def drawn(folder: RunFolder) -> Drawing:
    drawing = cores.draw(hotspots.cells(folder).cells)
    assert drawing is not None
    return drawing


def steps(chart: Drawing, row: DataRow) -> tuple[int, int]:
    """From which to which twentieth of its core an area goes."""
    (ground,) = (g for g in chart.data["grounds"] if g["y"] <= row["y"] and row["z"] <= g["z"])
    high = ground["z"] - ground["y"]
    low, up = (round(20 * (ground["z"] - row[end]) / high) for end in ("z", "y"))
    return low, up


def test_a_strip_is_as_full_as_its_core_was_busy(tmp_path: Path) -> None:
    """The server on one core, what asks it on the other, and the kernel on top of that."""
    courses = {
        (0, "programs"): [HZ] * 5 + [HZ // 2] * 5,
        (1, OTHER_END): [HZ // 4] * 10,
        (1, "ksoftirqd"): [0] * 8 + [HZ // 4, 2 * HZ],
        (1, "kworker"): [0] * 8 + [HZ // 4, 0],
    }
    chart = drawn(run_with(tmp_path / "run", courses))
    first = [row for row in chart.data["areas"] if row["y"] < 1]
    areas = [(row["c"], row["g"], row["x"], row["e"], *steps(chart, row)) for row in first]
    assert areas == [
        ("0", "programs", 0, 5, 0, 20),
        ("0", "programs", 5, 10, 0, 10),
        ("1", "kernel threads", 8, 9, 0, 10),
        ("1", "kernel threads", 9, 10, 0, 20),
        ("1", "the other end", 0, 8, 0, 5),
        ("1", "the other end", 8, 9, 10, 15),
    ]
    assert [row["n"] for row in chart.data["names"]] == [
        environment.label for environment in ENVIRONMENTS
    ]
    assert [row["t"] for row in chart.data["cores"]] == ["0", "1"] * len(ENVIRONMENTS)


def test_a_core_that_did_nothing_has_an_empty_strip(tmp_path: Path) -> None:
    chart = drawn(run_with(tmp_path / "run", {(2, "programs"): [HZ] * 8}, cpus=4))
    assert [row["t"] for row in chart.data["cores"]][:4] == ["0", "1", "2", "3"]
    assert {row["c"] for row in chart.data["areas"]} == {"2"}


def test_of_a_large_host_the_busiest_have_a_strip(tmp_path: Path) -> None:
    """And all others one, with their mean."""
    busy = {(core, "programs"): [HZ if core % 16 == 3 else HZ // 10] * 10 for core in range(256)}
    chart = drawn(run_with(tmp_path / "run", busy, cpus=256))
    names = [row["t"] for row in chart.data["cores"]][:17]
    assert names == [*(str(core) for core in range(3, 256, 16)), "240 others"]
    (others,) = (r for r in chart.data["areas"] if r["y"] < 1 and r["c"] == "240 others")
    assert steps(chart, others) == (0, 2)  # a tenth
    assert chart.height < 250 * len(ENVIRONMENTS) + 100


def test_a_run_of_many_cells_on_a_large_host_stays_small(tmp_path: Path) -> None:
    """No two parts are alike on any core."""
    draw = random.Random(7)
    busy = {
        (core, group): [draw.randrange(HZ // 2) for _ in range(60)]
        for core in range(256)
        for group in ("programs", "others")
    }
    folder = run_with(tmp_path / "run", busy, cpus=256)
    cells = hotspots.cells(folder).cells
    chart = cores.draw([cells[0]] * hotspots.MOST_CELLS)
    assert chart is not None
    specs = Specs()
    specs.figure(chart, "", "")
    assert sum(len(spec.json) for spec in specs.items) < 2_000_000


def test_a_run_that_does_not_tell_has_none(tmp_path: Path) -> None:
    folder = run_with(tmp_path / "run", {})
    assert cores.draw(hotspots.cells(folder).cells) is None
    short = run_with(tmp_path / "short", {(0, "programs"): [HZ] * 7})
    assert cores.draw(hotspots.cells(short).cells) is None


def test_it_is_in_the_report_and_a_picture_for_a_paper(tmp_path: Path) -> None:
    folder = run_with(tmp_path / "run", {(0, "programs"): [HZ] * 10})
    analysis = overhead.analyse(folder)
    places = section.section(folder, analysis, Specs())
    assert places is not None
    over_time, by_core = places.workloads[0].figures
    assert by_core.caption == cores.CAPTION != over_time.caption
    pictures = dict(charts.pictures(folder, analysis))
    assert pictures[f"{charts._slug(CPU.key)}-cores"].startswith("<svg")


@pytest.mark.parametrize("cpus", [2, 256])
def test_a_browser_draws_it(tmp_path: Path, browser: Browser, cpus: int) -> None:
    """Groups that there are none of too; nothing is wider than the page."""
    courses = {(core, HOSTILE): [HZ] * 10 for core in range(cpus)}
    folder = run_with(tmp_path / "run", courses, cpus)
    watched = watch(browser, write(folder, overhead.analyse(folder)))
    try:
        watched.open_folds()
        place = watched.page.locator("section[aria-labelledby=cpus]")
        assert place.locator(".plot svg").count() == 2
        text = place.inner_text()
        assert "not told whose" in text
        assert ("240 others" in text) is (cpus == 256)
        assert watched.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert watched.complaints == []
    finally:
        watched.page.close()
