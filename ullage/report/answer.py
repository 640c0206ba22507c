"""The first screen: facts, answer, barrels, ratios. Plain HTML and SVG, no script."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from markupsafe import Markup

from ullage.analysis import sentences
from ullage.analysis.comparison import rounding, words
from ullage.analysis.comparison.model import Analysis, Comparison, ResourceSummary
from ullage.analysis.doubts.machine import crowd
from ullage.common.quantities import format_bytes, format_seconds, many
from ullage.common.text import clean
from ullage.report.charts import barrel, forest, lanes
from ullage.report.charts.text import unbroken
from ullage.report.views import (
    BarrelCell,
    BarrelRow,
    Fact,
    ForestGroup,
    ForestPanel,
    ForestRow,
    Sentence,
    SentencePart,
    mark,
)
from ullage.runs.reader import RunFolder

RESOURCES: Final = {
    "cpu": "CPU",
    "memory": "memory",
    "disk": "disk",
    "network": "network",
    "other": "other",
}
"""Resource → what people call it, in the order of the barrels."""

BUSY: Final = 0.1
"""Share of the CPUs that others used, from which on the page says so."""

WHY: Final = {
    "too-few-blocks": "too few blocks",
    "too-many-failures": "too many trials failed",
}


def facts(folder: RunFolder, analysis: Analysis) -> list[Fact]:
    texts = [Fact(f"{many(analysis.blocks, 'block')} in {format_seconds(analysis.seconds)}")]
    if analysis.generations > 1:
        texts.append(Fact(words.makings(analysis.generations)))
    if analysis.design == "duet":
        texts.append(Fact("duet: pairs side by side"))
    if analysis.floor is not None:
        texts.append(Fact(f"noise floor up to {words.floor_words(analysis.floor)}"))
    if analysis.failed:
        texts.append(Fact(f"{analysis.failed} of {analysis.trials} trials failed"))
    if (share := crowd(folder.trials)) is not None and share >= BUSY:
        texts.append(Fact(f"busy host: others used {rounding.share(round(share, 2))} of its CPUs"))
    if analysis.started_epoch_ns is not None:
        texts.append(Fact(date(analysis.started_epoch_ns)))
    texts += [Fact("the plan", anchor="plan"), Fact("all trials", anchor="trials")]
    if name := machine(folder.resolved.host):
        texts.append(Fact(name, wraps=True))
    if name := system(folder.resolved.host):
        texts.append(Fact(name, wraps=True))
    return texts


def date(epoch_ns: int) -> str:
    """`2026-11-25 16:24 UTC`."""
    return f"{datetime.fromtimestamp(epoch_ns / 1e9, UTC):%Y-%m-%d %H:%M} UTC"


def system(host: Mapping[str, Any]) -> str:
    """Host's name, system and kernel, as far as they are known."""
    parts = [str(host.get(name) or "") for name in ("hostname", "os")]
    kernel = f"Linux {host['kernel']}" if host.get("kernel") else ""
    return clean(", ".join(part for part in (*parts, kernel) if part), 160)


def machine(host: Mapping[str, Any]) -> str:
    """CPU model, CPUs and memory of a run's host, as far as they are known."""
    cpus, memory = host.get("cpus"), host.get("memory_bytes")
    count = len(cpus) if isinstance(cpus, list) else cpus
    parts = [
        str(host.get("cpu_model") or ""),
        many(count, "CPU") if isinstance(count, int) else "",
        format_bytes(memory) if isinstance(memory, int) else "",
    ]
    return clean(", ".join(part for part in parts if part), 120)


def answer(analysis: Analysis) -> list[Sentence]:
    """The answer in sentences, with what stands between `**` made strong."""
    asides = sentences.asides(analysis)
    return [
        Sentence(tuple(_parts(unbroken(clean(text)))), aside=text in asides)
        for text in sentences.answer(analysis, strong=True)
    ]


def summary(analysis: Analysis) -> str:
    """How many comparisons came out how, for an answer that is too long to be read first."""
    counts = Counter(mark(c.verdict).word for c in analysis.primary())
    verdicts = [f"{number} {word}" for word, number in counts.most_common()]
    environments = len({c.environment for c in analysis.primary()})
    return (
        f"{many(environments, 'environment')} in {many(sum(counts.values()), 'comparison')} with "
        f"{clean(analysis.baseline_label, 60)}{lanes.suffix(analysis)}: {words.listed(verdicts)}."
    )


