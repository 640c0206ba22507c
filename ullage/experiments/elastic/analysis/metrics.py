"""The figures of one repetition, by the names of `definitions`.

A figure that a repetition does not have (the time of an allocation where none was made, energy
where no meter was) is absent: never zero.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ullage.experiments.elastic.analysis.curves import StepCurve
from ullage.experiments.elastic.analysis.definitions import BRIEF_WAIT_S
from ullage.experiments.elastic.analysis.demand import Curves, curves, lived_s, window_ns
from ullage.experiments.elastic.analysis.elasticity import NS, Span, measure, speed_up, standing
from ullage.experiments.elastic.analysis.reading import Repetition
from ullage.experiments.elastic.folder import (
    FULL,
    ElasticResolved,
    NotReady,
    Ready,
    Release,
    Requested,
    Retried,
    ViewerSession,
)

STAGES: Final = ("TeF", "TcI", "TiI")
"""The parts of an allocation that have had names since 2015: choosing a host, copying the image,
starting the instance."""
CONTEXTUALISATION: Final = "contextualisation"
"""Part of TiI: from the start of an instance's kernel until it let us in."""
INJECTED: Final = "injected"
"""The stage in which a node was held back because the plan says so."""


@dataclass(frozen=True)
class RepetitionFigures:
    """All figures of one repetition."""

    repetition: Repetition
    curves: Curves | None
    """None: nobody came."""
    figures: dict[str, float]
    stages: dict[str, list[float]]
    """Stage → seconds, one for each node that became ready and tells it."""
    allocations: tuple[float, ...]
    """TaR of each node that became ready, in seconds."""
    waits: tuple[float, ...]
    """Of each viewer who was served, in seconds, sorted."""
    clock_share: float
    """The most that the bound of the clocks can move a share of time, or a mean of nodes."""
    standing_nodes: int | None
    """Nodes of the constant supply that the speed-up compares with."""


def measured(repetition: Repetition, resolved: ElasticResolved) -> RepetitionFigures:
    """Every figure of a repetition that counts."""
    course = curves(repetition, resolved)
    waits = _waits(repetition.sessions)
    allocated_s, released_s = _allocations(repetition), _releases(repetition)
    figures = _users(repetition, resolved, waits) | _allocated(repetition, allocated_s, released_s)
    share, nodes = 0.0, None
    if course is not None:
        followed, nodes = _followed(course, resolved)
        figures |= followed | _cost(course, len(waits))
        figures |= _bill(repetition, resolved, course.last_ns)
        share = _clock_share(repetition, course)
    figures |= _energy(repetition)
    return RepetitionFigures(
        repetition, course, figures, _stages(repetition), allocated_s, waits, share, nodes
    )


def _users(
    repetition: Repetition, resolved: ElasticResolved, waits: Sequence[float]
) -> dict[str, float]:
    sessions, outcome = repetition.sessions, repetition.outcome
    figures = {"requests": float(len(sessions))}
    if not sessions or outcome is None:
        return figures
    served = [s for s in sessions if s.was_served]
    brief = BRIEF_WAIT_S / resolved.time_scale
    figures |= {
        "blocked": _part(sessions, [s for s in sessions if s.outcome == "blocked"]),
        "turned_away": _part(sessions, [s for s in sessions if s.outcome in ("refused", "failed")]),
    }
    if (full := _when_full(repetition)) is not None:
        figures["blocked_full"] = _part(sessions, full)
    if resolved.patience_s > 0:
        waited = [s for s in sessions if _wait_s(s) is None or _long(s, brief)]
        figures["waited"] = _part(sessions, waited)
    if served:
        stalls = sum(v.length_ns for s in served for v in s.violations)
        figures["affected"] = _part(served, [s for s in served if s.was_affected])
        figures["stalled"] = stalls / NS / len(served)
        last = max(outcome.end_ns, *(s.ended_ns for s in sessions))
        if last > outcome.start_ns:
            took_s = _seconds(outcome.start_ns, last)
            figures["bandwidth"] = 8 * sum(s.bytes for s in sessions) / took_s
    if waits:
        figures["wait_mean"] = float(np.mean(waits))
        figures["wait_p95"] = float(np.quantile(waits, 0.95))
    return figures


def _when_full(repetition: Repetition) -> list[ViewerSession] | None:
    """Who was blocked when the last word on a node was that there is no room for it."""
    words = sorted(
        (act.at_ns, not isinstance(act, Ready) and act.code == FULL)
        for act in repetition.acts
        if isinstance(act, Ready | NotReady | Retried) and getattr(act, "what", "") != "release"
    )
    if not any(full for _, full in words):
        return None
    instants = [at_ns for at_ns, _ in words]

    def full_at(at_ns: int) -> bool:
        place = bisect_right(instants, at_ns)
        return place > 0 and words[place - 1][1]

    return [s for s in repetition.sessions if s.outcome == "blocked" and full_at(s.ended_ns)]


def _long(session: ViewerSession, brief: float) -> bool:
    wait = _wait_s(session)
    return wait is not None and wait > brief


def _wait_s(session: ViewerSession) -> float | None:
    """From due to answered; None for a viewer that was never sent to a node."""
    if not session.was_served or session.answered_ns is None:
        return None
    return max(0, session.answered_ns - session.due_ns) / NS


def _waits(sessions: Iterable[ViewerSession]) -> tuple[float, ...]:
    return tuple(sorted(w for s in sessions if (w := _wait_s(s)) is not None))


