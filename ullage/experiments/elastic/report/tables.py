"""The tables of an elastic run's page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ullage.analysis.comparison.rounding import MINUS, share
from ullage.common.text import clean
from ullage.experiments.elastic.analysis.contrasts import Contrast, EnvironmentSide
from ullage.experiments.elastic.analysis.definitions import BY_NAME, GROUPS, Definition
from ullage.experiments.elastic.analysis.elasticity import NS
from ullage.experiments.elastic.analysis.metrics import CONTEXTUALISATION, INJECTED
from ullage.experiments.elastic.analysis.reading import ElasticRun, Repetition
from ullage.experiments.elastic.analysis.summary import EnvironmentSummary, Summary
from ullage.experiments.elastic.analysis.words import counted, effect, effect_interval, figure
from ullage.experiments.elastic.report.answer import (
    MACHINE_COLUMNS,
    interval,
    machine_rows,
    metrics_of,
    undecided,
)
from ullage.experiments.elastic.simulator.twin import Simulated, difference
from ullage.report.charts.text import quantity
from ullage.report.views import Table, TableCell, cells, heads, mark
from ullage.stats.interval import moments

MOST_ROWS: Final = 400
CLASSES: Final = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Upper ends of the classes of violations by length, real seconds."""
STAGES: Final = {
    "TeF": "choosing a host",
    "TcI": "copying the image",
    "TiI": "starting the instance",
    "application": "until its server replied",
    CONTEXTUALISATION: "of TiI, its own start until it let us in",
    "furnishing": "of TiI, agent and image put there",
    INJECTED: "held back on purpose",
}


def metrics(summary: Summary) -> list[Table]:
    """A table for each group: a row a metric, a column an environment."""
    environments = summary.environments
    labels = [clean(e.label, 60) for e in environments]
    alike = {e.ok for e in environments}
    if len(alike) == 1:  # then once is enough: a table has little room
        behind = f" ({counted(environments[0].ok)}{' each' if len(environments) > 1 else ''})"
    else:
        labels = [
            f"{label}, {counted(e.ok)}" for label, e in zip(labels, environments, strict=True)
        ]
        behind = ""
    tables = []
    for group, caption in GROUPS.items():
        rows = tuple(
            (
                TableCell(d.titled(summary.currency)),
                *(TableCell(_cell(d, e), "n") for e in environments),
            )
            for d in metrics_of(environments)
            if d.group == group
        )
        if rows:
            tables.append(
                Table(caption + behind, heads("metric", *labels, numbers=tuple(labels)), rows)
            )
    return tables


def _cell(d: Definition, e: EnvironmentSummary) -> str:
    estimate = e.estimate(d.name)
    if estimate is None:
        return "–"
    bounds = interval(d, estimate, e.ok)
    text = figure(d, estimate.estimate)
    if not bounds:
        return text
    number, _, unit = text.partition(" ")
    alike = bounds.endswith(f" {unit}") and " " not in bounds.partition(" to ")[0]
    if unit and alike:  # once is enough here too
        return f"{number} ({bounds.removesuffix(f' {unit}')}) {unit}"
    return f"{text} ({bounds})"


def contrasts(compared: Sequence[Contrast], other: str = "") -> list[Table]:
    """One table for each environment that is compared. other: the other run."""
    pairs = dict.fromkeys((c.environment, c.baseline) for c in compared)
    return [
        _contrast_table([c for c in compared if (c.environment, c.baseline) == pair], other)
        for pair in pairs
    ]


def _contrast_table(compared: Sequence[Contrast], other: str) -> Table:
    first = compared[0]
    caption = f"{clean(first.environment_label, 60)} against {clean(first.baseline_label, 60)}"
    caption += f" in {clean(other, 120)}" if other else ""
    caption += ": the noise floor, which chance alone makes" if first.again else ""
    rows = tuple(
        (
            TableCell(BY_NAME[c.metric].named),
            TableCell(effect(c), "n"),
            TableCell(effect_interval(c), "n"),
            TableCell(f"{c.n}", "n"),
            _verdict(c),
            TableCell(_remark(c)),
        )
        for c in sorted(compared, key=lambda c: not BY_NAME[c.metric].primary)
    )
    head = ("metric", "effect", "interval", "pairs" if first.paired else "repetitions")
    names = heads(*head, "verdict", "remark", numbers=head[1:])
    return Table(caption, names, rows)


