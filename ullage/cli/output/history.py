"""`ullage history`: a table for each figure, its changes marked, in words too."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from ullage.analysis.comparison import rounding
from ullage.analysis.history import History, HistoryChange, HistoryPoint, HistorySeries
from ullage.common.console import LineTable, escape, stderr, stdout
from ullage.common.files import put
from ullage.common.quantities import many
from ullage.common.text import clean
from ullage.report.charts import history as chart
from ullage.report.pictures import picture_file, stacked, vega_svg

FEW = 8
"""Runs under which no change can be told from chance."""


def show(history: History) -> None:
    for series in history.series:
        stdout.print(_lead(series, history), soft_wrap=True)
        stdout.print(_table(series))
    if not history.series:
        stderr.print("no run here has such a figure")


def draw(history: History, out: Path) -> None:
    """All series below each other; the file's suffix says svg, pdf or png."""
    titled = [(_title(series), vega_svg(chart.draw(series))) for series in history.series]
    put(out, picture_file(stacked(titled), out.suffix.removeprefix(".")))


def _title(series: HistorySeries) -> str:
    return f"{series.environment_label}: {series.workload_title}, {series.metric.replace('_', ' ')}"


def _lead(series: HistorySeries, history: History) -> str:
    what = "overhead" if history.of == "overhead" else "median"
    values = sum(point.value is not None for point in series.points)
    sentences = [f"[bold]{escape(clean(_title(series), 200))}[/] ({what})."]
    sentences += [escape(_sentence(change, series)) for change in series.changes]
    if not series.changes:
        enough = f": under {FEW} none can be told from chance" if values < FEW else ""
        sentences.append(f"No change in {many(values, 'run')}{enough}.")
    if series.machines > 1:
        sentences.append(f"The runs are of {series.machines} machines.")
    return " ".join(sentences)


def _sentence(change: HistoryChange, series: HistorySeries) -> str:
    commit = change.labels.get("commit")
    at = f"commit {clean(commit, 60)}" if commit else f"run {clean(change.run, 80)}"
    before, after = (_figure(value, series) for value in (change.before, change.after))
    return f"Changed at {at}: {before} before, {after} since (p = {change.p_value:.2g})."


def _figure(value: float, series: HistorySeries) -> str:
    return f"{value:.3g}" if series.unit == "1" else rounding.quantity(value, series.unit)


def _table(series: HistorySeries) -> Table:
    changed = {change.run for change in series.changes}
    names = sorted({name for point in series.points for name in point.labels})
    table = LineTable()
    table.add_column("", no_wrap=True)
    table.add_column("run", no_wrap=True, overflow="fold")
    table.add_column("started", no_wrap=True)
    for name in names:
        table.add_column(escape(clean(name, 40)))
    table.add_column(escape(series.metric.replace("_", " ")), justify="right")
    for point in series.points:
        labels = (escape(clean(point.labels.get(name, ""), 60)) for name in names)
        mark = "▸" if point.run in changed else ""
        table.add_row(mark, escape(point.run), point.started, *labels, _cell(point, series))
    return table


def _cell(point: HistoryPoint, series: HistorySeries) -> str:
    if point.value is None:
        return "–"
    text = _figure(point.value, series)
    if point.low is None or point.high is None:
        return text
    return f"{text} ({point.low:.3g} to {point.high:.3g})"
