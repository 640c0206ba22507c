"""`ullage compare`: what changed between runs, and the answer of a table as `show` words it."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from rich.table import Table

from ullage.analysis.comparison import rounding
from ullage.analysis.comparison.estimates import Interval
from ullage.analysis.comparison.model import Analysis, Comparison
from ullage.analysis.comparison.words import floor_words, listed, name
from ullage.analysis.details import run_facts
from ullage.analysis.runchanges import Change, Changes
from ullage.analysis.sentences import asides, comparison_sentence, copies_differ
from ullage.analysis.tables.answer import Answer
from ullage.common.console import LineTable, escape, stderr, stdout
from ullage.common.files import put
from ullage.common.text import inert
from ullage.report import export

COLUMNS: Final = (
    "run",
    "before",
    "environment",
    "workload",
    "metric",
    "overhead_before",
    "overhead_now",
    "change",
    "low",
    "high",
    "floor",
    "verdict",
    "no_verdict",
)
MOST_OPEN: Final = 4
"""Of more undecided overheads than this, only the number is printed."""
COVERS: Final = (
    "Intervals cover more blocks of these runs. Another day, or instances made anew, may move an "
    "overhead by more: who claims a change shows it in several runs."
)


def show_changes(changes: Changes) -> None:
    """Print it: the answer on standard output, what to know beside it on standard error."""
    for text in answer(changes):
        stdout.print(escape(text), soft_wrap=True)
    stdout.print(_table(changes))
    stdout.print(COVERS, soft_wrap=True)
    for text in (*changes.differs, *changes.baselines):
        stderr.print(f"[cyan]note:[/] {escape(text)}", soft_wrap=True)
    for text in changes.left_out:
        stderr.print(f"[yellow]left out:[/] {escape(text)}", soft_wrap=True)


def answer(changes: Changes) -> list[str]:
    """What is decided, in sentences; of many that are not, how many."""
    decided = [c for c in changes.changes if c.verdict not in (None, "inconclusive")]
    open_ones = [c for c in changes.changes if c not in decided]
    judged = [sentence(changes, c) for c in decided]
    if len(open_ones) <= MOST_OPEN:
        return [*judged, *(sentence(changes, c) for c in open_ones)]
    return [*judged, f"{len(open_ones)} of {len(changes.changes)} overheads: no change is decided."]


def sentence(changes: Changes, c: Change) -> str:
    """What became of one overhead."""
    overhead = (
        f"{name(c.environment_label, emulated=False, unequal=c.unequal)} in {c.workload_title}"
    )
    if c.no_verdict or c.change is None:
        return f"{overhead}: no verdict in {c.run}: {c.no_verdict or 'no interval'}."
    sure = f"{rounding.share(changes.confidence)} interval {_between(c.change)}"
    if c.verdict in ("worse", "better"):
        magnitude = c.change if c.verdict == "worse" else rounding.inverse(c.change)
        more = "more" if c.verdict == "worse" else "less"
        sure = f"{rounding.share(changes.confidence)} interval {_between(magnitude)}"
        size = rounding.ratio(magnitude)[0]
        return f"{overhead} costs {size}× {more} in {c.run} than in {c.before} ({sure})."
    if c.verdict == "equivalent":
        within = rounding.share(changes.margin)
        return f"{overhead} costs the same in {c.run} as in {c.before} within {within} ({sure})."
    below = ""
    if c.why == "below-floor" and c.floor is not None:
        below = f", below what both runs differ by without a cause, {floor_words(c.floor)}"
    return f"{overhead}: whether {c.run} changed it is not decided ({sure}{below})."


def _between(interval: Interval) -> str:
    _, low, high = rounding.ratio(interval)
    return f"{low} to {high}"


def _table(changes: Changes) -> Table:
    table = LineTable()
    for head in ("overhead of", "in", "before", "now", "change"):
        table.add_column(head, justify="right" if head in ("before", "now", "change") else "left")
    table.add_column(f"{rounding.share(changes.confidence)} interval")
    table.add_column("verdict")
    for c in changes.changes:
        figures = [rounding.ratio(i)[0] if i else "" for i in (c.overhead_before, c.overhead_now)]
        changed = (rounding.ratio(c.change)[0], _between(c.change)) if c.change else ("", "")
        verdict = c.verdict or f"none: {c.no_verdict}"
        cells = (c.environment_label, f"{c.workload_title} ({c.run})", *figures, *changed, verdict)
        table.add_row(*map(escape, cells))
    return table


def as_csv(changes: Changes) -> bytes:
    """A row for each change; figures in full."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for c in changes.changes:
        row = (
            c.run,
            c.before,
            c.environment,
            c.workload,
            c.metric,
            c.overhead_before.estimate if c.overhead_before else "",
            c.overhead_now.estimate if c.overhead_now else "",
            *((c.change.estimate, c.change.low, c.change.high) if c.change else ("", "", "")),
            c.floor or "",
            c.verdict or "",
            c.no_verdict or "",
        )
        writer.writerow(map(inert, row))
    return text.getvalue().encode()


