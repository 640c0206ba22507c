"""Puts the page together: one HTML file with all that it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from ullage.analysis.comparison import rare, rounding, words
from ullage.analysis.comparison.model import Analysis
from ullage.common.files import put
from ullage.common.text import clean
from ullage.report import (
    across,
    answer,
    document,
    doubts,
    energy,
    hotspots,
    provenance,
    time,
    workloads,
)
from ullage.report.charts import barrel, forest, lanes
from ullage.report.charts.text import unbroken
from ullage.report.views import Mark, Specs
from ullage.runs import derived
from ullage.runs.reader import RunFolder

NAME: Final = "report.html"
LONG, TOO_LONG = 600, 2000
"""An answer of more characters is set smaller; of still more, it is folded under its count."""


def write(
    folder: RunFolder, analysis: Analysis, out: Path | None = None, *, read_only: bool = False
) -> Path:
    """Write the page to `out`, or to `report.html` in the run folder, whole or not at all.

    For a folder of somebody else, or with `read_only`, it goes into this user's cache.
    """
    file = out or derived.place(folder.path, read_only=read_only) / NAME
    put(file, render(folder, analysis).encode())
    return file


def render(folder: RunFolder, analysis: Analysis) -> str:
    specs = Specs()
    parts = _parts(folder, analysis, specs)
    facts = answer.facts(folder, analysis)
    return document.render(
        document.PACKAGE, "report.html.j2", analysis.name, facts, specs.items, **parts
    )


def _parts(folder: RunFolder, analysis: Analysis, specs: Specs) -> dict[str, Any]:
    groups = answer.groups(analysis)
    sentences = answer.answer(analysis)
    length = sum(len(part.text) for sentence in sentences for part in sentence.parts)
    cpus = hotspots.section(folder, analysis, specs)
    parts = {
        "why": doubts.table(analysis),
        "money": energy.table(analysis),
        "energy": energy.section(analysis),
        "cpus": cpus,
    }
    absent = {name for name, part in parts.items() if part is None}
    absent |= set() if groups else {"left", "ratios"}
    jumps = [
        ("left", "What is left"),
        ("ratios", "Ratios"),
        ("why", "What changed"),
        ("money", "Costs"),
        ("energy", "Energy"),
        ("workloads", "Workloads"),
        ("cpus", "CPUs"),
        ("time", "Timeline"),
        ("doubts", "Doubts"),
        ("provenance", "Provenance"),
        ("words", "Words"),
    ]
    return {
        "defs": Markup(barrel.DEFS),  # noqa: S704  a constant
        "answer": sentences,
        "long": length > LONG,
        "summary": answer.summary(analysis) if length > TOO_LONG and analysis.primary() else "",
        "jumps": [jump for jump in jumps if jump[0] not in absent],
        "cellar": answer.cellar(analysis),
        "forest": answer.forest_panels(groups) if groups else [],
        "forest_title": answer.forest_title(analysis),
        "forest_notes": _notes(analysis, groups),
        "floor": _floor(analysis),
        "glyphs": {
            kind: Mark(kind, kind).glyph
            for kind in ("worse", "better", "equivalent", "inconclusive")
        },
        "baseline": clean(analysis.baseline_label, 60),
        "side": lanes.suffix(analysis),
        **parts,
        "workloads": workloads.views(folder, analysis, specs),
        "across": across.views(folder, analysis, specs),
        "timeline": time.view(folder, specs),
        "doubts": doubts.about_run(folder, analysis),
        "kinds": doubts.by_kind(analysis),
        "parity": provenance.parity(folder),
        "treatments": provenance.treatments(folder),
        "again": provenance.again(folder),
        "provenance": provenance.pairs(folder, analysis),
        "failures": provenance.failures(folder),
        "failures_lead": provenance.failures_lead(analysis),
        "environments": provenance.environments(folder),
        "folds": provenance.folds(folder),
        "words": provenance.WORDS,
    }


def _floor(analysis: Analysis) -> str:
    if analysis.floor is None:
        return ""
    return (
        "noise floor of the row: what two equal environments differ by, "
        f"at most {words.floor_words(analysis.floor)}"
    )


def _covers(analysis: Analysis) -> list[str]:
    """What the intervals are about, each kind once."""
    kinds = dict.fromkeys(c.precision for c in analysis.primary() if c.interval)
    return [f"Intervals cover {words.COVERS[kind]}." for kind in kinds]


def _notes(analysis: Analysis, groups: list[forest.RatioGroup]) -> list[str]:
    margin = unbroken(rounding.share(analysis.margin))
    confidence = unbroken(rounding.share(analysis.confidence))
    notes = [
        f"Right of 1× is worse. Equivalent means within {margin}. Intervals are {confidence} "
        f"each; verdicts are of {unbroken(words.correction(analysis))}.",
        *_covers(analysis),
        *([unbroken(not_seen)] if (not_seen := rare.line(analysis)) else []),
    ]
    if len(forest.panels(groups)) > 1:
        notes.append(
            "Environments far from 1× have an axis of their own, so that both can be read."
        )
    return notes
