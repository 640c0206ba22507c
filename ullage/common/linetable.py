"""Tables on a terminal: a thousand rows cost little where each is one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.table import Column, Table
from rich.text import Text

GAP: Final = 2
"""Between two columns, as rich has it."""


class LineTable(Table):
    """Without a box. It looks as rich's own, which lays out each cell as if it were a page."""

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