MOST_SENTENCES: Final = 12
"""Of more comparisons than this, the verdicts are counted."""


def write(answer: Answer, out: Path) -> None:
    """The results as CSV, a row for each comparison."""
    put(out, export.export(answer.analysis, "csv"))


def print_json(answer: Answer) -> None:
    """The analysis as `show --json` prints it, with the notes before it."""
    document = {"notes": list(answer.notes), **answer.analysis.dump()}
    json.dump(document, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def show(answer: Answer, *, details: bool) -> None:
    """Sentences and table on standard output, what was done to the rows on standard error."""
    analysis = answer.analysis
    for note in answer.notes:
        stderr.print(f"[cyan]note:[/] {escape(note)}", soft_wrap=True)
    for sentence in sentences(analysis):
        stdout.print(escape(sentence), soft_wrap=True)
    stdout.print(export.rich_table(analysis))
    if any(c.primary for c in analysis.again):
        stdout.print("A/A: the median of its figures", soft_wrap=True)
    if details:
        # How a run is laid out is not known of a table.
        for line in export.lines(analysis)[len(run_facts(analysis)) :]:
            stdout.print(escape(line), soft_wrap=True)
    else:
        for line in doubts(analysis):
            stderr.print(f"[yellow]doubt:[/] {escape(line)}", soft_wrap=True)


def sentences(analysis: Analysis) -> list[str]:
    """One for each comparison; of many how many have which verdict. Then what to know beside it."""
    primary = analysis.primary()
    if not primary:
        return [_nothing(analysis), *asides(analysis)]
    if len(primary) <= MOST_SENTENCES:
        lines = [comparison_sentence(analysis, c) for c in primary]
    else:
        verdicts = Counter(str(c.verdict or "without a verdict") for c in primary)
        order = ("worse", "better", "equivalent", "inconclusive", "without a verdict")
        verdict_counts = listed(f"{verdicts[word]:,} {word}" for word in order if verdicts[word])
        lines = [
            f"Of {len(primary):,} comparisons with {analysis.baseline_label}: {verdict_counts}."
        ]
    return [*copies_differ(analysis), *lines, *asides(analysis)]


def _nothing(analysis: Analysis) -> str:
    baseline = analysis.baseline_label
    copies = list(
        dict.fromkeys(c.environment_label for c in analysis.again if c.baseline_label == baseline)
    )
    if analysis.comparisons or not copies:
        return f"Nothing is compared with {baseline}."
    own = "its own copy" if len(copies) == 1 else "its own copies"
    return f"Nothing is left to compare with {baseline} but {own} {listed(copies)}."


def doubts(analysis: Analysis) -> list[str]:
    """A line for each kind of doubt: the first judged comparison that has it, and how many more."""
    by_code: dict[str, list[tuple[Comparison, str]]] = {}
    for c in (*analysis.comparisons, *analysis.again):
        for doubt in c.doubts if c.primary else ():
            by_code.setdefault(doubt.code, []).append((c, f"{doubt.message} {doubt.advice}"))
    lines = [f"{doubt.message} {doubt.advice} ({doubt.code})" for doubt in analysis.doubts]
    for code, doubted in by_code.items():
        first, text = doubted[0]
        more = f" (and {len(doubted) - 1:,} more)" if len(doubted) > 1 else ""
        lines.append(f"{first.environment_label} in {first.workload_title}{more}: {text} ({code})")
    return lines
