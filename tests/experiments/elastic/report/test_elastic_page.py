"""The page of an elastic run, in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.experiments.elastic.elastic_made import SyntheticEnvironment, SyntheticRun, make
from tests.report.conftest import Watched, watch
from tests.report.screenshot import launch
from ullage.experiments.elastic import folder
from ullage.experiments.elastic.report.page import write
from ullage.experiments.elastic.report.show import find
from ullage.report.charts import theme
from ullage.runs.records import JOURNAL, PLAN, RESOLVED

HOSTILE = "</script><img src=x onerror=alert(1)>{{7*7}}\u202egnp.exe\x1b[31m"
SHOWN = "⟨U+202E⟩gnp.exe"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for this module."""
    with sync_playwright() as playwright:
        chromium = launch(playwright)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two environments, failures, a twin and another run beside it."""
    root = tmp_path_factory.mktemp("elastic")
    environments = {
        "lxc": SyntheticEnvironment(tar_s=0.5, late=frozenset({2})),
        "qemu": SyntheticEnvironment(
            label="qemu-tcg (emulated)", tar_s=2.0, stall=0.1, fails=frozenset({7})
        ),
    }
    path = make(root, SyntheticRun(environments=environments, viewers=40, watts=90.0))
    other = make(root, SyntheticRun(name="other", seed=9, repetitions=1, viewers=20))
    analysed = find(path, root, other)
    return write(analysed, root / "page.html")


@pytest.fixture(scope="module")
def hostile_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every text that a guest or a plan can choose is an attack."""
    root = tmp_path_factory.mktemp("hostile")
    environment = SyntheticEnvironment(
        label=HOSTILE, provider="lxc", fails=frozenset({1}), late=frozenset({3})
    )
    plan = SyntheticRun(environments={"lxc": environment}, viewers=10, repetitions=4, why=HOSTILE)
    path = make(root, plan)
    (path / PLAN).write_text(f"name: {HOSTILE}\n")
    file = path / RESOLVED
    resolved = json.loads(file.read_text())
    resolved |= {"name": HOSTILE, "users_time": {HOSTILE: HOSTILE}, "host": {"cpu_model": HOSTILE}}
    file.write_text(json.dumps(resolved))
    place = folder.repetition_folder(path, "lxc", 0)
    acts = place / folder.CONTROLLER_LOG
    acts.write_text(acts.read_text().replace('"TeF"', json.dumps(HOSTILE)))
    sessions = place / folder.SESSIONS
    sessions.write_text(sessions.read_text().replace("10.0.0.1:80", json.dumps(HOSTILE)[1:-1]))
    viewers = place.parent / "003" / folder.VIEWERS
    viewers.write_text(json.dumps({"valid": False, "why": [HOSTILE]}))
    with (path / JOURNAL).open("a") as journal:
        warning = {"event": "warning", "epoch_ns": 1, "code": HOSTILE, "message": HOSTILE}
        journal.write(json.dumps(warning) + "\n")
    return write(find(path, root))


@pytest.fixture
def desktop(browser: Browser, page_file: Path) -> Iterator[Watched]:
    watched = watch(browser, page_file, viewport={"width": 1060, "height": 900})
    yield watched
    watched.page.close()


def test_draws_every_chart_quietly_and_offline(desktop: Watched) -> None:
    desktop.open_folds()
    drawn = desktop.page.evaluate(
        "[...document.querySelectorAll('.plot')].map(p => p.querySelectorAll('svg').length)"
    )
    # Two fields first, allocations, waits, and a field for each of fourteen repetitions.
    assert drawn == [1] * 18
    assert desktop.complaints == []


def test_the_figure_of_the_field_comes_first(desktop: Watched) -> None:
    page = desktop.page
    first = page.locator("main .plot").first
    assert first.evaluate("e => e.closest('section').querySelector('h2').id") == "field"
    text = first.locator("svg").text_content() or ""
    for word in ("nodes demanded", "nodes supplied", "nodes allocated", "simulated", "viewers"):
        assert word in text
    assert first.locator(".mark-line path").count() == 4
    assert first.locator(".mark-area path").count() == 2
    assert first.locator(".mark-rect path").count() >= 1


def test_lines_are_told_apart_without_colour(desktop: Watched) -> None:
    dashes = (
        desktop.page.locator(".plot")
        .first.locator(".mark-line path")
        .evaluate_all("all => all.map(e => e.getAttribute('stroke-dasharray'))")
    )
    assert len(set(dashes)) == 4


def test_says_what_was_found_in_words(desktop: Watched) -> None:
    answer = desktop.page.locator("#answer").inner_text()
    assert "of the requests were blocked" in answer
    assert "against lxc" in answer
    assert "1 repetition to compare, and a verdict needs 6" in answer
    assert "Read “What to doubt” first" in answer


