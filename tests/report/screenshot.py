"""Takes a picture of a report's first screen: `python -m tests.report.screenshot RUN OUT.png`.

RUN is a run folder with its report.html, or `synthetic` for a made-up run, which the picture says.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--force-color-profile=srgb",
)
SIZE = (1060, 1500)


def launch(playwright: Any) -> Any:
    """The system's Chromium, headless and quiet."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        raise RuntimeError("chromium is not installed")
    return playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))


def take(page_file: Path, out: Path, *, label: str = "", scheme: str = "light") -> None:
    """Picture of the first screen, with `label` in a corner."""
    with sync_playwright() as playwright:
        browser = launch(playwright)
        try:
            view = {"width": SIZE[0], "height": SIZE[1]}
            page = browser.new_page(viewport=view, color_scheme=scheme)
            page.goto(page_file.resolve().as_uri())
            page.wait_for_selector("html[data-charts=done]", state="attached")
            if label:
                page.evaluate(_LABEL, label)
            page.screenshot(path=str(out))
        finally:
            browser.close()


_LABEL = """text => {
  const note = document.createElement("div");
  note.textContent = text;
  note.style.cssText = "position:fixed;right:1.5rem;top:.4rem;font-size:.85rem;color:var(--soft)";
  document.body.append(note);
}"""


def main(run: str, out: str) -> None:
    """Command line."""
    if run != "synthetic":
        take(Path(run) / "report.html", Path(out))
        return
    from tests.report.made import made_report

    with tempfile.TemporaryDirectory() as folder:
        file = made_report(Path(folder), blocks=60, noise_sd=0.035)
        take(file, Path(out), label="figures of a made-up run")


if __name__ == "__main__":
    main(*sys.argv[1:])
