"""The page in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from testing.synthetic import SCRIPT
from tests.report.conftest import Watched, watch
from tests.report.made import HOSTILE
from ullage.report.charts import theme

BARRELS = ".cellar svg.barrel"


def test_draws_every_chart_quietly_and_offline(desktop: Watched) -> None:
    desktop.open_folds()
    drawn = desktop.page.evaluate(
        "[...document.querySelectorAll('.plot')].map(p => p.querySelectorAll('svg').length)"
    )
    # Four workloads with trials and pairs, three secondary metrics, two curves, the timeline.
    assert drawn == [1] * 14
    assert desktop.page.locator(".plot svg .mark-symbol path").count() > 700
    assert desktop.complaints == []


def test_first_screen_needs_no_script(browser: Browser, report_file: Path) -> None:
    watched = watch(browser, report_file, java_script_enabled=False)
    try:
        page = watched.page
        assert page.locator(BARRELS).count() == 12
        assert page.locator(".forest td.p svg .mark").count() == 15
        assert "worse than native in" in page.locator(".answer").inner_text()
        assert watched.complaints == []
    finally:
        page.close()


def test_a_browser_that_cannot_unpack_the_charts_says_so(
    browser: Browser, report_file: Path
) -> None:
    page = browser.new_page()
    try:
        page.add_init_script("delete window.DecompressionStream")
        page.goto(report_file.resolve().as_uri())
        page.wait_for_selector("html[data-charts=failed]")
        assert "cannot draw charts" in page.locator(".plot").first.inner_text()
        assert page.locator(BARRELS).count() == 12
    finally:
        page.close()


@pytest.mark.parametrize("width", [320, 400])
def test_a_phone_never_scrolls_sideways(browser: Browser, report_file: Path, width: int) -> None:
    watched = watch(browser, report_file, viewport={"width": width, "height": 800})
    try:
        watched.open_folds()
        assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
        overlong = watched.page.evaluate(
            "[...document.querySelectorAll('.answer, .forest, .cellar, .plot svg')]"
            ".filter(e => e.getBoundingClientRect().right > innerWidth + 1).length"
        )
        assert overlong == 0
    finally:
        watched.page.close()


def test_forest_stacks_text_under_the_line_on_a_phone(browser: Browser, report_file: Path) -> None:
    watched = watch(browser, report_file, viewport={"width": 400, "height": 800})
    try:
        row = watched.page.locator(".forest tbody tr:not(.env)").first
        plot = row.locator("td.p").bounding_box()
        ratio = row.locator("td.r").bounding_box()
        assert plot is not None and ratio is not None
        assert ratio["y"] >= plot["y"] + plot["height"] - 1
        assert plot["width"] > 300
    finally:
        watched.page.close()


@pytest.mark.parametrize(("scheme", "colours"), [("light", theme.LIGHT), ("dark", theme.DARK)])
def test_follows_the_colour_scheme(
    browser: Browser, report_file: Path, scheme: str, colours: dict[str, str]
) -> None:
    watched = watch(browser, report_file, color_scheme=scheme)
    try:
        page = watched.page
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == _rgb(colours["bg"])
        liquid = page.locator(".cellar .liquid").first
        assert liquid.evaluate("e => getComputedStyle(e).fill") == _rgb(colours["liquid"])
        axis = page.locator(".plot svg .role-axis-label text").first
        assert axis.evaluate("e => getComputedStyle(e).fill") == _rgb(colours["soft"])
    finally:
        page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_in_the_page_have_contrast(browser: Browser, report_file: Path, scheme: str) -> None:
    watched = watch(browser, report_file, color_scheme=scheme)
    try:
        pairs = watched.page.evaluate(_TEXT_COLOURS)
        assert len(pairs) > 5
        worst = {(a, b): theme.contrast(_hex(a), _hex(b)) for a, b in pairs}
        assert {pair: c for pair, c in worst.items() if c < 4.5} == {}
    finally:
        watched.page.close()


def test_prints_on_a_sane_number_of_pages(browser: Browser, report_file: Path) -> None:
    watched = watch(browser, report_file, color_scheme="dark")
    try:
        pdf = watched.page.pdf(format="A4", print_background=False)
        assert 4 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 16
        watched.page.emulate_media(media="print", color_scheme="dark")
        ground = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == _rgb(theme.LIGHT["bg"])
    finally:
        watched.page.close()


def test_guest_output_stays_text(desktop: Watched) -> None:
    output = desktop.page.get_by_text(f"said: {SCRIPT}")
    assert output.count() == 1
    assert output.is_visible()
    assert desktop.page.locator("script").count() == 2 + 14
    assert desktop.complaints == []


def test_a_hostile_run_can_do_nothing(browser: Browser, hostile_file: Path) -> None:
    watched = watch(browser, hostile_file)
    try:
        watched.open_folds()
        page = watched.page
        assert page.locator("img, iframe, object, embed").count() == 0
        assert page.evaluate("[...document.querySelectorAll('*')].some(e => e.onerror)") is False
        scripts = page.locator("script:not([type])")  # the library has run and is gone
        assert scripts.count() == 1
        body = page.locator("body").inner_text()
        assert "{{7*7}}" in body and "49" not in page.locator("h1").inner_text()
        assert "⟨U+202E⟩gnp.exe" in body and "\u202e" not in page.content()
        assert "␛[31m" in body and "\x1b" not in body
        assert HOSTILE not in hostile_file.read_text()
        point = page.locator(".plot svg .mark-symbol path").first
        point.hover()
        page.wait_for_selector("#vg-tooltip-element.visible")
        assert watched.complaints == []
    finally:
        page.close()


def test_keyboard_reaches_links_tables_and_folds(desktop: Watched) -> None:
    page = desktop.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for href in ("#plan", "#trials", "#left"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.getAttribute('href')") == href
    fold = page.locator("section[aria-labelledby=workload-1] summary").first
    fold.focus()
    page.keyboard.press("Enter")
    plot = page.locator("section[aria-labelledby=workload-1] details .plot").first
    page.wait_for_function("e => e.dataset.state === 'drawn'", arg=plot.element_handle())
    assert plot.locator("svg").count() == 1


def test_structure_reads_without_eyes(desktop: Watched) -> None:
    page = desktop.page
    desktop.check_structure()
    silent = ":not([aria-hidden], [aria-label], [aria-hidden] *, [aria-label] *)"
    assert page.locator(f"svg{silent}").count() == 0
    assert page.evaluate("document.documentElement.lang") == "en"
    broken = page.evaluate(
        "[...document.querySelectorAll('a[href^=\"#\"]')]"
        ".filter(a => !document.getElementById(a.hash.slice(1))).length"
    )
    assert broken == 0


def test_hovering_a_trial_tells_its_start(desktop: Watched) -> None:
    page = desktop.page
    # The first rule is the pause that was cut out.
    rules = page.locator("section[aria-labelledby=time] .plot .mark-rule.role-mark")
    bar = rules.nth(1).locator("line").nth(3)
    bar.scroll_into_view_if_needed()
    box = bar.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tip = page.wait_for_selector("#vg-tooltip-element.visible")
    assert tip is not None
    text = tip.inner_text()
    assert "spread of starts" in text and "end may be wrong by" in text


def _rgb(colour: str) -> str:
    return f"rgb({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))})"


def _hex(rgb: str) -> str:
    return "#" + "".join(f"{int(n):02x}" for n in re.findall(r"\d+", rgb)[:3])


_TEXT_COLOURS = """() => {
  const solid = (e) => {
    for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor;
      if (!c.endsWith(", 0)") && c !== "transparent") return c;
    }
    return "rgb(255, 255, 255)";
  };
  const pairs = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || e.closest("script, svg")) continue;
    pairs.add(JSON.stringify([getComputedStyle(e).color, solid(e)]));
  }
  return [...pairs].map((p) => JSON.parse(p));
}"""
