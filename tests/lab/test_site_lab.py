"""`make site`: the docs build without a warning, and can be searched without a network."""

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.timeout(1500)
def test_the_site_is_built_and_searched() -> None:
    done = subprocess.run(
        ["make", "site"], cwd=ROOT, capture_output=True, text=True, timeout=1400, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    site = ROOT / "build" / "site"
    start = (site / "docs/site/index.html").read_text(encoding="utf-8")
    assert "guide/plan.html" in start and "gallery.html" in start
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert index.startswith("Search.setIndex(") and "neighbour" in index
    for kind in ("run", "duet", "curve", "elastic", "profile"):
        page = (site / "gallery" / f"{kind}.html").read_text(encoding="utf-8")
        assert "Content-Security-Policy" in page
    assert (site / "index.html").is_file()
