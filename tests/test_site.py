"""The docs as a site: every page is in its navigation, and its programs are locked by hash."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SITE: Final = ROOT / "docs" / "site"
_ENTRY: Final = re.compile(r"   (?!:)(\S+)")


def navigation() -> list[str]:
    """What the toctrees of the first page name, as paths from the root without a suffix."""
    lines = (SITE / "index.rst").read_text(encoding="utf-8").splitlines()
    entries = [match[1] for line in lines if (match := _ENTRY.fullmatch(line))]
    return [str((SITE / entry).resolve().relative_to(ROOT)) for entry in entries]


def test_every_page_of_the_docs_is_in_the_navigation() -> None:
    pages = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("ullage/experiments/studies/*/README.md")]
    pages += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    entries = navigation()
    lost = [
        name
        for page in pages
        if not any(
            fnmatch.fnmatchcase(name := str(page.relative_to(ROOT).with_suffix("")), entry)
            for entry in entries
        )
    ]
    assert pages and lost == []


def test_what_the_navigation_names_is_there() -> None:
    assert [entry for entry in navigation() if not list(ROOT.glob(f"{entry}.md"))] == []


def test_every_report_of_the_gallery_is_made() -> None:
    gallery = (SITE / "gallery.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    kinds = re.findall(r"gallery/(\w+)\.html", gallery)
    assert kinds
    for kind in kinds:
        assert list((ROOT / "tests/old_folders" / kind).iterdir())
        assert re.search(rf"gallery/{kind}\.html|for kind in [\w ]*\b{kind}\b", makefile)


def test_its_programs_are_locked_by_hash() -> None:
    lock = (ROOT / "requirements-site.lock").read_text(encoding="utf-8")
    names = re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)
    assert {"sphinx", "myst-parser", "furo"} <= set(names)
    assert lock.count("--hash=sha256:") >= len(names)