def _parts(sentence: str) -> Iterable[SentencePart]:
    for index, text in enumerate(re.split(r"\*\*(.+?)\*\*", sentence)):
        # The figure is what matters; its interval in brackets stays light.
        strong, bracket, interval = text.partition(" (") if index % 2 else ("", "", text)
        if strong:
            yield SentencePart(strong, strong=True)
        if interval:
            yield SentencePart(bracket + interval)


def cellar(analysis: Analysis) -> list[BarrelRow]:
    """The barrels, one row an environment, one column a resource that the run measured."""
    return [
        BarrelRow(
            label=label,
            detail=unequal(summary for _, summary in row if summary),
            cells=tuple(_cell(analysis, summary, column) for column, summary in row),
        )
        for label, row in _grid(analysis)
    ]


def _grid(analysis: Analysis) -> list[tuple[str, list[tuple[str, ResourceSummary | None]]]]:
    """Environment label → (resource, what is known of it), every resource in every row."""
    present = {summary.resource for summary in analysis.resources}
    columns = [resource for resource in RESOURCES if resource in present]
    rows: dict[str, dict[str, ResourceSummary]] = {}
    for summary in analysis.resources:
        rows.setdefault(summary.environment, {})[summary.resource] = summary
    return [
        (
            clean(next(iter(by_resource.values())).environment_label, 60) + lanes.suffix(analysis),
            [(column, by_resource.get(column)) for column in columns],
        )
        for by_resource in rows.values()
    ]


def cellar_pictures(analysis: Analysis) -> list[tuple[str, list[tuple[str, barrel.Barrel]]]]:
    """The same barrels for a standalone picture: environment → (resource, barrel)."""
    return [
        (
            label,
            [(RESOURCES[column], picture(analysis, summary, column)) for column, summary in row],
        )
        for label, row in _grid(analysis)
    ]


def unequal(items: Iterable[ResourceSummary | Comparison]) -> str:
    """Names the nuisances that the plan allowed to differ."""
    names = sorted({name for item in items for name in item.unequal})
    return clean(f"unequal in {', '.join(names)}", 120) if names else ""


def picture(analysis: Analysis, summary: ResourceSummary | None, column: str) -> barrel.Barrel:
    """What the barrel of one environment and resource shows."""
    resource = RESOURCES[column]
    if summary is None:
        return barrel.Barrel(resource, "missing")
    name = f"{clean(summary.environment_label, 60)}, {resource}"
    members = [c for c in analysis.comparisons if (c.workload, c.metric) in summary.members]
    mine = [c for c in members if c.environment == summary.environment]
    if summary.ratio is None or summary.interval is None:
        tried = any(c.environment_cell.trials for c in mine)
        return barrel.Barrel(name, "failed" if tried else "missing")
    decided = bool(mine) and all(c.verdict not in (None, "inconclusive") for c in mine)
    return barrel.Barrel(
        name,
        "decided" if decided else "undecided",
        summary.ratio,
        summary.interval.low,
        summary.interval.high,
    )


def _cell(analysis: Analysis, summary: ResourceSummary | None, column: str) -> BarrelCell:
    drawn = picture(analysis, summary, column)
    count = len(summary.members) if summary else 0
    return BarrelCell(
        resource=_column(analysis, column),
        detail=f"{count} metrics" if count > 1 else "",
        svg=Markup(barrel.draw(drawn)),  # noqa: S704  barrel.draw escapes its one text
        gap=_gap(drawn),
        mark=mark(summary.verdict) if summary and drawn.ratio is not None else None,
    )


def _column(analysis: Analysis, column: str) -> str:
    """What stands over a column of barrels: work of no resource by its `as:`, if it is one work."""
    work = [c for c in analysis.primary() if c.resource == column]
    titles = {c.workload_title for c in work}
    if column == "other" and len(titles) == 1 and sentences.has_name(work[0]):
        return clean(titles.pop(), 40)
    return RESOURCES[column]


def _gap(drawn: barrel.Barrel) -> str:
    """The empty part in words: its size, or between which it lies while it is undecided."""
    if drawn.ratio is None or drawn.low is None or drawn.high is None:
        return "no figure" if drawn.state == "failed" else "not measured"
    if drawn.state == "undecided":
        least, most = 1 - 1 / drawn.low, 1 - 1 / drawn.high
        return f"ullage {_whole(least)} to {_whole(most)} %"
    if round(drawn.left, 2) > 1:
        return f"{barrel.percent(drawn.left - 1)} over"
    return f"ullage {barrel.percent(max(1 - drawn.left, 0.0))}"


