"""What several workloads of a run show together: how work scales, who reaches whom."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ullage.analysis.comparison.model import Analysis
from ullage.analysis.comparison.pairing import stored
from ullage.analysis.comparison.rounding import ratio, share
from ullage.common.text import clean
from ullage.report.charts import curve
from ullage.report.charts.lanes import Drawing
from ullage.report.charts.text import quantity
from ullage.report.views import Section, Specs, Table, tabulate
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import Coordinate, EnvironmentRecord, Metric, WorkloadRecord
from ullage.stats.interval import IntervalEstimate, TooFewError, collapse, t_interval
from ullage.stats.quantiles import quantile

PEER = "peer"
"""The parameter that says where the other end of a workload stands."""

ValuesByBlock = Mapping[int, tuple[int, float]]
"""Block → (making of the instances, figure)."""


@dataclass(frozen=True)
class VariedWorkload:
    """One workload at several values of what it scales with."""

    title: str
    parameter: str
    metric: Metric
    steps: tuple[tuple[float, WorkloadRecord], ...]
    """Value → the workload with it, the least first."""


def views(folder: RunFolder, analysis: Analysis, specs: Specs) -> list[Section]:
    """All that there is in this run."""
    sections = []
    for scaling, chart in speed_ups(folder, analysis):
        caption = (
            f"Speed-up over {clean(scaling.parameter, 40)}: times as fast as with "
            f"{scaling.steps[0][0]:g} in the same environment and block, with its "
            f"{share(analysis.confidence)} interval; dotted, what it would be without any loss"
        )
        label = f"Chart of {scaling.title}: {caption}."
        figure = specs.figure(chart, caption, label)
        sections.append(Section(scaling.title, figures=(figure,)))
    for crossing in crossings(folder.resolved.workloads):
        tables = (matrix(folder, analysis, crossing),)
        sections.append(Section(crossing.title, tables=tables))
    return sections


def speed_ups(folder: RunFolder, analysis: Analysis) -> list[tuple[VariedWorkload, Drawing]]:
    """Of everything that was varied so that it shows how it scales."""
    charts = [
        (scaling, speed_up(folder, analysis, scaling))
        for scaling in scalings(folder.resolved.workloads)
    ]
    return [(scaling, chart) for scaling, chart in charts if chart is not None]


def scalings(workloads: Sequence[WorkloadRecord]) -> list[VariedWorkload]:
    """Those that a plan has varied so that they show it."""
    families: dict[tuple[str, tuple[str, str]], list[tuple[float, WorkloadRecord]]] = {}
    for workload in workloads:
        for parameter in workload.scaling:
            value = workload.factors.get(parameter)
            if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
                family = (parameter, _family(workload, parameter))
                families.setdefault(family, []).append((value, workload))
    scalable = []
    for (parameter, _), steps in families.items():
        metric = _figure(steps[0][1])
        if len(steps) > 1 and metric is not None:
            ordered = tuple(sorted(steps, key=lambda step: step[0]))
            scalable.append(
                VariedWorkload(clean(ordered[0][1].title, 90), parameter, metric, ordered)
            )
    return scalable


def speed_up(folder: RunFolder, analysis: Analysis, scaling: VariedWorkload) -> Drawing | None:
    """Times as fast as at the least value, in the same environment and block; None: no figures.

    Intervals are t intervals of the log-ratios within blocks (of their means for each making).
    """
    lines = []
    for environment in folder.resolved.environments:
        points = _points(folder.trials, environment, scaling, analysis.confidence)
        if len(points) > 1:
            lines.append(curve.CurveLine(clean(environment.label, 60), tuple(points)))
    if not lines:
        return None
    least = scaling.steps[0][0]
    most = max(point.at for line in lines for point in line.points)
    coordinate = Coordinate(name=scaling.parameter, unit="1")
    title = f"Times as fast as with {least:g}"
    return curve.draw(lines, coordinate, title, "1", ideal=((least, 1.0), (most, most / least)))


def _points(
    trials: Sequence[Trial],
    environment: EnvironmentRecord,
    scaling: VariedWorkload,
    confidence: float,
) -> list[curve.LinePoint]:
    least, first = scaling.steps[0]
    base = _values(trials, environment.key, first, scaling.metric)
    points = [curve.LinePoint(least, 1.0, 1.0, 1.0, len(base))] if base else []
    for at, workload in scaling.steps[1:]:
        mine = _values(trials, environment.key, workload, scaling.metric)
        ratios = _ratios(mine, base, scaling.metric)
        if interval := _faster(mine, base, scaling.metric, confidence):
            point = curve.LinePoint(at, interval.estimate, interval.low, interval.high, len(mine))
            points.append(point)
        elif ratios:  # one block: a point without an interval
            single = math.exp(ratios[0])
            points.append(curve.LinePoint(at, single, single, single, len(mine)))
    return points


@dataclass(frozen=True)
class Crossing:
    """A workload between every two environments."""

    title: str
    metric: Metric
    peers: tuple[tuple[str, WorkloadRecord], ...]
    """Environment of the other end → the workload that reaches it."""


def crossings(workloads: Sequence[WorkloadRecord]) -> list[Crossing]:
    """Those whose other end a plan has put in several environments."""
    families: dict[tuple[str, str], list[tuple[str, WorkloadRecord]]] = {}
    for workload in workloads:
        peer = workload.factors.get(PEER)
        if isinstance(peer, dict) and isinstance(peer.get("environment"), str):
            families.setdefault(_family(workload, PEER), []).append((peer["environment"], workload))
    crossed = []
    for peers in families.values():
        metric = _figure(peers[0][1])
        if len(peers) > 1 and metric is not None:
            crossed.append(Crossing(_name(peers[0][1]), metric, tuple(peers)))
    return crossed


def _name(workload: WorkloadRecord) -> str:
    """The workload, and what else the plan has varied of it."""
    others = {name: value for name, value in workload.factors.items() if name != PEER}
    varied = ", ".join(f"{name}={value}" for name, value in sorted(others.items()))
    return clean(f"{workload.name} {varied}".strip(), 90)


def matrix(folder: RunFolder, analysis: Analysis, crossing: Crossing) -> Table:
    """The median, and the ratio to the baseline's own: the client (rows), its other end (columns).

    Which of the two sends is the workload's affair.
    """
    baseline, metric = analysis.baseline, crossing.metric
    towards = dict(crossing.peers).get(baseline)
    own = _values(folder.trials, baseline, towards, metric) if towards else {}
    environments = [e for e in folder.resolved.environments if e.again_of is None]
    labels = {e.key: clean(e.label, 40) for e in environments}
    rows = []
    for environment in environments:
        row = [labels[environment.key]]
        for peer, workload in crossing.peers:
            mine = _values(folder.trials, environment.key, workload, metric)
            same = (environment.key, peer) == (baseline, baseline)
            interval = None if same else _faster(own, mine, metric, analysis.confidence)
            row.append(_cell(mine, metric, interval))
        rows.append(row)
    columns = [f"other end in {labels.get(peer, clean(peer, 40))}" for peer, _ in crossing.peers]
    return tabulate(
        f"{crossing.title}: between every two environments",
        ("client in", *columns),
        rows,
        numbers=columns,
        note=f"Medians of {clean(metric.name, 60)}; after it, how many times worse than between "
        f"{clean(analysis.baseline_label, 60)} and itself, with its {share(analysis.confidence)} "
        "interval, by block. Each interval stands alone: they are not corrected for their number.",
    )


def _cell(values: ValuesByBlock, metric: Metric, interval: IntervalEstimate | None) -> str:
    if not values:
        return "–"
    middle = quantile([value for _, value in values.values()], 0.5, 0.95).estimate
    text = quantity(middle, metric.unit)
    bounded = None if interval is None else stored(interval)
    if bounded is None:
        return text
    worse, low, high = ratio(bounded)
    return f"{text}; {worse} ({low} to {high})"


def _family(workload: WorkloadRecord, but: str | None) -> tuple[str, str]:
    """What tells apart workloads that differ in one factor alone."""
    others = {name: value for name, value in workload.factors.items() if name != but}
    return workload.name, repr(sorted(others.items()))


def _figure(workload: WorkloadRecord) -> Metric | None:
    """Its first primary figure that is one number."""
    metrics = (m for m in workload.metrics if m.primary and m.coordinate is None)
    return next(metrics, None)


def _values(
    trials: Iterable[Trial], environment: str, workload: WorkloadRecord, metric: Metric
) -> dict[int, tuple[int, float]]:
    values = {}
    for trial in trials:
        value = trial.metrics.get(metric.name)
        mine = (trial.environment, trial.workload, trial.status) == (
            environment,
            workload.key,
            "ok",
        )
        if mine and isinstance(value, float) and math.isfinite(value) and value > 0:
            values[trial.block] = (trial.generation, value)
    return values


def _faster(
    mine: ValuesByBlock, base: ValuesByBlock, metric: Metric, confidence: float
) -> IntervalEstimate | None:
    """How many times `mine` is as good as `base`, by block; None: in fewer than two blocks."""
    makings = [mine[block][0] for block in _common(mine, base)]
    try:
        return t_interval(collapse(_ratios(mine, base, metric), makings), confidence)
    except TooFewError:
        return None


def _ratios(mine: ValuesByBlock, base: ValuesByBlock, metric: Metric) -> list[float]:
    """Log-ratios by block, above 0 where `mine` is better."""
    sign = 1 if metric.better == "higher" else -1
    return [sign * math.log(mine[b][1] / base[b][1]) for b in _common(mine, base)]


def _common(mine: ValuesByBlock, base: ValuesByBlock) -> list[int]:
    return sorted(set(mine) & set(base))
