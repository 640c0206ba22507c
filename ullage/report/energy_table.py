"""The energies of a run as a table: CSV, JSON, Parquet or LaTeX, and for the terminal."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from rich.table import Table

from ullage.analysis.comparison.energy_model import Energy, EnergyFigure
from ullage.analysis.comparison.model import Analysis
from ullage.analysis.energy import words
from ullage.report.export import ExportedTable, cleaned, tabular
from ullage.report.views import rich_table, tabulate

_CELL: Final = (
    "environment",
    "environment_label",
    "workload",
    "workload_title",
    "label",
    "meter",
    "method",
    "scope",
    "trials",
    "having",
    "metric",
    "work",
    "relative_u_sampling",
    "relative_u_resolution",
    "relative_u_accuracy",
)
"""Fields of `Energy` that stand as they are."""
_FIGURES: Final = {
    "energy": "energy_j",
    "mean_power": "mean_power_w",
    "above_idle": "above_idle_j",
    "per_unit": "per_unit_j",
    "energy_delay": "energy_delay_js",
}
"""Fields of `Energy` that are figures → what their columns begin with."""
_PARTS: Final = ("", "_low", "_high", "_ratio", "_ratio_low", "_ratio_high")
_COUNTS: Final = frozenset({"trials", "having"})
_NUMBERS: Final = frozenset({"relative_u_sampling", "relative_u_resolution", "relative_u_accuracy"})


def _type(column: str) -> Any:
    if column in _COUNTS:
        return pa.int64()
    return pa.float64() if column in _NUMBERS else pa.string()


COLUMNS: Final[dict[str, Any]] = {
    "run": pa.string(),
    **{column: _type(column) for column in _CELL},
    **{f"{name}{part}": pa.float64() for name in _FIGURES.values() for part in _PARTS},
    "confidence": pa.float64(),
    "verdict": pa.string(),
}
"""A row for each environment, workload, meter, scope, method and metric; the baseline's too.

Figures are medians with their intervals; ratios to the baseline's, with the intervals of both the
repetitions and the meter; see `analysis.model.Energy`. The verdict is of the energy per unit.
"""


def export(analysis: Analysis, form: str) -> bytes:
    """The table as `csv`, `json`, `latex` or `parquet`; EXPORT_UNKNOWN_FORMAT for anything else."""
    sheet = ExportedTable(analysis.run, COLUMNS, lambda: rows(analysis), lambda: _latex(analysis))
    return sheet.written(form)


def rows(analysis: Analysis) -> list[dict[str, Any]]:
    """The table, its text cleaned."""
    return cleaned(_row(analysis, energy) for energy in analysis.energy)


def _row(analysis: Analysis, energy: Energy) -> dict[str, Any]:
    row: dict[str, Any] = {"run": analysis.run}
    row |= {field: getattr(energy, field) for field in _CELL}
    for field, name in _FIGURES.items():
        values = _figure(getattr(energy, field))
        row |= {f"{name}{part}": value for part, value in zip(_PARTS, values, strict=True)}
    verdict = energy.per_unit.verdict if energy.per_unit else None
    return row | {"confidence": analysis.confidence, "verdict": verdict}


def _figure(figure: EnergyFigure | None) -> tuple[float | None, ...]:
    if figure is None:
        return (None,) * len(_PARTS)
    ratio = words.ratio(figure)
    bounds = (ratio.estimate, ratio.low, ratio.high) if ratio else (None, None, None)
    return (figure.values.median, figure.low, figure.high, *bounds)


def _latex(analysis: Analysis) -> bytes:
    """A `tabular` for booktabs of what the terminal shows."""
    columns = "".join("r" if head in words.NUMBERS else "l" for head in words.HEADS)
    return tabular(columns, words.HEADS, words.rows(analysis))


def terminal(analysis: Analysis) -> Table:
    """For the terminal; empty without a meter."""
    table = tabulate("", words.HEADS, words.rows(analysis), numbers=words.NUMBERS)
    return rich_table(table)
