"""One table of results, for a terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table as RichTable

from benchmarks.statistics.shares import Share


@dataclass
class Table:
    """One table with its notes."""

    title: str
    header: list[str]
    says: str = ""
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def percent(share: Share | None, missed: bool = False) -> str:
    """`95.1`, and a star where the aim is missed."""
    if share is None:
        return ""
    return f"{100 * share.value:.1f}{'*' if missed else ''}"


def markdown(tables: Sequence[Table]) -> str:
    parts = []
    for table in tables:
        lines = [f"### {table.title}", table.says, ""]
        lines += [f"| {' | '.join(row)} |" for row in _with_rule(table)]
        if table.notes:
            lines += ["", *(f"- {note}" for note in table.notes)]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _with_rule(table: Table) -> list[list[str]]:
    return [table.header, ["---"] * len(table.header), *table.rows]


def show(tables: Sequence[Table]) -> None:
    console = Console(width=180)
    for table in tables:
        rich = RichTable(*table.header, title=table.title, box=None, title_justify="left")
        for row in table.rows:
            rich.add_row(*row)
        console.print(table.says, highlight=False)
        console.print(rich)
        for note in table.notes:
            console.print(f"  {note}", highlight=False)
        console.print()