def _verdict(c: Contrast) -> TableCell:
    if not c.primary:
        return TableCell("")
    return TableCell(mark=mark(c.verdict))


def _remark(c: Contrast) -> str:
    if not c.primary:
        return clean(c.note, 200)
    return clean(undecided(c), 300) if c.verdict in (None, "inconclusive") else ""


def stages(summary: Summary) -> Table | None:
    """TaR and its stages, and TlR, as they were published: mean and deviation.

    A row a stage and a column an environment: there are more stages than a page has room for.
    """
    environments = summary.environments
    if not any(e.estimate("tar") for e in environments):
        return None
    names = dict.fromkeys(stage for e in environments for stage in e.stages)
    lines = [
        (_stage(name), [e.stages.get(name, (None, None, 0))[:2] for e in environments])
        for name in names
    ]
    for metric in ("tar", "tar_bare", "tlr"):
        if metric == "tar_bare" and not any(e.estimate(metric) for e in environments):
            continue
        estimates = [e.estimate(metric) for e in environments]
        lines.append(
            (
                BY_NAME[metric].named,
                [(f.mean, f.deviation) if f else (None, None) for f in estimates],
            )
        )
    numbers = tuple(range(1, len(environments) + 1))
    rows = (
        cells(name, *(_plus_minus(*of) for of in spreads), numbers=numbers)
        for name, spreads in lines
    )
    labels = [clean(e.label, 60) for e in environments]
    note = (
        "Mean of the repetitions' means ± their standard deviation. What lies between the stages "
        "is in TaR alone."
    )
    return Table("Stages", heads("stage", *labels, numbers=tuple(labels)), tuple(rows), note)


def machines(summary: Summary) -> Table | None:
    """Which machine the nodes stood on; None where the plan names none."""
    rows = tuple(cells(*row, numbers=(2, 3, 4, 5)) for row in machine_rows(summary))
    if not rows:
        return None
    names = ("environment", *MACHINE_COLUMNS)
    title = "Nodes on each machine, in repetitions with figures"
    return Table(title, heads(*names, numbers=names[2:]), rows)


def _stage(name: str) -> str:
    return f"{STAGES[name]} ({name})" if name in STAGES else clean(name, 60)


def _plus_minus(mean: float | None, deviation: float | None) -> str:
    if mean is None:
        return "–"
    return quantity(mean, "s") + ("" if deviation is None else f" ± {quantity(deviation, 's')}")


def published(summary: Summary) -> Table | None:
    """Blocked viewers as the table of 2015 has them."""
    rows = []
    for e in summary.environments:
        blocked, requests = e.estimate("blocked"), e.estimate("requests")
        if blocked is None or requests is None:
            continue
        viewers = dict(requests.values)
        counts = [share * viewers[n] for n, share in blocked.values if n in viewers]
        spread = moments(counts).deviation if len(counts) > 1 else None
        mean = sum(counts) / len(counts)
        rows.append(
            cells(
                clean(e.label, 60),
                f"{requests.mean:,.4g}",
                f"{100 * blocked.mean:.3g} %",
                f"{mean:,.3g}",
                "–" if spread is None else f"{spread:,.3g}",
                f"{min(counts):,.0f}",
                f"{max(counts):,.0f}",
                numbers=(1, 2, 3, 4, 5, 6),
            )
        )
    names = ("requests", "blocked", "mean", "deviation", "best", "worst")
    head = heads("environment", *names, numbers=names)
    return Table("Blocked viewers of a repetition", head, tuple(rows)) if rows else None


