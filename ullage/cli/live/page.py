"""The page and its parts: HTML made here, cleaned and escaped, put in place by a small script."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import ullage
from ullage.analysis.comparison.model import Analysis
from ullage.analysis.comparison.rounding import quantity
from ullage.common.quantities import format_seconds
from ullage.common.text import clean
from ullage.report import answer as first
from ullage.report import page
from ullage.report.charts import barrel
from ullage.runs.events import Trial

LOG: Final = 12
"""Trials that are shown, the newest first."""


@cache
def _script() -> str:
    return (files("ullage.cli.live") / "templates" / "live.js").read_text(encoding="utf-8")


def _digest(code: str) -> str:
    return base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()


POLICY: Final = (
    f"default-src 'none'; script-src 'sha256-{_digest(_script())}'; style-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Only our script runs, and it talks to nobody but this server."""


@dataclass(frozen=True)
class State:
    """How far the run is."""

    step: str
    """What it does now."""
    blocks: int
    blocks_max: int
    done: int
    """Trials of the current block that have ended."""
    of_block: int
    left_s: float | None
    """If all blocks are run, and take what they took so far; None: not known yet."""
    half_width: float | None
    """Widest primary interval, relative; None: not known yet."""
    failed: int


def render(title: str) -> str:
    """The whole page, still empty."""
    return (
        _templates()
        .get_template("live.html.j2")
        .render(
            title=clean(title, 120),
            version=ullage.__version__,
            style=Markup(page.style()),  # noqa: S704  our own
            script=Markup(_script()),  # noqa: S704  our own
            defs=Markup(barrel.DEFS),  # noqa: S704  a constant
        )
    )


def head(state: State) -> str:
    """What goes on, and how long still."""
    return _part("head", state=state)


def log(trials: tuple[Trial, ...]) -> str:
    return _part("log", trials=trials[: -LOG - 1 : -1])


def warnings(texts: tuple[str, ...]) -> str:
    """What the run warned of; the same text stands once."""
    return _part("warnings", texts=tuple(dict.fromkeys(texts)))


def answer(analysis: Analysis) -> str:
    """What the trials so far say."""
    groups = first.groups(analysis)
    return _part(
        "answer",
        blocks=analysis.blocks,
        answer=first.answer(analysis),
        cellar=first.cellar(analysis),
        forest=first.forest_panels(groups) if groups else [],
        title=first.forest_title(analysis),
    )


def ended(reason: str, report: str) -> str:
    """Instead of what goes on, when nothing does any more."""
    return _part("ended", reason=reason, report=report)


def _part(name: str, **context: object) -> str:
    template = _templates().get_template("liveparts.html.j2")
    macro = getattr(template.module, name)
    return str(macro(**context)).strip()


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=ChoiceLoader([PackageLoader("ullage.cli.live"), PackageLoader("ullage.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: clean(value, 50_000) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["duration"] = format_seconds
    templates.filters["quantity"] = quantity
    return templates
