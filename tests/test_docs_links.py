"""Every link of every page leads to a file and a heading, and every page of the docs is linked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from itertools import count, pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parent.parent
FRONT_PAGES = ("README.md", "docs/README.md")
NOT_OURS = {"target", "build", "dist", "node_modules"}
PARSER = MarkdownIt("commonmark").enable("table")


def pages(root: Path) -> list[Path]:
    """All Markdown of a checkout, without what was built, installed or unpacked there."""
    markdown = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [n for n in subfolders if n not in NOT_OURS and not n.startswith(".")]
        markdown += [Path(folder) / name for name in names if name.endswith(".md")]
    return sorted(markdown)


@cache
def blocks(page: Path) -> list[Token]:
    return PARSER.parse(page.read_text(encoding="utf-8"))


def links(page: Path) -> Iterator[str]:
    """Targets of links and pictures, as they are written."""
    for token in (child for block in blocks(page) for child in block.children or ()):
        if token.type in {"link_open", "image"}:
            yield str(token.attrGet("href") or token.attrGet("src"))


def anchors(page: Path) -> set[str]:
    """GitHub's anchors of the headings: lower case, no punctuation, `-1` when taken already."""
    slugs: set[str] = set()
    for opening, heading in pairwise(blocks(page)):
        if opening.type != "heading_open":
            continue
        shown = (c.content for c in heading.children or () if c.type in {"text", "code_inline"})
        slug = re.sub(r"[^\w\- ]", "", "".join(shown).lower()).replace(" ", "-")
        copies = (f"{slug}-{number}" if number else slug for number in count())
        slugs.add(next(anchor for anchor in copies if anchor not in slugs))
    return slugs


def target_of(page: Path, link: str) -> tuple[Path, str] | None:
    """The file and the anchor that a relative link names."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    path = (page.parent / unquote(parts.path)).resolve() if parts.path else page.resolve()
    return path, unquote(parts.fragment)


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    return [link for link in links(page) if (to := target_of(page, link)) and not leads(*to)]


def leads(path: Path, anchor: str) -> bool:
    return path.exists() and (not anchor or (path.suffix == ".md" and anchor in anchors(path)))


def reachable(root: Path) -> set[Path]:
    """The pages to which one comes from the front pages, link by link."""
    ahead = [(root / page).resolve() for page in FRONT_PAGES]
    seen: set[Path] = set()
    while ahead:
        page = ahead.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        ahead += [to[0] for link in links(page) if (to := target_of(page, link))]
    return seen


def unlinked(root: Path) -> list[str]:
    linked = reachable(root)
    docs = (page for page in pages(root / "docs") if page.resolve() not in linked)
    return [str(page.relative_to(root)) for page in docs]


@pytest.mark.parametrize("page", pages(ROOT), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_every_page_of_the_docs_is_linked() -> None:
    assert unlinked(ROOT) == []


def test_paths_of_docs_in_the_code_exist() -> None:
    """Hints, docstrings and comments name pages, which move."""
    rooms = "guide|method|reference|internals|plans|images"
    named = re.compile(rf"(?<![\w/.-])docs/(?:(?:{rooms})/)?[\w-]+\.(?:md|yaml|png)")
    folders = ("ullage", "benchmarks", "tests", "rust", "mpi", "docs")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*")]
    missing = {
        f"{file.relative_to(ROOT)}: {path}"
        for file in [*files, *ROOT.glob("*.md")]
        if file.suffix in {".py", ".rs", ".c", ".h", ".yaml", ".md"} and file != Path(__file__)
        for path in named.findall(file.read_text(encoding="utf-8"))
        if not (ROOT / path).exists()
    }
    assert missing == set()


def code_paths(page: Path) -> set[str]:
    """Files and folders of the code that a page names, but for those that its reader is to make."""
    trees = "ullage|tests|testing|benchmarks|rust|mpi|scripts"
    text = page.read_text(encoding="utf-8")
    paths = set(re.findall(rf"`((?:{trees})/[\w./-]*)`", text))
    future = {"ullage/bin", *re.findall(r"(?:Save it as|Give it)\s+`([^`]+)`", text)}
    return {path for path in paths if not re.search("/[A-Z]+/", path)} - future


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")], ids=str)
def test_paths_of_the_code_in_the_docs_exist(page: Path) -> None:
    """Modules and tests move; pages that name them would not."""
    if page.name != "CHANGELOG.md":
        assert {path for path in code_paths(page) if not (ROOT / path).exists()} == set()


PAGE = """\
# A page
## What `it` says: nothing, *really*
## Twice
## Twice
[whole](#a-page) [code](#what-it-says-nothing-really) [again](#twice-1) [file](other.md)
[there](other.md#other) ![picture](picture.png) [far](https://example.org/none.md#none)

    [no link](in-code.md)
```
[no link](in-code.md)
```
| a table |
|---|
| [here](no-file.md) |

[here](other.md#no-heading) [and](#no-heading) [the third](#twice-2) ![none](none.png)
[by name]

[by name]: ../outside.md
"""


def test_a_broken_link_and_a_broken_anchor_are_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    (tmp_path / "other.md").write_text("Other\n=====\n")
    (tmp_path / "picture.png").touch()
    assert broken(page) == [
        "no-file.md",
        "other.md#no-heading",
        "#no-heading",
        "#twice-2",
        "none.png",
        "../outside.md",
    ]


def test_a_page_without_a_link_to_it_is_seen(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (tmp_path / "README.md").write_text("[first](docs/first.md)\n")
    (docs / "README.md").write_text("# Every page\n")
    (docs / "first.md").write_text("[second](second.md#there)\n")
    (docs / "second.md").write_text("## There\n")
    (docs / "lost.md").write_text("[first](first.md)\n")
    assert unlinked(tmp_path) == ["docs/lost.md"]


def test_every_row_stands_in_a_table() -> None:
    """A blank line cuts a table in two, and what is below it is shown as text."""
    cut = [
        f"{page.relative_to(ROOT)}: {text.content[:60]}"
        for page in pages(ROOT)
        for opening, text in pairwise(blocks(page))
        if opening.type == "paragraph_open" and text.content.startswith("| ")
    ]
    assert cut == []
