"""Step 3 from a run of our own: ElasticMovie with nodes that come and go."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ullage.analysis.comparison.rounding import share
from ullage.experiments.elastic.analysis.contrasts import Contrast, sides
from ullage.experiments.elastic.analysis.definitions import BY_NAME
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.analysis.summary import EnvironmentSummary, Summary, summarise
from ullage.experiments.elastic.folder import ElasticResolved
from ullage.experiments.elastic.report.answer import undecided
from ullage.experiments.elastic.simulator.prediction import HeldOutPrediction, predictions
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


def tables(
    path: Path, read: Read, part: str, others: Iterable[Path] = ()
) -> list[DerivedTable | None]:
    """Of an elastic run; part: of the tables' keys, where there are several.

    others: runs of the study with other viewers, patience or room, for what is predicted by load.
    """
    run = ElasticRun.open(path)
    summary = summarise(run, sides(run))
    return [
        _metrics(run, summary, _published_blocked(run, read("elastic2015_blocking")), part),
        _rooms(run, part),
        _contrasts(summary, part),
        _predicted(run, [ElasticRun.open(other) for other in others], part),
        _hosts(run, summary, part),
    ]


def _predicted(run: ElasticRun, others: list[ElasticRun], part: str) -> DerivedTable | None:
    """The simulator against repetitions that it was not fitted on."""
    predicted = predictions(run, others)
    if not predicted:
        return None
    return DerivedTable(
        key=f"predicted{part}-fresh",
        caption="Predicted: PcBl by the simulator, fitted on other repetitions",
        of="environment, what is held out",
        columns=(
            Column(title="real", unit="%", decimals=1),
            Column(title="predicted", unit="%", decimals=1),
            Column(title="error", unit="points", decimals=1),
        ),
        rows=tuple(_prediction_row(run, prediction) for prediction in predicted),
        notes=(
            "Fitted is what nodes take by themselves: on the other repetitions of an environment "
            "(its seed is held out), on environments that are held back by something else (delay), "
            "on other runs of the study (load). Given are when viewers ask, the film, the hold.",
            "The report's twin replays a repetition with its own latencies, so that it is equal by "
            "construction: that is a consistency check of the decisions, and no prediction.",
        ),
    )


def _prediction_row(run: ElasticRun, predicted: HeldOutPrediction) -> DerivedRow:
    bounded = predicted.low is not None and predicted.high is not None
    error = StudyFigure(
        value=100 * predicted.error,
        low=100 * predicted.low if bounded and predicted.low is not None else None,
        high=100 * predicted.high if bounded and predicted.high is not None else None,
        why=predicted.why,
    )
    shown = (StudyFigure(value=100 * share_) for share_ in (predicted.real, predicted.predicted))
    return DerivedRow(
        label=f"{run.label(predicted.environment)}, {predicted.held_out}", cells=(*shown, error)
    )


def _rooms(run: ElasticRun, part: str) -> DerivedTable | None:
    """Step 1 in step 3: what a node took, where a run measured it; None where the plan says it."""
    resolved = run.resolved
    rows = tuple(
        DerivedRow(
            label=run.label(key),
            cells=(
                StudyFigure(value=room.viewers, low=room.lowest, high=room.highest),
                StudyFigure(value=room.trials),
                f"{room.environment} of {room.run}",
            ),
        )
        for key, setting in resolved.settings.items()
        if (room := setting.capacity) is not None
    )
    if not rows:
        return None
    return DerivedTable(
        key=f"rooms{part}-fresh",
        caption="Room of a node, as step 1 has measured it",
        of="environment",
        columns=(
            Column(title="viewers", decimals=0),
            Column(title="trials", decimals=0),
            Column(title="measured of"),
        ),
        rows=rows,
        notes=(
            "The median of the trials, rounded down, with the least and the largest of them: no "
            "interval. It was measured behind the link of that plan; the nodes of the elastic run "
            "have no such link, and take no more viewers than that.",
        ),
    )


IDLE_W: Final = 123.375
"""Of a host of theirs that was on and had nothing to do, as printed."""


def _hosts(run: ElasticRun, summary: Summary, part: str) -> DerivedTable | None:
    """Energy of hosts for being on, a node each: from a node's request to its removal."""
    scale = run.resolved.time_scale
    estimates = [(e, e.estimate("node_seconds")) for e in summary.environments]
    rows = tuple(
        DerivedRow(
            label=environment.label,
            cells=(
                StudyFigure(value=scale * seconds.estimate / 3600),
                StudyFigure(
                    value=IDLE_W * scale * seconds.estimate / 1e3,
                    low=None if seconds.low is None else IDLE_W * scale * seconds.low / 1e3,
                    high=None if seconds.high is None else IDLE_W * scale * seconds.high / 1e3,
                    why=seconds.why,
                ),
            ),
        )
        for environment, seconds in estimates
        if seconds is not None
    )
    if not rows:
        return None
    return DerivedTable(
        key=f"hosts{part}-fresh",
        caption="Energy of hosts for being on, if each node were one",
        of="environment",
        columns=(
            Column(title="hosts on", unit="host·h", decimals=3),
            Column(title="idle energy", unit="kJ", decimals=1),
        ),
        rows=rows,
        notes=(
            f"In the viewers' time: a host is on from its node's request to its removal, its boot "
            f"included, and draws {IDLE_W:g} W for that, as an idle one of theirs did. What the "
            "work takes beside it is the same wherever the streams come from. It is reckoned, and "
            "no meter's figure; switching a host on again may cost more than its boot.",
        ),
    )


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
        and _room(resolved, f"{STANDS_FOR}{row['platform']}-{row['hypervisor']}")
        == int(row["clients_per_vm"])
    }


def _room(resolved: ElasticResolved, environment: str) -> int | None:
    return resolved.room_of(environment) if environment in resolved.settings else None


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
