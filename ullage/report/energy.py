"""What the work took, where the run had energy meters."""

from __future__ import annotations

from dataclasses import dataclass

from ullage.analysis.energy import words
from ullage.analysis.model import Analysis
from ullage.printable import clean
from ullage.report import sides
from ullage.report.text import unbroken
from ullage.report.views import DoubtView, Table, TableCell, heads

_KINDS = ("", "", "n", "n", "n", "", "s", "n", "s", "")


@dataclass(frozen=True)
class Section:
    """The table, and what to know of it."""

    table: Table | None
    notes: tuple[DoubtView, ...]


def section(analysis: Analysis) -> Section | None:
    """None without a meter; without a table where no trial has an energy."""
    notes = tuple(
        DoubtView(note.code, (clean(note.message, 600),), clean(note.advice, 400))
        for note in analysis.energy_notes
    )
    if not analysis.energy:
        return Section(None, notes) if notes else None
    return Section(_table(analysis), notes)


def _table(analysis: Analysis) -> Table:
    return Table(
        caption=f"Energy of the work{sides.suffix(analysis)}",
        heads=heads(*words.HEADS, numbers=words.NUMBERS),
        rows=tuple(
            tuple(
                TableCell(unbroken(clean(cell, 200)), kind)
                for cell, kind in zip(row, _KINDS, strict=True)
            )
            for row in words.rows(analysis)
        ),
        note=unbroken(clean(words.note(analysis), 600)),
    )
