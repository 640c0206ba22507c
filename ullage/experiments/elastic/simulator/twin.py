"""The twin of a real repetition: the same viewers, the same decisions, nodes as slow as they were.

What is real is taken from the repetition: when viewers asked, how long those watched who were
served, how long nodes took to come and to go, each in the order in which it began, and how many did
not come or were lost. The decisions are the simulator's. Which nodes fail is left to chance: where
some did, a twin is simulated with many seeds, its PcBl is their mean, and its curve is that of the
seed whose PcBl is nearest to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

from ullage import _elastic
from ullage.experiments.elastic.analysis import latencies
from ullage.experiments.elastic.analysis.curves import StepCurve
from ullage.experiments.elastic.analysis.definitions import BY_NAME
from ullage.experiments.elastic.analysis.demand import window_ns
from ullage.experiments.elastic.analysis.reading import ElasticRun, Repetition
from ullage.experiments.elastic.analysis.summary import spread
from ullage.experiments.elastic.folder import (
    Act,
    ElasticResolved,
    Lost,
    NotReady,
    Ready,
    Release,
    Requested,
)
from ullage.stats.interval import t_quantile

SEEDS: Final = 20
_LEAST_ERROR_S: Final = 1e-3
_AGAIN_S: Final = 0.25
"""Who has lost his node asks again after so long (`PAUSE_NS` in `rust/viewers/src/shard.rs`)."""


@dataclass(frozen=True)
class Simulated:
    """A repetition and its twin."""

    environment: str
    repetition: int
    real: float
    """PcBl of the repetition, as a share."""
    blocked: float
    """PcBl of the twin: the mean over seeds."""
    supplied: StepCurve
    """Nodes that took viewers, on the run's clock: of the seed nearest to the mean."""
    watching: StepCurve
    """Viewers who were served, likewise."""

    @property
    def difference(self) -> float:
        """Simulated less real, as a share."""
        return self.blocked - self.real


@dataclass(frozen=True)
class TwinDifference:
    """How far the simulator is from real, over the repetitions of an environment."""

    mean: float
    low: float | None
    high: float | None
    why: str
    """Why there is no interval."""


def twins(run: ElasticRun, seeds: int = SEEDS) -> dict[tuple[str, int], Simulated]:
    """Of every repetition that has figures, and of which one can be made."""
    attempts = (twin(repetition, run.resolved, seeds) for repetition in run.repetitions)
    return {
        (simulated.environment, simulated.repetition): simulated
        for simulated in attempts
        if simulated is not None
    }


def difference(twins: Sequence[Simulated], confidence: float) -> TwinDifference:
    """The paired difference of PcBl of at least one, with a t interval that ends at ±100 points."""
    values = [pair.difference for pair in twins]
    m, why = spread(values)
    if m is None:
        return TwinDifference(fmean(values), None, None, why)
    half = t_quantile(0.5 + confidence / 2, m.df) * m.error
    return TwinDifference(m.mean, *BY_NAME["blocked"].within(m.mean - half, m.mean + half), "")


def twin(repetition: Repetition, resolved: ElasticResolved, seeds: int = SEEDS) -> Simulated | None:
    """Simulate a repetition; None where it has no figures, or no node ever came."""
    outcome = repetition.outcome
    text = specification(repetition, resolved)
    if outcome is None or text is None:
        return None
    outcomes = [
        json.loads(_elastic.simulate(json.dumps({**text, "seed": seed})))
        for seed in range(seeds if text["failures"] else 1)
    ]
    blocked = sum(simulation["blocked"] for simulation in outcomes) / len(outcomes)
    nearest = min(outcomes, key=lambda simulation: abs(simulation["blocked"] - blocked))
    zero_ns = _zero_ns(repetition.acts, outcome.start_ns)
    real = sum(s.outcome == "blocked" for s in repetition.sessions) / len(repetition.sessions)
    return Simulated(
        repetition.environment,
        repetition.number,
        real,
        blocked,
        _steps(nearest["node_records"], ("ready_s", "release_s", "gone_s"), nearest, zero_ns),
        _steps(nearest["records"], ("served_s", "ended_s"), nearest, zero_ns),
    )


