"""The page of an elastic run: one HTML file with all that it needs, in the report's look."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from rich.markup import escape

from ullage.analysis.comparison.rounding import share
from ullage.common.console import stderr, stdout
from ullage.common.files import put
from ullage.common.quantities import format_seconds
from ullage.common.text import clean
from ullage.experiments.elastic.analysis.contrasts import MARGIN, Side
from ullage.experiments.elastic.analysis.definitions import DEFINITIONS
from ullage.experiments.elastic.analysis.doubts import Doubt
from ullage.experiments.elastic.analysis.metrics import Measured
from ullage.experiments.elastic.analysis.summary import Against, Summary
from ullage.experiments.elastic.analysis.words import counted
from ullage.experiments.elastic.report import answer, charts, provenance
from ullage.experiments.elastic.report import charts as drawn
from ullage.experiments.elastic.report import tables as pagetables
from ullage.experiments.elastic.report.charts import Report, Twins
from ullage.experiments.elastic.report.show import Found, find
from ullage.experiments.elastic.simulator import twin
from ullage.report import document
from ullage.report.charts.text import quantity, unbroken
from ullage.report.pictures import save
from ullage.report.views import ChartView, DoubtView, Fact, Part, Section, Sentence, Specs

MOST_FIELDS: Final = 40
"""Repetitions whose nodes and viewers are drawn; the rest stand in the table."""


def render(made: Report) -> str:
    specs = Specs()
    parts = _parts(made, specs)
    return document.render(
        "ullage.experiments.elastic.report",
        "elastic.html.j2",
        made.summary.name,
        _facts(made),
        specs.items,
        **parts,
    )


def _parts(made: Report, specs: Specs) -> dict[str, Any]:
    """Everything that the template names."""
    run, summary = made.run, made.summary
    fields = [_first_field(made, side, specs) for side in made.sides]
    return {
        "answer": _answer(made),
        "fields": [f for f in fields if f is not None],
        "metrics": pagetables.metrics(summary),
        "how": _how(made),
        "contrasts": pagetables.contrasts(summary.contrasts),
        "against": _against(made.against),
        "allocation": _allocation(made, specs),
        "stages": pagetables.stages(summary),
        "published": pagetables.published(summary),
        "waits": _waits(made, specs),
        "violations": pagetables.violations(made.sides),
        "repetitions": pagetables.repetitions(run, made.sides),
        "all_fields": _all_fields(made, specs),
        "twins": pagetables.twins(made.sides, made.twins, summary.confidence),
        "doubts": [_doubt(d) for d in made.doubts],
        "again": provenance.again(run),
        "provenance": provenance.pairs(run),
        "environments": provenance.environments(run),
        "folds": provenance.folds(run),
        "definitions": _definitions(),
    }


def _facts(made: Report) -> list[Fact]:
    summary, run = made.summary, made.run
    good = sum(e.ok for e in summary.environments)
    ended = sum(e.ended for e in summary.environments)
    found = [Fact(f"{counted(summary.repetitions)} of {_environments(len(summary.environments))}")]
    if good < ended:
        found.append(Fact(f"{ended - good} of {ended} without figures"))
    if summary.time_scale != 1:
        found.append(Fact(f"the users' time ran ×{summary.time_scale:g}"))
    length = format_seconds(run.resolved.video.length_s * summary.time_scale)
    found.append(Fact(f"videos of {length}, {run.resolved.room} viewers to a node"))
    if machine := provenance.machine(run):
        found.append(Fact(machine, wraps=True))
    return found


def _environments(number: int) -> str:
    return f"{number} environment{'' if number == 1 else 's'}"


def _answer(made: Report) -> list[Sentence]:
    told = answer.answer(made.summary)
    said = [Sentence((Part(unbroken(clean(text))),)) for text in told]
    if made.against is not None:
        said += [Sentence((Part(unbroken(clean(text))),)) for text in answer.against(made.against)]
    if any(d.code.startswith("repetition-") or d.code == "clock-bound" for d in made.doubts):
        text = "Read “What to doubt” first: some figures are missing, or should not be used."
        said.append(Sentence((Part(text),), aside=True))
    return said


def _first_field(made: Report, side: Side, specs: Specs) -> Section | None:
    found = charts.typical(made, side)
    figure = None if found is None else _field(made, side, found, specs)
    return None if figure is None else Section(clean(side.label, 60), figures=(figure,))


def _field(made: Report, side: Side, found: Measured, specs: Specs) -> ChartView | None:
    drawing = charts.field_picture(made, side, found)
    if drawing is None:
        return None
    number = found.repetition.number
    label = clean(side.label, 60)
    told = f"PcBl {_percent(found, 'blocked')}, PcAf {_percent(found, 'affected')}"
    tar = found.figures.get("tar")
    told += f", TaR {quantity(tar, 's')}" if tar is not None else ", no allocation"
    return specs.figure(
        drawing,
        f"{label}, repetition {number + 1} of {made.summary.repetitions}.",
        f"Nodes demanded, supplied and allocated over time, and viewers, in {label}",
        note=told,
        summary=f"{label}, repetition {number + 1}: {told}",
    )


def _percent(found: Measured, name: str) -> str:
    value = found.figures.get(name)
    return "–" if value is None else unbroken(f"{100 * value:.3g} %")


def _all_fields(made: Report, specs: Specs) -> list[ChartView]:
    """Every repetition, in folds."""
    figures: list[ChartView] = []
    for side in made.sides:
        for number in sorted(side.figures):
            if len(figures) == MOST_FIELDS:
                return figures
            figure = _field(made, side, side.figures[number], specs)
            if figure is not None:
                figures.append(figure)
    return figures


def _allocation(made: Report, specs: Specs) -> ChartView | None:
    drawing = charts.allocation_picture(made)
    if drawing is None:
        return None
    return specs.figure(
        drawing,
        "Every allocation of every repetition.",
        "Time to allocate a node, by environment",
        note="At most 300 of an environment are drawn.",
    )


def _waits(made: Report, specs: Specs) -> ChartView | None:
    drawing = charts.waits_picture(made)
    if drawing is None:
        return None
    return specs.figure(
        drawing,
        "Share of the requests that had a node within so many seconds, of all repetitions.",
        "Distribution of the waiting time, by environment",
        note=f"{_dashed(made.summary)} Who was never given a node is missing at the right end.",
    )


def _dashed(summary: Summary) -> str:
    if summary.patience_s == 0:
        return "Nobody had patience: who found no room was blocked at once."
    return "Dashed: the patience."


def _against(found: Against | None) -> Section | None:
    if found is None:
        return None
    tables = pagetables.contrasts(found.contrasts, found.other)
    notes = tuple(map(clean, found.notes))
    return Section(clean(found.other, 120), notes=notes, tables=tuple(tables))


def _how(made: Report) -> str:
    """How the verdicts were made."""
    rate = share(1 - made.summary.confidence)
    return unbroken(
        "Above 1×, or above 0, is worse. Ratios and differences are taken repetition by "
        "repetition, in which both had the same arrivals. Verdicts are of the primary metrics "
        "together, corrected by Holm's procedure: the chance that any claim of a difference is "
        f"false is at most {rate}, and so is that of any claim of equivalence. Equivalent means "
        f"within {share(MARGIN)}, of shares within 1 percentage point."
    )


def _doubt(d: Doubt) -> DoubtView:
    return DoubtView(code=d.code, texts=(clean(d.message),), advice=clean(d.advice))


def _definitions() -> list[tuple[str, str]]:
    return [
        (f"{d.title}{f', {d.symbol}' if d.symbol else ''}", f"{d.description} ({d.source})")
        for d in DEFINITIONS
    ]


# `ullage elastic report`: writes the page of a run. Long to import.

PAGE: Final = "report.html"
MOST_VIEWERS: Final = 200_000
"""Of a run with more, all repetitions together, no twins are made: each is simulated many times."""


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
    found = find(run, runs, other)
    made = report_of(found)
    files = [_write(made, out)]
    if charts is not None:
        files += save(drawn.pictures(made), charts)
    for file in files:
        stdout.print(escape(str(file)), soft_wrap=True)
    if found.against is not None:
        for sentence in answer.against(found.against):
            stdout.print(escape(sentence), soft_wrap=True)


def write(found: Found, out: Path | None = None) -> Path:
    """The page of a run, in its folder or in `out`, whole or not at all."""
    return _write(report_of(found), out)


def report_of(found: Found) -> Report:
    """All that is drawn of a run, with its simulated twins."""
    twins = _twins(found)
    return Report(found.run, found.sides, found.summary, found.doubts, twins, found.against)


def _write(made: Report, out: Path | None) -> Path:
    file = out or made.run.path / PAGE
    put(file, render(made).encode())
    return file


def _twins(found: Found) -> Twins:
    """The simulated twins; none where there are too many viewers, or the simulator refuses."""
    viewers = sum(len(r.sessions) for r in found.run.repetitions)
    why = f"{viewers:,} viewers are too many" if viewers > MOST_VIEWERS else ""
    if not why:
        try:
            return twin.twins(found.run)
        except ValueError as error:
            why = str(error)
    stderr.print(f"[yellow]warning:[/] no simulated twin: {escape(why)}", soft_wrap=True)
    return {}
