"""What the templates get: plain values, ready to show. Strings are text and are escaped there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from markupsafe import Markup
from rich.table import Table as RichTable

from ullage.analysis.trialfacts import TrialFacts
from ullage.common.console import LineTable, escape
from ullage.report.charts import forest
from ullage.report.charts.text import as_json

if TYPE_CHECKING:
    from ullage.report.charts.lanes import Drawing

_KINDS: Final[dict[str, forest.MarkKind]] = {
    "worse": "worse",
    "better": "better",
    "equivalent": "equivalent",
    "inconclusive": "inconclusive",
    "mixed": "mixed",
}


@dataclass(frozen=True)
class Mark:
    """A verdict: a shape and a word."""

    kind: forest.MarkKind
    word: str

    @property
    def glyph(self) -> Markup:
        return Markup(forest.glyph(self.kind))  # noqa: S704  made of constants


def mark(verdict: str | None) -> Mark:
    """The mark of a verdict from the analysis."""
    kind = _KINDS.get(verdict or "")
    return Mark(kind, kind) if kind is not None else Mark("none", "no verdict")


@dataclass(frozen=True)
class Fact:
    """A few words in the first line."""

    text: str
    wraps: bool = False
    anchor: str = ""
    """The part of the page that it leads to."""


@dataclass(frozen=True)
class SentencePart:
    text: str
    strong: bool = False


@dataclass(frozen=True)
class Sentence:
    parts: tuple[SentencePart, ...]
    aside: bool = False


@dataclass(frozen=True)
class BarrelCell:
    """One barrel with the words around it."""

    resource: str
    detail: str
    svg: Markup
    gap: str
    mark: Mark | None


@dataclass(frozen=True)
class BarrelRow:
    label: str
    detail: str
    cells: tuple[BarrelCell, ...]


@dataclass(frozen=True)
class ForestRow:
    """One ratio in the page's forest plot."""

    label: str
    detail: str
    ground: Markup
    svg: Markup
    ratio: str
    interval: str
    mark: Mark
    note: str = ""
    absolute: str = ""
    """What it is the ratio of, in the metric's unit."""


@dataclass(frozen=True)
class ForestGroup:
    label: str
    rows: tuple[ForestRow, ...]


@dataclass(frozen=True)
class ForestPanel:
    """Groups on one axis."""

    ruler: Markup
    ground: Markup
    """Behind a heading."""
    groups: tuple[ForestGroup, ...]

    @property
    def short(self) -> bool:
        """Fits on one sheet of paper."""
        return sum(1 + len(group.rows) for group in self.groups) <= 24


@dataclass(frozen=True)
class ChartView:
    """A chart's place in the page."""

    id: str
    caption: str
    label: str
    """What a reader hears who does not see it."""
    height: int
    note: str = ""
    summary: str = ""
    """Of the fold that it stands in."""


@dataclass(frozen=True)
class Head:
    text: str
    number: bool = False


DIFFERS: Final = "n differs"
"""Kind of a figure that is not the one that was printed."""


@dataclass(frozen=True)
class TableCell:
    text: str = ""
    kind: str = ""
    """Its classes in the style sheet: `n` at the right, `s` unbroken."""
    mark: Mark | None = None


@dataclass(frozen=True)
class Table:
    """A table with a caption. The first cell of a row is its header."""

    caption: str
    heads: tuple[Head, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class DetailView:
    """All that is known of one comparison."""

    label: str
    metric: str
    sentence: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class DoubtView:
    """A reason to trust the figures less."""

    code: str
    """Empty where the text begins with it."""
    texts: tuple[str, ...]
    advice: str
    more: int = 0


@dataclass(frozen=True)
class WorkloadView:
    id: str
    title: str
    key: str
    parameters: str
    charts: tuple[ChartView, ...]
    folded: tuple[ChartView, ...]
    table: Table
    details: tuple[DetailView, ...]
    trial_facts: tuple[TrialFacts, ...]
    doubts: tuple[DoubtView, ...]
    definitions: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Section:
    """A part of a page: text, figures, notes on them, tables; in this order."""

    title: str
    lead: str = ""
    lines: tuple[str, ...] = ()
    figures: tuple[ChartView, ...] = ()
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    id: str = ""


@dataclass(frozen=True)
class Fold:
    """Something long that opens on demand."""

    title: str
    text: str | None = None
    table: Table | None = None
    anchor: str = ""


@dataclass(frozen=True)
class Spec:
    id: str
    json: Markup


@dataclass
class Specs:
    """Collects the charts of a page."""

    items: list[Spec] = field(default_factory=list)

    def figure(
        self, drawing: Drawing, caption: str, label: str, *, note: str = "", summary: str = ""
    ) -> ChartView:
        """Keep a chart, as JSON that cannot leave its element; its place in the page."""
        json = Markup(as_json(drawing.packed()))  # noqa: S704  see as_json
        spec = Spec(f"chart-{len(self.items) + 1}", json)
        self.items.append(spec)
        return ChartView(spec.id, caption, label, drawing.height, note, summary)


TableRow = Sequence[str | TableCell]
"""A row of a table to be; what is more than text is a cell already."""


def tabulate(
    caption: str,
    names: Sequence[str],
    rows: Iterable[TableRow],
    *,
    numbers: Collection[str] = (),
    spans: Collection[str] = (),
    note: str = "",
) -> Table:
    """A table with those columns.

    numbers: names of columns whose text stands at the right. spans: of those whose text is two
    figures, which no line break may part.
    """
    kinds = ["n" if name in numbers else "s" if name in spans else "" for name in names]
    return Table(
        caption,
        heads(*names, numbers=numbers),
        tuple(
            tuple(
                cell if isinstance(cell, TableCell) else TableCell(cell, kind)
                for cell, kind in zip(row, kinds, strict=True)
            )
            for row in rows
        ),
        note,
    )


def heads(*names: str, numbers: Collection[str] = ()) -> tuple[Head, ...]:
    """Column heads; those in `numbers` stand at the right."""
    return tuple(Head(name, name in numbers) for name in names)


def cells(*texts: str, numbers: tuple[int, ...] = ()) -> tuple[TableCell, ...]:
    """A row of plain cells; those at the places `numbers` stand at the right."""
    return tuple(TableCell(text, "n" if i in numbers else "") for i, text in enumerate(texts))


def rich_table(table: Table, title: str = "") -> RichTable:
    """The same on a terminal; what disagrees with what was printed is red there."""
    grid = LineTable(title=escape(title))
    grid.title_justify, grid.title_style = "left", ""
    for head in table.heads:
        grid.add_column(escape(head.text), justify="right" if head.number else "left")
    for row in table.rows:
        grid.add_row(*(_rich_cell(cell) for cell in row))
    return grid


def _rich_cell(cell: TableCell) -> str:
    text = escape(cell.text)
    return f"[red]{text}[/]" if cell.kind == DIFFERS else text
