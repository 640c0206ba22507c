"""One Chromium for all report tests; it is heavy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Request, sync_playwright

from tests.report.made import curve_report, hostile_report
from tests.report.screenshot import launch

DONE = "html[data-charts=done]"


@dataclass
class Watched:
    """A page with a list of everything that it should not do."""

    page: Page
    file: Path
    complaints: list[str] = field(default_factory=list)

    def open_folds(self) -> None:
        """Open every fold and wait until its charts are drawn."""
        self.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
        self.page.wait_for_function(
            "[...document.querySelectorAll('.plot')].every(p => p.dataset.state === 'drawn')"
        )

    def check_structure(self) -> None:
        """Headings in order, tables and pictures with names: it reads without eyes."""
        levels = self.page.evaluate(
            "[...document.querySelectorAll('h1,h2,h3,h4')].map(h => Number(h.tagName[1]))"
        )
        assert levels[0] == 1 and levels.count(1) == 1
        assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
        assert self.page.locator("table:not(:has(caption))").count() == 0
        assert self.page.locator("th:not([scope])").count() == 0
        unnamed = self.page.locator("[role=img]:not([aria-label]), [role=region]:not([aria-label])")
        assert unnamed.count() == 0


def watch(browser: Browser, file: Path, **options: object) -> Watched:
    """Open the file, noting console messages, errors, dialogs and requests."""
    page = browser.new_page(**options)  # type: ignore[arg-type]
    page.set_default_timeout(120_000)
    watched = Watched(page, file)
    note = watched.complaints.append

    def requested(request: Request) -> None:
        if request.url != file.resolve().as_uri():
            note(f"request {request.url}")

    page.on("console", lambda message: note(f"console {message.type}: {message.text}"))
    page.on("pageerror", lambda error: note(f"error {error}"))
    page.on("request", requested)

    def dialog(opened: object) -> None:
        note("dialog")
        opened.dismiss()  # type: ignore[attr-defined]

    page.on("dialog", dialog)
    page.goto(file.resolve().as_uri())
    if options.get("java_script_enabled", True) and page.locator(".plot").count():
        page.wait_for_selector(DONE, state="attached")
    return watched


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Of one module: while Playwright lives its event loop does, and nobody else's can start."""
    with sync_playwright() as playwright:
        chromium = launch(playwright)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def report_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with all kinds of charts, a failed trial and a pause."""
    return curve_report(tmp_path_factory.mktemp("curve"))


@pytest.fixture(scope="session")
def hostile_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of a run in which every text is an attack."""
    return hostile_report(tmp_path_factory.mktemp("hostile"))


@pytest.fixture
def desktop(browser: Browser, report_file: Path) -> Iterator[Watched]:
    watched = watch(browser, report_file, viewport={"width": 1060, "height": 900})
    yield watched
    watched.page.close()