def test_every_metric_and_repetition_has_its_row(desktop: Watched) -> None:
    body = desktop.page.locator("main").inner_text()
    for symbol in ("QtRvS", "PcBl", "PcAf", "AggBand", "TaR", "TlR", "σ", "ε", "θ_U", "τ_O", "υ"):
        assert symbol in body
    assert "energy of the host" in body
    rows = desktop.page.locator("section[aria-labelledby=repetitions] tbody tr")
    assert rows.count() == 16
    assert desktop.page.locator("section[aria-labelledby=twin] tbody tr").count() == 2
    doubts = desktop.page.locator("section[aria-labelledby=doubts]").inner_text()
    assert "repetition-failed" in doubts and "repetition-invalid" in doubts


def test_without_a_meter_energy_is_not_shown(browser: Browser, hostile_file: Path) -> None:
    watched = watch(browser, hostile_file)
    try:
        tables = watched.page.locator("section[aria-labelledby=metrics]").inner_text()
        assert "energy" not in tables and "node-seconds" in tables
    finally:
        watched.page.close()


@pytest.mark.parametrize("width", [320, 400])
def test_a_phone_never_scrolls_sideways(browser: Browser, page_file: Path, width: int) -> None:
    watched = watch(browser, page_file, viewport={"width": width, "height": 800})
    try:
        watched.open_folds()
        assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
        overlong = watched.page.evaluate(
            "[...document.querySelectorAll('.answer, .plot svg')]"
            ".filter(e => e.getBoundingClientRect().right > innerWidth + 1).length"
        )
        assert overlong == 0
    finally:
        watched.page.close()


def test_the_stages_fit_on_a_desk(browser: Browser, tmp_path: Path) -> None:
    environments = {
        "lxc": SyntheticEnvironment(label="lxc: container (lxc)", boot_delay_s=0.5),
        "lxc-40": SyntheticEnvironment(label="lxc-40: container (lxc)", boot_delay_s=0.5),
        "qemu": SyntheticEnvironment(label="qemu: qemu-tcg (emulated)", tar_s=2.0),
    }
    path = make(tmp_path, SyntheticRun(environments=environments, repetitions=6))
    watched = watch(browser, write(find(path, tmp_path)), viewport={"width": 1200, "height": 900})
    try:
        grid = watched.page.locator(".scroll[aria-label=Stages]")
        wide, room = grid.evaluate("e => [e.scrollWidth, e.clientWidth]")
        assert wide <= room
        assert grid.locator("tbody tr").all_inner_texts()[0].startswith("choosing a host (TeF)")
        # TeF, TcI, TiI, the application and the delay that is injected; TaR and TlR.
        assert grid.locator("tbody tr").count() == 7
    finally:
        watched.page.close()


@pytest.mark.parametrize(("scheme", "colours"), [("light", theme.LIGHT), ("dark", theme.DARK)])
def test_follows_the_colour_scheme(
    browser: Browser, page_file: Path, scheme: str, colours: dict[str, str]
) -> None:
    watched = watch(browser, page_file, color_scheme=scheme)
    try:
        page = watched.page
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == _rgb(colours["bg"])
        line = page.locator(".plot .mark-line path").first
        assert line.evaluate("e => getComputedStyle(e).stroke") == _rgb(colours["c1"])
    finally:
        watched.page.close()


def test_prints_on_paper(browser: Browser, page_file: Path) -> None:
    watched = watch(browser, page_file, color_scheme="dark")
    try:
        pdf = watched.page.pdf(format="A4", print_background=False)
        assert 4 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 20
        watched.page.emulate_media(media="print", color_scheme="dark")
        ground = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == _rgb(theme.LIGHT["bg"])
    finally:
        watched.page.close()


def test_a_hostile_run_can_do_nothing(browser: Browser, hostile_file: Path) -> None:
    watched = watch(browser, hostile_file)
    try:
        watched.open_folds()
        page = watched.page
        assert page.locator("img, iframe, object, embed").count() == 0
        assert page.locator("script:not([type])").count() == 1
        body = page.locator("body").inner_text()
        assert "{{7*7}}" in body and "49" not in page.locator("h1").inner_text()
        assert SHOWN in body and "\u202e" not in page.content()
        assert "␛[31m" in body and "\x1b" not in body
        assert HOSTILE not in hostile_file.read_text()
        assert watched.complaints == []
    finally:
        watched.page.close()


def test_structure_reads_without_eyes(desktop: Watched) -> None:
    page = desktop.page
    desktop.check_structure()
    broken = page.evaluate(
        "[...document.querySelectorAll('a[href^=\"#\"]')]"
        ".filter(a => !document.getElementById(a.hash.slice(1))).length"
    )
    assert broken == 0


def test_a_run_without_figures_has_a_page(browser: Browser, tmp_path: Path) -> None:
    environment = SyntheticEnvironment(fails=frozenset({0, 1}))
    path = make(tmp_path, SyntheticRun(environments={"lxc": environment}, repetitions=2))
    watched = watch(browser, write(find(path, tmp_path)))
    try:
        text = watched.page.locator("main").inner_text()
        assert "No repetition has figures" in text
        assert "none of its 2 repetitions has figures" in text
        assert watched.complaints == []
    finally:
        watched.page.close()


def _rgb(colour: str) -> str:
    return f"rgb({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))})"
