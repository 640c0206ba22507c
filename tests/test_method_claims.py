"""What the pages about numbers claim, each with the test or the row that backs it.

`docs/method/claims.md` names the claims by their words, so that neither they nor their tests change
unseen.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parent.parent
METHOD = ROOT / "docs" / "method"
CLAIMS, TRUST = METHOD / "claims.md", METHOD / "trust.md"
PAGES = (METHOD / "statistics.md", TRUST)
PARSER = MarkdownIt("commonmark").enable("table")
RESULTS = "Aims"
"""The heading in `trust.md` after which all is what the benchmark printed."""
SENTENCE_END = re.compile(r"[.;:]\)? (?=[A-Z“\"])")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
ROWS = re.compile(r"rows? ((?:`[^`]+`(?:, )?)+) of \[([^\]]+)\]\(trust\.md#")


@dataclass(frozen=True)
class Claim:
    """Words of a page, from the first to the last of them, and what backs them."""

    page: Path
    first: str
    last: str
    backing: str

    @classmethod
    def of(cls, page: str, span: str, backing: str) -> Claim:
        first, _, last = plain(span).partition(" … ")
        return cls(METHOD / page, first, last or first, backing)

    def within(self, block: str) -> range | None:
        """The characters of a block that it spans; None where it does not stand there."""
        begin = block.find(self.first)
        end = block.find(self.last, begin)
        return range(begin, end + len(self.last)) if begin >= 0 and end >= 0 else None


def plain(text: str) -> str:
    """Without marks and line ends: as it reads."""
    unlinked = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return " ".join(re.sub(r"[*`]", "", unlinked).split())


@cache
def tokens(page: Path) -> list[Token]:
    return PARSER.parse(page.read_text(encoding="utf-8"))


def rows(page: Path) -> Iterator[tuple[str, list[str]]]:
    """(Heading, cells) of each row of a page's tables, as they are written; headers are none."""
    heading, cells, in_body = "", list[str](), False
    for before, token in zip([None, *tokens(page)], tokens(page), strict=False):
        if before is not None and before.type == "heading_open":
            heading = token.content
        in_body = token.type != "thead_open" and (in_body or token.type == "tbody_open")
        if token.type == "tr_open":
            cells = []
        elif token.type == "inline" and before is not None and before.type == "td_open":
            cells.append(token.content)
        elif token.type == "tr_close" and in_body:
            yield heading, cells


@cache
def claims() -> tuple[Claim, ...]:
    return tuple(Claim.of(page, span, backing) for page, (span, backing) in rows(CLAIMS))


def blocks(page: Path) -> Iterator[str]:
    """Paragraphs and points of a list, as they read, and whole tables; not what was printed."""
    table: list[str] | None = None
    for before, token in zip([None, *tokens(page)], tokens(page), strict=False):
        if before is not None and before.type == "heading_open":
            if page == TRUST and token.content == RESULTS:
                return
        elif token.type == "table_open":
            table = []
        elif token.type == "table_close" and table is not None:
            yield " ".join(table)
            table = None
        elif token.type == "inline" and table is not None:
            table.append(plain(token.content))
        elif token.type == "inline":
            yield plain(token.content)


def sentences(block: str) -> Iterator[range]:
    """Where they stand in the block."""
    begin = 0
    for end in [*(match.end() for match in SENTENCE_END.finditer(block)), len(block)]:
        yield range(begin, end)
        begin = end


def unclaimed(page: Path) -> list[str]:
    """Sentences that lie in no span."""
    missing = []
    for block in blocks(page):
        spans = [s for c in claims() if c.page == page and (s := c.within(block)) is not None]
        missing += [
            block[place.start : place.stop]
            for place in sentences(block)
            if not any(s.start < place.stop - 1 and place.start < s.stop for s in spans)
        ]
    return missing


def rows_named(backing: str) -> Iterator[tuple[str, str]]:
    """(Heading, first cell) of each."""
    for labels, table in ROWS.findall(backing):
        yield from ((table, label) for label in re.findall(r"`([^`]+)`", labels))


@cache
def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@cache
def printed() -> set[tuple[str, str]]:
    """(Heading, first cell) of the rows in `trust.md`."""
    return {(heading, cells[0]) for heading, cells in rows(TRUST)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_every_sentence_is_backed(page: Path) -> None:
    assert unclaimed(page) == []


def test_claims_stand_as_they_are_quoted() -> None:
    text = {page: list(blocks(page)) for page in PAGES}
    lost = [c.first for c in claims() if not any(c.within(block) for block in text[c.page])]
    assert lost == []


def test_what_backs_a_claim_exists() -> None:
    missing = []
    for claim in claims():
        tests, of_tables = TEST.findall(claim.backing), list(rows_named(claim.backing))
        if not tests and not of_tables:
            missing.append(claim.first)
        missing += [f"{p}::{name}" for p, name in tests if name not in functions(ROOT / p)]
        missing += [f"{table}: {row}" for table, row in of_tables if (table, row) not in printed()]
    assert missing == []


def test_a_sentence_that_is_left_out_is_seen() -> None:
    claim = Claim.of("trust.md", "It covers … the truth", "")
    block = "It covers 95 % of the truth. It never lies."
    span = claim.within(block)
    assert span is not None
    assert block[span.start : span.stop] == "It covers 95 % of the truth"
    assert [block[s.start : s.stop] for s in sentences(block)] == [
        "It covers 95 % of the truth. ",
        "It never lies.",
    ]
    assert claim.within("It covers nothing.") is None
