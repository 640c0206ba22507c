"""One table of results, for a terminal and for Markdown; and counted shares, with their error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from rich.console import Console
from rich.table import Table as RichTable
from scipy import stats


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


@dataclass(frozen=True)
class Share:
    """So many of so many campaigns."""

    hits: int
    of: int

    def __add__(self, other: Share) -> Share:
        return Share(self.hits + other.hits, self.of + other.of)

    @property
    def value(self) -> float:
        return self.hits / self.of

    @property
    def interval(self) -> tuple[float, float]:
        """Exact 95 % interval (Clopper & Pearson 1934, Biometrika 26:404): Monte-Carlo error."""
        bounds = stats.binomtest(self.hits, self.of).proportion_ci(0.95, "exact")
        return float(bounds.low), float(bounds.high)

    def at_most(self, limit: float) -> bool:
        """Not above the limit beyond the Monte-Carlo error."""
        return self.interval[0] <= limit

    def at_least(self, limit: float) -> bool:
        """Not below the limit beyond the Monte-Carlo error."""
        return self.interval[1] >= limit


def share(hits: ArrayLike) -> Share:
    """Of an array of truths."""
    counted = np.asarray(hits, dtype=bool)
    return Share(int(counted.sum()), int(counted.size))


def merged(first: Mapping[str, Share], second: Mapping[str, Share]) -> dict[str, Share]:
    """Counts of two batches of campaigns together."""
    return {key: first[key] + second[key] if key in first else second[key] for key in second} | {
        key: first[key] for key in first if key not in second
    }
