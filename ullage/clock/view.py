"""What a command shows: sentences, tables, charts. On the console as text, in a page as HTML."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table as RichTable

from ullage.console import CleanConsole

if TYPE_CHECKING:
    from ullage.report.lanes import Drawing


@dataclass(frozen=True)
class Table:
    """The first column is what a row is about, the others are figures unless named in `texts`."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chart:
    """A chart, drawn only for a page."""

    draw: Callable[[], Drawing]
    caption: str
    label: str
    """What a reader hears who does not see it."""


@dataclass(frozen=True)
class Section:
    """A part of the answer."""

    title: str
    lines: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()


@dataclass(frozen=True)
class View:
    """All of it."""

    title: str
    answer: tuple[str, ...]
    sections: tuple[Section, ...] = ()


def show(view: View, console: CleanConsole) -> None:
    """Print it."""
    for sentence in view.answer:
        console.print(escape(sentence), soft_wrap=True)
    for section in view.sections:
        console.print(f"\n[bold]{escape(section.title)}[/]")
        for line in section.lines:
            console.print(escape(line), soft_wrap=True)
        for table in section.tables:
            console.print(_rich(table))


def _rich(table: Table) -> RichTable:
    made = RichTable(
        box=None, pad_edge=False, title=escape(table.caption), title_justify="left", title_style=""
    )
    for number, head in enumerate(table.heads):
        text = number == 0 or head in table.texts
        made.add_column(escape(head), justify="left" if text else "right")
    for row in table.rows:
        made.add_row(*map(escape, row))
    return made