def _steps(
    records: Sequence[Mapping[str, Any]],
    fields: tuple[str, ...],
    outcome: Mapping[str, Any],
    zero: int,
) -> StepCurve:
    """How many were between the first of the fields and the next that they have."""
    spans = []
    for record in records:
        begin, *ends = (record[field] for field in fields)
        if begin is not None:
            end = next((end for end in ends if end is not None), outcome["ended_s"])
            spans.append((zero + round(begin * 1e9), zero + round(end * 1e9)))
    return StepCurve.counted(spans)


def specification(repetition: Repetition, resolved: ElasticResolved) -> dict[str, Any] | None:
    """What the simulator is given, in real time; None where nothing can be simulated."""
    outcome, sessions = repetition.outcome, repetition.sessions
    asked_ns = {act.node: act.front_ns for act in repetition.acts if isinstance(act, Requested)}
    coming = [(asked_ns[act.node], s) for _, act, s in latencies.allocations(repetition.acts)]
    watched = [
        (s.answered_ns, (s.ended_ns - s.answered_ns) / 1e9)
        for s in sessions
        if s.outcome == "served" and s.answered_ns is not None  # the twin loses nodes of its own
    ]
    if outcome is None or not coming or not watched:
        return None
    setting = resolved.settings[repetition.environment]
    failures = _failures(repetition.acts, outcome.end_ns)
    zero_ns = _zero_ns(repetition.acts, outcome.start_ns)
    # Who asked before the first instant, by the bound of the clocks, asked in it.
    asked_s = sorted((max(s.asked_ns, outcome.start_ns) - zero_ns) / 1e9 for s in sessions)
    return {
        "application": setting.machine,
        "policy": setting.policy,
        "arrivals": {"kind": "trace", "at_s": asked_s},
        "watch": _in_turn(watched),
        "patience": {"kind": "fixed", "s": resolved.patience_s},
        "reconnect": {"kind": "fixed", "s": _AGAIN_S} if "lifetime" in failures else None,
        "allocation": {
            "rows": [
                {"concurrent": 1, "stages": [{"name": "allocation", "time": _in_turn(coming)}]}
            ]
        },
        "release": _release(repetition.acts),
        "failures": failures,
        "window_s": window_ns(resolved) / 1e9,
        "points": 0,
        "records": True,
    }


def _zero_ns(acts: Iterable[Act], start_ns: int) -> int:
    """When the twin begins: with the first viewer, or so long before that kept nodes stand by then.

    Where one fails in the twin, another takes the time of the next: the longest is added.
    """
    acts = list(acts)
    before = [
        act.front_ns for act in acts if isinstance(act, Requested) and act.front_ns < start_ns
    ]
    if not before:
        return start_ns
    longest_s = max((seconds for _, _, seconds in latencies.allocations(acts)), default=0.0)
    return min(before) - round(longest_s * 1e9)


def _in_turn(values: Iterable[tuple[int, float]]) -> dict[str, Any]:
    """Seconds by the instants at which they began."""
    return {"kind": "in-turn", "values_s": [seconds for _, seconds in sorted(values)]}


def _release(acts: Iterable[Act]) -> dict[str, Any]:
    """How long nodes took to go; those that were kept to the end say nothing of it."""
    took = [
        (act.front_ns, (act.at_ns - act.front_ns) / 1e9)
        for act in acts
        if isinstance(act, Release) and not act.end
    ]
    return _in_turn(took) if took else {"kind": "fixed", "s": 0.0}


def _failures(acts: Iterable[Act], end_ns: int) -> dict[str, Any]:
    """Nodes that did not come, and nodes that were lost, as often as there were."""
    acts = list(acts)
    asked_ns = {act.node: act.front_ns for act in acts if isinstance(act, Requested)}
    failed = [act for act in acts if isinstance(act, NotReady) and act.node in asked_ns]
    failures: dict[str, Any] = {}
    if failed:
        after = [
            (asked_ns[act.node], max(_LEAST_ERROR_S, (act.at_ns - asked_ns[act.node]) / 1e9))
            for act in failed
        ]
        failures |= {"error": len(failed) / len(asked_ns), "error_after": _in_turn(after)}
    ready = {act.node: act.at_ns for act in acts if isinstance(act, Ready)}
    lost = {act.node: act.at_ns for act in acts if isinstance(act, Lost)}
    if lost:
        ends = {act.node: act.front_ns for act in acts if isinstance(act, Release)} | lost
        lived = sum(ends.get(node, end_ns) - at for node, at in ready.items()) / 1e9
        failures["lifetime"] = {"kind": "exponential", "mean_s": max(lived / len(lost), 1.0)}
    return failures