def _whole(value: float) -> str:
    return f"{round(value * 100)}".replace("-", "−")


def groups(analysis: Analysis) -> list[forest.RatioGroup]:
    """The primary comparisons by environment, in the order of the resources."""
    order = list(RESOURCES)
    by_environment: dict[str, list[Comparison]] = {}
    for comparison in analysis.primary():
        by_environment.setdefault(comparison.environment, []).append(comparison)
    return [
        forest.RatioGroup(
            label=_group_label(mine) + lanes.suffix(analysis),
            rows=tuple(row(c, mine) for c in sorted(mine, key=lambda c: order.index(c.resource))),
        )
        for mine in by_environment.values()
    ]


def _group_label(mine: Sequence[Comparison]) -> str:
    label, differs = clean(mine[0].environment_label, 60), unequal(mine)
    return f"{label}, {differs}" if differs else label


def row(comparison: Comparison, siblings: Sequence[Comparison]) -> forest.RatioRow:
    """One comparison as a row of the plot."""
    c = comparison
    several = sum(sibling.workload == c.workload for sibling in siblings) > 1
    verdict = mark(c.verdict)
    value, interval = figures(c)
    return forest.RatioRow(
        label=clean(c.workload_title, 60),
        detail=clean(c.metric, 40) if several else "",
        verdict=verdict.kind,
        ratio=c.ratio,
        low=c.interval.low if c.interval else None,
        high=c.interval.high if c.interval else None,
        value=value,
        interval=interval,
        floor=c.floor,
        note=_note(c),
        absolute=_absolute(c),
    )


def _absolute(c: Comparison) -> str:
    """`905 1/s, here 780 1/s`: the medians that the ratio is of."""
    if c.ratio is None or c.baseline_values is None or c.environment_values is None:
        return ""
    baseline, here = (
        unbroken(rounding.quantity(values.median, c.unit))
        for values in (c.baseline_values, c.environment_values)
    )
    return f"{clean(c.baseline_label, 30)} {baseline}, here {here}"


def _note(c: Comparison) -> str:
    """Why there are no figures, or no verdict."""
    if c.ratio is None:
        lost = c.environment_cell.without_figures
        reason = WHY.get(c.no_verdict or "", clean(c.no_verdict or "no pairs", 80))
        return f"no figure: {reason}" + (
            f", {lost} of {c.environment_cell.trials} failed" if lost else ""
        )
    return ""


def figures(c: Comparison) -> tuple[str, str]:
    """Ratio and interval in words: `1.12×`, `1.08 to 1.17`."""
    if c.ratio is None:
        return "–", ""
    if c.interval is None:
        return f"{c.ratio:.3g}×", "no interval"
    middle, low, high = rounding.ratio(c.interval)
    return f"{middle}×", f"{low} to {high}"


def forest_panels(groups: Sequence[forest.RatioGroup]) -> list[ForestPanel]:
    panels = []
    for panel in forest.panels(groups):
        scale = forest.axis(panel)
        panels.append(
            ForestPanel(
                ruler=Markup(forest.ruler(scale)),  # noqa: S704  numbers only
                ground=Markup(forest.ground(scale, None)),  # noqa: S704  numbers only
                groups=tuple(
                    ForestGroup(group.label, tuple(_row(r, scale) for r in group.rows))
                    for group in panel
                ),
            )
        )
    return panels


def _row(row: forest.RatioRow, scale: forest.Axis) -> ForestRow:
    return ForestRow(
        label=row.label,
        detail=row.detail,
        ground=Markup(forest.ground(scale, row.floor)),  # noqa: S704  numbers only
        svg=Markup(forest.cell(row, scale)),  # noqa: S704  numbers only
        ratio=row.value,
        interval=row.interval,
        mark=mark(row.verdict),
        note=row.note,
        absolute=row.absolute,
    )


def forest_title(analysis: Analysis) -> str:
    baseline = clean(analysis.baseline_label, 60)
    confidence = unbroken(rounding.share(analysis.confidence))
    return f"Times worse than {baseline}, with {confidence} intervals{lanes.suffix(analysis)}"
