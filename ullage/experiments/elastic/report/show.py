"""`ullage elastic show`: what a run found, on the terminal. Needs nothing that draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from ullage.analysis.comparison.words import listed
from ullage.common.console import LineTable, escape, print_json, stderr, stdout
from ullage.common.quantities import many
from ullage.common.text import clean
from ullage.experiments.elastic import folder
from ullage.experiments.elastic.analysis import doubts
from ullage.experiments.elastic.analysis.contrasts import (
    Contrast,
    EnvironmentSide,
    contrasts,
    sides,
)
from ullage.experiments.elastic.analysis.definitions import BY_NAME, GROUPS
from ullage.experiments.elastic.analysis.doubts import ElasticDoubt
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.analysis.summary import RunContrasts, Summary, summarise
from ullage.experiments.elastic.analysis.words import counted, effect, effect_interval, figure
from ullage.experiments.elastic.folder import ElasticResolved
from ullage.experiments.elastic.plan import words
from ullage.experiments.elastic.report import answer
from ullage.runs.reader import named

SidePairs = list[tuple[EnvironmentSide, EnvironmentSide]]


def compare(
    run: ElasticRun,
    mine: Sequence[EnvironmentSide],
    other: ElasticRun,
    theirs: Sequence[EnvironmentSide],
) -> RunContrasts:
    """Each environment against the one of the same name in the other run.

    Where both have a single environment these two are partners, whatever their names.
    """
    pairs = _partners(mine, theirs)
    return RunContrasts(
        other=other.path.resolve().name,
        contrasts=contrasts(pairs, run.resolved.confidence),
        notes=tuple(_notes(run, mine, other, theirs, pairs)),
    )


def _partners(mine: Sequence[EnvironmentSide], theirs: Sequence[EnvironmentSide]) -> SidePairs:
    mine, theirs = ([side for side in of if side.again_of is None] for of in (mine, theirs))
    if len(mine) == len(theirs) == 1:
        return [(mine[0], theirs[0])]
    named = {side.key: side for side in theirs}
    return [(side, named[side.key]) for side in mine if side.key in named]


def _notes(
    run: ElasticRun,
    mine: Sequence[EnvironmentSide],
    other: ElasticRun,
    theirs: Sequence[EnvironmentSide],
    pairs: SidePairs,
) -> Iterator[str]:
    if run.resolved.run == other.resolved.run:
        yield "Both are the same run: there is nothing between them to be found."
    if not pairs:
        labels, other_labels = (clean(listed(s.label for s in of), 200) for of in (mine, theirs))
        yield (
            "The two runs have no environment of the same name, so nothing is compared: this one "
            f"has {labels}, the other {other_labels}."
        )
        return
    with_figures = [(a, b) for a, b in pairs if a.figures and b.figures]
    if not with_figures:
        yield "No environment has figures in both runs, so nothing is compared."
    paired = {side.key for pair in pairs for side in pair}
    unpaired = [s.label for s in mine if s.key not in paired and s.again_of is None]
    unpaired += [
        f"{s.label} (the other's)" for s in theirs if s.key not in paired and s.again_of is None
    ]
    if unpaired:
        yield f"Without a partner: {clean(listed(unpaired), 400)}."
    differ = list(_differences(run.resolved, other.resolved, pairs))
    if differ:
        yield f"What differs between the two, and so is in every difference: {'; '.join(differ)}."
    yield (
        "The runs were made one after the other and not in turn: what else changed on the host "
        "between them is in every difference too."
    )


def _differences(run: ElasticResolved, other: ElasticResolved, pairs: SidePairs) -> Iterator[str]:
    """Settings that are not the same, as a plan has them."""
    settings, other_settings = _settings(run), _settings(other)
    for name in settings:
        yield from _differs(name, settings[name], other_settings[name])
    for a, b in pairs:
        own, others = _own(run, a), _own(other, b)
        for name in dict.fromkeys((*own, *others)):
            field = f"{name} of {clean(a.label, 60)}"
            yield from _differs(field, own.get(name, "none"), others.get(name, "none"))
    for name in ("cpu_model", "kernel"):
        values = (str(host.get(name, "not known")) for host in (run.host, other.host))
        yield from _differs(name.replace("_", " "), *values)


def _settings(run: ElasticResolved) -> dict[str, str]:
    """Of the whole run."""
    film = words.video(run.video, run.time_scale)
    return {
        "time scale": f"×{run.time_scale:g}",
        "room": words.rooms(run),
        "patience": words.patience(run),
        "buffer": words.duration(run.buffer_s),
        "arrivals": words.arrivals(run),
        "resources of a node": words.resources(run.resources),
        "ullage": run.ullage,
        "viewers' origin": words.generators(run.generators),
        "machines of the nodes": words.machines(run),
        **{f"{name} of the video": value for name, value in film.items()},
    }


def _own(run: ElasticResolved, side: EnvironmentSide) -> dict[str, str]:
    setting = run.settings[side.key]
    return {
        "policy": words.policy(setting.policy),
        **{f"nodes: {name}": value for name, value in words.nodes(setting.machine).items()},
        **({"place": setting.place} if setting.place else {}),
        "boot delay": words.duration(setting.boot_delay_s * run.time_scale),
        "allocation made to take": "no more than it does"
        if setting.allocation is None
        else " ± ".join(
            words.duration(seconds * run.time_scale)
            for seconds in (setting.allocation.mean_s, setting.allocation.deviation_s)
        ),
    }


def _differs(name: str, value: str, other: str) -> Iterator[str]:
    if value != other:
        yield f"{name} {clean(value, 200)}, there {clean(other, 200)}"


@dataclass(frozen=True)
class AnalysedRun:
    """A run with all that follows from it."""

    run: ElasticRun
    sides: Sequence[EnvironmentSide]
    summary: Summary
    doubts: Sequence[ElasticDoubt]
    against: RunContrasts | None = None


def find(run: Path | None, runs: Path, other: Path | None = None) -> AnalysedRun:
    """Read a run (None: the newest under `runs`), and the one to compare it with.

    Both are paths, or bare names of folders in `runs`.

    RUN_NOT_FOUND, RUN_BAD_FORMAT.
    """
    opened = ElasticRun.open(folder.chosen(run, runs))
    mine = sides(opened)
    summary = summarise(opened, mine)
    against = None
    if other is not None:
        second = ElasticRun.open(named(other, runs))
        against = compare(opened, mine, second, sides(second))
    return AnalysedRun(opened, mine, summary, doubts.doubts(opened, summary, mine), against)


def command(run: Path | None, *, runs: Path, as_json: bool) -> None:
    """Print the answer, the metrics and the comparisons."""
    analysed = find(run, runs)
    if as_json:
        print_json(dumped(analysed))
    else:
        tell(analysed)


def tell(analysed: AnalysedRun) -> None:
    for sentence in answer.answer(analysed.summary):
        stdout.print(escape(sentence), soft_wrap=True)
    stdout.print(_metrics(analysed.summary))
    if any(e.machines for e in analysed.summary.environments):
        stdout.print(_machines(analysed.summary))
    if analysed.summary.contrasts:
        stdout.print(_contrasts(analysed.summary.contrasts))
    for doubt in analysed.doubts:
        line = f"{doubt.message} {doubt.advice} ({doubt.code})".replace("  ", " ")
        stderr.print(f"[yellow]doubt:[/] {escape(line)}", soft_wrap=True)


def dumped(analysed: AnalysedRun) -> dict[str, Any]:
    """Everything, for programs; with the definitions of the metrics, which it cannot be read
    without."""
    return {
        "format": folder.FORMAT,
        **analysed.summary.model_dump(mode="json"),
        "definitions": {
            name: {
                "title": d.title,
                "symbol": d.symbol,
                "unit": d.unit,
                "better": d.better,
                "compared_by": d.scale,
                "description": d.description,
                "source": d.source,
            }
            for name, d in BY_NAME.items()
            if not d.seldom or any(e.estimate(name) for e in analysed.summary.environments)
        },
        "doubts": [doubt.model_dump(mode="json") for doubt in analysed.doubts],
    }


def _metrics(summary: Summary) -> Table:
    table = LineTable()
    table.add_column("metric")
    for e in summary.environments:
        table.add_column(escape(f"{e.label}, {counted(e.ok)}"), justify="right")
    metrics = answer.metrics_of(summary.environments)
    for group, title in GROUPS.items():
        in_group = [d for d in metrics if d.group == group]
        if in_group:
            table.add_row(f"[bold]{escape(title)}[/]")
        for d in in_group:
            cells = []
            for e in summary.environments:
                estimate = e.estimate(d.name)
                text = "–" if estimate is None else figure(d, estimate.estimate)
                bounds = "" if estimate is None else answer.interval(d, estimate, e.ok)
                cells.append(f"{text} ({bounds})" if bounds else text)
            table.add_row(*map(escape, (f"  {d.titled(summary.currency)}", *cells)))
    return table


def _machines(summary: Summary) -> Table:
    """Which machine the nodes stood on."""
    table = LineTable()
    table.add_column("nodes of")
    for name in answer.MACHINE_COLUMNS:
        table.add_column(name, justify="right")
    for environment, machine, *numbers in answer.machine_rows(summary):
        table.add_row(escape(environment), escape(machine), *numbers)
    return table


def _contrasts(compared: Sequence[Contrast]) -> Table:
    """The primary metrics; the page has all."""
    table = LineTable()
    table.add_column("compared")
    table.add_column("effect", justify="right", no_wrap=True)
    table.add_column("interval", no_wrap=True)
    table.add_column("from")
    table.add_column("verdict")
    heading = ""
    for c in compared:
        if not BY_NAME[c.metric].primary:
            continue
        head = f"{c.environment_label} against {c.baseline_label}"
        if head != heading:
            heading = head
            table.add_row(f"[bold]{escape(head)}[/]")
        verdict = answer.verdict(c)
        if verdict in ("inconclusive", "no verdict"):
            verdict = f"{verdict}: {answer.undecided(c)}"
        row = (
            f"  {BY_NAME[c.metric].title}",
            effect(c),
            effect_interval(c),
            many(c.n, "pair") if c.paired else counted(c.n),
            verdict,
        )
        table.add_row(*map(escape, row))
    return table
