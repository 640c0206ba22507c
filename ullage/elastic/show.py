"""`ullage elastic show`: what a run found, on the terminal. Needs nothing that draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from ullage.console import stderr, stdout
from ullage.elastic import against, answer, folder, sound
from ullage.elastic.contrasts import Contrast
from ullage.elastic.definitions import BY_NAME
from ullage.elastic.definitions.base import GROUPS
from ullage.elastic.reading import ElasticRun
from ullage.elastic.sides import Side, sides
from ullage.elastic.sound import Doubt
from ullage.elastic.summary import Against, Summary, summarise
from ullage.folder import named
from ullage.resultscli import print_json


@dataclass(frozen=True)
class Found:
    """A run with all that follows from it."""

    run: ElasticRun
    sides: Sequence[Side]
    summary: Summary
    doubts: Sequence[Doubt]
    against: Against | None = None


def find(run: Path | None, runs: Path, other: Path | None = None) -> Found:
    """Read a run (None: the newest under `runs`), and the one to compare it with.

    Both are paths, or bare names of folders in `runs`.

    RUN_NOT_FOUND, RUN_BAD_FORMAT.
    """
    opened = ElasticRun.open(folder.newest(runs) if run is None else named(run, runs))
    mine = sides(opened)
    made = summarise(opened, mine)
    beside = None
    if other is not None:
        second = ElasticRun.open(named(other, runs))
        beside = against.compare(opened, mine, second, sides(second))
    return Found(opened, mine, made, sound.doubts(opened, made, mine), beside)


def command(run: Path | None, *, runs: Path, as_json: bool) -> None:
    """Print the answer, the metrics and the comparisons."""
    found = find(run, runs)
    if as_json:
        print_json(dumped(found))
    else:
        tell(found)


def tell(found: Found) -> None:
    """For people."""
    for sentence in answer.answer(found.summary):
        stdout.print(escape(sentence), soft_wrap=True)
    stdout.print(_metrics(found.summary))
    if found.summary.contrasts:
        stdout.print(_contrasts(found.summary.contrasts))
    for doubt in found.doubts:
        line = f"{doubt.message} {doubt.advice} ({doubt.code})".replace("  ", " ")
        stderr.print(f"[yellow]doubt:[/] {escape(line)}", soft_wrap=True)


def dumped(found: Found) -> dict[str, Any]:
    """Everything, for programs; with the definitions of the metrics, which it cannot be read
    without."""
    return {
        "format": folder.FORMAT,
        **found.summary.model_dump(mode="json"),
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
        },
        "doubts": [doubt.model_dump(mode="json") for doubt in found.doubts],
    }


def _metrics(found: Summary) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("metric")
    for e in found.environments:
        table.add_column(escape(f"{e.label}, {answer.counted(e.ok)}"), justify="right")
    shown = answer.metrics_of(found.environments)
    for group, title in GROUPS.items():
        these = [d for d in shown if d.group == group]
        if these:
            table.add_row(f"[bold]{escape(title)}[/]")
        for d in these:
            cells = []
            for e in found.environments:
                estimate = e.estimate(d.name)
                text = "–" if estimate is None else answer.figure(d, estimate.estimate)
                bounds = "" if estimate is None else answer.interval(d, estimate, e.ok)
                cells.append(f"{text} ({bounds})" if bounds else text)
            name = f"  {d.title}" + (f" ({d.symbol})" if d.symbol not in ("", d.title) else "")
            table.add_row(*map(escape, (name, *cells)))
    return table


def _contrasts(found: Sequence[Contrast]) -> Table:
    """The primary metrics; the page has all."""
    table = Table(box=None, pad_edge=False)
    table.add_column("compared")
    table.add_column("effect", justify="right", no_wrap=True)
    table.add_column("interval", no_wrap=True)
    table.add_column("from")
    table.add_column("verdict")
    heading = ""
    for c in found:
        if not BY_NAME[c.metric].primary:
            continue
        head = f"{c.environment_label} against {c.baseline_label}"
        if head != heading:
            heading = head
            table.add_row(f"[bold]{escape(head)}[/]")
        verdict = "the noise floor" if c.again else str(c.verdict or "no verdict")
        if verdict in ("inconclusive", "no verdict"):
            verdict = f"{verdict}: {answer.undecided(c)}"
        row = (
            f"  {BY_NAME[c.metric].title}",
            answer.effect(c),
            answer.effect_interval(c),
            answer.pairs(c) if c.paired else answer.counted(c.n),
            verdict,
        )
        table.add_row(*map(escape, row))
    return table
