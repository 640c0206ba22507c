"""Step 3 from a run of our own: ElasticMovie with nodes that come and go."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ullage.analysis.comparison.rounding import share
from ullage.experiments.elastic.analysis.contrasts import Contrast, sides
from ullage.experiments.elastic.analysis.definitions import BY_NAME
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.analysis.summary import EnvironmentSummary, Summary, summarise
from ullage.experiments.elastic.report.answer import undecided
from ullage.experiments.studies.base import (
    Column,
    CsvRows,
    DerivedCell,
    DerivedRow,
    DerivedTable,
    Read,
    StudyFigure,
)

SHOWN: Final = (
    ("blocked", 100.0, Column(title="PcBl", unit="%", decimals=1)),
    ("affected", 100.0, Column(title="PcAf", unit="%", decimals=1)),
    ("bandwidth", 1e-6, Column(title="AggBand", unit="Mbit/s", decimals=2)),
    ("tar", 1.0, Column(title="TaR", unit="s", decimals=3)),
    ("tlr", 1.0, Column(title="TlR", unit="s", decimals=3)),
    ("node_seconds", 1.0, Column(title="allocated", unit="node·s", decimals=1)),
    ("allocations", 1.0, Column(title="nodes allocated", decimals=2)),
)
"""Metric, what it is multiplied with, and its column."""


def tables(path: Path, read: Read, part: str) -> list[DerivedTable | None]:
    """Of an elastic run; part: of the tables' keys, where there are several."""
    run = ElasticRun.open(path)
    summary = summarise(run, sides(run))
    return [
        _metrics(run, summary, _published_blocked(run, read("elastic2015_blocking")), part),
        _contrasts(summary, part),
    ]


def _published_blocked(run: ElasticRun, rows: CsvRows) -> dict[str, float]:
    """Environment → PcBl published for just these viewers, patience and room, in per cent.

    Of Xen with 400 viewers the percentage stands here, which the printed mean contradicts.
    """
    resolved = run.resolved
    of_users = resolved.users_time
    arrivals = of_users.get("arrivals")
    ours = arrivals if isinstance(arrivals, dict) else {}
    return {
        f"{STANDS_FOR}{row['platform']}-{row['hypervisor']}": float(row["blocked_pct"])
        for row in rows
        if (ours.get("kind"), ours.get("viewers")) == ("poisson", int(row["clients"]))
        and ours.get("rate") == 1 / float(row["interarrival_s"])
        and of_users.get("patience_s") == float(row["patience_s"])
        and of_users.get("length_s") == FILM_S
        and resolved.room == int(row["clients_per_vm"])
    }


def _metrics(
    run: ElasticRun, summary: Summary, published: dict[str, float], part: str
) -> DerivedTable:
    return DerivedTable(
        key=f"movie{part}-fresh",
        caption="ElasticMovie: what its viewers felt, and how its nodes came and went"
        f"{f' ({run.resolved.name})' if part else ''}",
        of="environment",
        columns=(
            *(column for _, _, column in SHOWN),
            Column(title="PcBl there", unit="%", decimals=2),
        ),
        rows=tuple(_row(environment, published) for environment in summary.environments),
        notes=(
            f"Means over the repetitions with {share(summary.confidence)} intervals; TaR, TlR and "
            f"the nodes are geometric. {summary.time_scale:g} of the viewers' seconds pass in one: "
            "TaR and TlR are real ones. TaR holds a delay that the plan injects.",
            *([_STANDS] if published else []),
            "PcAf and AggBand were defined there and not reported.",
        ),
    )


STANDS_FOR: Final = "lxc-as-"
"""So an environment's name begins whose containers take as long as a cloud's instances took."""
FILM_S: Final = 1800.0
_STANDS: Final = (
    "The environments that have a figure there are containers that take as long as that cloud's "
    "instances did, drawn from mean and deviation, with OpenStack's 30 s of network on top, for "
    "which its viewers waited too. They say what the latency does, and nothing of a cloud's own "
    "streaming."
)


def _row(environment: EnvironmentSummary, published: dict[str, float]) -> DerivedRow:
    blocked = published.get(environment.key)
    return DerivedRow(
        label=environment.label,
        cells=(
            *(_estimate(environment, metric, factor) for metric, factor, _ in SHOWN),
            StudyFigure(value=blocked, why="" if blocked else "nothing was published for it"),
        ),
    )


def _estimate(environment: EnvironmentSummary, metric: str, factor: float) -> StudyFigure:
    estimate = environment.estimate(metric)
    if estimate is None:
        return StudyFigure(value=None, why="no repetition has a figure of it")
    if estimate.low is None or estimate.high is None:
        return StudyFigure(value=factor * estimate.estimate, why=estimate.why)
    return StudyFigure(
        value=factor * estimate.estimate, low=factor * estimate.low, high=factor * estimate.high
    )


def _contrasts(summary: Summary, part: str) -> DerivedTable | None:
    primary = [c for c in summary.contrasts if c.primary]
    if not primary:
        return None
    return DerivedTable(
        key=f"movie-verdicts{part}-fresh",
        caption="ElasticMovie: environments against the baseline, with the same arrivals",
        of="environment and metric",
        columns=(
            Column(title="times", decimals=3),
            Column(title="difference", unit="points", decimals=1),
            Column(title="verdict"),
        ),
        rows=tuple(
            DerivedRow(
                label=f"{c.environment_label}, {BY_NAME[c.metric].title}",
                cells=(*_effect(c), _verdict(c)),
            )
            for c in primary
        ),
        notes=("Above 1 times, or above 0 points, is worse. Verdicts are corrected together.",),
    )


def _effect(c: Contrast) -> tuple[DerivedCell, DerivedCell]:
    """A ratio in one column, a difference of shares in the other."""
    factor = 1.0 if c.kind == "ratio" else 100.0
    bounded = c.low is not None and c.high is not None
    figure = StudyFigure(
        value=None if c.estimate is None else factor * c.estimate,
        low=factor * c.low if bounded and c.low is not None else None,
        high=factor * c.high if bounded and c.high is not None else None,
        why=c.note,
    )
    return (figure, "") if c.kind == "ratio" else ("", figure)


def _verdict(c: Contrast) -> str:
    return str(c.verdict) if c.verdict is not None else f"no verdict: {undecided(c)}"
