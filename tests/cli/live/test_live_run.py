"""A real run, followed in a real browser."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.report.screenshot import launch
from ullage.host import leftovers
from ullage.runs.reader import sessions

PLAN = """\
name: followed
baseline: native
image: host
resources: {{cpus: 1, memory: 256MiB}}
environments:
  native: {{provider: native}}
  other: {{provider: native}}
workloads:
  - {{name: command, argv: [sleep, "0.05"]}}
  - {{name: command, as: wrong, argv: [sh, -c, "exit $(({wrong}))"]}}
blocks: {{min: {blocks}, max: {blocks}}}
"""
SOON_MS = 120_000

Follow = Callable[..., tuple[subprocess.Popen[str], str]]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = launch(playwright)
        yield chromium
        chromium.close()


@pytest.fixture
def follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent_binary: Path) -> Iterator[Follow]:
    """Starts a run with its page; returns the controller and the address."""
    for name in ("STATE", "DATA", "CACHE"):
        monkeypatch.setenv(f"ULLAGE_{name}_DIR", str(tmp_path / name.lower()))
    started: list[subprocess.Popen[str]] = []

    def start(blocks: int, wrong: int = 0) -> tuple[subprocess.Popen[str], str]:
        (tmp_path / "plan.yaml").write_text(PLAN.format(blocks=blocks, wrong=wrong))
        argv = [sys.executable, "-m", "ullage", "run", "plan.yaml", "--live"]
        stderr = (tmp_path / "stderr").open("w")
        controller = subprocess.Popen(argv, cwd=tmp_path, stderr=stderr, text=True)
        started.append(controller)
        deadline = time.monotonic() + SOON_MS / 1000
        while time.monotonic() < deadline and controller.poll() is None:
            if match := re.search(r"live: (http://\S+)", (tmp_path / "stderr").read_text()):
                return controller, match[1]
            time.sleep(0.05)
        raise AssertionError((tmp_path / "stderr").read_text())

    yield start
    for controller in started:
        if controller.poll() is None:
            controller.send_signal(signal.SIGINT)
            controller.wait(60)


def opened(browser: Browser, address: str) -> tuple[Page, list[str]]:
    page = browser.new_page(viewport={"width": 1060, "height": 900})
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address)
    return page, complaints


@pytest.mark.root
def test_the_page_follows_a_run_to_its_end(browser: Browser, follow: Follow) -> None:
    controller, address = follow(blocks=8, wrong=3)
    page, complaints = opened(browser, address)
    try:
        page.wait_for_selector("#log tbody tr", timeout=SOON_MS)
        page.wait_for_selector("#answer .cellar svg.barrel", timeout=SOON_MS)
        assert "Not the result" in page.locator("#answer").inner_text()
        page.wait_for_selector("html[data-state=ended]", timeout=SOON_MS)
        assert "So far, after 8 blocks" in page.locator("#answer h2").first.inner_text()
        assert "report.html" in page.locator("#head").inner_text()
        assert "status 3" in page.locator("#log").inner_text()
        assert page.locator("#lost").is_hidden()
        assert complaints == []
    finally:
        page.close()
    assert controller.wait(60) == 3


@pytest.mark.root
def test_a_killed_run_is_not_shown_as_living(
    browser: Browser, follow: Follow, tmp_path: Path
) -> None:
    controller, address = follow(blocks=500)
    page, _ = opened(browser, address)
    try:
        page.wait_for_selector("#log tbody tr", timeout=SOON_MS)
        controller.kill()
        controller.wait(60)
        page.wait_for_selector("html[data-state=lost]", timeout=SOON_MS)
        assert page.locator("#lost").is_visible()
    finally:
        page.close()
        (run,) = (tmp_path / "runs").iterdir()
        for session in sessions(run):
            assert leftovers.remove(leftovers.find(session.tag, own=True)) == []


@pytest.mark.root
def test_an_interrupted_run_says_so(browser: Browser, follow: Follow) -> None:
    controller, address = follow(blocks=500)
    page, _ = opened(browser, address)
    try:
        page.wait_for_selector("#log tbody tr", timeout=SOON_MS)
        controller.send_signal(signal.SIGINT)
        page.wait_for_selector("html[data-state=ended]", timeout=SOON_MS)
        assert "interrupted" in page.locator("#head").inner_text()
    finally:
        page.close()
    assert controller.wait(60) == 130
