"""docs/internals/threats.md says which test holds what: each is there, by its name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
PAGE = (ROOT / "docs/internals/threats.md").read_text(encoding="utf-8")

_TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")
_PLACE = re.compile(r"`([\w/]+(?:/|\.py))`")


def missing(page: str) -> list[str]:
    """Tests that the page names and that are not there, or not collected."""
    return [
        f"{file}::{name}"
        for file, name in _TEST.findall(page)
        if not name.startswith("test_") or name not in functions(TESTS / file)
    ]


def functions(file: Path) -> set[str]:
    if not file.is_file():
        return set()
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef)}


def test_each_test_that_holds_a_line_is_there() -> None:
    assert len(_TEST.findall(PAGE)) > 40
    assert missing(PAGE) == []


def test_a_test_that_is_gone_is_seen() -> None:
    page = "`test_threats.py::test_gone`, `gone.py::test_gone`, `test_threats.py::missing`"
    assert missing(page) == [
        "test_threats.py::test_gone",
        "gone.py::test_gone",
        "test_threats.py::missing",
    ]


def test_each_finding_has_a_test() -> None:
    table = PAGE.partition("| what worked | held by |")[2].partition("\n\n")[0]
    rows = table.splitlines()[2:]
    assert len(rows) >= 14
    assert [row for row in rows if not _TEST.search(row)] == []


def test_each_place_of_tests_is_there() -> None:
    table = PAGE.partition("| who |")[2].partition("\n\n")[0]
    places = [place for row in table.splitlines() for place in _PLACE.findall(row.split("|")[-2])]
    assert len(places) > 15
    elsewhere = [place for place in places if not (TESTS / place).exists()]
    assert [place for place in elsewhere if not (ROOT / place).exists()] == []
