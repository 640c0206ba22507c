"""Which cells of a table are compared with which, and what they are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ullage.analysis.tables.figures import TableFigure
from ullage.analysis.tables.table import Sheet


@dataclass(frozen=True)
class TableContrast:
    """One comparison of a table."""

    environment: str
    baseline: str
    at: int
    """Of the figure."""
    figure: TableFigure
    again: bool


def contrasts(sheet: Sheet, baseline: str, again: Mapping[str, str]) -> Iterator[TableContrast]:
    """In the order of the table; a cell without rows on one side is no comparison.

    Nor is a metric that is not primary and of which there is no figure: it is absent on principle.
    """
    for name in sheet.environments:
        counterpart = again.get(name, baseline)
        if name in (baseline, counterpart):
            continue
        for at, figure in enumerate(sheet.figures):
            mine, theirs = sheet.cell(name, at).value, sheet.cell(counterpart, at).value
            if not (mine.size and theirs.size):
                continue
            if figure.primary or not (np.isnan(mine).all() or np.isnan(theirs).all()):
                yield TableContrast(name, counterpart, at, figure, name in again)


def titles(sheet: Sheet) -> list[str]:
    """What a sentence calls each figure: with the metric where more than one is judged."""
    judged = Counter(figure.workload for figure in sheet.figures if figure.primary)

    def title(figure: TableFigure) -> str:
        if not figure.workload or not figure.metric:
            return figure.workload or figure.metric
        several = figure.primary and judged[figure.workload] > 1
        return f"{figure.workload}, {figure.metric}" if several else figure.workload

    return [title(figure) for figure in sheet.figures]


def without_baseline(sheet: Sheet, baseline: str) -> int:
    """Cells of workloads or metrics in which the baseline has no rows."""
    return sum(
        sheet.cell(name, at).value.size > 0
        for at in range(len(sheet.figures))
        if sheet.cell(baseline, at).value.size == 0
        for name in sheet.environments
    )
