"""`ullage elastic report`: writes the page of a run. Long to import."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rich.markup import escape

from ullage import journal
from ullage.console import stderr, stdout
from ullage.elastic import answer, drawn, twin
from ullage.elastic.drawn import Report, Twins
from ullage.elastic.page import render
from ullage.elastic.show import Found, find
from ullage.report.charts import put

PAGE: Final = "report.html"
MOST_VIEWERS: Final = 200_000
"""Of a run with more, all repetitions together, no twins are made: each is simulated many times."""


def report(
    run: Path | None,
    *,
    runs: Path,
    other: Path | None = None,
    out: Path | None = None,
    charts: Path | None = None,
) -> None:
    """Write the page, and say where; with another run, also how the two compare.

    charts: where pictures are written too.
    """
    found = find(run, runs, other)
    made = report_of(found)
    files = [_write(made, out)]
    if charts is not None:
        files += put(drawn.pictures(made), charts)
    for file in files:
        stdout.print(escape(str(file)), soft_wrap=True)
    if found.against is not None:
        for sentence in answer.against(found.against):
            stdout.print(escape(sentence), soft_wrap=True)


def write(found: Found, out: Path | None = None) -> Path:
    """The page of a run, in its folder or in `out`, whole or not at all."""
    return _write(report_of(found), out)


def report_of(found: Found) -> Report:
    """All that is drawn of a run, with its simulated twins."""
    twins = _twins(found)
    return Report(found.run, found.sides, found.summary, found.doubts, twins, found.against)


def _write(made: Report, out: Path | None) -> Path:
    file = out or made.run.path / PAGE
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
