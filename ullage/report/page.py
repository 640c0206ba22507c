"""Puts the page together: one HTML file with all that it needs."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import ullage
from ullage.analysis.comparison import rounding, words
from ullage.analysis.comparison.model import Analysis
from ullage.common.text import clean
from ullage.report import (
    across,
    doubts,
    energy,
    hotspots,
    provenance,
    time,
    workloads,
)
from ullage.report import (
    answer as first,
)
from ullage.report import (
    energy as bills,
)
from ullage.report.charts import barrel, forest, lanes, theme
from ullage.report.charts.text import unbroken
from ullage.report.views import Mark, Specs
from ullage.runs.reader import RunFolder

TEMPLATE = "report.html.j2"
LIBRARY = "window.vegaEmbed = vegaEmbed"
"""What the bundle of Vega, Vega-Lite and Vega-Embed shows to the page."""
LONG, TOO_LONG = 600, 2000
"""An answer of more characters is set smaller; of still more, it is folded under its count."""


@dataclass(frozen=True)
class Assets:
    """Style and scripts of the page, the same for every run."""

    style: Markup
    library: Markup
    script: Markup
    policy: str


@cache
def assets() -> Assets:
    """Read the assets once.

    The policy lets only these two scripts run, by their digests, and nothing be fetched. Vega runs
    with its expression interpreter, so not even it may make code from text.
    """
    library, script = vl_convert.javascript_bundle(LIBRARY), _template("page.js")
    for code in (library, script):
        if "</script" in code.lower() or "<!--" in code:
            raise AssertionError("a bundled script would end its own element")
    digests = " ".join(f"'sha256-{_digest(code)}'" for code in (library, script))
    policy = (
        f"default-src 'none'; script-src {digests}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return Assets(Markup(style()), Markup(library), Markup(script), policy)  # noqa: S704  our own


def style() -> str:
    """The page's style sheet."""
    return "\n".join(
        (
            f":root{{--font:{theme.FONT};{theme.css(theme.LIGHT)}}}",
            f"@media screen and (prefers-color-scheme:dark){{:root{{{theme.css(theme.DARK)}}}}}",
            _template("style.css"),
            barrel.CSS,
            forest.CSS,
        )
    )


def _template(name: str) -> str:
    return (files("ullage.report") / "templates" / name).read_text(encoding="utf-8")


def _digest(code: str) -> str:
    return base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()


def _finalize(value: Any) -> Any:
    """Last guard: text that no builder has cleaned gets cleaned here; markup is ours."""
    return clean(value, 50_000) if type(value) is str else value


def render(folder: RunFolder, analysis: Analysis) -> str:
    templates = Environment(
        loader=PackageLoader("ullage.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template(TEMPLATE).render(page=context(folder, analysis))


def context(folder: RunFolder, analysis: Analysis) -> dict[str, Any]:
    """Everything that the template names."""
    specs = Specs()
    static = assets()
    groups = first.groups(analysis)
    answer = first.answer(analysis)
    length = sum(len(part.text) for said in answer for part in said.parts)
    cpus = hotspots.section(folder, analysis, specs)
    absent = {*(() if groups else ("left", "ratios")), *(() if cpus else ("cpus",))}
    jumps = [
        ("left", "What is left"),
        ("ratios", "Ratios"),
        ("workloads", "Workloads"),
        ("cpus", "CPUs"),
        ("time", "Timeline"),
        ("doubts", "Doubts"),
        ("provenance", "Provenance"),
        ("words", "Words"),
    ]
    return {
        "title": clean(analysis.name, 120),
        "version": ullage.__version__,
        "style": static.style,
        "library": static.library,
        "script": static.script,
        "policy": static.policy,
        "defs": Markup(barrel.DEFS),  # noqa: S704  a constant
        "facts": first.facts(folder, analysis),
        "answer": answer,
        "long": length > LONG,
        "summary": first.summary(analysis) if length > TOO_LONG else "",
        "jumps": [jump for jump in jumps if jump[0] not in absent],
        "cellar": first.cellar(analysis),
        "forest": first.forest_panels(groups) if groups else [],
        "forest_title": first.forest_title(analysis),
        "forest_notes": _notes(analysis, groups),
        "floor": _floor(analysis),
        "glyphs": {
            kind: Mark(kind, kind).glyph
            for kind in ("worse", "better", "equivalent", "inconclusive")
        },
        "baseline": clean(analysis.baseline_label, 60),
        "side": lanes.suffix(analysis),
        "why": doubts.table(analysis),
        "money": bills.table(analysis),
        "energy": energy.section(analysis),
        "workloads": workloads.views(folder, analysis, specs),
        "across": across.views(folder, analysis, specs),
        "cpus": cpus,
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
        "specs": specs.items,
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


def _notes(analysis: Analysis, groups: list[forest.Group]) -> list[str]:
    margin = unbroken(rounding.share(analysis.margin))
    confidence = unbroken(rounding.share(analysis.confidence))
    notes = [
        f"Right of 1× is worse. Equivalent means within {margin}. Intervals are {confidence} "
        f"each; verdicts are of {unbroken(words.correction(analysis))}.",
        *_covers(analysis),
    ]
    if len(forest.panels(groups)) > 1:
        notes.append(
            "Environments far from 1× have an axis of their own, so that both can be read."
        )
    return notes
