"""`ullage elastic export`: figures of a run as a table, or a picture of its page for a paper."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from ullage.common.files import give
from ullage.experiments.elastic import folder
from ullage.experiments.elastic.analysis.contrasts import Contrast
from ullage.experiments.elastic.analysis.definitions import BY_NAME
from ullage.experiments.elastic.analysis.summary import EnvironmentSummary, MetricEstimate, Summary
from ullage.experiments.elastic.analysis.words import (
    counted,
    effect,
    effect_interval,
    figure,
    spanned,
)
from ullage.experiments.elastic.report import answer
from ullage.experiments.elastic.report.show import AnalysedRun, find
from ullage.report.export import PICTURES, ExportedTable, cleaned, level, refuse_picture, tabular

COLUMNS: Final[dict[str, Any]] = {
    "run": pa.string(),
    "environment": pa.string(),
    "environment_label": pa.string(),
    "emulated": pa.bool_(),
    "is_again": pa.bool_(),
    "time_scale": pa.float64(),
    "metric": pa.string(),
    "title": pa.string(),
    "symbol": pa.string(),
    "unit": pa.string(),
    "better": pa.string(),
    "is_primary": pa.bool_(),
    "estimate": pa.float64(),
    "low": pa.float64(),
    "high": pa.float64(),
    "confidence": pa.float64(),
    "no_interval": pa.string(),
    "mean": pa.float64(),
    "deviation": pa.float64(),
    "least": pa.float64(),
    "most": pa.float64(),
    "repetitions": pa.int64(),
    "without_figures": pa.int64(),
    "baseline": pa.string(),
    "compared_by": pa.string(),
    "effect": pa.float64(),
    "effect_low": pa.float64(),
    "effect_high": pa.float64(),
    "is_paired": pa.bool_(),
    "pairs": pa.int64(),
    "verdict": pa.string(),
    "no_verdict": pa.string(),
    "doubts": pa.string(),
}
"""Columns: what the metric is, its figure over the repetitions, and how that compares.

Units are SI, shares are fractions, times are real ones. `repetitions` are those that have the
figure, `without_figures` those of the environment that have none at all. From `baseline` on a row
is empty where nothing is compared; above 1 (ratio) or above 0 (difference) is worse. `doubts` are
the codes of all doubts about the run.
"""


def sheet(analysed: AnalysedRun) -> ExportedTable:
    """The table, for each format."""
    name = analysed.run.resolved.run
    latex = partial(_latex, analysed.summary)
    return ExportedTable(name, COLUMNS, partial(rows, analysed), latex, folder.FORMAT)


def rows(analysed: AnalysedRun) -> list[dict[str, Any]]:
    """Its rows, their text cleaned; in the order of the environments, then of the definitions."""
    return cleaned(_rows(analysed))


def _rows(analysed: AnalysedRun) -> Iterator[dict[str, Any]]:
    records = {e.key: e for e in analysed.run.resolved.environments}
    doubts = " ".join(dict.fromkeys(doubt.code for doubt in analysed.doubts))
    for e in analysed.summary.environments:
        record = records[e.key]
        for estimate in e.estimates:
            yield {
                "run": analysed.run.resolved.run,
                "environment": e.key,
                "environment_label": e.label,
                "emulated": record.emulated,
                "is_again": record.again_of is not None,
                "time_scale": analysed.summary.time_scale,
                **_figure(analysed.summary, e, estimate),
                **_compared(_contrast(analysed.summary, e, estimate)),
                "doubts": doubts,
            }


def _figure(summary: Summary, e: EnvironmentSummary, estimate: MetricEstimate) -> dict[str, Any]:
    d = BY_NAME[estimate.metric]
    return {
        "metric": d.name,
        "title": d.title,
        "symbol": d.symbol,
        "unit": summary.currency if d.unit == "money" else d.unit,
        "better": d.better,
        "is_primary": d.primary,
        "estimate": estimate.estimate,
        "low": estimate.low,
        "high": estimate.high,
        "confidence": summary.confidence,
        "no_interval": estimate.why or None,
        "mean": estimate.mean,
        "deviation": estimate.deviation,
        "least": estimate.least,
        "most": estimate.most,
        "repetitions": len(estimate.values),
        "without_figures": e.ended - e.ok,
    }


def _compared(c: Contrast | None) -> dict[str, Any]:
    undecided = c is not None and c.primary and c.verdict in (None, "inconclusive")
    return {
        "baseline": c.baseline if c else None,
        "compared_by": c.kind if c else None,
        "effect": c.estimate if c else None,
        "effect_low": c.low if c else None,
        "effect_high": c.high if c else None,
        "is_paired": c.paired if c else None,
        "pairs": c.n if c else None,
        "verdict": c.verdict if c else None,
        "no_verdict": answer.undecided(c) if c and undecided else None,
    }


def _contrast(summary: Summary, e: EnvironmentSummary, estimate: MetricEstimate) -> Contrast | None:
    key = (e.key, estimate.metric)
    return next((c for c in summary.contrasts if (c.environment, c.metric) == key), None)


def _latex(summary: Summary) -> bytes:
    """The primary metrics, rounded as `show` does; with effects where something is compared."""
    interval = level(summary.confidence)
    heads = ["environment", "metric", "estimate", interval, "from"]
    if summary.contrasts:
        heads += ["effect", interval, "verdict"]
    lines = (
        [
            *_cells(e, estimate),
            *(_effect(_contrast(summary, e, estimate)) if summary.contrasts else ()),
        ]
        for e in summary.environments
        for estimate in e.estimates
        if BY_NAME[estimate.metric].primary
    )
    return tabular("llrrl" + ("rll" if summary.contrasts else ""), heads, lines)


def _cells(e: EnvironmentSummary, estimate: MetricEstimate) -> list[str]:
    d = BY_NAME[estimate.metric]
    bounds = ""
    if estimate.low is not None and estimate.high is not None:
        bounds = spanned(d, estimate.low, estimate.high)
    number = counted(len(estimate.values))
    return [e.label, d.named, figure(d, estimate.estimate), bounds, number]


def _effect(c: Contrast | None) -> tuple[str, str, str]:
    if c is None:
        return "", "", ""
    return effect(c), effect_interval(c), answer.verdict(c)


FIELD: Final = "field"
"""The picture that is meant without a name."""


def command(
    run: Path | None, form: str, picture: str | None, *, runs: Path, out: Path | None
) -> None:
    """Write it to `out`, or to standard output.

    RUN_NOT_FOUND, RUN_BAD_FORMAT, EXPORT_NO_PICTURE, EXPORT_UNKNOWN_FORMAT, EXPORT_UNKNOWN_PICTURE.
    """
    refuse_picture(picture, form)
    analysed = find(run, runs)
    if form in PICTURES:
        data = _picture(analysed, picture or FIELD, form)
    else:
        data = sheet(analysed).written(form, PICTURES)
    give(data, out)


def _picture(analysed: AnalysedRun, name: str, form: str) -> bytes:
    # What draws takes a second to import, and a table needs none of it.
    from ullage.experiments.elastic.report import charts, page  # noqa: PLC0415
    from ullage.report.pictures import picked  # noqa: PLC0415

    drawn = dict(charts.pictures(page.report_of(analysed)))
    return picked(drawn, analysed.run.path, name, form)
