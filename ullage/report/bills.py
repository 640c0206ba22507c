"""What the work costs, where the plan gives prices."""

from __future__ import annotations

from ullage.analysis import money
from ullage.analysis.model import Analysis
from ullage.printable import clean
from ullage.report import sides
from ullage.report.text import unbroken
from ullage.report.views import Table, TableCell, heads

KINDS = ("", "", "n", "s", "", "n", "s")


def table(analysis: Analysis) -> Table | None:
    """A row for each priced environment and figure; None without a price."""
    if not analysis.money:
        return None
    return Table(
        caption=f"Cost of the work{sides.suffix(analysis)}",
        heads=heads(*money.HEADS, numbers=(money.HEADS[2], money.HEADS[5])),
        rows=tuple(
            tuple(TableCell(clean(cell, 200), kind) for cell, kind in zip(row, KINDS, strict=True))
            for row in money.rows(analysis)
        ),
        note=unbroken(clean(money.note(analysis), 300)),
    )