def violations(sides: Iterable[EnvironmentSide]) -> Table | None:
    """How long the standstills were, in classes."""
    names = [*(f"to {end:g} s" for end in CLASSES), f"over {CLASSES[-1]:g} s"]
    rows = []
    for side in sides:
        lengths = [
            v.length_ns / NS
            for m in side.figures.values()
            for s in m.repetition.sessions
            if s.was_served
            for v in s.violations
        ]
        if not side.figures:
            continue
        counts = [0] * len(names)
        for length in lengths:
            counts[sum(length > end for end in CLASSES)] += 1
        longest = quantity(max(lengths), "s") if lengths else "–"
        row = (clean(side.label, 60), *(f"{n:,}" for n in counts), longest)
        rows.append(cells(*row, numbers=tuple(range(1, len(row)))))
    columns = (*names, "longest")
    head = heads("environment", *columns, numbers=columns)
    return Table("Violations by their length, all repetitions", head, tuple(rows)) if rows else None


def repetitions(run: ElasticRun, sides: Sequence[EnvironmentSide]) -> Table:
    """Each repetition, with figures or without."""
    figures = {(side.key, n): m for side in sides for n, m in side.figures.items()}
    names = ("requests", "blocked", "affected", "tar", "deviation")
    rows = []
    for r in run.repetitions[:MOST_ROWS]:
        measured = figures.get((r.environment, r.number))
        values = measured.figures if measured else {}
        why = clean(r.reason.message, 300) if r.reason else ""
        rows.append(
            cells(
                clean(run.label(r.environment), 60),
                f"{r.number + 1}",
                "with figures" if r.counts else r.status,
                *(figure(BY_NAME[n], values.get(n)) for n in names),
                _late(r),
                why,
                numbers=(1, 3, 4, 5, 6, 7, 8),
            )
        )
    columns = [*(BY_NAME[n].symbol for n in names), "late, p99"]
    head = heads("environment", "no.", "state", *columns, "why", numbers=("no.", *columns))
    hidden = len(run.repetitions) - len(rows)
    return Table(
        "Repetitions", head, tuple(rows), f"{hidden} more are not shown." if hidden else ""
    )


def _late(r: Repetition) -> str:
    """By how much the generator missed its schedule."""
    late_s = r.viewers.lateness_s.get("p99") if r.viewers is not None else None
    return quantity(late_s, "s") if late_s is not None else "–"


def twins(
    sides: Sequence[EnvironmentSide],
    by_repetition: Mapping[tuple[str, int], Simulated],
    confidence: float,
) -> Table | None:
    """PcBl beside that of the simulated twins, and the paired difference."""
    rows = []
    for side in sides:
        mine = [twin for (key, _), twin in sorted(by_repetition.items()) if key == side.key]
        if not mine:
            continue
        real, simulated = (
            sum(getattr(twin, name) for twin in mine) / len(mine) for name in ("real", "blocked")
        )
        rows.append(
            cells(
                clean(side.label, 60),
                f"{len(mine)}",
                f"{100 * real:.3g} %",
                f"{100 * simulated:.3g} %",
                _points(simulated - real),
                _twin_interval(mine, confidence),
                numbers=(1, 2, 3, 4, 5),
            )
        )
    if not rows:
        return None
    columns = ("repetitions", "PcBl, real", "PcBl, simulated", "difference", "interval")
    head = heads("environment", *columns, numbers=columns)
    note = f"Simulated less real, paired by repetition; intervals are {share(confidence)}."
    return Table("Blocked viewers, real and simulated", head, tuple(rows), note)


def _twin_interval(mine: Sequence[Simulated], confidence: float) -> str:
    apart = difference(mine, confidence)
    if apart.low is None or apart.high is None:
        return apart.why
    return f"{_points(apart.low)} to {_points(apart.high)}"


def _points(share_of: float) -> str:
    return f"{100 * share_of:+.2f} points".replace("-", MINUS)
