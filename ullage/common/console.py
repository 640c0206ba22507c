"""What a person sees: on a terminal one live line while a run goes on, plain lines elsewhere.

Everything that is printed here is cleaned first: no guest, and no run folder from elsewhere, steers
the terminal.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from rich import markup
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.table import Column, Table
from rich.text import Text

from ullage.common.text import one_line, whole


class CleanConsole(Console):
    """Obeys our own markup and nothing else that stands in a text, in a table either."""

    def render_str(self, text: str, *args: Any, **options: Any) -> Text:
        """As rich does it, with control and other hidden characters shown by name."""
        return super().render_str(whole(text), *args, **options)

    def print(self, *args: Any, **options: Any) -> None:
        """As rich does it; a terminal that has hung up is no reason to fail."""
        try:
            super().print(*args, **options)
        except OSError as error:
            if error.errno != errno.EIO:
                raise

    def on_broken_pipe(self) -> None:
        """Whoever reads has enough, as `head` has: the command goes on to its own end."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def escape(text: str) -> str:
    """Somebody else's text for a place in a line of ours: no markup, and no line of its own."""
    return markup.escape(one_line(text))


def _console(*, to_stderr: bool) -> CleanConsole:
    """No emoji codes: `:x:` is data. Not on a terminal there is no width to wrap or cut at."""
    console = CleanConsole(stderr=to_stderr, highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDE
    return console


_WIDE = 10_000
stderr = _console(to_stderr=True)
stdout = _console(to_stderr=False)


def print_json(value: Any) -> None:
    """A result for programs, on standard output."""
    json.dump(value, sys.stdout, indent=2, default=str)
    sys.stdout.write("\n")


GAP: Final = 2
"""Between two columns, as rich has it."""


class LineTable(Table):
    """A table without a box. It looks as rich's own, which lays out each cell as if it were a page:
    a thousand rows cost little here, where each is one line.
    """

    def __init__(self, *heads: str, title: str | None = None) -> None:
        super().__init__(*heads, box=None, pad_edge=False, title=title)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        cells = [[*_texts(console, column)] for column in self.columns]
        widths = [max(text.cell_len for text in column) for column in cells]
        fits = sum(widths) + GAP * (len(widths) - 1) <= options.max_width
        if widths == [0] or self.title or not (fits and widths and all(map(_is_lines, cells))):
            yield from super().__rich_console__(console, options)
            return
        head, *rows = zip(*cells, strict=True)
        yield from self._line(console, head, widths, console.get_style("table.header"))
        for row in rows:
            yield from self._line(console, row, widths, Style.null())

    def _line(
        self, console: Console, row: Sequence[Text], widths: Sequence[int], style: Style
    ) -> Iterator[Segment]:
        last = len(row) - 1
        for place, (text, column, width) in enumerate(zip(row, self.columns, widths, strict=True)):
            space = width - text.cell_len
            before = {"right": space, "center": space // 2}.get(column.justify, 0)
            yield Segment(" " * before, style)
            yield from Segment.apply_style(text.render(console), style)
            yield Segment(" " * (space - before + (GAP if place < last else 0)), style)
        yield Segment.line()


def _texts(console: Console, column: Column) -> Iterator[Text]:
    for cell in (column.header, *column.cells):
        text = console.render_str(cell) if isinstance(cell, str) else cell
        assert isinstance(text, Text), "tables of ours hold text"
        yield text


def _is_lines(texts: Iterable[Text]) -> bool:
    return not any("\n" in text.plain or "\t" in text.plain for text in texts)
