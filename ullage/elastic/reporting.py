"""`ullage elastic report`: writes the page of a run. Long to import."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rich.markup import escape

from ullage import journal
from ullage.console import stderr, stdout
from ullage.elastic import answer, twin
from ullage.elastic.page import Report, Twins, render
from ullage.elastic.show import Found, find

PAGE: Final = "report.html"
MOST_VIEWERS: Final = 200_000
"""Of a run with more, all repetitions together, no twins are made: each is simulated many times."""


def report(
    run: Path | None, *, runs: Path, other: Path | None = None, out: Path | None = None
) -> None:
    """Write the page, and say where; with another run, also how the two compare."""
    found = find(run, runs, other)
    file = write(found, out)
    stdout.print(escape(str(file)), soft_wrap=True)
    if found.against is not None:
        for sentence in answer.against(found.against):
            stdout.print(escape(sentence), soft_wrap=True)


def write(found: Found, out: Path | None = None) -> Path:
    """The page of a run, in its folder or in `out`, whole or not at all."""
    file = out or found.run.path / PAGE
    made = Report(found.run, found.sides, found.summary, found.doubts, _twins(found), found.against)
    journal.put(file, render(made).encode())
    return file


def _twins(found: Found) -> Twins:
    """The simulated twins; none where there are too many viewers, or the simulator refuses."""
    viewers = sum(len(r.sessions) for r in found.run.repetitions)
    why = f"{viewers:,} viewers are too many" if viewers > MOST_VIEWERS else ""
    if not why:
        try:
            return twin.twins(found.run)
        except ValueError as error:
            why = str(error)
    stderr.print(f"[yellow]warning:[/] no simulated twin: {escape(why)}", soft_wrap=True)
    return {}