def _part(sessions: Sequence[ViewerSession], some: Sequence[ViewerSession]) -> float:
    return len(some) / len(sessions)


def _allocations(repetition: Repetition) -> tuple[float, ...]:
    asked_ns = {a.node: a.at_ns for a in repetition.acts if isinstance(a, Requested)}
    ready = (a for a in repetition.acts if isinstance(a, Ready))
    return tuple(_seconds(asked_ns.get(a.node, a.asked_ns), a.at_ns) for a in ready)


def _bare(repetition: Repetition, allocated_s: Sequence[float]) -> list[float]:
    """TaR of each node without its contextualisation; none where one node does not tell it."""
    ready = [a for a in repetition.acts if isinstance(a, Ready)]
    if not all(CONTEXTUALISATION in act.stages for act in ready):
        return []
    return [
        max(0.0, seconds - act.stages[CONTEXTUALISATION])
        for seconds, act in zip(allocated_s, ready, strict=True)
    ]


def _releases(repetition: Repetition) -> tuple[float, ...]:
    """Without those that could not be removed whole, or went with their machine: their end is not
    known."""
    gone = (a for a in repetition.acts if isinstance(a, Release))
    return tuple(_seconds(a.asked_ns, a.at_ns) for a in gone if not a.end and not a.left)


def _allocated(
    repetition: Repetition, allocated_s: Sequence[float], released_s: Sequence[float]
) -> dict[str, float]:
    requested = sum(isinstance(a, Requested) for a in repetition.acts)
    figures = {"allocations": float(requested)}
    if requested:
        figures["not_had"] = sum(isinstance(a, NotReady) for a in repetition.acts) / requested
    if allocated_s:
        figures["tar"] = float(np.mean(allocated_s))
        if bare_s := _bare(repetition, allocated_s):
            figures["tar_bare"] = float(np.mean(bare_s))
    if released_s:
        figures["tlr"] = float(np.mean(released_s))
    return figures


def _stages(repetition: Repetition) -> dict[str, list[float]]:
    stages: dict[str, list[float]] = {}
    for act in repetition.acts:
        if not isinstance(act, Ready):
            continue
        for stage, seconds in act.stages.items():
            stages.setdefault(stage, []).append(seconds)
        if act.injected_s > 0:
            stages.setdefault(INJECTED, []).append(act.injected_s)
    order = {stage: place for place, stage in enumerate(STAGES)}
    return dict(sorted(stages.items(), key=lambda item: order.get(item[0], len(order))))


def _followed(course: Curves, resolved: ElasticResolved) -> tuple[dict[str, float], int]:
    """Supply against demand; and the nodes of the constant supply."""
    window = window_ns(resolved)
    mine = measure(course.demanded, course.supplied, course.over, window)
    still, nodes = standing(course.demanded, course.over)
    epsilon = speed_up(mine, measure(course.demanded, still, course.over, window))
    figures = {
        "accuracy_u": mine.accuracy_u,
        "accuracy_o": mine.accuracy_o,
        "timeshare_u": mine.timeshare_u,
        "timeshare_o": mine.timeshare_o,
        "jitter": mine.jitter,
        "theta_u": mine.theta_u,
        "theta_o": mine.theta_o,
        "instability": mine.instability,
        "deviation": mine.deviation,
    }
    return figures | ({} if epsilon is None else {"speed_up": epsilon}), nodes


def _cost(course: Curves, served: int) -> dict[str, float]:
    edges = [course.over.begin, course.over.end, *course.allocated.at.tolist()]
    begin, end = min(edges), max(edges)

    def node_seconds(curve: StepCurve) -> float:
        return curve.integral(begin, end) / NS

    paid = node_seconds(course.allocated)
    figures = {"node_time": paid / served} if served and paid else {}
    return figures | {
        "node_seconds": paid,
        "ready_seconds": node_seconds(course.supplied),
        "demanded_seconds": node_seconds(course.demanded),
        "nodes_most": float(course.allocated.most(begin, end)),
    }


def _bill(repetition: Repetition, resolved: ElasticResolved, last_ns: int) -> dict[str, float]:
    """What its nodes cost, and what they served; nothing without a price."""
    price = resolved.settings[repetition.environment].price
    if price is None:
        return {}
    sessions = repetition.sessions
    cost = math.fsum(price.bill(lived) for lived in lived_s(repetition.acts, last_ns))
    cost += price.per_gb * sum(session.bytes for session in sessions) / 1e9
    cost += price.per_request * len(sessions)
    served = sum(session.was_served for session in sessions)
    return {"cost": cost, **({"cost_per_viewer": cost / served} if served and cost else {})}


def _energy(repetition: Repetition) -> dict[str, float]:
    """Where a meter was there for the whole time."""
    joules = repetition.energy_j
    if joules is None:
        return {}
    served = sum(session.was_served for session in repetition.sessions)
    return {"energy": joules, **({"energy_per_viewer": joules / served} if served else {})}


def _clock_share(repetition: Repetition, course: Curves) -> float:
    """Each step of the supply may stand wrong by the bound, against the demand."""
    bound = repetition.outcome.clock_bound_ns if repetition.outcome else 0
    over: Span = course.over
    steps = np.abs(np.diff([v for _, v in course.supplied.corners(over.begin, over.end)])).sum()
    return float(bound * steps / (over.end - over.begin))


def _seconds(begin: int, end: int) -> float:
    return (end - begin) / NS
