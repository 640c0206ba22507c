"""The report: one self-contained HTML file, made from a run folder and its analysis."""

from __future__ import annotations

from pathlib import Path

from ullage import journal
from ullage.analysis.model import Analysis
from ullage.folder import RunFolder
from ullage.report.page import render

NAME = "report.html"


def write(folder: RunFolder, analysis: Analysis, out: Path | None = None) -> Path:
    """Write the page to `out`, or to `report.html` in the run folder, whole or not at all."""
    file = out or folder.path / NAME
    journal.put(file, render(folder, analysis).encode())
    return file
