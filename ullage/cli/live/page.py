"""The page and its parts: HTML made here, cleaned and escaped, put in place by a small script."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from markupsafe import Markup

import ullage
from ullage.analysis.comparison.model import Analysis
from ullage.common.text import clean
from ullage.report import answer as first
from ullage.report import document
from ullage.report.charts import barrel
from ullage.runs.events import Trial

LOG: Final = 12
"""Trials that are shown, the newest first."""


PACKAGE: Final = "ullage.cli.live"


@cache
def _script() -> str:
    return document.template(PACKAGE, "live.js")


POLICY: Final = f"{document.policy(_script())}; connect-src 'self'; frame-ancestors 'none'"
"""Only our script runs, and it talks to nobody but this server."""


@dataclass(frozen=True)
class State:
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
        document.templates(PACKAGE)
        .get_template("live.html.j2")
        .render(
            title=clean(title, 120),
            version=ullage.__version__,
            style=document.style(),
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
    template = document.templates(PACKAGE).get_template("liveparts.html.j2")
    macro = getattr(template.module, name)
    return str(macro(**context)).strip()
