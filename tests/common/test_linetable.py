"""A table of lines looks as rich's own."""

from __future__ import annotations

import io
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from ullage.common.console import CleanConsole, LineTable, escape

Justify = Literal["left", "right", "center"]
cells = st.text(st.characters(codec="utf-8"), max_size=12).map(escape) | st.sampled_from(
    ["[bold]heading[/]", "環境", "e\u0301", "two\nlines", "a\tb", ""]
)


def printed(table: Table, width: int, *, terminal: bool) -> str:
    screen = io.StringIO()
    console = CleanConsole(
        file=screen,
        width=width,
        force_terminal=terminal,
        color_system="standard" if terminal else None,
        highlight=False,
    )
    console.print(table)
    return screen.getvalue()


@given(
    columns=st.lists(
        st.tuples(cells, st.sampled_from(["left", "right", "center"])), min_size=1, max_size=4
    ),
    rows=st.lists(st.lists(cells, max_size=4), max_size=6),
    width=st.sampled_from([12, 40, 10_000]),
    title=st.none() | st.just("of figures"),
)
def test_it_looks_as_richs_own(
    columns: list[tuple[str, Justify]], rows: list[list[str]], width: int, title: str | None
) -> None:
    ours, richs = LineTable(title=title), Table(box=None, pad_edge=False, title=title)
    for table in (ours, richs):
        for head, justify in columns:
            table.add_column(head, justify=justify)
        for row in rows:
            table.add_row(*row[: len(columns)])
    assert printed(ours, width, terminal=False) == printed(richs, width, terminal=False)


@pytest.mark.parametrize("word", ["heading", "[bold]part[/]"])
def test_styles_are_kept_on_a_terminal(word: str) -> None:
    table = LineTable(word)
    table.add_row(word)
    assert printed(table, 80, terminal=True).count("\x1b[1m") == 1 + word.startswith("[bold]")


def test_without_columns_there_is_an_empty_line() -> None:
    assert printed(LineTable(), 80, terminal=False) == "\n"
