"""Prints the answer of a table in the words, and with the table, of `ullage show`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from rich.markup import escape

from ullage import export, journal
from ullage.analysis.details import run_facts
from ullage.analysis.model import Analysis, Comparison
from ullage.analysis.sentences import asides, comparison_sentence
from ullage.analysis.tabular import Answer
from ullage.analysis.words import listed
from ullage.console import stderr, stdout

MOST_SENTENCES: Final = 12
"""Of more comparisons the verdicts are counted, and the table tells them apart."""


def write(answer: Answer, out: Path) -> None:
    """The results as CSV, a row for each comparison."""
    journal.put(out, export.export(answer.analysis, "csv"))


def print_json(answer: Answer) -> None:
    """The analysis as `show --json` prints it, with the notes before it."""
    made = {"notes": list(answer.notes), **answer.analysis.dump()}
    json.dump(made, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def show(answer: Answer, *, details: bool) -> None:
    """Sentences and table on standard output, what was done to the rows on standard error."""
    analysis = answer.analysis
    for note in answer.notes:
        stderr.print(f"[cyan]note:[/] {escape(note)}", soft_wrap=True)
    for sentence in sentences(analysis):
        stdout.print(escape(sentence), soft_wrap=True)
    stdout.print(export.rich_table(analysis))
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
        told = [comparison_sentence(analysis, c) for c in primary]
    else:
        verdicts = Counter(str(c.verdict or "without a verdict") for c in primary)
        order = ("worse", "better", "equivalent", "inconclusive", "without a verdict")
        each = listed(f"{verdicts[word]:,} {word}" for word in order if verdicts[word])
        told = [f"Of {len(primary):,} comparisons with {analysis.baseline_label}: {each}."]
    return [*told, *asides(analysis)]


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
    found: dict[str, list[tuple[Comparison, str]]] = {}
    for c in (*analysis.comparisons, *analysis.again):
        for doubt in c.doubts if c.primary else ():
            found.setdefault(doubt.code, []).append((c, f"{doubt.message} {doubt.advice}"))
    lines = [f"{doubt.message} {doubt.advice} ({doubt.code})" for doubt in analysis.doubts]
    for code, each in found.items():
        first, text = each[0]
        more = f" (and {len(each) - 1:,} more)" if len(each) > 1 else ""
        lines.append(f"{first.environment_label} in {first.workload_title}{more}: {text} ({code})")
    return lines
