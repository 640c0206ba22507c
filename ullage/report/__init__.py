"""The report: one self-contained HTML file, made from a run folder and its analysis."""

from __future__ import annotations

from pathlib import Path

from ullage.analysis.comparison.model import Analysis
from ullage.common.files import put
from ullage.runs.reader import RunFolder

NAME = "report.html"


def write(folder: RunFolder, analysis: Analysis, out: Path | None = None) -> Path:
    """Write the page to `out`, or to `report.html` in the run folder, whole or not at all."""
    # Altair takes longer to load than all that tables need, and they are in this room too.
    from ullage.report.page import render  # noqa: PLC0415

    file = out or folder.path / NAME
    put(file, render(folder, analysis).encode())
    return file
