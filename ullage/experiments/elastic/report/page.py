"""The page of an elastic run: one HTML file with all that it needs, in the report's look."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ullage.analysis.comparison.rounding import share
from ullage.common.console import escape, stderr, stdout
from ullage.common.files import put
from ullage.common.quantities import format_seconds, many
from ullage.common.text import clean
from ullage.experiments.elastic.analysis.contrasts import MARGIN, EnvironmentSide
from ullage.experiments.elastic.analysis.definitions import DEFINITIONS
from ullage.experiments.elastic.analysis.doubts import ElasticDoubt
from ullage.experiments.elastic.analysis.metrics import RepetitionFigures
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.analysis.summary import RunContrasts, Summary
from ullage.experiments.elastic.analysis.words import counted
from ullage.experiments.elastic.plan import words
from ullage.experiments.elastic.report import answer, charts, provenance
from ullage.experiments.elastic.report import tables as pagetables
from ullage.experiments.elastic.report.charts import Report, Twins, pictures
from ullage.experiments.elastic.report.show import AnalysedRun, find
from ullage.experiments.elastic.simulator import twin
from ullage.report import answer as report_answer
from ullage.report import document
from ullage.report import provenance as report_provenance
from ullage.report.charts.text import quantity, unbroken
from ullage.report.pictures import save
from ullage.report.views import (
    ChartView,
    DoubtView,
    Fact,
    Fold,
    Section,
    Sentence,
    SentencePart,
    Specs,
)
from ullage.runs import derived

MOST_FIELDS: Final = 40
"""Repetitions whose nodes and viewers are drawn; the rest stand in the table."""


def render(content: Report) -> str:
    specs = Specs()
    parts = _parts(content, specs)
    return document.render(
        "ullage.experiments.elastic.report",
        "elastic.html.j2",
        content.summary.name,
        _facts(content),
        specs.items,
        **parts,
    )


def _parts(content: Report, specs: Specs) -> dict[str, Any]:
    """Everything that the template names."""
    run, summary = content.run, content.summary
    fields = [_first_field(content, side, specs) for side in content.sides]
    return {
        "answer": _answer(content),
        "fields": [f for f in fields if f is not None],
        "metrics": pagetables.metrics(summary),
        "how": _how(content),
        "contrasts": pagetables.contrasts(summary.contrasts),
        "against": _against(content.against),
        "allocation": _allocation(content, specs),
        "stages": pagetables.stages(summary),
        "machines": pagetables.machines(summary),
        "published": pagetables.published(summary),
        "waits": _waits(content, specs),
        "violations": pagetables.violations(content.sides),
        "repetitions": pagetables.repetitions(run, content.sides),
        "all_fields": _all_fields(content, specs),
        "twins": pagetables.twins(content.sides, content.twins, summary.confidence),
        "doubts": [_doubt(d) for d in content.doubts],
        "again": provenance.again(run),
        "provenance": provenance.pairs(run),
        "environments": provenance.environments(run),
        "folds": [*_machines(run), report_provenance.plan(run.path)],
        "definitions": _definitions(),
    }


def _facts(content: Report) -> list[Fact]:
    summary, run = content.summary, content.run
    good = sum(e.ok for e in summary.environments)
    ended = sum(e.ended for e in summary.environments)
    environments = many(len(summary.environments), "environment")
    facts = [Fact(f"{counted(summary.repetitions)} of {environments}")]
    if good < ended:
        facts.append(Fact(f"{ended - good} of {ended} without figures"))
    if summary.time_scale != 1:
        facts.append(Fact(f"the users' time ran ×{summary.time_scale:g}"))
    length = format_seconds(run.resolved.video.length_s * summary.time_scale)
    facts.append(Fact(f"videos of {length}, {words.rooms(run.resolved)} viewers to a node"))
    if machine := report_answer.machine(run.resolved.host):
        facts.append(Fact(machine, wraps=True))
    return facts


def _answer(content: Report) -> list[Sentence]:
    texts = answer.answer(content.summary)
    sentences = [Sentence((SentencePart(unbroken(clean(text))),)) for text in texts]
    if content.against is not None:
        sentences += [
            Sentence((SentencePart(unbroken(clean(text))),))
            for text in answer.against(content.against)
        ]
    if any(d.code.startswith("repetition-") or d.code == "clock-bound" for d in content.doubts):
        text = "Read “What to doubt” first: some figures are missing, or should not be used."
        sentences.append(Sentence((SentencePart(text),), aside=True))
    return sentences


def _first_field(content: Report, side: EnvironmentSide, specs: Specs) -> Section | None:
    measured = charts.typical(content, side)
    figure = None if measured is None else _field(content, side, measured, specs)
    return None if figure is None else Section(clean(side.label, 60), figures=(figure,))


def _field(
    content: Report, side: EnvironmentSide, measured: RepetitionFigures, specs: Specs
) -> ChartView | None:
    drawing = charts.field_picture(content, side, measured)
    if drawing is None:
        return None
    number = measured.repetition.number
    label = clean(side.label, 60)
    figures = f"PcBl {_percent(measured, 'blocked')}, PcAf {_percent(measured, 'affected')}"
    tar = measured.figures.get("tar")
    figures += f", TaR {quantity(tar, 's')}" if tar is not None else ", no allocation"
    return specs.figure(
        drawing,
        f"{label}, repetition {number + 1} of {content.summary.repetitions}.",
        f"Nodes demanded, supplied and allocated over time, and viewers, in {label}",
        note=figures,
        summary=f"{label}, repetition {number + 1}: {figures}",
    )


def _percent(measured: RepetitionFigures, name: str) -> str:
    value = measured.figures.get(name)
    return "–" if value is None else unbroken(f"{100 * value:.3g} %")


def _all_fields(content: Report, specs: Specs) -> list[ChartView]:
    """Every repetition, in folds."""
    figures: list[ChartView] = []
    for side in content.sides:
        for number in sorted(side.figures):
            if len(figures) == MOST_FIELDS:
                return figures
            figure = _field(content, side, side.figures[number], specs)
            if figure is not None:
                figures.append(figure)
    return figures


def _allocation(content: Report, specs: Specs) -> ChartView | None:
    drawing = charts.allocation_picture(content)
    if drawing is None:
        return None
    return specs.figure(
        drawing,
        "Every allocation of every repetition.",
        "Time to allocate a node, by environment",
        note="At most 300 of an environment are drawn.",
    )


def _waits(content: Report, specs: Specs) -> ChartView | None:
    drawing = charts.waits_picture(content)
    if drawing is None:
        return None
    return specs.figure(
        drawing,
        "Share of the requests that had a node within so many seconds, of all repetitions.",
        "Distribution of the waiting time, by environment",
        note=f"{_dashed(content.summary)} Who was never given a node is missing at the right end.",
    )


def _dashed(summary: Summary) -> str:
    if summary.patience_s == 0:
        return "Nobody had patience: who found no room was blocked at once."
    return "Dashed: the patience."


def _against(comparison: RunContrasts | None) -> Section | None:
    if comparison is None:
        return None
    tables = pagetables.contrasts(comparison.contrasts, comparison.other)
    notes = tuple(map(clean, comparison.notes))
    return Section(clean(comparison.other, 120), notes=notes, tables=tuple(tables))


def _how(content: Report) -> str:
    """How the verdicts were made."""
    rate = share(1 - content.summary.confidence)
    return unbroken(
        "Above 1×, or above 0, is worse. Ratios and differences are taken repetition by "
        "repetition, in which both had the same arrivals. Verdicts are of the primary metrics "
        "together, corrected by Holm's procedure: the chance that any claim of a difference is "
        f"false is at most {rate}, and so is that of any claim of equivalence. Equivalent means "
        f"within {share(MARGIN)}, of shares within 1 percentage point."
    )


def _machines(run: ElasticRun) -> list[Fold]:
    """What each machine tells of itself, where the plan names machines."""
    machines = run.resolved.machines
    if not machines:
        return []
    return [Fold("The machines", table=report_provenance.machines(machines))]


def _doubt(d: ElasticDoubt) -> DoubtView:
    return DoubtView(code=d.code, texts=(clean(d.message),), advice=clean(d.advice))


def _definitions() -> list[tuple[str, str]]:
    return [
        (f"{d.title}{f', {d.symbol}' if d.symbol else ''}", f"{d.description} ({d.source})")
        for d in DEFINITIONS
    ]


PAGE: Final = "report.html"
MOST_VIEWERS: Final = 200_000
"""Of a run with more, in all repetitions, no twins are made: each is simulated many times."""


def report(
    run: Path | None,
    *,
    runs: Path,
    other: Path | None = None,
    out: Path | None = None,
    charts: Path | None = None,
) -> None:
    """Write the page, and say where; with another run, also how the two compare.

    charts: where pictures are written too.
    """
    analysed = find(run, runs, other)
    content = report_of(analysed)
    files = [_write(content, out)]
    if charts is not None:
        files += save(pictures(content), charts)
    for file in files:
        stdout.print(escape(str(file)), soft_wrap=True)
    if analysed.against is not None:
        for sentence in answer.against(analysed.against):
            stdout.print(escape(sentence), soft_wrap=True)


def write(analysed: AnalysedRun, out: Path | None = None) -> Path:
    """The page of a run, in its folder or in `out`, whole or not at all.

    That of a folder of somebody else goes into this user's cache.
    """
    return _write(report_of(analysed), out)


def report_of(analysed: AnalysedRun) -> Report:
    """All that is drawn of a run, with its simulated twins."""
    twins = _twins(analysed)
    return Report(
        analysed.run, analysed.sides, analysed.summary, analysed.doubts, twins, analysed.against
    )


def _write(content: Report, out: Path | None) -> Path:
    file = out or derived.place(content.run.path) / PAGE
    put(file, render(content).encode())
    return file


def _twins(analysed: AnalysedRun) -> Twins:
    """The simulated twins; none where there are too many viewers, or the simulator refuses."""
    viewers = sum(len(r.sessions) for r in analysed.run.repetitions)
    why = f"{viewers:,} viewers are too many" if viewers > MOST_VIEWERS else ""
    if not why:
        try:
            return twin.twins(analysed.run)
        except ValueError as error:
            why = str(error)
    stderr.print(f"[yellow]warning:[/] no simulated twin: {escape(why)}", soft_wrap=True)
    return {}
