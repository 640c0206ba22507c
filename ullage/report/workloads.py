"""Workload by workload: every trial's figure, curves, and a table of all metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ullage.analysis.comparison import rounding
from ullage.analysis.comparison.estimates import Absolute
from ullage.analysis.comparison.model import Analysis, Comparison
from ullage.analysis.details import details
from ullage.analysis.trialfacts import trial_facts
from ullage.common.text import clean
from ullage.report import answer
from ullage.report.charts import curve, lanes, strip
from ullage.report.charts.lanes import Drawing
from ullage.report.charts.text import first_sentence, quantity, unbroken
from ullage.report.doubts import doubted
from ullage.report.views import (
    ChartView,
    DetailView,
    Specs,
    Table,
    TableCell,
    TableRow,
    WorkloadView,
    cells,
    mark,
    tabulate,
)
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import Metric, WorkloadRecord
from ullage.stats.quantiles import Quantile

ValuesByEnvironment = Mapping[str, Absolute]
"""Environment key → the values of one metric."""


def views(folder: RunFolder, analysis: Analysis, specs: Specs) -> list[WorkloadView]:
    """Every workload of the run, in the order of the plan."""
    trials: dict[str, list[Trial]] = {}
    for trial in folder.trials:
        trials.setdefault(trial.workload, []).append(trial)
    return [
        _view(folder, analysis, specs, workload, trials.get(workload.key, []), number=number)
        for number, workload in enumerate(folder.resolved.workloads, start=1)
    ]


def _view(
    folder: RunFolder,
    analysis: Analysis,
    specs: Specs,
    workload: WorkloadRecord,
    trials: Sequence[Trial],
    *,
    number: int,
) -> WorkloadView:
    charts: list[ChartView] = []
    folded: list[ChartView] = []
    side = lanes.suffix(analysis)
    for metric, kind, chart in drawn(folder, analysis, workload, trials):
        figure = _figure(specs, workload, metric, chart, trials, kind=kind, side=side)
        (folded if kind == "pairs" or not metric.primary else charts).append(figure)
    return WorkloadView(
        id=f"workload-{number}",
        title=clean(workload.title, 120),
        key=clean(workload.key, 120),
        parameters=_parameters(workload),
        charts=tuple(charts),
        folded=tuple(folded),
        table=table(folder, analysis, workload, trials),
        details=_details(analysis, workload),
        trial_facts=tuple(trial_facts(folder, workload.key)),
        doubts=tuple(doubted(_all(analysis, workload))),
        definitions=_definitions(workload),
    )


def drawn(
    folder: RunFolder, analysis: Analysis, workload: WorkloadRecord, trials: Sequence[Trial]
) -> list[tuple[Metric, str, Drawing]]:
    """The charts of one workload: (metric, kind, chart), primary metrics first.

    Kinds: `trials`, `pairs`, `curve`, `ratios`. Of secondary metrics the first chart alone.
    """
    environments, trials = lanes.apart(folder.resolved, trials)
    confidence = analysis.confidence
    charts: list[tuple[Metric, str, Drawing]] = []
    for metric in sorted(workload.metrics, key=lambda m: not m.primary):
        if metric.coordinate is not None:
            lines = curve.medians(metric, environments, trials, confidence)
            if not lines:
                continue
            title = metric.description or metric.name
            charts.append(
                (metric, "curve", curve.draw(lines, metric.coordinate, title, metric.unit))
            )
            ratios = _ratio_lines(analysis, workload, metric)
            if ratios:
                title = f"times worse than {clean(analysis.baseline_label, 60)}"
                chart = curve.draw(ratios, metric.coordinate, title, "1", ratio=True)
                charts.append((metric, "ratios", chart))
        elif any(strip.scalar(trial, metric) is not None for trial in trials):
            medians = _medians(values(analysis, workload, metric))
            for name in ("trials", "pairs") if metric.primary else ("trials",):
                chart = strip.strip(
                    metric, environments, trials, medians, analysis.baseline, paired=name == "pairs"
                )
                charts.append((metric, name, chart))
    return charts


def values(analysis: Analysis, workload: WorkloadRecord, metric: Metric) -> dict[str, Absolute]:
    """The values of one metric in every environment that has some."""
    by_environment: dict[str, Absolute] = {}
    for c in _all(analysis, workload):
        if c.metric == metric.name:
            if c.baseline_values is not None:
                by_environment[lanes.key(analysis.design, c.baseline, c.environment)] = (
                    c.baseline_values
                )
            if c.environment_values is not None:
                by_environment[lanes.key(analysis.design, c.environment, c.baseline)] = (
                    c.environment_values
                )
    return by_environment


def _all(analysis: Analysis, workload: WorkloadRecord) -> list[Comparison]:
    """The comparisons of a workload, A/A ones last."""
    return [c for c in (*analysis.comparisons, *analysis.again) if c.workload == workload.key]


def _details(analysis: Analysis, workload: WorkloadRecord) -> tuple[DetailView, ...]:
    return tuple(
        DetailView(
            clean(detail.comparison.environment_label, 60),
            clean(detail.comparison.metric, 60),
            unbroken(clean(detail.sentence, 600)),
            tuple((name, unbroken(clean(value, 600))) for name, value in detail.facts),
        )
        for detail in details(analysis, workload.key)
    )


def _medians(values: ValuesByEnvironment) -> dict[str, Quantile]:
    return {
        key: Quantile(value.median, value.median_low, value.median_high)
        for key, value in values.items()
    }


def _ratio_lines(
    analysis: Analysis, workload: WorkloadRecord, metric: Metric
) -> list[curve.CurveLine]:
    return [
        curve.CurveLine(
            clean(c.environment_label, 60),
            tuple(
                curve.LinePoint(
                    at=p.coordinate,
                    middle=p.ratio,
                    low=p.ratio if p.low is None else p.low,
                    high=p.ratio if p.high is None else p.high,
                )
                for p in c.curve
            ),
        )
        for c in analysis.comparisons
        if (c.workload, c.metric) == (workload.key, metric.name) and c.curve
    ]


_CAPTIONS = {
    "trials": "every trial",
    "pairs": "trials of one block joined by a line",
    "curve": "median along {along}, with its interval",
    "ratios": "ratio along {along}, with a band that holds for all places together",
}


def _figure(
    specs: Specs,
    workload: WorkloadRecord,
    metric: Metric,
    chart: Drawing,
    trials: Sequence[Trial],
    *,
    kind: str,
    side: str,
) -> ChartView:
    along = clean(metric.coordinate.name, 60) if metric.coordinate else ""
    description = first_sentence(metric.description or metric.name)
    caption = f"{description}: {_CAPTIONS[kind].format(along=along)}{side}"
    summary = f"{description}, block by block" if kind == "pairs" else f"{description}, every trial"
    return specs.figure(
        chart,
        caption[:1].upper() + caption[1:],
        f"Chart of {clean(workload.title, 90)}: {caption}. The table below has the figures.",
        note=strip.thinned(trials, paired=kind == "pairs") if kind in ("trials", "pairs") else "",
        summary=summary[:1].upper() + summary[1:],
    )


def _parameters(workload: WorkloadRecord) -> str:
    parameters = ((n, v) for n, v in workload.parameters.items() if v is not None)
    parts = (f"{name} {on_one_line(value)}" for name, value in parameters)
    return clean(", ".join(parts), 400)


def on_one_line(value: Any) -> str:
    """A value from a plan or of a fact, on one line."""
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def table(
    folder: RunFolder, analysis: Analysis, workload: WorkloadRecord, trials: Sequence[Trial]
) -> Table:
    """All metrics of a workload in all environments; the trials are those of the workload."""
    environments, trials = lanes.apart(folder.resolved, trials)
    rows: list[TableRow] = []
    for metric in sorted(workload.metrics, key=lambda m: not m.primary):
        by_environment = values(analysis, workload, metric)
        if not by_environment and not metric.primary and metric.coordinate is None:
            continue  # the definitions below the table say when a metric is absent
        for environment in environments:
            label = clean(environment.label, 60)
            value = by_environment.get(environment.key)
            comparison = _comparison(analysis, workload, metric, environment.key)
            rows.append(
                (
                    label,
                    clean(metric.name, 40),
                    _median(value, metric),
                    _median_span(value, metric.unit),
                    _counted(trials, environment.key),
                    *_compared(comparison, _is_baseline(analysis, environment.key)),
                )
            )
    names = (
        "environment",
        "metric",
        "median",
        f"its {rounding.share(analysis.confidence)} interval",
        "trials",
        "times worse",
        "interval",
        "verdict",
    )
    caption = f"All metrics of {clean(workload.title, 90)}{lanes.suffix(analysis)}"
    return tabulate(caption, names, rows, numbers=names[2:6])


def _definitions(workload: WorkloadRecord) -> tuple[tuple[str, str], ...]:
    better = {"higher": "More is better.", "lower": "Less is better."}
    return tuple(
        (clean(m.name, 60), clean(f"{m.description.rstrip('.')}. {better[m.better]}", 600))
        for m in workload.metrics
    )


def _comparison(
    analysis: Analysis, workload: WorkloadRecord, metric: Metric, environment: str
) -> Comparison | None:
    for c in _all(analysis, workload):
        lane = lanes.key(analysis.design, c.environment, c.baseline)
        if (c.metric, lane) == (metric.name, environment):
            return c
    return None


def _is_baseline(analysis: Analysis, lane: str) -> bool:
    baselines = {
        lanes.key(analysis.design, c.baseline, c.environment)
        for c in (*analysis.comparisons, *analysis.again)
        if c.baseline == analysis.baseline
    }
    return lane in baselines or lane == analysis.baseline


def _compared(c: Comparison | None, baseline: bool) -> tuple[TableCell, ...]:
    if baseline:
        return cells("baseline", "", "", numbers=(0,))
    if c is None or c.ratio is None:
        return cells("–", "", "no pairs", numbers=(0,))
    value, interval = answer.figures(c)
    if c.again:
        verdict = TableCell("A/A", "soft")
    elif c.primary:
        verdict = TableCell(mark=mark(c.verdict))
    else:
        verdict = TableCell("not judged", "soft")
    return (TableCell(value, "n"), TableCell(interval, "s"), verdict)


def _median(value: Absolute | None, metric: Metric) -> str:
    if metric.coordinate is not None:
        return "curve"
    return quantity(value.median, metric.unit) if value else "–"


def _median_span(value: Absolute | None, unit: str) -> str:
    if value is None or value.median_low is None or value.median_high is None:
        return "–"
    return f"{quantity(value.median_low, unit)} to {quantity(value.median_high, unit)}"


def _counted(trials: Sequence[Trial], lane: str) -> str:
    mine = [trial for trial in trials if trial.environment == lane]
    bad = sum(trial.status != "ok" for trial in mine)
    return f"{len(mine)}, {bad} failed" if bad else str(len(mine))
